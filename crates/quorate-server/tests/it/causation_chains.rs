//! D8 over HTTP: the hub computes hops and chains itself, whatever the sender states and whichever endpoint is used.

use serde_json::{Value, json};

use crate::support::TestHub;
use crate::support::socket::TestServer;

/// Sends a message and returns its id.
async fn send_message(hub: &TestHub, token: &str, message: &Value) -> String {
    let sent = hub.post(token, "/v1/messages", message).await.ok(200);
    sent["receipts"][0]["id"].as_str().expect("an id").to_owned()
}

async fn message_view(hub: &TestHub, id: &str) -> Value {
    hub.get(&hub.admin, &format!("/v1/messages/{id}")).await.ok(200)
}

/// Two agents answer each other, naming the cause, until the hub rejects a message. Returns the number of messages.
async fn play(hub: &TestHub, field: &str, message: impl Fn(usize) -> Value) -> (usize, Value) {
    let players = [("ping", hub.register("ping").await), ("pong", hub.register("pong").await)];
    let mut cause =
        send_message(hub, &players[0].1, &json!({"to": "pong", "action": "play", "payload": "first"})).await;
    for round in 1..200 {
        let (token, other) = (&players[round % 2].1, players[1 - round % 2].0);
        let mut next = message(round);
        next["to"] = other.into();
        next[field] = cause.into();
        let answer = hub.post(token, "/v1/messages", &next).await;
        if answer.status != 200 {
            return (round, answer.refused(409, "LOOP_REFUSED"));
        }
        let id = answer.ok(200)["receipts"][0]["id"].as_str().expect("an id").to_owned();
        assert_eq!(message_view(hub, &id).await["hops"], round, "{id}");
        cause = id;
    }
    panic!("it goes on without end");
}

// Fails under: hops that are taken from the sender.
#[tokio::test]
async fn d8_a_loop_with_named_causes_is_stopped_after_100_hops() {
    for field in ["causationId", "inReplyTo"] {
        let hub = TestHub::new().await;
        let (round, refused) = play(&hub, field, |round| json!({"action": "play", "payload": round})).await;
        assert_eq!((round, &refused["limit"]), (101, &json!(100)), "{field}");
    }
}

/// Two agents answer each other by acking and sending in one commit, without naming a cause, for at most `turns` turns.
/// Returns the number of accepted messages and the refusal of the next one.
async fn converse(hub: &TestHub, first: &Value, turns: usize) -> (usize, Option<Value>) {
    let players = [("ping", hub.register("ping").await), ("pong", hub.register("pong").await)];
    send_message(hub, &players[0].1, first).await;
    for turn in 1..=turns {
        let ((name, token), other) = (&players[turn % 2], players[1 - turn % 2].0);
        let ack = claim_ack(hub, token, name).await;
        let send = json!({"op": "send", "to": other, "payload": turn});
        let sent = hub.post(token, "/v1/commit", &json!({"ops": [send, ack]})).await;
        if sent.status != 200 {
            return (turn, Some(sent.refused(409, "LOOP_REFUSED")));
        }
    }
    (turns, None)
}

/// Claims one delivery and returns the operation that acks it.
async fn claim_ack(hub: &TestHub, token: &str, agent: &str) -> Value {
    let claimed = hub.post(token, &format!("/v1/agents/{agent}/inbox/claim"), &json!({})).await.ok(200);
    let held = &claimed["deliveries"][0];
    json!({"op": "ack", "deliveryId": held["deliveryId"], "leaseToken": held["leaseToken"]})
}

/// Commits the operations and returns the message that the last one sent.
async fn commit_last(hub: &TestHub, token: &str, ops: &[Value]) -> Value {
    let sent = hub.post(token, "/v1/commit", &json!({"ops": ops})).await.ok(200);
    let id = sent["results"].as_array().and_then(|results| results.last()?["id"].as_str()).expect("an id");
    message_view(hub, id).await
}

