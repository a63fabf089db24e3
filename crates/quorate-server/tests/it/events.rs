//! `GET /v1/events` and `GET /v1/state`: following the log from any position.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use quorate_server::{Settings, Timeouts};
use quorate_store::ManualClock;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::TestHub;
use crate::support::openapi_check::check_event;
use crate::support::socket::TestServer;

/// Start of the manual clock: 2027-01-15T08:00:00Z.
const NOON: u64 = 1_800_000_000_000;

/// A reader of an event stream.
pub(crate) struct Reader {
    body: Body,
    text: String,
}

impl Reader {
    pub(crate) async fn open(hub: &TestHub, token: &str, query: &str, seen: Option<u64>) -> Self {
        let uri = format!("/v1/events{query}");
        let mut request = Request::builder().uri(uri).header("host", "localhost");
        request = request.header("authorization", format!("Bearer {token}"));
        if let Some(seen) = seen {
            request = request.header("last-event-id", seen);
        }
        let response = hub.app.handle(request.body(Body::empty()).expect("a request")).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), text: String::new() }
    }

    /// Returns the next event that is not a comment; `None` at the end.
    async fn piece(&mut self) -> Option<String> {
        loop {
            if let Some((piece, rest)) = self.text.split_once("\n\n") {
                let (piece, rest) = (piece.to_owned(), rest.to_owned());
                self.text = rest;
                if !piece.starts_with(':') {
                    return Some(piece);
                }
                continue;
            }
            let next = tokio::time::timeout(Duration::from_secs(10), self.body.frame()).await;
            let frame = next.expect("in time")?.expect("a frame").into_data().expect("data");
            self.text.push_str(std::str::from_utf8(&frame).expect("text"));
        }
    }

    async fn next(&mut self) -> Value {
        let piece = self.piece().await.expect("an event");
        let lines: Vec<&str> = piece.lines().collect();
        assert_eq!((lines.len(), lines[1]), (3, "event: record"), "{piece}");
        let event: Value = serde_json::from_str(&lines[2]["data: ".len()..]).expect("JSON");
        assert_eq!(lines[0], format!("id: {}", event["seq"]));
        check_event(&event);
        event
    }

    /// Returns the events up to a sequence number.
    pub(crate) async fn until(&mut self, seq: u64) -> Vec<Value> {
        let mut received = Vec::new();
        while received.last().is_none_or(|last: &Value| last["seq"].as_u64() < Some(seq)) {
            received.push(self.next().await);
        }
        received
    }
}

async fn head(hub: &TestHub) -> u64 {
    hub.get(&hub.admin, "/v1/state").await.ok(200)["seq"].as_u64().expect("a number")
}

