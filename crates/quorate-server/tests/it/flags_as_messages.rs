//! Conduct flags sent as messages, through every endpoint: raised for moderators and not visible to others, not even
//! by a count, a salt or a log line.

use std::sync::Arc;

use quorate_server::{Settings, Webhook, Webhooks};
use quorate_store::{Entropy, ManualClock};
use serde_json::{Value, json};

use crate::flags::is_measured;
use crate::support::TestHub;
use crate::support::socket::{TestServer, TestSocket};

const NOON: u64 = 1_767_268_800_000;
const SEED: &str = include_str!("../seeds/e4-flag.json");
const SECRET: &[u8] = b"It's a Secret to Everybody";

fn seed() -> Value {
    serde_json::from_str(SEED).expect("JSON")
}

async fn flags(hub: &TestHub, moderator: &str) -> Vec<Value> {
    let response = hub.get(moderator, "/v1/flags?limit=1000").await.ok(200);
    response["flags"].as_array().expect("flags").iter().map(|flag| flag["flag"].clone()).collect()
}

/// Private content, in each form in which it can be sent.
fn messages() -> Vec<Value> {
    vec![
        json!({"to": "bob", "action": "coc_violation_flag", "payload": {"what": "harassment"}}),
        json!({"to": "bob", "action": "report", "payload": seed()}),
        json!({"to": "bob", "type": "event", "payload": {"context": {"privacy_level": "PRIVATE_TO_MODERATORS"}}}),
        json!({"to": "*", "payload": seed().to_string(), "rationale": "it was rude"}),
        json!({"to": "topic:news", "payload": 1, "metadata": {"privacyLevel": "PRIVATE_TO_MODERATORS"}}),
        json!({"to": "can:sum", "payload": seed(), "durability": "ephemeral"}),
        json!({"to": "unknown", "payload": seed()}),
        seed(),
    ]
}

// Fails under: an endpoint that bypasses the flag check; a response that reveals more than the receipt.
#[tokio::test]
async fn m5_i15_a_flag_sent_as_a_message_is_raised() {
    let hub = TestHub::new().await;
    let (alice, moderator) = (hub.register("alice").await, hub.create_token("moderator", "mo").await);
    hub.register_with_capabilities("bob", &["sum"]).await;
    let before = hub.get(&hub.admin, "/v1/state").await.ok(200)["seq"].clone();
    for message in messages() {
        let response = hub.post(&alice, "/v1/messages", &message).await.ok(200);
        assert_eq!(response, json!({"receipts": [{"received": true}]}), "{message}");
    }
    let response = flags(&hub, &moderator).await;
    assert_eq!(response.len(), messages().len());
    assert_eq!(
        response[0],
        json!({"from": "alice", "to": "bob", "action": "coc_violation_flag", "payload": {"what": "harassment"}})
    );
    assert_eq!(response[1]["payload"], seed());
    assert_eq!(
        (&response[3]["payload"], &response[3]["rationale"]),
        (&json!(seed().to_string()), &json!("it was rude"))
    );
    assert_eq!(response[7], seed());
    let listed = hub.get(&moderator, "/v1/flags").await.ok(200);
    assert_eq!(listed["flags"][0]["raisedBy"], "agent:alice");
    assert_eq!(hub.get(&hub.admin, "/v1/state").await.ok(200)["seq"], before, "nothing was recorded");
    // With the same id or key it is raised once.
    let mut named = messages()[0].clone();
    named["id"] = json!("f1");
    for _ in 0..2 {
        hub.post(&alice, "/v1/messages", &named).await.ok(200);
        hub.post_with_key(&alice, "k", "/v1/messages", &messages()[1]).await.ok(200);
        hub.post_with_key(&alice, "k2", "/v1/messages", &seed()).await.ok(200);
    }
    assert_eq!(flags(&hub, &moderator).await.len(), messages().len() + 3);
    // A flag that is too large or contains a secret is rejected as `POST /v1/flags` does.
    let large = json!({"to": "bob", "action": "coc_violation_flag", "payload": "x".repeat(64 * 1024)});
    hub.post(&alice, "/v1/messages", &large).await.refused(413, "TOO_LARGE");
    let secret = json!({"to": "bob", "action": "coc_violation_flag", "payload": format!("AKIA{}", "IOSFODNN7QRTZWX2")});
    hub.post(&alice, "/v1/messages", &secret).await.refused(422, "SECRET_DETECTED");
    let violations = hub.get(&hub.admin, "/v1/violations").await.ok(200);
    assert_eq!(violations["violations"], json!([]));
}

