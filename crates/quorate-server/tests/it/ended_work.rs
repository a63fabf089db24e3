//! Work that is not needed any more: its leases end at once, and its holder is notified on every connection.

use serde_json::{Value, json};

use crate::support::TestHub;
use crate::support::socket::TestServer;

/// Sends a request of alice to bob with a payload, and returns its id.
async fn ask(hub: &TestHub, alice: &str, payload: Value) -> String {
    let request = json!({"to": "bob", "action": "work", "payload": payload});
    let pending = hub.post(alice, "/v1/requests", &request).await.ok(201);
    pending["id"].as_str().expect("an id").to_owned()
}

async fn cancel(hub: &TestHub, alice: &str, request: &str) {
    hub.post(alice, &format!("/v1/requests/{request}/cancel"), &json!({})).await.ok(200);
}

async fn claim(hub: &TestHub, bob: &str, max: u32) -> Vec<Value> {
    let claimed = hub.post(bob, "/v1/agents/bob/inbox/claim", &json!({"max": max})).await.ok(200);
    claimed["deliveries"].as_array().expect("a list").clone()
}

fn lease(delivery: &Value) -> Value {
    json!({"deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"]})
}

fn payload_of(delivery: &Value) -> &Value {
    &delivery["message"]["payload"]
}

// Fails under: a poller whose other leases are not extended; a holder whose late answer is accepted; a lease that ends
// without a reason.
#[tokio::test]
async fn m16_a_poller_learns_of_an_ended_request_when_it_extends_its_leases() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let (first, _second) = (ask(&hub, &alice, json!(1)).await, ask(&hub, &alice, json!(2)).await);
    let held = claim(&hub, &bob, 2).await;
    cancel(&hub, &alice, &first).await;
    let ended = json!({"messageId": first, "deliveryId": held[0]["deliveryId"], "code": "CANCELLED"});
    let both = json!({"deliveries": [lease(&held[0]), lease(&held[1])]});
    // A repeated call has the same answer, also under one idempotency key.
    for key in ["k", "k", "other"] {
        let extended = hub.post_with_key(&bob, key, "/v1/agents/bob/inbox/extend", &both).await.ok(200);
        assert_eq!(extended, json!({"seq": null, "endedRequests": [ended]}));
    }
    let only = json!({"deliveries": [lease(&held[0])]});
    let extended = hub.post(&bob, "/v1/agents/bob/inbox/extend", &only).await.ok(200);
    assert_eq!(extended, json!({"seq": null, "endedRequests": [ended]}));
    let problem = hub.post(&bob, "/v1/agents/bob/inbox/ack", &both).await.refused(409, "STALE_LEASE");
    let detail =
        format!("lease {} of dlv_0-1 has ended: request {first} was cancelled", held[0]["leaseToken"]);
    assert_eq!((&problem["detail"], &problem["endedRequest"]), (&json!(detail), &ended), "{problem}");
    let stale: Vec<_> = problem["stale"].as_array().expect("a list").iter().collect();
    assert_eq!((stale.len(), &stale[0]["endedRequest"]), (1, &ended), "{problem}");
    // The other lease is still held.
    hub.post(&bob, "/v1/agents/bob/inbox/ack", &json!({"deliveries": [lease(&held[1])]})).await.ok(200);
    // A lease that ended otherwise is still refused.
    let problem = hub.post(&bob, "/v1/agents/bob/inbox/extend", &both).await.refused(409, "STALE_LEASE");
    assert_eq!(problem["stale"][0]["item"], held[1]["deliveryId"], "{problem}");
}

