//! Heartbeats over HTTP and WebSocket, closed connections, and work that waits for agents that are gone.

use std::sync::Arc;
use std::time::Duration;

use quorate_server::Settings;
use quorate_store::ManualClock;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::TestHub;
use crate::support::raw_http::{bearer_header, connect_plain, format_request};
use crate::support::socket::TestServer;

/// 2026-11-18 12:00:00 UTC.
const NOON: u64 = 1_795_003_200_000;

async fn status_of(hub: &TestHub, agent: &str) -> Value {
    hub.get(&hub.admin, &format!("/v1/agents/{agent}")).await.ok(200)
}

/// Advances the clock in small steps. A read through the writer lets background tasks run in between.
async fn advance(hub: &TestHub, clock: &Arc<ManualClock>, seconds: u64) {
    for _ in 0..seconds * 2 {
        clock.advance(Duration::from_millis(500));
        for _ in 0..4 {
            hub.get(&hub.admin, "/v1/agents").await.ok(200);
        }
    }
}

async fn until(hub: &TestHub, agent: &str, expected: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..100_000 {
        let shown = status_of(hub, agent).await;
        if expected(&shown) {
            return shown;
        }
        tokio::task::yield_now().await;
    }
    panic!("not in time: {}", status_of(hub, agent).await);
}

/// Advances the clock until an agent is offline, for at most 100 s.
async fn until_offline(hub: &TestHub, clock: &Arc<ManualClock>, agent: &str) -> Value {
    for _ in 0..100 {
        let shown = status_of(hub, agent).await;
        if shown["status"] == "offline" {
            return shown;
        }
        advance(hub, clock, 1).await;
    }
    panic!("not offline: {}", status_of(hub, agent).await);
}

// Fails under: a default of no heartbeat; a read that does not count as one; an agent that loses its task to silence.
#[tokio::test]
async fn d6_any_call_counts_as_a_heartbeat_and_silence_takes_nothing_away() {
    let clock = ManualClock::at(NOON);
    let hub = TestHub::with_clock(clock.clone(), Settings::default()).await;
    let bob = hub.register_with_capabilities("bob", &["sum"]).await;
    assert_eq!(status_of(&hub, "bob").await["heartbeatMs"], 10_000);
    hub.post(&hub.admin, "/v1/tasks", &json!({"id": "one", "type": "sum"})).await.ok(201);
    let claimed = hub.post(&bob, "/v1/tasks/claim", &json!({"leaseMs": 600_000})).await.ok(200);
    for _ in 0..3 {
        advance(&hub, &clock, 20).await;
        assert_eq!(status_of(&hub, "bob").await["status"], "working");
        hub.get(&bob, "/v1/info").await.ok(200);
    }
    let offline = until_offline(&hub, &clock, "bob").await;
    assert_eq!((&offline["available"], &offline["load"]["tasks"]), (&json!(false), &json!(1)), "{offline}");
    // It only thought for long: its result is accepted.
    let done = json!({"leaseToken": claimed["tasks"][0]["leaseToken"], "result": 3});
    hub.post(&bob, "/v1/tasks/one/complete", &done).await.ok(200);
    let shown = status_of(&hub, "bob").await;
    assert_eq!((&shown["status"], &shown["available"]), (&json!("idle"), &json!(true)), "{shown}");
}

