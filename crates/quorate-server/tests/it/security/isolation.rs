//! Isolation of two hubs in one process, and of the agents of one space.

use quorate_server::{Limits, Rate, Settings};
use serde_json::json;

use crate::support::TestHub;
use crate::support::socket::TestServer;

#[tokio::test]
async fn i16_two_hubs_in_one_process_are_isolated() {
    let limits = Limits { other_principals: Rate { per_second: 1, burst: 3 }, ..Limits::default() };
    let strict =
        TestServer::start(TestHub::with_settings(Settings { limits, ..Settings::default() }).await).await;
    let lenient = TestServer::new().await;
    assert_ne!(strict.address(), lenient.address());
    let bob = lenient.hub.register("bob").await;
    // A token of one hub is unknown to the other, over HTTP and over a WebSocket.
    strict.hub.get(&bob, "/v1/info").await.refused(401, "UNAUTHENTICATED");
    strict.hub.get(&lenient.hub.admin, "/v1/info").await.refused(401, "UNAUTHENTICATED");
    let mut socket = strict.connect().await;
    socket.send_frame(&json!({"hello": {"token": bob}})).await;
    assert_eq!(socket.ending_problem().await, ("UNAUTHENTICATED".to_owned(), 4401));
    lenient.hub.get(&bob, "/v1/info").await.ok(200);
    // So is a sign-in code.
    let code = lenient.hub.post(&lenient.hub.admin, "/v1/sign-in-codes", &json!({})).await.ok(201);
    let sign_in = json!({"code": code["code"]});
    strict.hub.post("", "/v1/sign-in", &sign_in).await.refused(401, "UNAUTHENTICATED");
    lenient.hub.post("", "/v1/sign-in", &sign_in).await.ok(201);
    // Agents, statistics and limits are separate.
    strict.hub.get(&strict.hub.admin, "/v1/agents/bob").await.refused(404, "NOT_FOUND");
    let stats = strict.hub.get(&strict.hub.admin, "/v1/admin/stats").await.ok(200);
    assert_eq!(stats["agents"], 0);
    strict.hub.get(&strict.hub.admin, "/v1/info").await.ok(200);
    strict.hub.get(&strict.hub.admin, "/v1/info").await.refused(429, "LIMIT_EXCEEDED");
    for _ in 0..10 {
        lenient.hub.get(&lenient.hub.admin, "/v1/info").await.ok(200);
    }
    // Closing one hub does not affect the other.
    let TestServer { listening, hub } = strict;
    listening.drain().await;
    drop(hub);
    let mut socket = lenient.connect_agent(&bob).await;
    socket.assert_no_deliveries().await;
}

// Fails under: a refusal that depends on whether the id exists: by its text, hint, status or facts.
#[tokio::test]
async fn i16_an_agent_cannot_tell_foreign_from_missing_ids() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    hub.register("bob").await;
    let carol = hub.register("carol").await;
    let sent = json!({"to": "bob", "id": "chosen", "payload": 1});
    let sent = hub.post(&alice, "/v1/messages", &sent).await.ok(200)["receipts"][0]["id"].clone();
    let asked = json!({"to": "bob", "id": "asked", "type": "query", "timeoutMs": 60_000});
    let asked = hub.post(&alice, "/v1/requests", &asked).await.ok(201)["id"].clone();
    let approval = json!({"id": "mine", "action": "letter.send", "payload": {}});
    hub.post(&alice, "/v1/approvals", &approval).await.ok(201);
    let (sent, asked) = (sent.as_str().expect("an id"), asked.as_str().expect("an id"));
    let missing = "msg_0-999-0";
    for (method, path, foreign, missing) in [
        ("GET", "/v1/messages/ID", sent, missing),
        ("GET", "/v1/messages/ID", "chosen", "absent"),
        ("GET", "/v1/messages/ID/why", sent, missing),
        ("GET", "/v1/messages/ID/why", "chosen", "absent"),
        ("GET", "/v1/messages/ID/why", "mine", "absent"),
        ("GET", "/v1/requests/ID", asked, missing),
        ("GET", "/v1/requests/ID", "asked", "absent"),
        ("GET", "/v1/requests/ID", "chosen", "absent"),
        ("POST", "/v1/requests/ID/cancel", "asked", "absent"),
        ("GET", "/v1/requests/ID/answers", asked, missing),
        ("POST", "/v1/requests/ID/cancel", asked, missing),
        ("GET", "/v1/approvals/ID", "mine", "absent"),
        ("GET", "/v1/approvals/ID/why", "mine", "absent"),
    ] {
        let mut responses = Vec::new();
        for id in [foreign, missing] {
            let response = hub.send_text(&carol, method, &path.replace("ID", id), "").await;
            assert_eq!(response.status, 404, "{method} {path} {id}: {}", response.text);
            responses.push(response.text.replace(id, "ID"));
        }
        assert_eq!(responses[0], responses[1], "{method} {path}");
    }
}

