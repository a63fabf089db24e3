//! Which topics and patterns there are, and which topics a pattern stands for.

use super::*;

#[test]
fn d3_a_topic_is_words_with_dots_between_them() {
    for good in ["a", "findings.high", "Ünï.code-1_2", &["x"; TOPIC_WORDS_MAX].join(".")] {
        assert_eq!(Topic::new(good).map(|topic| topic.to_string()).as_deref(), Ok(good));
    }
    let long = "x".repeat(ID_BYTES_MAX + 1);
    let many = ["x"; TOPIC_WORDS_MAX + 1].join(".");
    for bad in ["", ".", "a.", ".a", "a..b", "a b", "a.*", "a.>", "topic:a", "a\n", &long, &many] {
        assert_eq!(Topic::new(bad).map_err(|refused| refused.code), Err(Code::Invalid), "{bad:?}");
    }
}

#[test]
fn d3_a_pattern_may_leave_words_open() {
    for good in ["a", "*", ">", "a.*.b", "a.>", "*.>"] {
        assert_eq!(Pattern::new(good).map(|pattern| pattern.to_string()).as_deref(), Ok(good));
    }
    for bad in ["", "a.", ">.a", "a.>.>", "a*", "a.b>", "topic:a"] {
        assert_eq!(Pattern::new(bad).map_err(|refused| refused.code), Err(Code::Invalid), "{bad:?}");
    }
}

// Fails under: `>` that also stands for nothing, or `*` for several words.
#[test]
fn d3_a_star_is_one_word_and_the_rest_at_least_one() {
    let matches = |pattern: &str, topic: &str| {
        let pattern = Pattern::new(pattern).expect("a good pattern");
        pattern.matches(&Topic::new(topic).expect("a good topic"))
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