fn effects(events: &[Value]) -> Vec<String> {
    let effects = events.iter().flat_map(|event| event["effects"].as_array().expect("a list"));
    effects.map(|effect| effect["effect"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn every_record_is_one_event_in_order_and_without_payloads() {
    let hub = TestHub::new().await;
    let mut live = Reader::open(&hub, &hub.admin, "?from=1", None).await;
    let (alice, _) = (hub.register("alice").await, hub.register("bob").await);
    let message = json!({"to": "bob", "action": "x", "payload": "the-content-of-the-payload"});
    hub.post(&alice, "/v1/messages", &message).await.ok(200);
    let last = head(&hub).await;
    let received = live.until(last).await;
    assert_eq!(
        received.iter().map(|event| event["seq"].as_u64().expect("a number")).collect::<Vec<_>>(),
        (1..=last).collect::<Vec<_>>()
    );
    let sent = received.last().expect("an event");
    assert_eq!((&sent["kind"], &sent["principal"]), (&"commit".into(), &"agent:alice".into()));
    assert_eq!(sent["effects"][0]["effect"], "message.sent");
    let message = &sent["effects"][0]["message"];
    assert_eq!((&message["from"], &message["to"]), (&"alice".into(), &"bob".into()));
    assert!(sent["at"].is_string());
    assert!(!format!("{received:?}").contains("the-content-of-the-payload"));
    // A reconnecting client sends its position; the header takes precedence over the query.
    let mut resumed = Reader::open(&hub, &hub.admin, "?from=1", Some(last - 1)).await;
    assert_eq!(resumed.next().await, *sent);
    // Without a position the stream starts at the head.
    let mut now = Reader::open(&hub, &hub.admin, "", None).await;
    hub.put(&alice, "/v1/context/plan", &json!({"content": 1})).await;
    assert_eq!(now.next().await["seq"], last + 1);
    hub.get(&hub.admin, "/v1/events?from=x").await.refused(400, "INVALID");
}

#[tokio::test]
async fn i16_an_agent_sees_its_own_and_public_events() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let carol = hub.register("carol").await;
    let start = head(&hub).await + 1;
    hub.post(&alice, "/v1/messages", &json!({"to": ["bob", "carol"], "action": "both", "payload": 1}))
        .await
        .ok(200);
    hub.post(&alice, "/v1/messages", &json!({"to": "carol", "action": "secret", "payload": 2})).await.ok(200);
    hub.post(&carol, "/v1/agents/carol/inbox/claim", &json!({"max": 9})).await.ok(200);
    let token = json!({"role": "viewer", "name": "looker"});
    let viewer = hub.post(&hub.admin, "/v1/tokens", &token).await.ok(201)["token"]
        .as_str()
        .expect("a token")
        .to_owned();
    hub.put(&carol, "/v1/context/plan", &json!({"content": 1})).await;
    let last = head(&hub).await;
    let query = format!("?from={start}");
    let seen = Reader::open(&hub, &bob, &query, None).await.until(last).await;
    assert_eq!(effects(&seen), ["message.sent", "entry.written"], "{seen:?}");
    let deliveries = &seen[0]["effects"][0]["deliveries"];
    assert_eq!((deliveries.as_array().map(Vec::len), &deliveries[0]["agent"]), (Some(1), &"bob".into()));
    let seen = Reader::open(&hub, &carol, &query, None).await.until(last).await;
    assert_eq!(
        effects(&seen),
        ["message.sent", "message.sent", "delivery.leased", "entry.written"],
        "{seen:?}"
    );
    let seen = Reader::open(&hub, &alice, &query, None).await.until(last).await;
    assert_eq!(seen[0]["effects"][0]["deliveries"].as_array().map(Vec::len), Some(2), "the sender sees both");
    let seen = Reader::open(&hub, &viewer, &query, None).await.until(last).await;
    assert_eq!(seen.len() as u64, last - start + 1, "an operator sees all events");
}

// Fails under: an effect that does not state whose delivery it is about, or a filter that ignores it.
#[tokio::test]
async fn i7_an_agent_sees_external_changes_of_its_deliveries() {
    let clock = ManualClock::at(NOON);
    let hub = TestHub::with_clock(clock.clone(), Settings::default()).await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let carol = hub.register("carol").await;
    let start = head(&hub).await + 1;
    let messages = json!([
        {"to": "bob", "payload": 1, "maxAttempts": 1},
        {"to": "bob", "payload": 2, "expiresAt": "2027-01-15T08:01:00.000Z"},
        {"to": "carol", "payload": 4, "maxAttempts": 1},
    ]);
    hub.post(&alice, "/v1/messages", &messages).await.ok(200);
    let claim = json!({"max": 1, "leaseMs": 1_000});
    let held = hub.post(&bob, "/v1/agents/bob/inbox/claim", &claim).await.ok(200);
    hub.post(&carol, "/v1/agents/carol/inbox/claim", &claim).await.ok(200);
    clock.advance(Duration::from_secs(61));
    // The sweep runs automatically, and its effects are sent to followers.
    let mut all = Reader::open(&hub, &hub.admin, &format!("?from={start}&kind=delivery.expired"), None).await;
    all.next().await;
    let last = head(&hub).await;
    let query = format!("?from={start}&agent=bob&kind=delivery.returned,delivery.expired");
    for reader in [&hub.admin, &bob] {
        let seen = Reader::open(&hub, reader, &query, None).await.until(last).await;
        let mut names = effects(&seen);
        names.sort();
        assert_eq!(names, ["delivery.expired", "delivery.returned"], "{seen:?}");
        let text = format!("{seen:?}");
        assert!(!text.contains("carol"), "{text}");
        let returned = seen.iter().flat_map(|event| event["effects"].as_array().expect("a list"));
        let returned = returned.clone().find(|effect| effect["effect"] == "delivery.returned").expect("one");
        let delivery = &held["deliveries"][0];
        assert_eq!(
            (&returned["deliveryId"], &returned["messageId"], &returned["agent"], &returned["next"]),
            (&delivery["deliveryId"], &delivery["message"]["id"], &"bob".into(), &"dead".into())
        );
    }
}

/// Returns the effects from a sequence number to the head, and their events.
async fn effects_from(hub: &TestHub, start: u64) -> (Vec<Value>, Vec<Value>) {
    let last = head(hub).await;
    let seen = Reader::open(hub, &hub.admin, &format!("?from={start}"), None).await.until(last).await;
    let all = seen.iter().flat_map(|event| event["effects"].as_array().expect("a list").clone()).collect();
    (seen, all)
}

// Fails under: an effect that renders a resource with other fields or values than the call that returns it.
#[tokio::test]
async fn an_effect_renders_resources_as_rest_does() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let start = head(&hub).await + 1;
    hub.post(&alice, "/v1/sessions", &json!({"id": "s1", "title": "S", "task": 1})).await.ok(201);
    hub.post(&alice, "/v1/tasks", &json!({"id": "t1", "type": "x", "input": [1], "priority": 7}))
        .await
        .ok(201);
    let claim = json!({"types": ["x"]});
    let work = hub.post(&bob, "/v1/tasks/claim", &claim).await.ok(200)["tasks"][0].clone();
    let failed = json!({"leaseToken": work["leaseToken"], "reason": "no disk", "recoverable": false});
    hub.post(&bob, "/v1/tasks/t1/fail", &failed).await.ok(200);
    hub.post(&alice, "/v1/locks/l/acquire", &json!({"ttlMs": 60_000})).await.ok(200);
    hub.put(&alice, "/v1/budgets/b", &json!({"messagesMax": 9})).await;
    let proposed = json!({"id": "a1", "action": "deploy", "payload": {"to": "production"}});
    hub.post(&alice, "/v1/approvals", &proposed).await.ok(201);
    hub.post(&alice, "/v1/procedures", &json!({"id": "p1", "kind": "own", "driver": "alice"})).await.ok(201);
    hub.put(&alice, "/v1/context/plan", &json!({"type": "note", "content": 1})).await;
    let (seen, all) = effects_from(&hub, start).await;
    let newest =
        |resource: &str| all.iter().rev().find(|effect| effect.get(resource).is_some()).expect("an effect");
    for (resource, path) in [
        ("session", "/v1/sessions/s1"),
        ("task", "/v1/tasks/t1"),
        ("lock", "/v1/locks/l"),
        ("budget", "/v1/budgets/b"),
        ("approval", "/v1/approvals/a1"),
        ("procedure", "/v1/procedures/p1"),
        ("entry", "/v1/context/plan"),
    ] {
        let response = hub.get(&hub.admin, path).await.ok(200);
        let rendered = newest(resource)[resource].as_object().expect("the resource");
        assert!(rendered.len() >= 4, "{rendered:?}");
        for (field, value) in rendered {
            assert_eq!(value, &response[field], "{resource}.{field}");
        }
    }
    let task = newest("task");
    let attempt = &task["failedAttempt"];
    assert_eq!((&attempt["reason"], &attempt["holder"]), (&"no disk".into(), &"bob".into()));
    assert_eq!(task["payloads"][0]["field"], "input");
    let state = hub.get(&alice, "/v1/state").await.ok(200);
    assert_eq!(state["sessions"][0], newest("session")["session"]);
    assert_eq!(state["locks"][0], newest("lock")["lock"]);
    assert_eq!(state["pendingApprovals"][0], newest("approval")["approval"]);
    assert_eq!(state["runningProcedures"][0], newest("procedure")["procedure"]);
    // The audit log renders the same.
    let lines = hub.get(&hub.admin, &format!("/v1/audit?from={start}")).await;
    for (line, event) in lines.text.lines().zip(&seen) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["effects"], event["effects"]);
    }
}

