//! D8 from outside: the hub counts what led to a message, whatever its sender says, and by whichever way it comes in.

use serde_json::{Value, json};

use crate::support::Hub;
use crate::support::socket::Served;

/// Sends a message and gives its id.
async fn say(hub: &Hub, token: &str, message: &Value) -> String {
    let sent = hub.post(token, "/v1/messages", message).await.ok(200);
    sent["receipts"][0]["id"].as_str().expect("an id").to_owned()
}

async fn shown(hub: &Hub, id: &str) -> Value {
    hub.get(&hub.admin, &format!("/v1/messages/{id}")).await.ok(200)
}

/// Two who answer each other, each naming what it answers, until the hub says no. Gives how many messages there were.
async fn play(hub: &Hub, field: &str, message: impl Fn(usize) -> Value) -> (usize, Value) {
    let players = [("ping", hub.register("ping").await), ("pong", hub.register("pong").await)];
    let mut cause =
        say(hub, &players[0].1, &json!({"to": "pong", "action": "play", "payload": "first"})).await;
    for round in 1..100 {
        let (token, other) = (&players[round % 2].1, players[1 - round % 2].0);
        let mut next = message(round);
        next["to"] = other.into();
        next[field] = cause.into();
        let answer = hub.post(token, "/v1/messages", &next).await;
        if answer.status != 200 {
            return (round, answer.refused(409, "LOOP_REFUSED"));
        }
        let id = answer.ok(200)["receipts"][0]["id"].as_str().expect("an id").to_owned();
        assert_eq!(shown(hub, &id).await["hops"], round, "{id}");
        cause = id;
    }
    panic!("it goes on without end");
}

// Fails under: hops that are what the sender writes.
#[tokio::test]
async fn d8_two_who_name_what_caused_each_message_are_stopped_after_32_hops() {
    for field in ["causationId", "inReplyTo"] {
        let hub = Hub::new().await;
        let (round, refused) = play(&hub, field, |round| json!({"action": "play", "payload": round})).await;
        assert_eq!((round, &refused["limit"]), (33, &json!(32)), "{field}");
    }
}

// Fails under: responses that are not counted; the answer to the last question refused.
#[tokio::test]
async fn d8_responses_to_responses_are_stopped_too() {
    let hub = Hub::new().await;
    let response = |round| json!({"type": "response", "action": "play", "payload": round});
    let (round, _) = play(&hub, "inReplyTo", response).await;
    assert_eq!(round, 34, "the last question may be answered, the answer not");
}

// Fails under: a chain that each message begins anew.
#[tokio::test]
async fn d8_who_says_the_same_is_stopped_at_the_third_time() {
    let hub = Hub::new().await;
    let (round, refused) = play(&hub, "causationId", |_| json!({"action": "play", "payload": "ball"})).await;
    assert_eq!((round, &refused["limit"]), (5, &json!(2)), "{refused}");
}

// Fails under: hops that a sender may write lower; one that it may not write higher.
#[tokio::test]
async fn d8_hops_are_at_least_what_the_hub_counts() {
    let hub = Hub::new().await;
    let alice = hub.register("alice").await;
    let first = say(&hub, &alice, &json!({"to": "alice", "hops": 7, "payload": 1})).await;
    for (said, counted) in [(0, 8), (3, 8), (20, 20)] {
        let next = json!({"to": "alice", "hops": said, "causationId": first, "payload": said});
        let next = say(&hub, &alice, &next).await;
        assert_eq!(shown(&hub, &next).await["hops"], counted);
    }
    let elsewhere = json!({"to": "alice", "causationId": "ticket 17", "payload": 1});
    let elsewhere = say(&hub, &alice, &elsewhere).await;
    assert_eq!(shown(&hub, &elsewhere).await["hops"], 0, "what led to it is not known here");
}

