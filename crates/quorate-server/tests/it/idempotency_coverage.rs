//! Makes every call of the API except `GET` twice with one idempotency key: it takes effect once and returns the same
//! response, and another call with that key is rejected. A new call must be added to the table here, or document why
//! it takes no key.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::openapi_check::operations;
use crate::support::{TestHub, TestResponse};

/// Path and body of a call.
type CallInput = (&'static str, &'static str);

/// For each operation a call, and a different call. `$NAMES` are replaced by ids created by [`world`]. All calls are
/// made by an admin.
const CALLS: &[(&str, CallInput, CallInput)] = &[
    (
        "commits.make",
        ("/v1/commit", r#"{"ops":[{"op":"put","key":"k","content":1}]}"#),
        ("/v1/commit", r#"{"ops":[{"op":"put","key":"k","content":2}]}"#),
    ),
    ("agents.register", ("/v1/agents/new", "{}"), ("/v1/agents/new", r#"{"role":"observer"}"#)),
    ("agents.remove", ("/v1/agents/fred", ""), ("/v1/agents/gina", "")),
    ("inbox.claim", ("/v1/agents/bob/inbox/claim", "{}"), ("/v1/agents/bob/inbox/claim", r#"{"max":2}"#)),
    ("inbox.ack", ("/v1/agents/bob/inbox/ack", HELD), ("/v1/agents/bob/inbox/ack", OTHER_HELD)),
    ("inbox.nack", ("/v1/agents/bob/inbox/nack", HELD), ("/v1/agents/bob/inbox/nack", OTHER_HELD)),
    (
        "messages.send",
        ("/v1/messages", r#"{"from":"alice","to":"bob","payload":1}"#),
        ("/v1/messages", r#"{"from":"alice","to":"bob","payload":2}"#),
    ),
    (
        "requests.ask",
        ("/v1/request", r#"{"from":"alice","to":"erin","type":"query","timeoutMs":60000}"#),
        ("/v1/request", r#"{"from":"alice","to":"erin","type":"query","payload":2}"#),
    ),
    (
        "requests.begin",
        ("/v1/requests", r#"{"from":"alice","to":"bob","type":"query","timeoutMs":60000}"#),
        ("/v1/requests", r#"{"from":"alice","to":"bob","type":"query","payload":2}"#),
    ),
    ("requests.cancel", ("/v1/requests/$ASKED/cancel", ""), ("/v1/requests/$ASKED_TOO/cancel", "")),
    (
        "subscriptions.subscribe",
        ("/v1/agents/bob/subscriptions/new", "{}"),
        ("/v1/agents/bob/subscriptions/newer", "{}"),
    ),
    (
        "subscriptions.unsubscribe",
        ("/v1/agents/bob/subscriptions/news", ""),
        ("/v1/agents/bob/subscriptions/olds", ""),
    ),
    (
        "dead-letters.redrive",
        ("/v1/dead-letters/$DEAD/redrive", ""),
        ("/v1/dead-letters/$DEAD_TOO/redrive", ""),
    ),
    ("context.put", ("/v1/context/k", r#"{"content":1}"#), ("/v1/context/k", r#"{"content":2}"#)),
    ("context.delete", ("/v1/context/plan", ""), ("/v1/context/other", "")),
    (
        "context.rollback",
        ("/v1/context:rollback", r#"{"key":"plan","toVersion":1}"#),
        ("/v1/context:rollback", r#"{"key":"other","toVersion":1}"#),
    ),
    (
        "snapshots.make",
        ("/v1/context:snapshot", r#"{"name":"new"}"#),
        ("/v1/context:snapshot", r#"{"name":"newer"}"#),
    ),
    ("snapshots.drop", ("/v1/context:snapshot/one", ""), ("/v1/context:snapshot/two", "")),
    ("tasks.create", ("/v1/tasks", r#"{"type":"sum"}"#), ("/v1/tasks", r#"{"type":"mul"}"#)),
    (
        "tasks.claim",
        ("/v1/tasks/claim", r#"{"agent":"bob","types":["free"]}"#),
        ("/v1/tasks/claim", r#"{"agent":"bob","types":["free"],"max":2}"#),
    ),
    (
        "tasks.heartbeat",
        ("/v1/tasks/held/heartbeat", r#"{"leaseToken":$LEASE,"partial":1}"#),
        ("/v1/tasks/held/heartbeat", r#"{"leaseToken":$LEASE,"partial":2}"#),
    ),
    (
        "tasks.complete",
        ("/v1/tasks/held/complete", r#"{"leaseToken":$LEASE,"result":1}"#),
        ("/v1/tasks/held/complete", r#"{"leaseToken":$LEASE,"result":2}"#),
    ),
    (
        "tasks.fail",
        ("/v1/tasks/held/fail", r#"{"leaseToken":$LEASE,"reason":"one"}"#),
        ("/v1/tasks/held/fail", r#"{"leaseToken":$LEASE,"reason":"two"}"#),
    ),
    (
        "tasks.release",
        ("/v1/tasks/held/release", r#"{"leaseToken":$LEASE}"#),
        ("/v1/tasks/free/release", r#"{"leaseToken":$LEASE}"#),
    ),
    (
        "tasks.cancel",
        ("/v1/tasks/free/cancel", r#"{"reason":"one"}"#),
        ("/v1/tasks/free/cancel", r#"{"reason":"two"}"#),
    ),
    (
        "locks.acquire",
        ("/v1/locks/new/acquire", r#"{"agent":"bob"}"#),
        ("/v1/locks/newer/acquire", r#"{"agent":"bob"}"#),
    ),
    (
        "locks.release",
        ("/v1/locks/door/release", r#"{"fence":$FENCE}"#),
        ("/v1/locks/gate/release", r#"{"fence":$FENCE}"#),
    ),
    (
        "sessions.open",
        ("/v1/sessions", r#"{"title":"new","coordinator":"alice"}"#),
        ("/v1/sessions", r#"{"title":"newer","coordinator":"alice"}"#),
    ),
    (
        "sessions.add",
        ("/v1/sessions/s/add", r#"{"kind":"note","body":1}"#),
        ("/v1/sessions/s/add", r#"{"kind":"note","body":2}"#),
    ),
    (
        "sessions.putState",
        ("/v1/sessions/task_abc123/state", include_str!("../seeds/b4-state.json")),
        ("/v1/sessions/task_abc123/state", STATE),
    ),
    (
        "sessions.putDocument",
        ("/v1/sessions/s/document", r#"{"context":{"decisions":[1]}}"#),
        ("/v1/sessions/s/document", r#"{"context":{"decisions":[2]}}"#),
    ),
    (
        "sessions.guide",
        ("/v1/sessions/s/guidance", r#"{"text":"Look at the licence first."}"#),
        ("/v1/sessions/s/guidance", r#"{"text":"Look at the price first."}"#),
    ),
    (
        "sessions.join",
        ("/v1/sessions/s/join", r#"{"agent":"carol"}"#),
        ("/v1/sessions/s/join", r#"{"agent":"dora"}"#),
    ),
    (
        "sessions.leave",
        ("/v1/sessions/s/leave", r#"{"agent":"bob"}"#),
        ("/v1/sessions/s/leave", r#"{"agent":"dora"}"#),
    ),
    ("sessions.pause", ("/v1/sessions/s/pause", "{}"), ("/v1/sessions/s/pause", r#"{"reason":"why"}"#)),
    ("sessions.resume", ("/v1/sessions/p/resume", "{}"), ("/v1/sessions/p/resume", r#"{"reason":"why"}"#)),
    (
        "sessions.complete",
        ("/v1/sessions/s/complete", "{}"),
        ("/v1/sessions/s/complete", r#"{"reason":"why"}"#),
    ),
    ("sessions.fail", ("/v1/sessions/s/fail", "{}"), ("/v1/sessions/s/fail", r#"{"reason":"why"}"#)),
    (
        "procedures.start",
        ("/v1/procedures", r#"{"kind":"own","driver":"alice"}"#),
        ("/v1/procedures", r#"{"kind":"other","driver":"alice"}"#),
    ),
    (
        "procedures.step",
        ("/v1/procedures/proc/step", r#"{"expect":1,"phase":"one"}"#),
        ("/v1/procedures/proc/step", r#"{"expect":1,"phase":"two"}"#),
    ),
    (
        "procedures.pause",
        ("/v1/procedures/proc/pause", "{}"),
        ("/v1/procedures/proc/pause", r#"{"reason":"why"}"#),
    ),
    (
        "procedures.resume",
        ("/v1/procedures/proc/resume", "{}"),
        ("/v1/procedures/proc/resume", r#"{"reason":"why"}"#),
    ),
    (
        "procedures.cancel",
        ("/v1/procedures/proc/cancel", "{}"),
        ("/v1/procedures/proc/cancel", r#"{"reason":"why"}"#),
    ),
    (
        "procedures.signal",
        ("/v1/procedures/proc/signal", r#"{"name":"one"}"#),
        ("/v1/procedures/proc/signal", r#"{"name":"two"}"#),
    ),
    (
        "approvals.request",
        ("/v1/approvals", r#"{"agent":"alice","action":"mail","payload":1}"#),
        ("/v1/approvals", r#"{"agent":"alice","action":"mail","payload":2}"#),
    ),
    (
        "approvals.decide",
        ("/v1/approvals/apr/decision", r#"{"decision":"approve","digest":"$DIGEST"}"#),
        ("/v1/approvals/apr/decision", r#"{"decision":"reject","digest":"$DIGEST","reason":"no"}"#),
    ),
    (
        "tokens.create",
        ("/v1/tokens", r#"{"role":"viewer","name":"board"}"#),
        ("/v1/tokens", r#"{"role":"viewer","name":"wall"}"#),
    ),
    ("tokens.revoke", ("/v1/tokens/$TOKEN", ""), ("/v1/tokens/$TOKEN_TOO", "")),
    ("spaces.create", ("/v1/spaces", r#"{"name":"new"}"#), ("/v1/spaces", r#"{"name":"newer"}"#)),
    ("flags.raise", ("/v1/flags", r#"{"what":"one"}"#), ("/v1/flags", r#"{"what":"two"}"#)),
    ("policy.set", ("/v1/policy", r#"{"preset":"supervised"}"#), ("/v1/policy", r#"{"preset":"mesh"}"#)),
    ("budgets.set", ("/v1/budgets/b", r#"{"messagesMax":9}"#), ("/v1/budgets/b", r#"{"messagesMax":8}"#)),
    (
        "dialects.send",
        ("/v1/dialects/native/messages", r#"{"from":"alice","to":"bob","payload":1}"#),
        ("/v1/dialects/native/messages", r#"{"from":"alice","to":"bob","payload":2}"#),
    ),
    (
        "dialects.putEntry",
        (
            "/v1/dialects/coscientist/entries/e",
            r#"{"entry_id":"e","entry_type":"x","content":{},"version":1}"#,
        ),
        (
            "/v1/dialects/coscientist/entries/e",
            r#"{"entry_id":"e","entry_type":"y","content":{},"version":1}"#,
        ),
    ),
    // It has no body, so there is no different call.
    ("signIn.code", ("/v1/sign-in-codes", ""), ("", "")),
];

const HELD: &str = r#"{"deliveries":[{"deliveryId":"$HELD","leaseToken":$HELD_BY}]}"#;
const OTHER_HELD: &str = r#"{"deliveries":[{"deliveryId":"$HELD_TOO","leaseToken":$HELD_TOO_BY}]}"#;
const STATE: &str =
    r#"{"taskId":"task_abc123","currentPhase":1,"sharedContext":{"objective":"another"},"agentStates":{}}"#;

/// Fields that are returned once; they are `null` in the repeated response.
const ONCE: &str = "token";

/// Operations that take no key. The API description of each one states the reason.
const WITHOUT_KEY: &[&str] = &["agents.heartbeat", "inbox.extend", "locks.renew", "signIn.use", "signIn.end"];

// Fails under: a new call that is not in the table, or takes no key without being in the list above.
#[test]
fn i3_every_call_takes_a_key_or_says_why_not() {
    let (mut keyed, mut without) = (BTreeSet::new(), BTreeSet::new());
    for (_, _, operation) in operations().filter(|(method, _, _)| *method != "get") {
        let id = operation["operationId"].as_str().expect("a name");
        let named = operation["parameters"].to_string().contains("Idempotency-Key");
        match operation["x-quorate-no-key"].as_str() {
            Some(reason) => {
                assert!(reason.len() > 20 && !named, "{id}");
                without.insert(id);
            }
            None => {
                assert!(named, "{id}");
                keyed.insert(id);
            }
        }
    }
    // Operations forbidden for admins are tested with moderators.
    assert!(keyed.remove("flags.resolve"), "in tests/it/flags.rs");
    // Signed calls are tested with webhooks.
    assert!(keyed.remove("webhooks.receive"), "in tests/it/webhooks.rs");
    assert_eq!(keyed, CALLS.iter().map(|(id, _, _)| *id).collect());
    assert_eq!(without, WITHOUT_KEY.iter().copied().collect());
}

// Fails under: `shared_state::change` that commits a new state under a used key; `admin::create_space` that ignores
// the key; `guidance::guide` that checks the participants first; any call that commits without its key.
#[tokio::test]
async fn i3_every_call_is_idempotent_with_its_key() {
    let running: Vec<_> = CALLS.iter().map(|call| (call.0, tokio::spawn(check_idempotent(call)))).collect();
    let mut failed = Vec::new();
    for (id, call) in running {
        if call.await.is_err() {
            failed.push(id);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

async fn check_idempotent((id, request, other): &'static (&'static str, CallInput, CallInput)) {
    let hub = TestHub::new().await;
    let placeholders = set_up(&hub).await;
    let first = call_with_key(&hub, id, request, &placeholders).await;
    assert!(first.status < 300, "{id} is not called in the right way here: {}", first.text);
    let before = records(&hub).await;
    let repeated = call_with_key(&hub, id, request, &placeholders).await;
    assert_eq!(first.status, repeated.status, "{id}: {}", repeated.text);
    let (first, repeated): (Value, Value) = (json_of(&first), json_of(&repeated));
    for (name, value) in first.as_object().expect("an object") {
        let expected = if name == ONCE && value.is_string() { &Value::Null } else { value };
        assert_eq!(&repeated[name], expected, "{id} answers differently: {repeated}");
    }
    if !other.0.is_empty() {
        call_with_key(&hub, id, other, &placeholders).await.refused(409, "DUPLICATE");
    }
    assert_eq!(records(&hub).await, before, "{id} changed something more");
}

/// Removes the last-seen time of an agent, which is relative to now.
fn json_of(response: &TestResponse) -> Value {
    let mut json: Value = serde_json::from_str(&response.text).expect("JSON");
    if let Some(agent) = json.get_mut("agent").and_then(Value::as_object_mut) {
        agent.remove("heardAt");
        agent.remove("offlineAt");
    }
    json
}

/// The spaces, and the number of records not caused by timers.
async fn records(hub: &TestHub) -> (usize, usize) {
    let spaces = hub.get(&hub.admin, "/v1/spaces").await.ok(200)["spaces"].as_array().map_or(0, Vec::len);
    let audit = hub.get(&hub.admin, "/v1/audit?limit=1000").await;
    let lines = audit.text.lines().filter(|line| !line.contains(r#""principal":"system""#));
    (spaces, lines.count())
}

/// Makes a call with the key, and answers a request that it sends.
async fn call_with_key(
    hub: &TestHub,
    id: &str,
    (path, body): &CallInput,
    placeholders: &BTreeMap<&str, String>,
) -> TestResponse {
    // Longer names first, because one may be a prefix of another.
    let filled = |text: &str| {
        placeholders
            .iter()
            .rev()
            .fold(text.to_owned(), |text, (placeholder, value)| text.replace(placeholder, value))
    };
    let (method, _, _) =
        operations().find(|(_, _, operation)| operation["operationId"] == id).expect("described");
    let request = hub.request(&hub.admin, &method.to_uppercase(), &filled(path));
    let body = filled(body);
    let call = hub.send(request.header("idempotency-key", "the-key"), &body);
    if id != "requests.ask" {
        return call.await;
    }
    let (answer, ()) = tokio::join!(call, answer_request(hub));
    answer
}

/// Erin answers a request, if there is one.
async fn answer_request(hub: &TestHub) {
    let claimed = hub.post(&hub.admin, "/v1/agents/erin/inbox/claim", &json!({"waitMs": 500})).await.ok(200);
    let delivery = &claimed["deliveries"][0];
    if delivery.is_object() {
        let step = json!({"ops": [
            {"op": "ack", "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"]},
            {"op": "send", "from": "erin", "to": "alice", "type": "response",
             "inReplyTo": delivery["message"]["id"], "payload": 4},
        ]});
        hub.post(&hub.admin, "/v1/commit", &step).await.ok(200);
    }
}

/// The initial state, created in one commit.
fn initial_ops() -> Value {
    let mut ops = Vec::new();
    for agent in ["alice", "bob", "carol", "dora", "erin", "fred", "gina"] {
        ops.push(json!({"op": "agent.register", "agent": agent, "capabilities": ["held", "free"]}));
    }
    for key in ["plan", "other"] {
        ops.extend([1, 2].map(|content| json!({"op": "put", "key": key, "content": content})));
    }
    ops.extend(["one", "two"].map(|name| json!({"op": "snapshot.make", "name": name})));
    ops.extend(["news", "olds"].map(|topic| json!({"op": "subscribe", "agent": "bob", "topic": topic})));
    let message = json!({"op": "send", "from": "alice", "to": "bob", "payload": 1, "maxAttempts": 1});
    ops.extend(std::iter::repeat_n(message, 5));
    ops.push(json!({"op": "task.create", "tasks": [{"id": "held", "type": "held", "retry": {"backoffMs": 60_000}}, {"id": "free", "type": "free"}]}));
    for id in ["s", "p"] {
        let participants = ["bob", "erin"];
        ops.push(json!({"op": "session.open", "id": id, "title": id, "coordinator": "alice", "participants": participants}));
    }
    ops.push(json!({"op": "session.pause", "session": "p"}));
    ops.push(json!({"op": "procedure.start", "id": "proc", "kind": "own", "driver": "alice"}));
    json!({"ops": ops})
}

/// A hub in which each call has an effect.
async fn set_up(hub: &TestHub) -> BTreeMap<&'static str, String> {
    let mut placeholders = BTreeMap::new();
    let mut note = |placeholder, value: &Value| {
        placeholders.insert(placeholder, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    };
    let admin = hub.admin.as_str();
    hub.post(admin, "/v1/commit", &initial_ops()).await.ok(200);
    // Two leased deliveries, two dead letters, and one ready delivery.
    let claimed = hub.post(admin, "/v1/agents/bob/inbox/claim", &json!({"max": 4})).await.ok(200);
    let held = claimed["deliveries"].as_array().expect("deliveries");
    for (placeholder, delivery) in ["$HELD", "$HELD_TOO", "$DEAD", "$DEAD_TOO"].into_iter().zip(held) {
        note(placeholder, &delivery["deliveryId"]);
    }
    note("$HELD_BY", &held[0]["leaseToken"]);
    note("$HELD_TOO_BY", &held[1]["leaseToken"]);
    let lease = |delivery: &Value| json!({"deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"]});
    let leases: Vec<_> = held[2..].iter().map(lease).collect();
    hub.post(admin, "/v1/agents/bob/inbox/nack", &json!({"deliveries": leases})).await.ok(200);
    for (placeholder, to) in [("$ASKED", "carol"), ("$ASKED_TOO", "dora")] {
        let question = json!({"from": "alice", "to": to, "type": "query", "timeoutMs": 60_000});
        note(placeholder, &hub.post(admin, "/v1/requests", &question).await.ok(201)["id"]);
    }
    let claim = json!({"agent": "alice", "types": ["held"]});
    note("$LEASE", &hub.post(admin, "/v1/tasks/claim", &claim).await.ok(200)["tasks"][0]["leaseToken"]);
    let locks = json!({"agent": "alice", "names": ["gate"]});
    note("$FENCE", &hub.post(admin, "/v1/locks/door/acquire", &locks).await.ok(200)["fence"]);
    for (placeholder, name) in [("$TOKEN", "one"), ("$TOKEN_TOO", "two")] {
        let token = json!({"role": "viewer", "name": name});
        note(placeholder, &hub.post(admin, "/v1/tokens", &token).await.ok(201)["id"]);
    }
    // A requester cannot decide on its own approval.
    let other = hub.create_token("operator", "other").await;
    let request = json!({"id": "apr", "agent": "alice", "action": "mail", "payload": 1});
    note("$DIGEST", &hub.post(&other, "/v1/approvals", &request).await.ok(201)["digest"]);
    placeholders
}