// Fails under: a call that does not count because it was refused, failed to parse, or writes nothing.
#[tokio::test]
async fn d6_refused_calls_count_as_heartbeats() {
    let clock = ManualClock::at(NOON);
    let hub = TestHub::with_clock(clock.clone(), Settings::default()).await;
    let bob = hub.register("bob").await;
    hub.put(&bob, "/v1/agents/bob", &json!({"heartbeatMs": 1_000})).await.ok(200);
    for (method, path, body, status) in [
        ("POST", "/v1/messages", r#"{"to":"nobody","payload":1}"#, 404),
        ("POST", "/v1/commit", r#"{"ops":[{"op":"put","key":"k","content":1,"expect":5}]}"#, 409),
        ("POST", "/v1/messages", "[", 400),
        ("PUT", "/v1/policy", r#"{"preset":"mesh"}"#, 403),
        ("POST", "/v1/agents/alice/inbox/claim", "{}", 403),
        ("GET", "/v1/tasks/none", "", 404),
        ("GET", "/v1/tasks/none?with=nothing", "", 400),
        ("POST", "/v1/messages", r#"{"to":"bob","payload":1,"durability":"ephemeral"}"#, 200),
    ] {
        // Three missed heartbeats are 3 s.
        advance(&hub, &clock, 2).await;
        let answer = hub.send_text(&bob, method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text);
        assert_eq!(status_of(&hub, "bob").await["status"], "idle", "before {method} {path}");
    }
    advance(&hub, &clock, 2).await;
    assert_eq!(status_of(&hub, "bob").await["status"], "idle", "the last one counted");
}

// Fails under: a process of an earlier epoch that keeps its successor alive; an output that depends on a conduct flag.
#[tokio::test]
async fn d6_calls_of_an_earlier_epoch_and_conduct_flags_are_no_heartbeats() {
    let clock = ManualClock::at(NOON);
    let hub = TestHub::with_clock(clock.clone(), Settings::default()).await;
    let bob = hub.register("bob").await;
    let again = hub.put(&bob, "/v1/agents/bob", &json!({"heartbeatMs": 1_000})).await.ok(200);
    let earlier = (again["epoch"].as_u64().expect("an epoch") - 1).to_string();
    let flag = r#"{"to":"bob","payload":{"type":"coc_violation_flag","flag_type":"spam"}}"#;
    for _ in 0..6 {
        advance(&hub, &clock, 1).await;
        let stale = [("quorate-epoch", earlier.as_str())];
        hub.with_headers(&bob, ("POST", "/v1/messages"), &stale, r#"{"to":"bob","payload":1}"#).await;
        hub.with_headers(&bob, ("GET", "/v1/info"), &stale, "").await;
        hub.send_text(&bob, "POST", "/v1/messages", flag).await.ok(200);
    }
    until_offline(&hub, &clock, "bob").await;
}

/// Sends a request over its own connection, which closes when the result is dropped.
async fn send_raw(server: &TestServer, token: &str, (method, path): (&str, &str), body: &str) -> TcpStream {
    let mut stream = connect_plain(server.address()).await;
    let request = format_request(method, path, &bearer_header(token), body);
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    stream
}

// Fails under: a closed connection of a waiting call that does not show; one that shows although the agent still waits
// elsewhere, or although the call was answered.
#[tokio::test]
async fn n5_a_closed_connection_of_a_waiting_call_shows_at_once() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let bob = hub.register_with_capabilities("bob", &["sum"]).await;
    hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({"waitMs": 1})).await.ok(200);
    assert_eq!(status_of(hub, "bob").await.get("disconnectedAt"), None, "it was answered");
    let claim = ("POST", "/v1/agents/bob/inbox/claim");
    let claims = [
        send_raw(&server, &bob, claim, r#"{"waitMs":20000}"#).await,
        send_raw(&server, &bob, claim, r#"{"waitMs":20000}"#).await,
    ];
    until(hub, "bob", |shown| shown["load"]["listening"] == 2).await;
    let [first, second] = claims;
    drop(first);
    let one_left = until(hub, "bob", |shown| shown["load"]["listening"] == 1).await;
    assert_eq!(one_left.get("disconnectedAt"), None, "{one_left}");
    drop(second);
    let gone = until(hub, "bob", |shown| shown["disconnectedAt"].is_string()).await;
    assert_eq!((&gone["status"], &gone["load"]["listening"]), (&json!("idle"), &json!(0)), "{gone}");
    hub.register("alice").await;
    let request = r#"{"to":"alice","payload":1,"timeoutMs":20000}"#;
    let stream = send_raw(&server, &bob, ("POST", "/v1/request"), request).await;
    until(hub, "bob", |shown| shown["load"]["asking"] == 1 && shown.get("disconnectedAt").is_none()).await;
    drop(stream);
    // The hub cancels the request for the agent, which is not an activity of it.
    until(hub, "bob", |shown| shown["load"]["asking"] == 0).await;
    until(hub, "bob", |shown| shown["disconnectedAt"].is_string()).await;
}

// Fails under: a closed event stream that does not show, or that shows while another one is open.
#[tokio::test]
async fn n5_a_closed_event_stream_shows_at_once() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let bob = hub.register("bob").await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = send_raw(&server, &bob, ("GET", "/v1/events"), "").await;
        let mut head = [0; 15];
        stream.read_exact(&mut head).await.expect("an answer");
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        streams.push(stream);
    }
    assert_eq!(status_of(hub, "bob").await.get("disconnectedAt"), None);
    drop(streams.pop());
    assert_eq!(status_of(hub, "bob").await.get("disconnectedAt"), None);
    drop(streams.pop());
    until(hub, "bob", |shown| shown["disconnectedAt"].is_string()).await;
    hub.get(&bob, "/v1/info").await.ok(200);
    until(hub, "bob", |shown| shown.get("disconnectedAt").is_none()).await;
}

// Fails under: a closed connection that shows late, or that ends a lease; a connection that resumes and stays marked.
#[tokio::test]
async fn n5_a_closed_connection_shows_at_once() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let (mut connected, welcome) = server.hello(json!({"token": bob})).await;
    let shown = status_of(hub, "bob").await;
    assert_eq!((shown["heartbeatMs"].as_u64(), shown.get("disconnectedAt")), (Some(10_000), None), "{shown}");
    connected.credit(1, 1_000_000).await;
    let mut sent = Vec::new();
    for payload in 0..4 {
        let message =
            hub.post(&alice, "/v1/messages", &json!({"to": "bob", "payload": payload})).await.ok(200);
        sent.push(message["receipts"][0]["id"].as_str().expect("an id").to_owned());
    }
    let (number, held) = connected.deliveries(1).await.remove(0);
    drop(connected);
    let shown = until(hub, "bob", |shown| shown["disconnectedAt"].is_string()).await;
    assert_eq!((&shown["status"], &shown["load"]["leased"]), (&json!("working"), &json!(1)), "{shown}");
    let why = hub.get(&alice, &format!("/v1/messages/{}/why", sent[3])).await.ok(200);
    assert!(why["sentence"].as_str().is_some_and(|text| text.contains("bob disconnected at ")), "{why}");
    assert_eq!(why["waitsFor"]["kind"], "return", "{why}");
    let status = hub.get(&hub.admin, "/v1/status").await.ok(200);
    let stuck = &status["stuck"][0];
    assert_eq!(
        (&stuck["kind"], &stuck["name"], &stuck["waiting"]),
        (&json!("inbox"), &json!("bob"), &json!(3))
    );
    let reason = stuck["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("bob disconnected ") && reason.ends_with(" s ago, 3 messages wait"),
        "{reason}"
    );
    // The lease is still its own.
    let (mut back, _) = server.hello(json!({"token": bob, "epoch": welcome["epoch"], "resume": true})).await;
    back.credit(1, 1_000_000).await;
    let (_, again) = back.deliveries(1).await.remove(0);
    assert_eq!((number, &again["leaseToken"]), (1, &held["leaseToken"]), "{again}");
    assert_eq!(status_of(hub, "bob").await.get("disconnectedAt"), None);
    assert_eq!(hub.get(&hub.admin, "/v1/status").await.ok(200)["stuck"], json!([]));
}

// Fails under: a restart taken for activity; a closed connection that it forgets; an agent that has acted and stays marked.
#[tokio::test]
async fn n21_an_agent_is_not_seen_after_a_restart_until_it_acts() {
    let clock = ManualClock::at(NOON);
    let hub = TestHub::with_clock(clock.clone(), Settings::default()).await;
    let bob = hub.register_with_capabilities("bob", &["sum"]).await;
    hub.post(&hub.admin, "/v1/tasks", &json!({"id": "one", "type": "sum"})).await.ok(201);
    hub.post(&bob, "/v1/tasks/claim", &json!({"leaseMs": 600_000})).await.ok(200);
    hub.post(&hub.admin, "/v1/procedures", &json!({"id": "p1", "kind": "custom", "driver": "bob"}))
        .await
        .ok(201);
    let before = status_of(&hub, "bob").await;
    let expected = (&json!("2026-11-18T12:00:00.000Z"), None);
    assert_eq!((&before["heardAt"], before.get("notSeenSince")), expected, "{before}");
    clock.advance(Duration::from_secs(5));
    let hub = hub.reopen(clock.clone()).await;
    let after = status_of(&hub, "bob").await;
    let expected = (None, &json!("2026-11-18T12:00:05.000Z"));
    assert_eq!((after.get("heardAt"), &after["notSeenSince"]), expected, "{after}");
    let status = hub.get(&hub.admin, "/v1/status").await.ok(200);
    let gone = "bob has not been seen since the restart at 12:00:05";
    let procedures = json!({
        "kind": "procedures", "name": "bob", "waiting": 1, "agents": ["bob"], "procedure": "p1",
        "reason": format!("{gone}, 1 procedure waits"), "since": "2026-11-18T12:00:00.000Z",
    });
    let inbox = json!({
        "kind": "inbox", "name": "bob", "waiting": 1, "agents": ["bob"],
        "reason": format!("{gone}, 1 message waits"),
    });
    let held = json!({
        "kind": "held", "name": "bob", "waiting": 1, "agents": ["bob"], "task": "one",
        "reason": format!("{gone}, holds 1 task until 12:10:05"), "until": "2026-11-18T12:10:05.000Z",
    });
    assert_eq!(status["stuck"], json!([inbox, procedures, held]), "{status}");
    for (path, next) in
        [("/v1/tasks/one/why", &json!("2026-11-18T12:10:05.000Z")), ("/v1/procedures/p1/why", &Value::Null)]
    {
        let why = hub.get(&hub.admin, path).await.ok(200);
        assert!(why["sentence"].as_str().is_some_and(|text| text.ends_with(&format!("; {gone}"))), "{why}");
        assert_eq!(&why["nextAt"], next, "{why}");
    }
    hub.get(&bob, "/v1/info").await.ok(200);
    advance(&hub, &clock, 2).await;
    let back = status_of(&hub, "bob").await;
    assert_eq!((back["heardAt"].is_string(), back.get("notSeenSince")), (true, None), "{back}");
    assert_eq!(hub.get(&hub.admin, "/v1/status").await.ok(200)["stuck"][1], Value::Null);
}

// Fails under: work that waits without being reported.
#[tokio::test]
async fn n5_the_status_shows_what_is_stuck_and_what_runs() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    hub.post(&alice, "/v1/tasks", &json!({"id": "one", "type": "fly"})).await.ok(201);
    hub.put(&alice, "/v1/budgets/b1", &json!({"messagesMax": 5})).await.ok(200);
    hub.put(&hub.admin, "/v1/budgets/b2", &json!({"messagesMax": 0})).await.ok(200);
    for payload in 0..4 {
        let message = json!({"to": "alice", "payload": payload, "budget": "b1"});
        hub.post(&alice, "/v1/messages", &message).await.ok(200);
    }
    hub.post(&alice, "/v1/procedures", &json!({"id": "p1", "kind": "custom", "driver": "alice"}))
        .await
        .ok(201);
    let status = hub.get(&hub.admin, "/v1/status").await.ok(200);
    let expected = json!([{
        "kind": "taskType", "name": "fly", "waiting": 1, "agents": [], "task": "one",
        "reason": "no agent has the capability fly, 1 task waits", "since": status["stuck"][0]["since"],
    }]);
    assert_eq!(status["stuck"], expected, "{status}");
    assert_eq!(status["runningProcedures"][0]["id"], "p1", "{status}");
    let ids: Vec<_> =
        status["lowBudgets"].as_array().expect("a list").iter().map(|found| &found["id"]).collect();
    assert_eq!(ids, [&json!("b2"), &json!("b1")], "{status}");
    assert_eq!(status["violations"], json!([]), "{status}");
    let own = hub.get(&alice, "/v1/status").await.ok(200);
    let ids: Vec<_> =
        own["lowBudgets"].as_array().expect("a list").iter().map(|found| &found["id"]).collect();
    assert_eq!((ids, own.get("violations")), (vec![&json!("b1")], None), "{own}");
}

/// A rationale over the limit of every policy.
fn long_rationale() -> Value {
    json!({"to": "lead", "payload": 1, "rationale": "x".repeat(1_001)})
}

// Fails under: a refusal that is not counted; one message per refusal; violations that a restart forgets.
#[tokio::test]
async fn m9_violations_are_counted_reported_and_survive_a_restart() {
    let clock = ManualClock::at(NOON);
    let hub = TestHub::with_clock(clock.clone(), Settings::default()).await;
    hub.put(&hub.admin, "/v1/policy", &json!({"preset": "supervised"})).await.ok(200);
    hub.put(&hub.admin, "/v1/agents/lead", &json!({"role": "coordinator"})).await.ok(201);
    let (bob, _) = (hub.register("bob").await, hub.register("carol").await);
    for _ in 0..20 {
        hub.post(&bob, "/v1/messages", &json!({"to": "carol", "payload": 1}))
            .await
            .refused(403, "POLICY_VIOLATION");
    }
    hub.post(&bob, "/v1/messages", &long_rationale()).await.refused(413, "TOO_LARGE");
    let looping = json!({"to": "lead", "payload": 1, "hops": 60_000});
    hub.post(&bob, "/v1/messages", &looping).await;
    let listed = |listed: &Value| -> Vec<Value> {
        let all = listed["violations"].as_array().expect("a list").iter();
        all.map(|found| json!([found["principal"], found["rule"], found["code"], found["count"]])).collect()
    };
    let found = listed(&hub.get(&hub.admin, "/v1/violations").await.ok(200));
    let expected = [
        json!(["agent:bob", "supervised", "POLICY_VIOLATION", 20]),
        json!(["agent:bob", "rationaleCharsMax", "TOO_LARGE", 1]),
    ];
    assert_eq!(found[..2], expected);
    // The report is sent in the background.
    let mut seconds = 0;
    while status_of(&hub, "lead").await["load"]["open"] == 0 {
        seconds += 1;
        assert!(seconds <= 60, "no report");
        advance(&hub, &clock, 1).await;
    }
    // More of the same is counted, but not reported again.
    for _ in 0..5 {
        hub.post(&bob, "/v1/messages", &json!({"to": "carol", "payload": 1}))
            .await
            .refused(403, "POLICY_VIOLATION");
    }
    advance(&hub, &clock, 30).await;
    let inbox = hub.post(&hub.admin, "/v1/agents/lead/inbox/claim", &json!({"max": 10})).await.ok(200);
    let reported = inbox["deliveries"].as_array().expect("a list");
    assert_eq!(reported.len(), 1, "{inbox}");
    let message = &reported[0]["message"];
    assert_eq!(
        (&message["action"], &message["from"]),
        (&json!("policy.violated"), &Value::Null),
        "{message}"
    );
    assert_eq!(listed(&message["payload"])[..2], expected, "{message}");
    let hub = hub.reopen(clock).await;
    let found = listed(&hub.get(&hub.admin, "/v1/violations").await.ok(200));
    assert_eq!(found[0], json!(["agent:bob", "supervised", "POLICY_VIOLATION", 25]));
    assert_eq!(found[1], expected[1]);
    let status = hub.get(&hub.admin, "/v1/status").await.ok(200);
    assert_eq!(listed(&status).last(), Some(&found[0]), "{status}");
}

// Fails under: a deadlock or a loop that no operator can see.
#[tokio::test]
async fn n15_broken_deadlocks_are_listed() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let (mut alice, mut bob) = (server.connect_agent(&alice).await, server.connect_agent(&bob).await);
    alice.ok("acquireLocks", json!({"name": "a", "ttlMs": 60_000})).await;
    bob.ok("acquireLocks", json!({"name": "b", "ttlMs": 60_000})).await;
    alice.send_numbered("acquireLocks", json!({"name": "b", "waitMs": 60_000})).await;
    alice
        .ok("commit", json!({"ops": [{"op": "put", "key": "k", "content": 1}], "idempotencyKey": "k"}))
        .await;
    bob.refused("acquireLocks", json!({"name": "a", "waitMs": 60_000}), "DEADLOCK").await;
    let listed = hub.get(&hub.admin, "/v1/violations").await.ok(200);
    let found = &listed["violations"][0];
    let shown = (&found["rule"], &found["principal"], &found["code"]);
    assert_eq!(shown, (&json!("deadlock"), &json!("agent:bob"), &json!("DEADLOCK")), "{listed}");
}