// Fails under: a client's id that is not looked up; a cause within the same commit that is not seen; a repetition that is
// taken for another message since the hub added something to the first.
#[tokio::test]
async fn d8_a_cause_may_be_named_by_its_sender_s_id() {
    let hub = Hub::new().await;
    let alice = hub.register("alice").await;
    say(&hub, &alice, &json!({"id": "q-1", "to": "alice", "correlationId": "c1", "payload": 1})).await;
    let second = json!({"id": "q-2", "to": "alice", "causationId": "q-1", "payload": 2});
    let id = say(&hub, &alice, &second).await;
    let told = shown(&hub, &id).await;
    assert_eq!((&told["hops"], &told["correlationId"]), (&json!(1), &json!("c1")));
    assert_eq!(say(&hub, &alice, &second).await, id, "said again, it is the same message");
    let both = json!([
        {"id": "q-3", "to": "alice", "causationId": "q-2", "payload": 3},
        {"id": "q-4", "to": "alice", "causationId": "q-3", "payload": 4}
    ]);
    let sent = hub.post(&alice, "/v1/messages", &both).await.ok(200);
    assert_eq!(shown(&hub, "q-4").await["hops"], 3);
    let again = hub.post(&alice, "/v1/messages", &both).await.ok(200);
    assert_eq!(again["receipts"][1]["id"], sent["receipts"][1]["id"]);
}

// Fails under: a budget that only the first message of a chain spends of.
#[tokio::test]
async fn d8_a_chain_spends_of_the_budget_that_it_began_with() {
    let served = Served::new().await;
    let hub = &served.hub;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let set = json!({"ops": [{"op": "budget.set", "budget": "b1", "messagesMax": 3}]});
    hub.post(&alice, "/v1/commit", &set).await.ok(200);
    let first = say(hub, &alice, &json!({"to": "bob", "budget": "b1", "payload": 1})).await;
    let second = say(hub, &bob, &json!({"to": "alice", "causationId": first, "payload": 2})).await;
    assert_eq!(shown(hub, &second).await["budget"], "b1");
    let mut socket = served.open(&alice).await;
    let third = json!({"op": "send", "to": "bob", "causationId": second, "payload": 3});
    socket.ok("commit", json!({"ops": [third], "idempotencyKey": "k3"})).await;
    let fourth = json!({"op": "send", "to": "bob", "causationId": second, "payload": 4});
    socket.refused("commit", json!({"ops": [fourth], "idempotencyKey": "k4"}), "BUDGET_EXCEEDED").await;
    let own = json!({"to": "alice", "payload": 5});
    say(hub, &bob, &own).await;
}

// Fails under: a stranger who learns by naming a message what it belongs to.
#[tokio::test]
async fn i16_naming_a_message_of_others_tells_nothing_of_it() {
    let hub = Hub::new().await;
    let (alice, mallory) = (hub.register("alice").await, hub.register("mallory").await);
    hub.register("bob").await;
    let theirs = say(&hub, &alice, &json!({"to": "bob", "correlationId": "merger", "payload": 1})).await;
    let named = say(&hub, &mallory, &json!({"to": "mallory", "causationId": theirs, "payload": 2})).await;
    let told = shown(&hub, &named).await;
    assert_eq!((&told["hops"], &told["correlationId"]), (&json!(1), &Value::Null));
}

// Fails under: a fingerprint of what the hub added alone; a message that is its own cause; a chain that is called otherwise
// by those who came with the message that began it.
#[tokio::test]
async fn d8_i3_a_message_said_again_is_the_same_whatever_became_known_of_its_cause() {
    let hub = Hub::new().await;
    let alice = hub.register("alice").await;
    hub.register("bob").await;
    let own = json!({"id": "root", "to": "bob", "causationId": "root", "payload": 1});
    let first = say(&hub, &alice, &own).await;
    assert_eq!(say(&hub, &alice, &own).await, first);
    assert_eq!(shown(&hub, &first).await["hops"], 0);
    // The cause comes later than what it is said to have led to.
    let early = json!({"id": "early", "to": "bob", "causationId": "late", "payload": 2});
    let first = say(&hub, &alice, &early).await;
    say(&hub, &alice, &json!({"id": "late", "to": "bob", "payload": 3})).await;
    assert_eq!(say(&hub, &alice, &early).await, first);
    // Both at once, and then one of them.
    let effect = json!({"id": "effect", "to": "bob", "causationId": "cause", "payload": 5});
    let both = json!([{"id": "cause", "to": "bob", "payload": 4}, effect]);
    let sent = hub.post(&alice, "/v1/messages", &both).await.ok(200);
    assert_eq!(say(&hub, &alice, &effect).await, sent["receipts"][1]["id"].as_str().unwrap());
    assert_eq!(shown(&hub, &say(&hub, &alice, &effect).await).await["correlationId"], "cause");
    // What its sender said differently is another message.
    let other =
        json!({"id": "early", "to": "bob", "causationId": "late", "payload": 2, "correlationId": "c"});
    hub.post(&alice, "/v1/messages", &other).await.refused(409, "DUPLICATE");
}
