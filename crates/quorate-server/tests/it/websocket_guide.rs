//! Runs the examples of the WebSocket guide over real sockets.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use crate::support::socket::{TestServer, TestSocket};

/// Whether a frame matches the guide; `…` matches anything.
fn fits(written: &Value, came: &Value) -> bool {
    match (written, came) {
        (Value::String(any), _) if any == "…" => true,
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|came| fits(value, came)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| fits(one, other))
        }
        _ => written == came,
    }
}

#[tokio::test]
async fn the_websocket_guide_is_correct() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/websocket.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let blocks = guide.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines: Vec<String> = blocks.flat_map(str::lines).map(ToOwned::to_owned).collect();
    assert!(lines.len() > 30, "the guide has lost its frames");
    let served = TestServer::new().await;
    let (alice, bob) = (served.hub.register("alice").await, served.hub.register("bob").await);
    let mut sockets: HashMap<String, TestSocket> = HashMap::new();
    for line in lines {
        let (who, rest) = line.split_once([' ']).expect("who and what");
        let (who, way) = who.split_at(who.len() - 1);
        if !sockets.contains_key(who) {
            sockets.insert(who.to_owned(), served.connect().await);
        }
        let socket = sockets.get_mut(who).expect("a connection");
        match way {
            ">" => {
                let frame = rest.replace("TOKEN-OF-ALICE", &alice).replace("TOKEN-OF-BOB", &bob);
                socket.send_text(&frame).await;
            }
            "<" => {
                let text = socket.next_text().await;
                let came: Value = serde_json::from_str(&text).expect("JSON");
                let written: Value = serde_json::from_str(rest).expect("JSON");
                assert!(fits(&written, &came), "{who} should hear\n{rest}\nbut hears\n{text}");
                // Payloads must be identical byte for byte, not only equal as JSON.
                if let Some((_, payload)) = rest.split_once("\"payload\":") {
                    let until = payload.find(",\"priority\"").unwrap_or(0);
                    assert!(text.contains(&payload[..until]), "{text}");
                }
            }
            "!" => assert_eq!(socket.close_code().await.to_string(), rest),
            other => panic!("what is {other:?} in {line}"),
        }
    }
}