// Fails under: an effect that renders a message or a delivery with other fields or values than the calls.
#[tokio::test]
async fn an_effect_renders_messages_and_deliveries_as_rest_does() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let start = head(&hub).await + 1;
    let message = json!({"id": "mine", "to": "bob", "payload": 1, "priority": "high",
        "expiresAt": "2100-01-01T00:00:00.000Z", "metadata": {"n": 1.0}});
    let messages = json!([message, {"to": "bob", "payload": 2}]);
    let receipts = hub.post(&alice, "/v1/messages", &messages).await.ok(200)["receipts"].clone();
    let claim = json!({"max": 1, "leaseMs": 60_000});
    let held = hub.post(&bob, "/v1/agents/bob/inbox/claim", &claim).await.ok(200)["deliveries"][0].clone();
    let lease = json!({"deliveryId": held["deliveryId"], "leaseToken": held["leaseToken"]});
    hub.post(&bob, "/v1/agents/bob/inbox/ack", &json!({"deliveries": [lease]})).await.ok(200);
    let (_, all) = effects_from(&hub, start).await;
    let (first, second) = (&all[0], &all[1]);
    assert_eq!((&first["message"]["id"], &second["message"]["id"]), (&receipts[0]["id"], &receipts[1]["id"]));
    let id = first["message"]["id"].as_str().expect("an id");
    let response = hub.get(&bob, &format!("/v1/messages/{id}")).await.ok(200);
    for (field, value) in first["message"].as_object().expect("an envelope") {
        assert_eq!(value, &response[field], "message.{field}");
    }
    assert_eq!(first["deliveries"][0]["deliveryId"], response["deliveries"][0]["deliveryId"]);
    let leased = all.iter().find(|effect| effect["effect"] == "delivery.leased").expect("leased");
    let acked = all
        .iter()
        .find(|effect| effect["effect"] == "delivery.ackedMany" || effect["effect"] == "delivery.acked");
    let acked = acked.expect("acked");
    let acked = acked.get("deliveries").map_or(acked, |many| &many[0]);
    for delivery in [&leased["deliveries"][0], acked] {
        for field in ["deliveryId", "leaseToken"] {
            assert_eq!(delivery[field], held[field], "{delivery}");
        }
        assert_eq!((&delivery["messageId"], &delivery["agent"]), (&first["message"]["id"], &"bob".into()));
    }
}