// Fails under: a commit whose acks are not the causes of what it sends; a limit of the chain that is not inherited.
#[tokio::test]
async fn d8_a_dialogue_of_acks_and_sends_has_a_limit_that_its_first_message_sets() {
    let hub = TestHub::new().await;
    let (turn, refused) = converse(&hub, &json!({"to": "pong", "payload": 0}), 150).await;
    assert_eq!((turn, &refused.expect("it is stopped")["limit"]), (101, &json!(100)));
    let hub = TestHub::new().await;
    let first = json!({"to": "pong", "payload": 0, "maxHops": 200});
    let (turn, refused) = converse(&hub, &first, 250).await;
    assert_eq!((turn, &refused.expect("it is stopped")["limit"]), (201, &json!(200)));
    let invalid = json!({"to": "pong", "maxHops": 10_001});
    hub.post(&hub.admin, "/v1/messages", &invalid).await.refused(400, "INVALID");
}

// Fails under: correlation or budget of several acked messages; the hops of one of them only; a cause over WebSocket
// that is not counted.
#[tokio::test]
async fn d8_a_commit_inherits_from_what_it_acks() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let set = json!({"ops": [{"op": "budget.set", "budget": "b1", "messagesMax": 9}]});
    hub.post(&alice, "/v1/commit", &set).await.ok(200);
    let first = json!({"to": "bob", "budget": "b1", "correlationId": "c1", "hops": 4, "payload": 1});
    for message in [&first, &json!({"to": "bob", "hops": 8, "payload": 2}), &first] {
        send_message(hub, &alice, message).await;
    }
    let answer = |payload: u64| json!({"op": "send", "to": "alice", "payload": payload});
    let fields = |message: &Value| ["hops", "correlationId", "budget"].map(|name| message[name].clone());
    let ack = claim_ack(hub, &bob, "bob").await;
    let single = commit_last(hub, &bob, &[ack, answer(1)]).await;
    assert_eq!(fields(&single), [json!(5), json!("c1"), json!("b1")]);
    let acks = [claim_ack(hub, &bob, "bob").await, claim_ack(hub, &bob, "bob").await];
    let both = commit_last(hub, &bob, &[acks[0].clone(), acks[1].clone(), answer(2)]).await;
    assert_eq!(fields(&both), [json!(9), Value::Null, Value::Null]);
    send_message(hub, &alice, &first).await;
    let mut socket = server.connect_agent(&bob).await;
    let received = socket.deliveries(1).await;
    let held = &received[0].1;
    let ack = json!({"op": "ack", "deliveryId": held["deliveryId"], "leaseToken": held["leaseToken"]});
    let sent = socket.ok("commit", json!({"ops": [ack, answer(3)], "idempotencyKey": "k"})).await;
    let sent = message_view(hub, sent["results"][1]["id"].as_str().expect("an id")).await;
    assert_eq!(fields(&sent), [json!(5), json!("c1"), json!("b1")]);
}

// Fails under: equal results of the jobs of one batch refused as a loop.
#[tokio::test]
async fn d8_equal_results_of_a_batch_are_no_loop() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let done = json!({"op": "send", "to": "alice", "action": "done", "payload": {}});
    for job in 0..5 {
        send_message(&hub, &alice, &json!({"to": "bob", "correlationId": "batch", "payload": job})).await;
        let ack = claim_ack(&hub, &bob, "bob").await;
        let result = commit_last(&hub, &bob, &[ack, done.clone()]).await;
        assert_eq!((&result["hops"], &result["correlationId"]), (&json!(1), &json!("batch")));
    }
}