// Fails under: a commit that is public or rejected as a whole; operation numbers that omit the flag.
#[tokio::test]
async fn m5_the_rest_of_a_commit_is_public_and_the_flag_is_not() {
    let hub = TestHub::new().await;
    let (alice, moderator) = (hub.register("alice").await, hub.create_token("moderator", "mo").await);
    let bob = hub.register("bob").await;
    let flag = json!({"op": "send", "to": "bob", "payload": seed()});
    let put = json!({"op": "put", "key": "plan", "content": 1});
    let send = json!({"op": "send", "to": "bob", "payload": "hello"});
    let response = hub.post(&alice, "/v1/commit", &json!({"ops": [flag, put, flag, send]})).await.ok(200);
    let results = &response["results"];
    assert_eq!((&results[0], &results[2]), (&json!({"received": true}), &json!({"received": true})));
    assert_eq!((&results[1]["version"], results[3]["id"].is_string()), (&json!(1), true), "{response}");
    assert_eq!(hub.get(&bob, "/v1/messages").await.ok(200)["messages"].as_array().map(Vec::len), Some(1));
    // A rejection of the rest names the caller's operation numbers. The flag is stored, and not raised again by a
    // repeat.
    let stale = json!({"op": "put", "key": "plan", "content": 2, "expect": 9});
    for _ in 0..2 {
        let refused = hub.post(&alice, "/v1/commit", &json!({"ops": [flag, stale]})).await;
        assert_eq!(refused.refused(409, "VERSION_CONFLICT")["op"], 1);
    }
    let key = json!({"ops": [flag, put], "idempotencyKey": "k"});
    let first = hub.post(&alice, "/v1/commit", &key).await.ok(200);
    assert_eq!(hub.post(&alice, "/v1/commit", &key).await.ok(200), first);
    assert_eq!(flags(&hub, &moderator).await.len(), 4);
    let only = hub.post(&alice, "/v1/commit", &json!({"ops": [flag]})).await.ok(200);
    assert_eq!(only, json!({"seq": null, "results": [{"received": true}]}));
}

// Fails under: a request that waits for an answer that cannot arrive.
#[tokio::test]
async fn m5_a_flag_sent_as_a_request_is_raised_without_an_answer() {
    let hub = TestHub::new().await;
    let (alice, moderator) = (hub.register("alice").await, hub.create_token("moderator", "mo").await);
    hub.register("bob").await;
    let question = json!({"to": "bob", "type": "query", "payload": seed()});
    let ephemeral = json!({"to": "bob", "type": "query", "payload": seed(), "durability": "ephemeral"});
    let ways = [
        ("/v1/request", &question),
        ("/v1/requests", &question),
        ("/v1/request", &ephemeral),
        ("/v1/request", &seed()),
    ];
    for (path, body) in ways {
        let response = hub.post(&alice, path, body).await.refused(409, "CANCELLED");
        assert_eq!(
            (&response["applied"], &response["retryable"]),
            (&json!("yes"), &json!(false)),
            "{response}"
        );
    }
    hub.post_with_key(&alice, "k", "/v1/request", &question).await.refused(409, "CANCELLED");
    assert_eq!(flags(&hub, &moderator).await.len(), 5);
    assert_eq!(hub.get(&alice, "/v1/requests").await.ok(200)["requests"], json!([]));
}

// Fails under: markers that are only detected in messages.
#[tokio::test]
async fn m5_flags_outside_messages_are_rejected_or_withheld() {
    let hub = TestHub::new().await;
    let (alice, moderator) =
        (hub.register_with_capabilities("alice", &["sum"]).await, hub.create_token("moderator", "mo").await);
    let refused = [
        ("PUT", "/v1/context/k", json!({"content": seed()})),
        ("PUT", "/v1/sessions/s/state", json!({"sharedContext": {"notes": [seed()]}})),
        ("POST", "/v1/tasks", json!({"type": "sum", "input": seed()})),
        ("POST", "/v1/sessions", json!({"task": seed()})),
        ("POST", "/v1/approvals", json!({"action": "mail", "payload": seed()})),
        (
            "POST",
            "/v1/approvals",
            json!({"action": "mail", "payload": 1, "then": [{"to": "alice", "action": "coc_violation_flag"}]}),
        ),
        ("POST", "/v1/procedures", json!({"kind": "own", "driver": "alice", "spec": seed()})),
        ("POST", "/v1/commit", json!({"ops": [{"op": "put", "key": "k", "content": seed()}]})),
        ("POST", "/v1/commit", json!({"ops": [{"op": "send", "message": seed()}]})),
    ];
    for (method, path, body) in refused {
        let response = hub.send_text(&alice, method, path, &body.to_string()).await.refused(400, "INVALID");
        assert!(
            response["hint"].as_str().is_some_and(|hint| hint.contains("/v1/flags")),
            "{path}: {response}"
        );
    }
    assert!(flags(&hub, &moderator).await.is_empty());
    // A private result is withheld; a concern is removed from it.
    hub.post(
        &hub.admin,
        "/v1/tasks",
        &json!({"tasks": [{"id": "t1", "type": "sum"}, {"id": "t2", "type": "sum"}]}),
    )
    .await
    .ok(201);
    let claimed = hub.post(&alice, "/v1/tasks/claim", &json!({"types": ["sum"], "max": 2})).await.ok(200);
    let token = |n: usize| claimed["tasks"][n]["leaseToken"].clone();
    let done = json!({"leaseToken": token(0), "result": seed(), "confidence": 0.9});
    let response = hub.post(&alice, "/v1/tasks/t1/complete", &done).await.ok(200);
    assert!(response["result"].is_null() && response["status"] == "done", "{response}");
    let result = json!({"status": "success", "flags": {"documentation_gap": "x", "coc_concern": true}});
    let done = json!({"leaseToken": token(1), "result": result});
    let response = hub.post(&alice, "/v1/tasks/t2/complete", &done).await.ok(200);
    assert_eq!(response["result"]["flags"], json!({"documentation_gap": "x", "coc_concern": false}));
    let response = flags(&hub, &moderator).await;
    assert_eq!(
        response,
        [json!({"task": "t1", "result": seed(), "confidence": 0.9}), json!({"task": "t2", "result": result})]
    );
    let audit = hub.get(&hub.admin, "/v1/audit?format=text").await.text;
    assert!(!audit.contains("coc_violation") && !audit.contains("MODERATORS"), "{audit}");
}

