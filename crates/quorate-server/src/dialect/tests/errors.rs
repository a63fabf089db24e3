//! Refused messages and their error texts.

use bytes::Bytes;
use quorate_core::{Code, Refused};
use serde_json::json;

use super::super::Dialect;
use super::super::yaml::Document;
use super::raw;

#[track_caller]
fn refused(dialect: Dialect, message: &serde_json::Value, detail: &str) {
    let error = dialect.parse("", &raw(&message.to_string())).expect_err("it is wrong");
    let refused = Refused::from(error);
    assert_eq!((refused.code, refused.detail.as_str()), (Code::Invalid, detail));
    assert!(!refused.hint.is_empty());
}

#[test]
fn a2_errors_state_the_field_path() {
    let dialect = Dialect::Deliberation;
    refused(dialect, &json!({"content": "x"}), "messageType: missing field");
    refused(dialect, &json!({"messageType": "finding"}), "content: missing field");
    let kind = "messageType: unknown value \"rumour\", expected one of finding, question, clarification, agreement, \
                disagreement, revision, evidence";
    refused(dialect, &json!({"messageType": "rumour", "content": "x"}), kind);
    let confidence = json!({"messageType": "finding", "content": "{\"confidence\":7}"});
    refused(dialect, &confidence, "content.confidence: 7 is not between 0 and 1");
    let with = |name: &str, value: serde_json::Value| {
        let mut message = json!({"messageType": "finding", "content": "x"});
        message[name] = value;
        message
    };
    refused(dialect, &with("recipients", json!(["a", 7])), "recipients[1]: 7 is not a string");
    refused(dialect, &with("recipients", json!([])), "recipients: the list of recipients is empty");
    refused(dialect, &with("round", json!(1.5)), "round: 1.5 is not a non-negative integer");
    refused(dialect, &with("timestamp", json!("now")), "timestamp: invalid time \"now\"");
    refused(dialect, &with("reply_to", json!("x")), "reply_to: unknown field");
    refused(
        dialect,
        &with("metadata", json!({"quorate": {"colour": 1}})),
        "metadata.quorate.colour: unknown field",
    );
    refused(
        dialect,
        &with("metadata", json!({"deliberation": {}})),
        "metadata.deliberation: this name is reserved for the hub",
    );
    refused(dialect, &json!([1]), "[1] is not an object");
}

#[test]
fn b1_b2_b3_errors_state_the_field_path() {
    let dialect = Dialect::Orchestrator;
    refused(dialect, &json!({}), "not a handoff, broadcast, query, response or log line");
    refused(dialect, &json!({"from_agent": "a"}), "context: missing field");
    refused(
        dialect,
        &json!({"context": {"tokens_used": "450"}}),
        "context.tokens_used: \"450\" is not a non-negative integer",
    );
    refused(
        dialect,
        &json!({"context": {"key_findings": ["a", 2]}}),
        "context.key_findings[1]: 2 is not a string",
    );
    let urgent = json!({"message": {"priority": "now"}});
    refused(dialect, &urgent, "message.priority: unknown value \"now\", expected one of high, medium, low");
    refused(dialect, &json!({"query": {}}), "query.question: missing field");
    refused(
        dialect,
        &json!({"broadcast_type": "gossip", "message": {}}),
        "broadcast_type: unknown value \"gossip\", expected one of \
        context_update, priority_change, abort_signal, checkpoint_reached",
    );
}

#[test]
fn c7_errors_state_the_field_path() {
    let dialect = Dialect::Coscientist;
    refused(dialect, &json!({"routing": {}}), "header: missing field");
    refused(
        dialect,
        &json!({"header": {}, "routing": {"priority": 11}}),
        "routing.priority: the priority is not between 1 and 10",
    );
    refused(dialect, &json!({"header": {"target": "x"}}), "header.target: unknown field");
    refused(dialect, &json!({"header": {"timestamp": "noon"}}), "header.timestamp: invalid time \"noon\"");
    refused(
        dialect,
        &json!({"header": {}, "payload": {"metadata": "x"}}),
        "payload.metadata: \"x\" is not an object",
    );
}

