//! Tests of the syntax of topics and patterns, and of matching.

use super::*;

#[test]
fn d3_a_topic_consists_of_words_separated_by_dots() {
    for valid in ["a", "findings.high", "Ünï.code-1_2", &["x"; TOPIC_WORDS_MAX].join(".")] {
        assert_eq!(Topic::new(valid).map(|topic| topic.to_string()).as_deref(), Ok(valid));
    }
    let long = "x".repeat(ID_BYTES_MAX + 1);
    let many = ["x"; TOPIC_WORDS_MAX + 1].join(".");
    for invalid in ["", ".", "a.", ".a", "a..b", "a b", "a.*", "a.>", "topic:a", "a\n", &long, &many] {
        assert_eq!(Topic::new(invalid).map_err(|refused| refused.code), Err(Code::Invalid), "{invalid:?}");
    }
}

#[test]
fn d3_a_pattern_may_contain_wildcards() {
    for valid in ["a", "*", ">", "a.*.b", "a.>", "*.>"] {
        assert_eq!(Pattern::new(valid).map(|pattern| pattern.to_string()).as_deref(), Ok(valid));
    }
    for invalid in ["", "a.", ">.a", "a.>.>", "a*", "a.b>", "topic:a"] {
        assert_eq!(Pattern::new(invalid).map_err(|refused| refused.code), Err(Code::Invalid), "{invalid:?}");
    }
}

// Fails under: `>` matching zero words, or `*` matching several.
#[test]
fn d3_a_star_matches_one_word_and_gt_at_least_one() {
    let matches = |pattern: &str, topic: &str| {
        let pattern = Pattern::new(pattern).expect("a valid pattern");
        pattern.matches(&Topic::new(topic).expect("a valid topic"))
    };
    for (pattern, topic) in [
        ("a", "a"),
        ("a.b", "a.b"),
        ("*", "a"),
        ("a.*", "a.b"),
        ("*.b", "a.b"),
        ("a.*.c", "a.b.c"),
        (">", "a"),
        (">", "a.b.c"),
        ("a.>", "a.b"),
        ("a.>", "a.b.c"),
        ("*.>", "a.b"),
    ] {
        assert!(matches(pattern, topic), "{pattern} {topic}");
    }
    for (pattern, topic) in [
        ("a", "b"),
        ("a", "a.b"),
        ("a.b", "a"),
        ("*", "a.b"),
        ("a.*", "a"),
        ("a.*", "a.b.c"),
        ("a.>", "a"),
        ("*.>", "a"),
        ("a.*.c", "a.b.d"),
        ("A", "a"),
    ] {
        assert!(!matches(pattern, topic), "{pattern} {topic}");
    }
}