#[tokio::test]
async fn events_are_filtered_by_kind_agent_and_session() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    hub.post(&alice, "/v1/sessions", &json!({"id": "s1", "title": "S"})).await.ok(201);
    hub.post(&alice, "/v1/messages", &json!({"to": "bob", "payload": 1, "sessionId": "s1"})).await.ok(200);
    hub.put(&bob, "/v1/context/plan", &json!({"content": 1})).await;
    hub.post(&alice, "/v1/sessions/s1/add", &json!({"kind": "note", "body": 1})).await.ok(201);
    let last = head(&hub).await;
    let chosen = async |query: &str| Reader::open(&hub, &hub.admin, query, None).await.next().await;
    assert_eq!(effects(&[chosen("?from=1&kind=entry.written").await]), ["entry.written"]);
    let of_bob = chosen("?from=1&kind=message.sent,entry.written&agent=bob").await;
    assert_eq!(effects(&[of_bob]), ["message.sent"]);
    let seen = Reader::open(&hub, &hub.admin, "?from=1&session=s1", None).await.until(last).await;
    let names = effects(&seen);
    assert!(
        names.contains(&"message.sent".to_owned()) && !names.contains(&"entry.written".to_owned()),
        "{names:?}"
    );
    assert_eq!(names.len(), 3, "{names:?}");
}