/// Operations on a delivery, with the id `ID` and a lease token, and on a request.
const OPS_ON_IDS: [(&str, &str); 5] = [
    ("delivery", r#"{"op":"ack","deliveryId":"ID","leaseToken":TOKEN}"#),
    ("delivery", r#"{"op":"ack","deliveries":[{"deliveryId":"ID","leaseToken":TOKEN}]}"#),
    ("delivery", r#"{"op":"nack","deliveryId":"ID","leaseToken":TOKEN}"#),
    ("delivery", r#"{"op":"extend","deliveryId":"ID","leaseToken":TOKEN}"#),
    ("request", r#"{"op":"request.cancel","request":"ID"}"#),
];

// Fails under: an operation or a frame whose refusal depends on whether the id of another agent exists.
#[tokio::test]
async fn i16_commits_and_frames_do_not_tell_foreign_from_missing_ids() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let alice = hub.register("alice").await;
    let bob = hub.register("bob").await;
    let carol = hub.register("carol").await;
    for _ in 0..3 {
        hub.post(&alice, "/v1/messages", &json!({"to": "bob", "payload": 1})).await.ok(200);
    }
    let asked = json!({"to": "bob", "type": "query", "timeoutMs": 60_000});
    let asked = hub.post(&alice, "/v1/requests", &asked).await.ok(201)["id"].clone();
    let held = hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({"max": 2})).await.ok(200);
    let lease = |index: usize| {
        let delivery = &held["deliveries"][index];
        json!({"deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"]})
    };
    // Deliveries that are acked, leased and waiting.
    hub.post(&bob, "/v1/agents/bob/inbox/ack", &json!({"deliveries": [lease(0)]})).await.ok(200);
    let (mut socket, _) = server.hello(json!({"token": carol})).await;
    let tokens = [lease(0)["leaseToken"].clone(), lease(1)["leaseToken"].clone(), json!(1)];
    let deliveries = ["dlv_0-1", "dlv_0-2", "dlv_0-3"].into_iter().zip(tokens);
    let requests = [(asked.as_str().expect("an id"), json!(1))];
    for (kind, op) in OPS_ON_IDS {
        let (foreign, missing): (Vec<_>, _) = match kind {
            "delivery" => (deliveries.clone().collect(), "dlv_0-999"),
            _ => (requests.to_vec(), "msg_0-999-0"),
        };
        for (foreign, token) in foreign {
            let mut responses = Vec::new();
            for (key, id) in [("f", foreign), ("m", missing)] {
                let op = op.replace("ID", id).replace("TOKEN", &token.to_string());
                let op: serde_json::Value = serde_json::from_str(&op).expect("JSON");
                let commit = json!({"ops": [op]});
                let response = hub.post(&carol, "/v1/commit", &commit).await;
                response.refused(404, "NOT_FOUND");
                let key = format!("{key}-{kind}-{foreign}-{}", op["op"]);
                let keyed = json!({"ops": [op], "idempotencyKey": key});
                let framed = socket.refused("commit", keyed, "NOT_FOUND").await;
                responses.push([response.text.replace(id, "ID"), framed.to_string().replace(id, "ID")]);
            }
            assert_eq!(responses[0], responses[1], "{op} {foreign}");
        }
    }
    for path in ["ack", "nack", "extend"] {
        let path = format!("/v1/agents/carol/inbox/{path}");
        let mut responses = Vec::new();
        for id in ["dlv_0-1", "dlv_0-2", "dlv_0-3", "dlv_0-999"] {
            let body = json!({"deliveries": [{"deliveryId": id, "leaseToken": lease(1)["leaseToken"]}]});
            let response = hub.post(&carol, &path, &body).await;
            response.refused(404, "NOT_FOUND");
            responses.push(response.text.replace(id, "ID"));
        }
        assert!(responses.iter().all(|response| *response == responses[0]), "{path}: {responses:?}");
    }
}