// Fails under: a timer that is stopped as a loop; a message to oneself without a delay that starts a chain.
#[tokio::test]
async fn d8_a_delayed_message_to_oneself_starts_a_new_chain() {
    let hub = TestHub::new().await;
    let bob = hub.register("bob").await;
    send_message(&hub, &bob, &json!({"to": "bob", "maxHops": 1, "payload": "tick"})).await;
    let ack = claim_ack(&hub, &bob, "bob").await;
    let timer = json!({"op": "send", "to": "bob", "deliverAt": "2999-01-01T00:00:00Z", "payload": "tick"});
    let at_once = json!({"op": "send", "to": "bob", "payload": "tick"});
    let past = json!({"op": "send", "to": "bob", "deliverAt": "1999-01-01T00:00:00Z", "payload": "tick"});
    let sent = hub.post(&bob, "/v1/commit", &json!({"ops": [ack, timer, at_once, past]})).await.ok(200);
    let mut hops = Vec::new();
    for result in sent["results"].as_array().expect("results").iter().skip(1) {
        let message = message_view(&hub, result["id"].as_str().expect("an id")).await;
        hops.push((message["hops"].clone(), message["maxHops"].clone(), message["correlationId"].is_null()));
    }
    let (new, caused) = ((json!(0), Value::Null, true), (json!(1), json!(1), false));
    assert_eq!(hops, [new, caused.clone(), caused]);
}

// Fails under: responses that are not counted; a rejected answer to the last request.
#[tokio::test]
async fn d8_responses_to_responses_are_stopped_too() {
    let hub = TestHub::new().await;
    let response = |round| json!({"type": "response", "action": "play", "payload": round});
    let (round, _) = play(&hub, "inReplyTo", response).await;
    assert_eq!(round, 102, "the last question may be answered, the answer not");
}

// Fails under: a chain that restarts with each message.
#[tokio::test]
async fn d8_a_repeated_payload_is_stopped_the_third_time() {
    let hub = TestHub::new().await;
    let (round, refused) = play(&hub, "causationId", |_| json!({"action": "play", "payload": "ball"})).await;
    assert_eq!((round, &refused["limit"]), (5, &json!(2)), "{refused}");
}

// Fails under: hops that a sender can lower, or cannot raise.
#[tokio::test]
async fn d8_hops_are_at_least_those_counted_by_the_hub() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    let first = send_message(&hub, &alice, &json!({"to": "alice", "hops": 7, "payload": 1})).await;
    for (hops, counted) in [(0, 8), (3, 8), (20, 20)] {
        let next = json!({"to": "alice", "hops": hops, "causationId": first, "payload": hops});
        let next = send_message(&hub, &alice, &next).await;
        assert_eq!(message_view(&hub, &next).await["hops"], counted);
    }
    let external = json!({"to": "alice", "causationId": "ticket 17", "payload": 1});
    let external = send_message(&hub, &alice, &external).await;
    assert_eq!(message_view(&hub, &external).await["hops"], 0, "what led to it is not known here");
}

// Fails under: a client id that is not resolved; a cause in the same commit that is not found; a repeat that counts
// as another message because the hub added fields to the first.
#[tokio::test]
async fn d8_a_cause_can_be_named_by_client_id() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    send_message(&hub, &alice, &json!({"id": "q-1", "to": "alice", "correlationId": "c1", "payload": 1}))
        .await;
    let second = json!({"id": "q-2", "to": "alice", "causationId": "q-1", "payload": 2});
    let id = send_message(&hub, &alice, &second).await;
    let response = message_view(&hub, &id).await;
    assert_eq!((&response["hops"], &response["correlationId"]), (&json!(1), &json!("c1")));
    assert_eq!(send_message(&hub, &alice, &second).await, id, "sent again, it is the same message");
    let messages = json!([
        {"id": "q-3", "to": "alice", "causationId": "q-2", "payload": 3},
        {"id": "q-4", "to": "alice", "causationId": "q-3", "payload": 4}
    ]);
    let sent = hub.post(&alice, "/v1/messages", &messages).await.ok(200);
    assert_eq!(message_view(&hub, "q-4").await["hops"], 3);
    let repeated = hub.post(&alice, "/v1/messages", &messages).await.ok(200);
    assert_eq!(repeated["receipts"][1]["id"], sent["receipts"][1]["id"]);
}