#[tokio::test]
async fn a_client_can_read_any_state_and_follow_from_there() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    hub.post(&alice, "/v1/messages", &json!({"to": "bob", "payload": 1})).await.ok(200);
    let before = head(&hub).await;
    hub.post(&alice, "/v1/sessions", &json!({"id": "s1", "title": "S"})).await.ok(201);
    hub.post(&alice, "/v1/locks/l/acquire", &json!({"ttlMs": 60_000})).await.ok(200);
    hub.post(&alice, "/v1/tasks", &json!({"id": "t", "type": "x"})).await;
    let proposed = json!({"action": "deploy", "payload": {"to": "production"}});
    hub.post(&alice, "/v1/approvals", &proposed).await.ok(201);
    hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({})).await.ok(200);
    let now = hub.get(&bob, "/v1/state").await.ok(200);
    let earlier = hub.get(&bob, &format!("/v1/state?at={before}")).await.ok(200);
    assert_eq!(
        (&earlier["seq"], &earlier["deliveries"]["ready"], &earlier["sessions"]),
        (&before.into(), &1.into(), &json!([]))
    );
    assert_eq!((&now["deliveries"]["ready"], &now["deliveries"]["leased"]), (&0.into(), &1.into()));
    assert_eq!(
        (&now["sessions"][0]["id"], &now["locks"][0]["holders"][0]["agent"]),
        (&"s1".into(), &"alice".into())
    );
    assert_eq!((&now["tasks"]["ready"], &now["openTasks"][0]["id"]), (&1.into(), &"t".into()), "{now}");
    assert_eq!((&earlier["openTasks"], &earlier["pendingApprovals"]), (&json!([]), &json!([])));
    // Bob does not see the approvals of alice.
    let tokens = [&hub.admin, &alice, &bob];
    for (token, count) in tokens.into_iter().zip([1, 1, 0]) {
        let seen = hub.get(token, "/v1/state").await.ok(200);
        assert_eq!(seen["pendingApprovals"].as_array().map(Vec::len), Some(count), "{seen}");
    }
    assert_eq!(earlier["agents"].as_array().map(Vec::len), Some(2));
    // The replayed state equals the current state.
    let last = now["seq"].as_u64().expect("a number");
    hub.put(&alice, "/v1/context/plan", &json!({"content": 1})).await;
    let folded = hub.get(&bob, &format!("/v1/state?at={last}")).await.ok(200);
    assert_eq!(folded, now);
    let mut tail = Reader::open(&hub, &bob, &format!("?from={}", last + 1), None).await;
    assert_eq!(effects(&[tail.next().await]), ["entry.written"]);
    hub.get(&bob, "/v1/state?at=99999").await.refused(404, "NOT_FOUND");
    hub.get(&bob, "/v1/state?at=0").await.refused(404, "NOT_FOUND");
}

// Fails under: a list that is truncated without notice; lists that contain ended items.
#[tokio::test]
async fn i21_a_truncated_state_is_marked() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let graph = |from: u32, to: u32| -> Vec<Value> {
        (from..to).map(|n| json!({"id": format!("t{n:04}"), "type": "x"})).collect()
    };
    for from in [0, 500] {
        hub.post(&alice, "/v1/tasks", &json!({"tasks": graph(from, from + 500)})).await.ok(201);
    }
    let whole = hub.get(&alice, "/v1/state").await.ok(200);
    assert_eq!((whole["openTasks"].as_array().map(Vec::len), &whole["more"]), (Some(1_000), &json!([])));
    hub.post(&alice, "/v1/tasks", &json!({"tasks": graph(1_000, 1_001)})).await.ok(201);
    let at = head(&hub).await;
    hub.post(&hub.admin, "/v1/tasks/t0000/cancel", &json!({})).await.ok(200);
    let cut = hub.get(&alice, &format!("/v1/state?at={at}")).await.ok(200);
    assert_eq!(
        (cut["openTasks"].as_array().map(Vec::len), &cut["more"]),
        (Some(1_000), &json!(["openTasks"]))
    );
    let whole = hub.get(&alice, "/v1/state").await.ok(200);
    assert_eq!((&whole["openTasks"][0]["id"], &whole["more"]), (&"t0001".into(), &json!([])));
}

