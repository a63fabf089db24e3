//! Valid findings, and the error for each invalid one.

use expect_test::expect;

use super::*;

fn vocabulary() -> Vocabulary {
    let recommendations = ["sign as is", "do not sign"].map(str::to_owned).to_vec();
    Vocabulary { recommendations, ..Vocabulary::default() }
}

#[test]
fn a2_a_finding_is_parsed_and_its_words_are_normalised() {
    let body = br#"{"summary":"s","confidence":0.8,"recommendation":"Do_not sign",
        "issues":[{"topic":"cap","severity":"CRITICAL"}],"scores":{"risk":62},"facts":{"term":24,"auto":true},
        "relies_on":["x"],"found":[],"details":{"free":[1]}}"#;
    let finding = parse(body, &vocabulary()).expect("a valid finding");
    assert_eq!(finding.recommendation.as_deref(), Some("do not sign"));
    assert_eq!(finding.issues[0].severity, "critical");
    assert_eq!(
        (finding.found, parse(br#"{"summary":"s"}"#, &vocabulary()).expect("a valid finding").found),
        (Some(vec![]), None)
    );
}

#[test]
fn a8_errors_name_the_path_of_the_invalid_field() {
    let long = format!(r#"{{"summary":"{}"}}"#, "x".repeat(TEXT_CHARS_MAX + 1));
    let many = format!(r#"{{"summary":"s","found":[{}"a"]}}"#, r#""a","#.repeat(LIST_MAX));
    let huge = format!(r#"{{"summary":"{}"}}"#, "x".repeat(ANSWER_BYTES_MAX));
    let invalid = [
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
    let errors: Vec<String> = invalid
        .iter()
        .map(|body| parse(body.as_bytes(), &vocabulary()).expect_err(body).to_string())
        .collect();
    expect![[r#"
        answer: expected a JSON object
        answer: invalid JSON: EOF while parsing an object at column 14
        answer: unexpected data after the JSON object
        answer: expected a JSON object
        answer: missing field summary
        summary: must not be empty
        confidence: expected a number from 0 to 1, found 7
        confidence: expected a number, found "high"
        confidance: unknown field confidance, expected one of summary, confidence, scores, recommendation, issues, facts, relies_on, found, details
        issues[1].severity: expected `low`, `medium`, `high` or `critical`, found `huge`
        issues[0].topic: must not be empty
        recommendation: expected `sign as is` or `do not sign`, found `run`
        facts.a: expected a string, a number or a boolean
        scores.a: expected a number, found "1"
        summary: has 8001 characters, at most 8000 are allowed
        found: has 201 entries, at most 200 are allowed
        answer: has 262158 bytes, at most 262144 are allowed"#]].assert_eq(&errors.join("\n"));
}