// Fails under: a delegate that keeps its lease; a refusal that names the message instead of the request.
#[tokio::test]
async fn m16_a_delegate_learns_that_the_request_has_ended() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let (alice, bob, carol) =
        (hub.register("alice").await, hub.register("bob").await, hub.register("carol").await);
    let (mut connected, _) = server.hello(json!({"token": carol, "deliveries": false})).await;
    let request = ask(hub, &alice, json!(1)).await;
    let held = claim(hub, &bob, 1).await;
    let acked =
        json!({"op": "ack", "deliveryId": held[0]["deliveryId"], "leaseToken": held[0]["leaseToken"]});
    let passed_on = json!({"ops": [acked, {"op": "send", "to": "carol", "action": "work", "payload": 1}]});
    hub.post(&bob, "/v1/commit", &passed_on).await.ok(200);
    let claimed = hub.post(&carol, "/v1/agents/carol/inbox/claim", &json!({})).await.ok(200);
    let held = &claimed["deliveries"][0];
    cancel(hub, &alice, &request).await;
    let ended = json!({"messageId": request, "deliveryId": held["deliveryId"], "code": "CANCELLED"});
    assert_eq!(connected.next_frame().await, json!({"requestEnded": ended}));
    let body = json!({"deliveries": [lease(held)]});
    let extended = hub.post(&carol, "/v1/agents/carol/inbox/extend", &body).await.ok(200);
    assert_eq!(extended, json!({"seq": null, "endedRequests": [ended]}));
    let problem = hub.post(&carol, "/v1/agents/carol/inbox/ack", &body).await.refused(409, "STALE_LEASE");
    assert_eq!(problem["endedRequest"], ended, "{problem}");
}

// Fails under: a delivery that is sent although its request has ended; credit that is lost with it.
#[tokio::test]
async fn m16_a_delivery_that_was_not_sent_yet_is_dropped_with_its_request() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let (mut connected, _) = server.hello(json!({"token": bob})).await;
    // Each delivery is assumed to be a kilobyte, so two are leased, but the first one uses all bytes.
    connected.credit(3, 2_000).await;
    ask(hub, &alice, json!("x".repeat(3_000))).await;
    assert_eq!(payload_of(&connected.deliveries(1).await[0].1), &json!("x".repeat(3_000)));
    connected.credit(3, 8_000).await;
    let large = ask(hub, &alice, json!("y".repeat(20_000))).await;
    assert_eq!(payload_of(&connected.deliveries(1).await[0].1), &json!("y".repeat(20_000)));
    let unsent = ask(hub, &alice, json!("unsent")).await;
    let next = ask(hub, &alice, json!("next")).await;
    cancel(hub, &alice, &unsent).await;
    cancel(hub, &alice, &large).await;
    let frame = connected.next_frame().await;
    assert_eq!(frame["requestEnded"]["messageId"], json!(large), "{frame}");
    // The third message of credit was not used.
    connected.grant_credit(3, 1_000_000).await;
    let (_, delivery) = connected.deliveries(1).await.remove(0);
    assert_eq!((payload_of(&delivery), &delivery["message"]["id"]), (&json!("next"), &json!(next)));
    connected.assert_no_deliveries().await;
}

// Fails under: a connection without deliveries that takes them, replaces the other connection, or is not notified.
#[tokio::test]
async fn m16_a_connection_without_deliveries_is_notified_of_ended_work() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let (mut inbox, registered) = server.hello(json!({"token": bob})).await;
    let first = ask(hub, &alice, json!(1)).await;
    let held = claim(hub, &bob, 1).await.remove(0);
    let hello = json!({"token": bob, "epoch": registered["epoch"], "deliveries": false});
    let (mut notified, welcome) = server.hello(hello).await;
    assert_eq!((&welcome["agent"], &welcome["resumed"]), (&json!("bob"), &json!(0)));
    let problem = notified.refused("credit", json!({"messages": 1, "bytes": 1}), "INVALID").await;
    assert_eq!(problem["detail"], "this connection receives no deliveries");
    inbox.credit(10, 1_000_000).await;
    let second = ask(hub, &alice, json!(2)).await;
    assert_eq!(payload_of(&inbox.deliveries(1).await[0].1), &json!(2));
    for request in [&first, &second] {
        cancel(hub, &alice, request).await;
        for socket in [&mut inbox, &mut notified] {
            assert_eq!(socket.next_frame().await["requestEnded"]["messageId"], json!(request));
        }
    }
    // Its end releases nothing that the agent holds.
    ask(hub, &alice, json!(3)).await;
    assert_eq!(payload_of(&inbox.deliveries(1).await[0].1), &json!(3));
    drop(notified);
    let key = json!({"ops": [{"op": "put", "key": "k", "content": 1}], "idempotencyKey": "k"});
    inbox.ok("commit", key).await;
    assert!(claim(hub, &bob, 10).await.is_empty(), "the third delivery is still leased: {held}");
}
