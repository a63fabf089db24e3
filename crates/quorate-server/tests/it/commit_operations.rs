//! Each operation of a commit has the same effect as its own call.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::TestHub;
use crate::support::openapi_check::description;

/// Resulting state without times and sequence numbers, which differ.
async fn state_of(hub: &TestHub) -> Value {
    let mut state = json!({});
    for path in [
        "/v1/agents",
        "/v1/locks",
        "/v1/sessions",
        "/v1/tasks",
        "/v1/context?prefix=k",
        "/v1/context:snapshot",
        "/v1/agents/alice/subscriptions",
        "/v1/policy",
        "/v1/agents/bob/inbox",
        "/v1/budgets/b",
    ] {
        let response = hub.get(&hub.admin, path).await;
        state[path] = serde_json::from_str(&response.text).unwrap_or_default();
    }
    without_times(&mut state);
    state
}

fn without_times(value: &mut Value) {
    const TIME_FIELDS: &[&str] = &[
        "at",
        "since",
        "seq",
        "heardAt",
        "offlineAt",
        "joinedAt",
        "openedAt",
        "createdAt",
        "supervisedSince",
    ];
    match value {
        Value::Object(fields) => {
            TIME_FIELDS.iter().for_each(|name| drop(fields.remove(*name)));
            fields.values_mut().for_each(without_times);
        }
        Value::Array(list) => list.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// A call and the equivalent operation; `FENCE`, `DELIVERY` and `TOKEN` are placeholders for leases and locks.
const SAME: &[(&str, &str, &str, &str)] = &[
    ("POST", "/v1/messages", r#"{"to":"bob","payload":1}"#, r#"{"op":"send","to":"bob","payload":1}"#),
    ("PUT", "/v1/context/k1", r#"{"content":1}"#, r#"{"op":"put","key":"k1","content":1}"#),
    ("DELETE", "/v1/context/k0?expect=1", "", r#"{"op":"delete","key":"k0","expect":1}"#),
    (
        "POST",
        "/v1/context:rollback",
        r#"{"key":"k0","toVersion":1}"#,
        r#"{"op":"rollback","key":"k0","toVersion":1}"#,
    ),
    ("POST", "/v1/context:snapshot", r#"{"name":"n"}"#, r#"{"op":"snapshot.make","name":"n"}"#),
    ("DELETE", "/v1/context:snapshot/old", "", r#"{"op":"snapshot.drop","name":"old"}"#),
    (
        "POST",
        "/v1/locks/gate/acquire",
        r#"{"ttlMs":5000}"#,
        r#"{"op":"lock.acquire","names":["gate"],"ttlMs":5000}"#,
    ),
    (
        "POST",
        "/v1/locks/door/renew",
        r#"{"fence":FENCE}"#,
        r#"{"op":"lock.renew","locks":[{"lock":"door","fence":FENCE}]}"#,
    ),
    (
        "POST",
        "/v1/locks/door/renew",
        r#"{"fence":FENCE,"ttlMs":60000}"#,
        r#"{"op":"lock.renew","locks":[{"lock":"door","fence":FENCE}],"ttlMs":60000}"#,
    ),
    (
        "POST",
        "/v1/locks/door/release",
        r#"{"fence":FENCE}"#,
        r#"{"op":"lock.release","locks":[{"lock":"door","fence":FENCE}]}"#,
    ),
    ("POST", "/v1/sessions", r#"{"id":"s","title":"S"}"#, r#"{"op":"session.open","id":"s","title":"S"}"#),
    (
        "POST",
        "/v1/sessions/s0/add",
        r#"{"kind":"note","body":1}"#,
        r#"{"op":"session.add","session":"s0","kind":"note","body":1}"#,
    ),
    (
        "POST",
        "/v1/sessions/s0/pause",
        r#"{"reason":"r"}"#,
        r#"{"op":"session.pause","session":"s0","reason":"r"}"#,
    ),
    ("POST", "/v1/sessions/s0/complete", "{}", r#"{"op":"session.complete","session":"s0"}"#),
    ("POST", "/v1/sessions/s0/fail", "{}", r#"{"op":"session.fail","session":"s0"}"#),
    (
        "POST",
        "/v1/sessions/s0/join",
        r#"{"agent":"bob"}"#,
        r#"{"op":"session.join","session":"s0","agent":"bob"}"#,
    ),
    (
        "POST",
        "/v1/tasks",
        r#"{"id":"t","type":"sum"}"#,
        r#"{"op":"task.create","tasks":[{"id":"t","type":"sum"}]}"#,
    ),
    ("POST", "/v1/tasks/t0/cancel", r#"{"reason":"r"}"#, r#"{"op":"task.cancel","task":"t0","reason":"r"}"#),
    ("PUT", "/v1/agents/alice/subscriptions/news.*", "{}", r#"{"op":"subscribe","topic":"news.*"}"#),
    ("DELETE", "/v1/agents/alice/subscriptions/old", "", r#"{"op":"unsubscribe","topic":"old"}"#),
    (
        "POST",
        "/v1/agents/alice/heartbeat",
        r#"{"status":"working"}"#,
        r#"{"op":"agent.heartbeat","status":"working"}"#,
    ),
    ("PUT", "/v1/budgets/b", r#"{"messagesMax":5}"#, r#"{"op":"budget.set","budget":"b","messagesMax":5}"#),
];

async fn prepared() -> (TestHub, String, Value) {
    let hub = TestHub::new().await;
    let alice = hub.register_with_capabilities("alice", &["sum"]).await;
    hub.register("bob").await;
    hub.put(&alice, "/v1/context/k0", &json!({"content": 0})).await.ok(201);
    hub.post(&alice, "/v1/context:snapshot", &json!({"name": "old"})).await.ok(201);
    hub.post(&alice, "/v1/sessions", &json!({"id": "s0", "title": "S"})).await.ok(201);
    hub.post(&alice, "/v1/tasks", &json!({"id": "t0", "type": "sum"})).await.ok(201);
    hub.put(&alice, "/v1/agents/alice/subscriptions/old", &json!({})).await.ok(200);
    let held = hub.post(&alice, "/v1/locks/door/acquire", &json!({})).await.ok(200);
    (hub, alice, held["fence"].clone())
}

// Fails under: an operation that parses a field differently than its call.
#[tokio::test]
async fn an_operation_in_a_commit_equals_its_own_call() {
    for (method, path, body, op) in SAME {
        let (by_call, alice, fence) = prepared().await;
        let body = body.replace("FENCE", &fence.to_string());
        let response = by_call.send_text(&alice, method, path, &body).await;
        assert!(response.status < 300, "{method} {path}: {}", response.text);
        let (by_commit, alice, fence) = prepared().await;
        let commit = format!(r#"{{"ops":[{}]}}"#, op.replace("FENCE", &fence.to_string()));
        by_commit.send_text(&alice, "POST", "/v1/commit", &commit).await.ok(200);
        assert_eq!(state_of(&by_call).await, state_of(&by_commit).await, "{op}");
    }
}

// Fails under: an admin operation that is allowed for others; a secret that is not returned, or returned twice.
#[tokio::test]
async fn policies_and_tokens_can_be_part_of_a_commit() {
    let (hub, alice, _) = prepared().await;
    let rules = json!({"ops": [
        {"op": "policy.set", "preset": "supervised"},
        {"op": "token.create", "role": "viewer", "name": "board"},
        {"op": "task.create", "tasks": [{"type": "sum"}, {"id": "named", "type": "sum"}]},
    ], "idempotencyKey": "rules"});
    hub.post(&alice, "/v1/commit", &rules).await.refused(403, "FORBIDDEN");
    let done = hub.post(&hub.admin, "/v1/commit", &rules).await.ok(200);
    let viewer = done["results"][1]["token"].as_str().expect("a token").to_owned();
    assert_eq!(done["results"][2]["tasks"][1]["id"], "named");
    let task = done["results"][2]["tasks"][0]["id"].as_str().expect("an id").to_owned();
    hub.get(&viewer, &format!("/v1/tasks/{task}")).await.ok(200);
    assert_eq!(hub.get(&viewer, "/v1/policy").await.ok(200)["preset"], "supervised");
    let repeated = hub.post(&hub.admin, "/v1/commit", &rules).await.ok(200);
    assert_eq!((&repeated["seq"], &repeated["results"][1]["token"]), (&done["seq"], &json!(null)));
    let id = &done["results"][1]["id"];
    let revoke = json!({"ops": [{"op": "token.revoke", "token": id}]});
    hub.post(&hub.admin, "/v1/commit", &revoke).await.ok(200);
    hub.get(&viewer, "/v1/policy").await.refused(401, "UNAUTHENTICATED");
    let waiting = json!({"ops": [{"op": "lock.acquire", "names": ["x"], "waitMs": 5}]});
    hub.post(&alice, "/v1/commit", &waiting).await.refused(400, "INVALID");
}

#[tokio::test]
async fn a_request_is_cancelled_in_a_commit() {
    let (hub, alice, _) = prepared().await;
    let question = json!({"to": "bob", "type": "query", "timeoutMs": 60_000});
    let cancelling = async {
        let claimed =
            hub.post(&hub.admin, "/v1/agents/bob/inbox/claim", &json!({"waitMs": 30_000})).await.ok(200);
        let id = &claimed["deliveries"][0]["message"]["id"];
        let cancel = json!({"ops": [{"op": "request.cancel", "request": id}]});
        hub.post(&alice, "/v1/commit", &cancel).await.ok(200);
    };
    let (response, ()) = tokio::join!(hub.post(&alice, "/v1/request", &question), cancelling);
    response.refused(409, "CANCELLED");
}

#[test]
fn every_operation_is_described() {
    let schemas = &description()["components"]["schemas"];
    let operation = &schemas["Operation"];
    let mapping = operation["discriminator"]["mapping"].as_object().expect("a mapping");
    let names: BTreeSet<&str> = mapping.keys().map(String::as_str).collect();
    assert_eq!(names, quorate_api::op::op_names().collect::<BTreeSet<_>>());
    assert_eq!(names.len(), operation["oneOf"].as_array().map_or(0, Vec::len));
    for (name, reference) in mapping {
        let component = reference.as_str().and_then(|path| path.strip_prefix("#/components/schemas/"));
        let component = &schemas[component.expect("a component")];
        assert_eq!(component["properties"]["op"]["const"], name.as_str());
        assert!(component["required"].as_array().is_some_and(|all| all.contains(&"op".into())), "{name}");
    }
}
