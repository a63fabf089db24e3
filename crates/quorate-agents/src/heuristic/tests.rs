//! Payloads that the adapter accepts and rejects.

use quorate_contracts::Heuristic;
use serde_json::{Value, json};

use super::answer;
use crate::question::{AgentQuestion, FailureKind, Usage};

const TEXT: &str = "SERVICES AGREEMENT\n\nThis Agreement is between A Ltd (\"Vendor\") and B Ltd (\"Customer\").\n\n\
                    1. FEES\n\n1.1 The governing law is the law of England. The fees are EUR 5.";

fn ask(analyst: Heuristic, action: &str, payload: Value) -> Value {
    let reply = answer(analyst, &AgentQuestion::new(action, payload)).unwrap();
    assert_eq!(reply.usage, Usage::calls(1));
    reply.body
}

#[test]
fn the_contract_is_found_in_every_supported_payload() {
    for analyst in Heuristic::ALL {
        let expected = analyst.analyse(TEXT);
        for payload in [
            json!(TEXT),
            json!({ "input": TEXT }),
            json!({ "subject": "May we sign?", "input": { "text": TEXT } }),
            json!({ "input": { "contract": TEXT } }),
            json!({ "document": TEXT }),
        ] {
            assert_eq!(ask(analyst, "analyse", payload.clone()), expected, "{payload}");
        }
    }
}

#[test]
fn a_discussion_gets_the_conflict_and_the_positions() {
    let positions = [
        json!({ "agent": "clauses", "position": "absent", "confidence": 0.7, "reason": "" }),
        json!({ "agent": "risk", "position": "present", "confidence": 0.7, "reason": "" }),
    ];
    let payload = json!({
        "input": { "text": TEXT }, "conflict": { "kind": "presence", "topic": "is \"governing_law\" there?" },
        "your_position": positions[0], "other_positions": [positions[1]],
    });
    let body = ask(Heuristic::Clauses, "discuss", payload.clone());
    assert_eq!(body["revised_position"], "present", "{body}");
    assert_eq!(body, Heuristic::Clauses.discuss(TEXT, &payload));
}

#[test]
fn a_missing_text_fails_with_a_hint() {
    for payload in [json!({}), json!({ "input": "  " }), json!({ "input": { "text": "" } })] {
        let failure = answer(Heuristic::Risk, &AgentQuestion::new("analyse", payload)).unwrap_err();
        assert!(failure.kind == FailureKind::InvalidQuestion && failure.hint.contains("input"), "{failure}");
    }
    let question = AgentQuestion::new("sing", json!({ "input": "x" }));
    assert!(answer(Heuristic::Risk, &question).unwrap_err().hint.contains("analyse"));
}
