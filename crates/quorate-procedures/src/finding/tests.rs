//! Findings that pass, and for each that does not, the place and the reason.

use expect_test::expect;

use super::*;

fn vocabulary() -> Vocabulary {
    let recommendations = ["sign as is", "do not sign"].map(str::to_owned).to_vec();
    Vocabulary { recommendations, ..Vocabulary::default() }
}

#[test]
fn a2_a_finding_is_read_and_its_words_are_spelled_alike() {
    let body = br#"{"summary":"s","confidence":0.8,"recommendation":"Do_not sign",
        "issues":[{"topic":"cap","severity":"CRITICAL"}],"scores":{"risk":62},"facts":{"term":24,"auto":true},
        "relies_on":["x"],"found":[],"details":{"free":[1]}}"#;
    let finding = read(body, &vocabulary()).expect("sound");
    assert_eq!(finding.recommendation.as_deref(), Some("do not sign"));
    assert_eq!(finding.issues[0].severity, "critical");
    assert_eq!(
        (finding.found, read(br#"{"summary":"s"}"#, &vocabulary()).expect("enough").found),
        (Some(vec![]), None)
    );
}

#[test]
fn a8_what_is_wrong_with_a_finding_is_said_with_its_place() {
    let long = format!(r#"{{"summary":"{}"}}"#, "x".repeat(TEXT_CHARS_MAX + 1));
    let many = format!(r#"{{"summary":"s","found":[{}"a"]}}"#, r#""a","#.repeat(LIST_MAX));
    let huge = format!(r#"{{"summary":"{}"}}"#, "x".repeat(ANSWER_BYTES_MAX));
    let wrong = [
        "I think it is fine.",
        "{\"summary\":\"s\"",
        "{\"summary\":\"s\"} and more",
        "[]",
        "{}",
        r#"{"summary":" "}"#,
        r#"{"summary":"s","confidence":7}"#,
        r#"{"summary":"s","confidence":"high"}"#,
        r#"{"summary":"s","confidance":0.5}"#,
        r#"{"summary":"s","issues":[{"topic":"a","severity":"low"},{"topic":"a","severity":"huge"}]}"#,
        r#"{"summary":"s","issues":[{"topic":"--","severity":"low"}]}"#,
        r#"{"summary":"s","recommendation":"run"}"#,
        r#"{"summary":"s","facts":{"a":{"b":1}}}"#,
        r#"{"summary":"s","scores":{"a":"1"}}"#,
        &long,
        &many,
        &huge,
    ];
    let said: Vec<String> =
        wrong.iter().map(|body| read(body.as_bytes(), &vocabulary()).expect_err(body).to_string()).collect();
    expect![[r#"
        answer: is no JSON object
        answer: is no JSON: EOF while parsing an object at column 14
        answer: there is more after the JSON
        answer: is no JSON object
        answer: missing field summary
        summary: is empty
        confidence: is 7, not between 0 and 1
        confidence: expected a number, found "high"
        confidance: unknown field confidance, expected one of summary, confidence, scores, recommendation, issues, facts, relies_on, found, details
        issues[1].severity: is `huge`; it may be `low`, `medium`, `high` or `critical`
        issues[0].topic: is empty
        recommendation: is `run`; it may be `sign as is` or `do not sign`
        facts.a: is neither a text nor a number nor true or false
        scores.a: expected a number, found "1"
        summary: has 8001 characters, 8000 at most are read
        found: has 201 entries, 200 at most are read
        answer: is 262158 bytes long, 262144 at most are read"#]].assert_eq(&said.join("\n"));
}
