//! Calls every operation of the API with every role: allowed or forbidden as documented.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::TestHub;
use crate::support::openapi_check::operations;

/// One call for each operation: its path and body. `ME` is the calling agent, or alice for other principals.
/// Deletions come last.
const CALLS: &[(&str, &str, &str)] = &[
    ("hub.info", "/v1/info", ""),
    ("hub.stats", "/v1/admin/stats", ""),
    ("commits.make", "/v1/commit", r#"{"ops":[{"op":"put","key":"k","content":1}]}"#),
    ("agents.list", "/v1/agents", ""),
    ("agents.get", "/v1/agents/alice", ""),
    ("agents.register", "/v1/agents/alice", r#"{"epoch":1}"#),
    ("agents.heartbeat", "/v1/agents/alice/heartbeat", "{}"),
    ("inbox.list", "/v1/agents/alice/inbox", ""),
    ("outbox.list", "/v1/agents/alice/outbox", ""),
    ("inbox.claim", "/v1/agents/alice/inbox/claim", "{}"),
    ("inbox.ack", "/v1/agents/alice/inbox/ack", LEASE),
    ("inbox.nack", "/v1/agents/alice/inbox/nack", LEASE),
    ("inbox.extend", "/v1/agents/alice/inbox/extend", LEASE),
    ("messages.send", "/v1/messages", r#"{"from":"ME","to":"alice","payload":1}"#),
    ("messages.list", "/v1/messages", ""),
    ("messages.get", "/v1/messages/m1", ""),
    ("messages.why", "/v1/messages/msg_0-1-0/why", ""),
    ("requests.ask", "/v1/request", r#"{"from":"ME","to":"alice","type":"query","timeoutMs":1}"#),
    ("requests.begin", "/v1/requests", r#"{"from":"ME","to":"alice","type":"query","timeoutMs":1}"#),
    ("requests.answers", "/v1/requests/msg_0-1-0/answers", ""),
    ("requests.list", "/v1/requests", ""),
    ("requests.get", "/v1/requests/msg_0-1-0", ""),
    ("requests.cancel", "/v1/requests/msg_0-1-0/cancel", ""),
    ("subscriptions.list", "/v1/agents/alice/subscriptions", ""),
    ("subscriptions.subscribe", "/v1/agents/alice/subscriptions/news", "{}"),
    ("subscriptions.unsubscribe", "/v1/agents/alice/subscriptions/news", ""),
    ("dead-letters.list", "/v1/dead-letters", ""),
    ("dead-letters.get", "/v1/dead-letters/dlv_0-1", ""),
    ("dead-letters.redrive", "/v1/dead-letters/dlv_0-1/redrive", ""),
    ("context.list", "/v1/context", ""),
    ("context.put", "/v1/context/plan", r#"{"content":1}"#),
    ("context.get", "/v1/context/plan", ""),
    ("context.history", "/v1/context/plan/history", ""),
    ("context.rollback", "/v1/context:rollback", r#"{"key":"plan","toVersion":1}"#),
    ("context.check", "/v1/context:check", ""),
    ("snapshots.make", "/v1/context:snapshot", r#"{"name":"before"}"#),
    ("snapshots.list", "/v1/context:snapshot", ""),
    ("snapshots.get", "/v1/context:snapshot/before", ""),
    ("tasks.create", "/v1/tasks", r#"{"id":"t1","type":"sum"}"#),
    ("tasks.list", "/v1/tasks", ""),
    ("tasks.claim", "/v1/tasks/claim", r#"{"agent":"ME","types":["sum"]}"#),
    ("tasks.get", "/v1/tasks/t1", ""),
    ("tasks.why", "/v1/tasks/t1/why", ""),
    ("tasks.heartbeat", "/v1/tasks/t0/heartbeat", r#"{"leaseToken":1}"#),
    ("tasks.complete", "/v1/tasks/t0/complete", r#"{"leaseToken":1}"#),
    ("tasks.fail", "/v1/tasks/t0/fail", r#"{"leaseToken":1}"#),
    ("tasks.release", "/v1/tasks/t0/release", r#"{"leaseToken":1}"#),
    ("tasks.cancel", "/v1/tasks/t1/cancel", "{}"),
    ("locks.list", "/v1/locks", ""),
    ("locks.get", "/v1/locks/door", ""),
    ("locks.acquire", "/v1/locks/door/acquire", r#"{"agent":"ME"}"#),
    ("locks.renew", "/v1/locks/gate/renew", r#"{"fence":1}"#),
    ("locks.release", "/v1/locks/gate/release", r#"{"fence":1}"#),
    ("sessions.open", "/v1/sessions", r#"{"id":"s1","title":"S","coordinator":"ME"}"#),
    ("sessions.list", "/v1/sessions", ""),
    ("sessions.get", "/v1/sessions/s1", ""),
    ("sessions.add", "/v1/sessions/s1/add", r#"{"kind":"note","body":1}"#),
    ("sessions.timeline", "/v1/sessions/s1/timeline", ""),
    ("sessions.state", "/v1/sessions/s1/state", ""),
    ("sessions.putState", "/v1/sessions/task_abc123/state", include_str!("../seeds/b4-state.json")),
    ("sessions.document", "/v1/sessions/s1/document", ""),
    ("sessions.putDocument", "/v1/sessions/s1/document", r#"{"context":{"decisions":["x"]}}"#),
    ("sessions.guide", "/v1/sessions/s1/guidance", r#"{"text":"Look at the licence first."}"#),
    ("sessions.join", "/v1/sessions/s1/join", r#"{"agent":"ME"}"#),
    ("sessions.leave", "/v1/sessions/s1/leave", r#"{"agent":"ME"}"#),
    ("sessions.pause", "/v1/sessions/s1/pause", "{}"),
    ("sessions.resume", "/v1/sessions/s1/resume", "{}"),
    ("sessions.complete", "/v1/sessions/s1/complete", "{}"),
    ("sessions.fail", "/v1/sessions/s1/fail", "{}"),
    ("procedures.start", "/v1/procedures", r#"{"id":"p1","kind":"deliberation","driver":"ME"}"#),
    ("procedures.list", "/v1/procedures", ""),
    ("procedures.get", "/v1/procedures/p1", ""),
    ("procedures.why", "/v1/procedures/p1/why", ""),
    ("procedures.step", "/v1/procedures/p1/step", r#"{"expect":1,"phase":"findings"}"#),
    ("procedures.pause", "/v1/procedures/p1/pause", "{}"),
    ("procedures.resume", "/v1/procedures/p1/resume", "{}"),
    ("procedures.signal", "/v1/procedures/p1/signal", r#"{"name":"go"}"#),
    ("procedures.cancel", "/v1/procedures/p1/cancel", "{}"),
    ("approvals.request", "/v1/approvals", r#"{"id":"a1","agent":"ME","action":"mail","payload":1}"#),
    ("approvals.list", "/v1/approvals", ""),
    ("approvals.get", "/v1/approvals/a1", ""),
    ("approvals.why", "/v1/approvals/a1/why", ""),
    (
        "approvals.decide",
        "/v1/approvals/never/decision",
        r#"{"decision":"approve","digest":"0000000000000000000000000000000000000000000000000000000000000000"}"#,
    ),
    ("tokens.create", "/v1/tokens", r#"{"role":"agent","agent":"alice","name":"more"}"#),
    ("tokens.list", "/v1/tokens", ""),
    ("tokens.get", "/v1/tokens/tok_0-1-9", ""),
    ("tokens.revoke", "/v1/tokens/tok_0-1-9", ""),
    ("spaces.create", "/v1/spaces", r#"{"name":"third"}"#),
    ("spaces.list", "/v1/spaces", ""),
    ("spaces.get", "/v1/spaces/third", ""),
    ("violations.list", "/v1/violations", ""),
    ("status.get", "/v1/status", ""),
    ("policy.get", "/v1/policy", ""),
    ("policy.set", "/v1/policy", r#"{"preset":"mesh"}"#),
    ("budgets.set", "/v1/budgets/b1", r#"{"messagesMax":9}"#),
    ("budgets.list", "/v1/budgets", ""),
    ("budgets.get", "/v1/budgets/b1", ""),
    ("flags.raise", "/v1/flags", r#"{"severity":"high"}"#),
    ("flags.list", "/v1/flags", ""),
    ("flags.get", "/v1/flags/flg_0", ""),
    ("flags.checkpoint", "/v1/flags/checkpoint", ""),
    ("flags.resolve", "/v1/flags/flg_0/resolve", "{}"),
    ("events.follow", "/v1/events", ""),
    ("state.get", "/v1/state", ""),
    ("dialects.send", "/v1/dialects/native/messages", r#"{"from":"ME","to":"alice","payload":1}"#),
    ("dialects.inbox", "/v1/dialects/native/inbox?agent=ME", ""),
    ("dialects.entry", "/v1/dialects/coscientist/entries/plan", ""),
    (
        "dialects.putEntry",
        "/v1/dialects/coscientist/entries/e1",
        r#"{"entry_id":"e1","entry_type":"x","content":{},"created_at":"2025-10-20T14:30:00Z","updated_at":"2025-10-20T14:30:00Z","version":1,"dependencies":[]}"#,
    ),
    ("audit.export", "/v1/audit", ""),
    ("audit.verify", "/v1/audit/verify", ""),
    ("audit.checkpoint", "/v1/audit/checkpoint", ""),
    ("hub.metrics", "/metrics", ""),
    ("traces.get", "/v1/traces/4bf92f3577b34da6a3ce929d0e0e4736", ""),
    ("signIn.code", "/v1/sign-in-codes", ""),
    ("signIn.end", "/v1/sign-out", ""),
    ("context.delete", "/v1/context/plan", ""),
    ("snapshots.drop", "/v1/context:snapshot/before", ""),
    ("agents.remove", "/v1/agents/alice", ""),
];

/// The commit of an approver.
const DECISION: &str = r#"{"ops":[{"op":"approval.decide","approval":"never","decision":"approve","digest":"0000000000000000000000000000000000000000000000000000000000000000"}]}"#;

const LEASE: &str = r#"{"deliveries":[{"deliveryId":"dlv_0-1","leaseToken":1}]}"#;

/// An operation, its example call and the roles that may call it.
struct DescribedOperation {
    method: String,
    path: &'static str,
    body: &'static str,
    roles: Vec<&'static str>,
    itself: bool,
}

fn described_operation(id: &str) -> DescribedOperation {
    let found = operations().find(|(_, _, operation)| operation["operationId"] == id);
    let (method, _, operation) = found.unwrap_or_else(|| panic!("{id} is called here and not described"));
    let (_, path, body) = CALLS.iter().find(|(called_id, _, _)| *called_id == id).expect("a call");
    let roles = operation["x-quorate-roles"].as_array().expect("roles").iter();
    DescribedOperation {
        method: method.to_uppercase(),
        path,
        body,
        roles: roles.map(|role| role.as_str().expect("a word")).collect(),
        itself: operation["x-quorate-itself"] == true,
    }
}

// Fails under: a route that is not in the table above; an entry of the table without a route.
#[test]
fn i19_every_operation_is_called() {
    let described: BTreeSet<_> = operations()
        .filter(|(_, _, operation)| operation["security"].as_array().is_none_or(|list| !list.is_empty()))
        .map(|(_, _, operation)| operation["operationId"].as_str().expect("a name"))
        .collect();
    let called: BTreeSet<_> = CALLS.iter().map(|(id, _, _)| *id).collect();
    assert_eq!(
        described, called,
        "every operation that needs a token has a call in the table of tests/it/permissions.rs"
    );
}

async fn call(hub: &TestHub, token: &str, agent: &str, operation: &DescribedOperation) -> (u16, Value) {
    let response = hub
        .send(
            hub.request(token, &operation.method, &operation.path.replace("ME", agent)),
            &operation.body.replace("ME", agent),
        )
        .await;
    (response.status, serde_json::from_str(&response.text).unwrap_or_default())
}

async fn hub() -> (TestHub, String, String) {
    let hub = TestHub::new().await;
    let alice = hub.register_with_capabilities("alice", &["sum"]).await;
    let bob = hub.register("bob").await;
    hub.put(&hub.admin, "/v1/context/plan", &json!({"content": 0})).await.ok(201);
    (hub, alice, bob)
}

/// Calls every operation with this role.
async fn as_role(role: &str, agent: &str, itself: bool, hub: &TestHub, token: &str) {
    for (id, _, _) in CALLS {
        let mut operation = described_operation(id);
        if (role, *id) == ("approver", "commits.make") {
            operation.body = DECISION;
        }
        let allowed = operation.roles.contains(&role) && (!operation.itself || itself);
        let (status, response) = call(hub, token, agent, &operation).await;
        assert_ne!(status, 401, "{id} as {role} {agent}: {response}");
        assert!(status < 500, "{id} as {role} {agent}: {response}");
        assert!(!allowed || status != 400, "{id} is not called in the right way here: {response}");
        assert_eq!(status != 403, allowed, "{id} as {role} {agent}: {status} {response}");
        if !allowed {
            assert_eq!(response["code"], "FORBIDDEN", "{id} as {role}");
            assert_eq!(response["applied"], "no", "{id} as {role}");
        }
    }
}

// Fails under: `.requires(Permission::Work)` on `tokens.revoke`; an `own_agent_only` that is not checked.
#[tokio::test]
async fn i19_an_agent_is_limited_to_its_own_work() {
    let (hub, alice, _) = hub().await;
    as_role("agent", "alice", true, &hub, &alice).await;
}

#[tokio::test]
async fn i19_another_agent_may_not_act_for_it() {
    let (hub, _, bob) = hub().await;
    as_role("agent", "bob", false, &hub, &bob).await;
}

// Fails under: a role that is missing from, or wrongly granted, one of the permissions in quorate-core.
#[tokio::test]
async fn i19_other_roles_match_the_description() {
    for role in ["operator", "approver", "moderator", "viewer", "admin"] {
        let (hub, _, _) = hub().await;
        let token = hub.create_token(role, role).await;
        as_role(role, "alice", true, &hub, &token).await;
    }
}

// Fails under: a handler that does not authenticate.
#[tokio::test]
async fn i19_calls_without_a_valid_token_are_rejected() {
    let (hub, _, _) = hub().await;
    let created = hub.post(&hub.admin, "/v1/tokens", &json!({"role": "admin", "name": "gone"})).await.ok(201);
    let revoked = created["token"].as_str().expect("a token").to_owned();
    let id = created["id"].as_str().expect("an id");
    hub.delete(&hub.admin, &format!("/v1/tokens/{id}")).await.ok(200);
    for (id, _, _) in CALLS {
        let operation = described_operation(id);
        for token in ["", &revoked] {
            let (status, response) = call(&hub, token, "alice", &operation).await;
            assert_eq!((status, &response["code"]), (401, &json!("UNAUTHENTICATED")), "{id}");
        }
    }
}

// Fails under: a call that evaluates the header `Quorate-Space` before the token.
#[tokio::test]
async fn i16_a_token_of_another_space_is_isolated() {
    let (hub, _, _) = hub().await;
    hub.post(&hub.admin, "/v1/spaces", &json!({"name": "other"})).await.ok(201);
    let other_alice = hub.register_in("other", "alice").await;
    let request = hub.request(&hub.admin, "POST", "/v1/tokens").header("quorate-space", "other");
    let created = hub.send(request, r#"{"role":"admin","name":"theirs"}"#).await.ok(201);
    let admin = created["token"].as_str().expect("a token");
    for (id, _, _) in CALLS {
        let operation = described_operation(id);
        for token in [other_alice.as_str(), admin] {
            let request = hub.request(token, &operation.method, &operation.path.replace("ME", "alice"));
            let request = request.header("quorate-space", "default");
            let response = hub.send(request, &operation.body.replace("ME", "alice")).await;
            response.refused(404, "NOT_FOUND");
        }
    }
    // In its own space an agent has its own permissions, and an admin of a space is not an admin of the hub.
    as_role("agent", "alice", true, &hub, &other_alice).await;
    for (method, path, body) in [
        ("GET", "/v1/spaces", ""),
        ("GET", "/v1/spaces/default", ""),
        ("POST", "/v1/spaces", r#"{"name":"x"}"#),
    ] {
        hub.send_text(admin, method, path, body).await.refused(403, "FORBIDDEN");
    }
}
