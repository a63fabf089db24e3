//! Accepted and rejected JSON.

use super::*;

fn nested(levels: usize) -> Vec<u8> {
    [vec![b'['; levels], vec![b']'; levels]].concat()
}

#[test]
fn json_of_64_levels_passes_and_65_do_not() {
    assert_eq!(check_json("payload", &nested(64)), Ok(()));
    let refused = check_json("payload", &nested(65)).map_err(|refused| (refused.code, refused.facts.limit));
    assert_eq!(refused, Err((Code::LimitExceeded, Some(64))));
}

#[test]
fn a_million_brackets_are_refused_without_recursion() {
    assert!(check_json("payload", &vec![b'['; 1_000_000]).is_err());
}

#[test]
fn brackets_in_strings_do_not_count() {
    let text = format!("\"{}\\\"{}\"", "[".repeat(100), "{".repeat(100));
    assert_eq!(check_json("payload", text.as_bytes()), Ok(()));
}

#[test]
fn invalid_json_is_refused_with_its_position() {
    for text in ["", "{", "{\"a\":1,}", "nul", "\"\\x\"", "1 2"] {
        let refused = check_json("payload", text.as_bytes()).expect_err(text);
        assert_eq!(refused.code, Code::Invalid);
        assert!(refused.detail.contains("line 1") || text.is_empty(), "{}", refused.detail);
    }
    assert!(check_json("payload", b"\"\xff\"").is_err(), "not UTF-8");
}

// Fails under: an escape that is checked without its predecessor, or a wrong path.
#[test]
fn i21_a_lone_surrogate_is_refused_with_its_path() {
    for (text, path) in [
        (r#""\ud800""#, "$"),
        (r#""\uDFFF x""#, "$"),
        (r#""\ud800\ud800\udc00""#, "$"),
        (r#""\udc00\ud800""#, "$"),
        (r#"{"a":[0,{"b":"\\","c":"\ud800"}]}"#, "$.a[1].c"),
        (r#"{"a":{"x":[1,2]},"b\ud800":1}"#, r"$.b\ud800"),
        (r#"[["],",{}],"\ud800"]"#, "$[1]"),
        (r#"{"k,:\"":["\udbff"]}"#, r#"$.k,:\"[0]"#),
    ] {
        let refused = check_json("payload", text.as_bytes()).expect_err(text);
        assert_eq!(refused.code, Code::Invalid);
        assert!(refused.detail.contains(&format!(" at {path}: ")), "{text}: {}", refused.detail);
    }
    for text in
        [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\\\\ud800""#, r#""\u00e9\n\ud83d\ude00\udbff\udfff""#]
    {
        assert_eq!(check_json("payload", text.as_bytes()), Ok(()), "{text}");
    }
}