/// Whether flags are raised meanwhile.
#[derive(Clone, Copy, PartialEq)]
enum Flags {
    None,
    Many,
}

/// Everything that callers other than moderators can read.
const READS: &[&str] = &[
    "/v1/info",
    "/v1/admin/stats",
    "/v1/agents",
    "/v1/agents/alice",
    "/v1/agents/bob/inbox",
    "/v1/agents/alice/outbox",
    "/v1/messages",
    "/v1/requests",
    "/v1/dead-letters",
    "/v1/context",
    "/v1/tasks",
    "/v1/tasks/t1",
    "/v1/sessions",
    "/v1/approvals",
    "/v1/procedures",
    "/v1/violations",
    "/v1/state",
    "/v1/audit",
    "/v1/audit?format=text",
    "/v1/audit?format=decisions",
    "/v1/audit/checkpoint",
    "/v1/dialects/native/inbox?agent=bob",
    "/metrics",
    "/v1/flags",
];

fn hooks() -> Settings {
    let hook = Webhook::new("hub", "bob".parse().expect("an agent"), SECRET.to_vec()).expect("a webhook");
    Settings { webhooks: Webhooks::new(vec![hook]).expect("webhooks"), ..Settings::default() }
}

fn signature(body: &[u8]) -> String {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET).expect("a key");
    mac.update(body);
    let code = quorate_core::hex::encode(&mac.finalize().into_bytes());
    format!("sha256={code}")
}

async fn send_operation(socket: &mut TestSocket, operation: &str, body: Value) -> Value {
    let n = socket.send_numbered(operation, body).await;
    socket.response(n).await
}

/// Raises flags through every HTTP endpoint; returns their number.
async fn raise_over_http(hub: &TestHub, alice: &str) -> usize {
    for message in messages() {
        hub.post(alice, "/v1/messages", &message).await.ok(200);
    }
    for dialect in ["native", "orchestrator", "coscientist", "deliberation"] {
        let path = format!("/v1/dialects/{dialect}/messages");
        assert_eq!(hub.post(alice, &path, &seed()).await.ok(200)["receipts"][0]["received"], true);
    }
    let question = json!({"to": "bob", "type": "query", "payload": seed(), "timeoutMs": 1000});
    hub.post(alice, "/v1/request", &question).await.refused(409, "CANCELLED");
    hub.post(alice, "/v1/requests", &question).await.refused(409, "CANCELLED");
    hub.post(alice, "/v1/messages", &json!([{"to": "bob"}, seed()])).await.refused(400, "INVALID");
    hub.put(alice, "/v1/context/k", &json!({"content": seed()})).await.refused(400, "INVALID");
    let signed = signature(SEED.as_bytes());
    let response =
        hub.with_headers("", ("POST", "/v1/webhooks/hub"), &[("x-hub-signature-256", &signed)], SEED).await;
    assert_eq!(response.ok(202), json!({"received": true}));
    messages().len() + 4 + 2 + 1
}