// Fails under: the next sequence number computed with a plain `+ 1`.
#[tokio::test]
async fn i21_the_largest_sequence_number_returns_no_old_events() {
    let hub = TestHub::new().await;
    let bob = hub.register("bob").await;
    let first = |reader: Reader| async move {
        let mut reader = reader;
        let frame = reader.body.frame().await.expect("a piece").expect("a frame");
        String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text")
    };
    for (query, seen) in
        [("", Some(u64::MAX)), ("", Some(u64::MAX - 1)), ("?from=18446744073709551615", None)]
    {
        let response = first(Reader::open(&hub, &bob, query, seen).await).await;
        assert_eq!(response, format!(": from {}\n\n", u64::MAX), "{query} after {seen:?}");
    }
    for query in [
        "?from=18446744073709551615",
        "?from=1&seq=18446744073709551615&hash=0000000000000000000000000000000000000000000000000000000000000000",
    ] {
        let response = hub.get(&hub.admin, &format!("/v1/audit/verify{query}")).await;
        assert!(response.status == 404 || response.ok(200)["ok"] == false, "{query}: {}", response.text);
    }
}

#[tokio::test]
async fn i19_a_revoked_token_ends_its_event_stream() {
    let hub = TestHub::new().await;
    let bob = hub.register("bob").await;
    let mut live = Reader::open(&hub, &bob, "", None).await;
    let tokens = hub.get(&hub.admin, "/v1/tokens").await.ok(200);
    let id = tokens["tokens"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|token| token["agent"] == "bob")
        .expect("bob's");
    hub.delete(&hub.admin, &format!("/v1/tokens/{}", id["id"].as_str().expect("an id"))).await.ok(200);
    // Bob may not see the effect that ended it: the stream just ends.
    while let Some(piece) = live.piece().await {
        assert!(piece.contains("\"token\""), "{piece}");
    }
}

#[tokio::test]
async fn i21_a_client_that_does_not_read_is_disconnected() {
    let timeouts = Timeouts { write: Duration::from_millis(300), ..Timeouts::default() };
    let server = TestServer::with_timeouts(timeouts).await;
    let hub = &server.hub;
    let alice = hub.register("alice").await;
    hub.register("bob").await;
    let mut stream = TcpStream::connect(server.address()).await.expect("a connection");
    let request = format!(
        "GET /v1/events?from=1 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
        hub.admin
    );
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    // Long names, to fill the socket buffer quickly.
    let many: Vec<_> =
        (0..60).map(|n| json!({"to": "bob", "payload": n, "rationale": "x".repeat(900)})).collect();
    for _ in 0..250 {
        hub.post(&alice, "/v1/messages", &json!(many)).await.ok(200);
    }
    // Reading starts now, and finds a truncated response: the final chunk is missing.
    let mut all = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut all)).await;
    assert!(ended.is_ok(), "the connection was cut");
    assert!(!all.ends_with(b"0\r\n\r\n"), "it did not end in peace");
}

/// Returns the status of a request over its own socket.
async fn status(server: &TestServer, path: &str, host: &str, origin: Option<&str>) -> u16 {
    let mut stream = TcpStream::connect(server.address()).await.expect("a connection");
    let origin = origin.map(|origin| format!("origin: {origin}\r\n")).unwrap_or_default();
    let upgrade = match path {
        "/v1/ws" => {
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        }
        _ => "",
    };
    let token = &server.hub.admin;
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {host}\r\n{origin}{upgrade}authorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    let mut line = [0; 12];
    stream.read_exact(&mut line).await.expect("an answer");
    String::from_utf8_lossy(&line[9..]).parse().expect("a status")
}

#[tokio::test]
async fn i19_host_and_origin_are_checked_on_every_transport() {
    let server = TestServer::new().await;
    let own = server.address().to_string();
    let localhost = format!("localhost:{}", server.address().port());
    for (path, ok_status) in [("/v1/info", 200), ("/v1/events", 200), ("/v1/ws", 101)] {
        for host in [own.as_str(), localhost.as_str(), "evil.example", "127.0.0.1.evil.example"] {
            let is_own = !host.contains("evil");
            let same = format!("http://{host}");
            for (origin, is_allowed) in [
                (None, true),
                (Some(same.as_str()), true),
                (Some("http://evil.example:1"), false),
                (Some("null"), false),
                (Some("http://127.0.0.1:1"), false),
            ] {
                let expected = if is_own && is_allowed { ok_status } else { 403 };
                let actual = status(&server, path, host, origin).await;
                assert_eq!(actual, expected, "{path} at {host} from {origin:?}");
            }
        }
    }
    assert_eq!(status(&server, "/v1/ws?x", &own, None).await, 400);
}