#[test]
fn d3_errors_state_the_field_path() {
    let dialect = Dialect::Native;
    refused(dialect, &json!({"priority": 4}), "priority: 4 is not between 0 and 3");
    refused(dialect, &json!({"version": "2.0"}), "version: unsupported version \"2.0\", expected \"1.0\"");
    refused(dialect, &json!({"to": 7}), "to: expected a string or a list of strings");
    refused(dialect, &json!({"to": []}), "to: the list of recipients is empty");
    refused(dialect, &json!({"confidence": -0.5}), "confidence: -0.5 is not between 0 and 1");
}

fn yaml(text: &str) -> Result<Document, Refused> {
    Document::parse(&Bytes::from(text.to_owned()))
}

#[test]
fn b3_yaml_is_refused_with_line_and_column() {
    let document = yaml("query:\n  question: Why?\n  urgency: now\n").expect("YAML");
    let message = raw(std::str::from_utf8(&document.json).expect("text"));
    let error = Dialect::Orchestrator.parse("", &message).expect_err("it is wrong");
    let detail = "line 3, column 12: query.urgency: unknown value \"now\", expected one of high, medium, low";
    assert_eq!(document.locate(error).detail, detail);
    let refused = yaml("query: [1, 2\n").err().expect("no YAML");
    assert_eq!(refused.detail, "line 1, column 8: invalid YAML: unclosed bracket '['");
    let refused = yaml("a: &x 1\nb: *x\n").err().expect("an alias");
    assert_eq!(refused.detail, "line 1, column 7: the YAML contains anchors or aliases");
    let refused = yaml("a: 1\na: 2\n").err().expect("a duplicate field");
    assert!(refused.detail.starts_with("line 2, column 1: "), "{}", refused.detail);
}

// Fails under: numbers that are converted to a machine type.
#[test]
fn b3_numbers_are_preserved_as_written() {
    for number in ["123456789012345678901234567890", "1.10", "1e-9", "-0.0", "18446744073709551616", "0"] {
        let document = yaml(&format!("a: {number} # so\nb: [{number}, {number}]\n")).expect("YAML");
        let json = std::str::from_utf8(&document.json).expect("text");
        assert_eq!(json, format!("{{\"a\":{number},\"b\":[{number},{number}]}}"));
    }
    // Notations that only YAML has are converted.
    let document = yaml("a: 0x10\nb: +1\nc: '7'\n").expect("YAML");
    assert_eq!(document.json, "{\"a\":16,\"b\":1,\"c\":\"7\"}");
}

#[test]
fn i21_yaml_has_bounds() {
    let limit = |text: &str| {
        let refused = yaml(text).err().expect("too much");
        assert_eq!(refused.code, Code::LimitExceeded, "{}", refused.detail);
        refused.facts.limit
    };
    assert!(yaml(&("[".repeat(24) + &"]".repeat(24))).is_ok());
    assert_eq!(limit(&("[".repeat(100) + &"]".repeat(100))), Some(24));
    let deep: String = (0..100).map(|depth| " ".repeat(depth) + "a:\n").collect();
    assert_eq!(limit(&deep), Some(24));
    assert_eq!(limit(&"- x\n".repeat(200_000)), Some(100_000));
    for invalid in ["a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "--- 1\n--- 2\n"] {
        let refused = yaml(invalid).err().expect("no such thing");
        assert_eq!((refused.code, refused.facts.limit), (Code::Invalid, None), "{}", refused.detail);
    }
    for invalid in ["<<: {a: 1}", "a: .nan", "--- 1\n--- 2\n", "a: !!binary x", "\u{0}"] {
        assert!(yaml(invalid).is_err(), "{invalid}");
    }
}

#[test]
fn any_json_can_be_rendered_as_yaml() {
    let deep = "[".repeat(64) + &"]".repeat(64);
    let json = format!(
        r#"{{"z": "no", "a": [1, -2, 1.5, true, null, "1", ""], "b": 123456789012345678901234567890, "c": 1e999, "d": {deep}}}"#
    );
    let yaml = super::super::yaml::to_yaml(&raw(&json)).expect("YAML");
    let expected = "z: \"no\"\na:\n- 1\n- -2\n- 1.5\n- true\n- null\n- \"1\"\n- \"\"\nb: \"123456789012345678901234567890\"\nc: \"1e999\"\n";
    assert!(yaml.starts_with(expected), "{yaml}");
}