/// Raises flags through every WebSocket frame that contains a message; returns their number.
async fn raise_over_socket(socket: &mut TestSocket, flag: &Value) -> usize {
    let response = send_operation(socket, "commit", json!({"ops": [flag], "idempotencyKey": "w1"})).await;
    assert_eq!(response["ok"], json!({"seq": null, "results": [{"received": true}]}));
    let response =
        send_operation(socket, "send", json!({"to": "bob", "payload": seed(), "durability": "ephemeral"}))
            .await;
    assert_eq!(response["ok"], json!({"received": true}));
    let response = send_operation(socket, "send", json!({"to": "bob", "payload": seed()})).await;
    assert_eq!(response["ok"], json!({"received": true}));
    let response =
        send_operation(socket, "request", json!({"to": "bob", "type": "query", "payload": seed()})).await;
    assert_eq!(response["problem"]["code"], "CANCELLED", "{response}");
    let response = send_operation(socket, "send", seed()).await;
    assert_eq!(response["problem"]["code"], "INVALID", "{response}");
    assert!(
        response["problem"]["hint"].as_str().is_some_and(|hint| hint.contains("/v1/flags")),
        "{response}"
    );
    4
}

/// Runs the same operations with and without flags; returns everything that callers other than moderators can read.
async fn run_scenario(mode: Flags) -> Vec<(String, String)> {
    let clock = ManualClock::at(NOON);
    let hub = TestHub::open([Entropy::seeded(7), Entropy::system()], Arc::clone(&clock) as _, hooks()).await;
    let moderator = hub.create_token("moderator", "mo").await;
    let (alice, bob) = (hub.register("alice").await, hub.register_with_capabilities("bob", &["sum"]).await);
    let viewer = hub.create_token("viewer", "v").await;
    let server = TestServer::start(hub).await;
    let hub = &server.hub;
    let mut socket = server.connect_agent(&alice).await;
    let with_flags = mode == Flags::Many;
    let flag = json!({"op": "send", "to": "bob", "payload": seed()});
    let mut raised = 0;
    if with_flags {
        raised += raise_over_http(hub, &alice).await;
    }
    hub.post(&alice, "/v1/messages", &json!({"to": "bob", "payload": {"a": 1}})).await.ok(200);
    // A commit with a flag equals the commit without it.
    let ops = [
        json!({"op": "put", "key": "plan", "content": 1}),
        json!({"op": "task.create", "id": "t1", "type": "sum"}),
    ];
    let ops: Vec<_> =
        ops.into_iter().flat_map(|op| if with_flags { vec![flag.clone(), op] } else { vec![op] }).collect();
    hub.post(&alice, "/v1/commit", &json!({"ops": ops, "idempotencyKey": "k"})).await.ok(200);
    let claimed = hub.post(&bob, "/v1/tasks/claim", &json!({"types": ["sum"]})).await.ok(200);
    let result = json!({"ok": 1, "flags": {"coc_concern": with_flags}});
    let done = json!({"leaseToken": claimed["tasks"][0]["leaseToken"], "result": result});
    hub.post(&bob, "/v1/tasks/t1/complete", &done).await.ok(200);
    // The heartbeats of the calls above are recorded in the background, at the time of their commit.
    for _ in 0..20 {
        hub.get(&hub.admin, "/v1/agents").await.ok(200);
    }
    clock.advance(std::time::Duration::from_secs(2));
    if with_flags {
        raised += raise_over_socket(&mut socket, &flag).await;
    }
    let response = send_operation(
        &mut socket,
        "commit",
        json!({"ops": [{"op": "send", "to": "bob", "payload": 2}], "idempotencyKey": "w2"}),
    )
    .await;
    assert!(response["ok"]["seq"].is_u64(), "{response}");
    if with_flags {
        // Two more are in the commit, and one is a concern in a result.
        assert_eq!(flags(hub, &moderator).await.len(), raised + 2 + 1);
    }
    let mut seen = Vec::new();
    for (name, token) in [("alice", &alice), ("bob", &bob), ("viewer", &viewer), ("admin", &hub.admin)] {
        for path in READS {
            seen.push((format!("{name} {path}"), hub.get(token, path).await.text));
        }
    }
    seen
}

// Fails under: an endpoint that records, counts, or draws a random number for a flag.
#[tokio::test]
async fn m5_i15_flags_as_messages_are_unobservable_to_other_callers() {
    let (without_flags, with_flags) = (run_scenario(Flags::None).await, run_scenario(Flags::Many).await);
    let mut lines = 0;
    for ((path, expected), (_, actual)) in without_flags.iter().zip(&with_flags) {
        let comparable = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !is_measured(line)).map(str::to_owned).collect()
        };
        lines += comparable(expected).len();
        for (expected, actual) in comparable(expected).iter().zip(&comparable(actual)) {
            assert_eq!(expected, actual, "{path}");
        }
        assert_eq!(comparable(expected).len(), comparable(actual).len(), "{path}");
    }
    assert!(lines > 400, "there is something to compare: {lines}");
}
