//! Runs the examples of the WebSocket guide over real sockets.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use crate::support::socket::{TestServer, TestSocket};

/// Whether a frame matches the guide; `…` matches anything.
fn matches_guide(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::String(any), _) if any == "…" => true,
        (Value::Object(expected), Value::Object(actual)) => {
            expected.len() == actual.len()
                && expected
                    .iter()
                    .all(|(name, value)| actual.get(name).is_some_and(|actual| matches_guide(value, actual)))
        }
        (Value::Array(expected), Value::Array(actual)) => {
            expected.len() == actual.len()
                && expected.iter().zip(actual).all(|(expected, actual)| matches_guide(expected, actual))
        }
        _ => expected == actual,
    }
}

#[tokio::test]
async fn the_websocket_guide_is_correct() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/websocket.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let blocks = guide.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines: Vec<String> = blocks.flat_map(str::lines).map(ToOwned::to_owned).collect();
    assert!(lines.len() > 30, "the guide has lost its frames");
    let server = TestServer::new().await;
    let (alice, bob) = (server.hub.register("alice").await, server.hub.register("bob").await);
    let mut sockets: HashMap<String, TestSocket> = HashMap::new();
    for line in lines {
        let (name, rest) = line.split_once([' ']).expect("who and what");
        let (name, direction) = name.split_at(name.len() - 1);
        if !sockets.contains_key(name) {
            sockets.insert(name.to_owned(), server.connect().await);
        }
        let socket = sockets.get_mut(name).expect("a connection");
        match direction {
            ">" => {
                let frame = rest.replace("TOKEN-OF-ALICE", &alice).replace("TOKEN-OF-BOB", &bob);
                socket.send_text(&frame).await;
            }
            "<" => {
                let text = socket.next_text().await;
                let actual: Value = serde_json::from_str(&text).expect("JSON");
                let expected: Value = serde_json::from_str(rest).expect("JSON");
                assert!(matches_guide(&expected, &actual), "{name} should hear\n{rest}\nbut hears\n{text}");
                // Payloads must be identical byte for byte, not only equal as JSON.
                if let Some((_, payload)) = rest.split_once("\"payload\":") {
                    let end = payload.find(",\"priority\"").unwrap_or(0);
                    assert!(text.contains(&payload[..end]), "{text}");
                }
            }
            "!" => assert_eq!(socket.close_code().await.to_string(), rest),
            other => panic!("what is {other:?} in {line}"),
        }
    }
}