// Fails under: a budget that is only charged for the first message of a chain.
#[tokio::test]
async fn d8_a_chain_is_charged_to_its_first_budget() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let set = json!({"ops": [{"op": "budget.set", "budget": "b1", "messagesMax": 3}]});
    hub.post(&alice, "/v1/commit", &set).await.ok(200);
    let first = send_message(hub, &alice, &json!({"to": "bob", "budget": "b1", "payload": 1})).await;
    let second = send_message(hub, &bob, &json!({"to": "alice", "causationId": first, "payload": 2})).await;
    assert_eq!(message_view(hub, &second).await["budget"], "b1");
    let mut socket = server.connect_agent(&alice).await;
    let third = json!({"op": "send", "to": "bob", "causationId": second, "payload": 3});
    socket.ok("commit", json!({"ops": [third], "idempotencyKey": "k3"})).await;
    let fourth = json!({"op": "send", "to": "bob", "causationId": second, "payload": 4});
    socket.refused("commit", json!({"ops": [fourth], "idempotencyKey": "k4"}), "BUDGET_EXCEEDED").await;
    let own = json!({"to": "alice", "payload": 5});
    send_message(hub, &bob, &own).await;
}

// Fails under: an agent that learns about a foreign message by naming it as a cause.
#[tokio::test]
async fn i16_naming_a_foreign_message_reveals_nothing() {
    let hub = TestHub::new().await;
    let (alice, mallory) = (hub.register("alice").await, hub.register("mallory").await);
    hub.register("bob").await;
    let foreign =
        send_message(&hub, &alice, &json!({"to": "bob", "correlationId": "merger", "payload": 1})).await;
    let named =
        send_message(&hub, &mallory, &json!({"to": "mallory", "causationId": foreign, "payload": 2})).await;
    let response = message_view(&hub, &named).await;
    assert_eq!((&response["hops"], &response["correlationId"]), (&json!(1), &Value::Null));
}

// Fails under: a fingerprint of hub-assigned fields; a message that is its own cause; a chain whose id differs for
// messages committed together with its first message.
#[tokio::test]
async fn d8_i3_a_repeated_message_is_idempotent_whatever_its_cause() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    hub.register("bob").await;
    let own = json!({"id": "root", "to": "bob", "causationId": "root", "payload": 1});
    let first = send_message(&hub, &alice, &own).await;
    assert_eq!(send_message(&hub, &alice, &own).await, first);
    assert_eq!(message_view(&hub, &first).await["hops"], 0);
    // The cause is sent after the message that names it.
    let early = json!({"id": "early", "to": "bob", "causationId": "late", "payload": 2});
    let first = send_message(&hub, &alice, &early).await;
    send_message(&hub, &alice, &json!({"id": "late", "to": "bob", "payload": 3})).await;
    assert_eq!(send_message(&hub, &alice, &early).await, first);
    // Both in one commit, then one of them.
    let effect = json!({"id": "effect", "to": "bob", "causationId": "cause", "payload": 5});
    let messages = json!([{"id": "cause", "to": "bob", "payload": 4}, effect]);
    let sent = hub.post(&alice, "/v1/messages", &messages).await.ok(200);
    assert_eq!(send_message(&hub, &alice, &effect).await, sent["receipts"][1]["id"].as_str().unwrap());
    assert_eq!(
        message_view(&hub, &send_message(&hub, &alice, &effect).await).await["correlationId"],
        "cause"
    );
    // A message with different content is another message.
    let other =
        json!({"id": "early", "to": "bob", "causationId": "late", "payload": 2, "correlationId": "c"});
    hub.post(&alice, "/v1/messages", &other).await.refused(409, "DUPLICATE");
}
