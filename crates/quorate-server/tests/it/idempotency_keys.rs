//! Idempotency keys: a call that is repeated with the same key takes effect once and returns the same response.

use serde_json::{Value, json};

use crate::support::TestHub;

fn ids(claimed: &Value, list: &str, id: &str) -> Vec<Value> {
    claimed[list].as_array().expect("a list").iter().map(|item| item[id].clone()).collect()
}

// Fails under: `inbox::claim` that ignores the key.
#[tokio::test]
async fn i3_a_claim_with_a_key_returns_the_same_deliveries() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    for n in 0..3 {
        hub.post(&alice, "/v1/messages", &json!({"to": "alice", "payload": n})).await.ok(200);
    }
    let claim = json!({"max": 2});
    let first = hub.post_with_key(&alice, "c1", "/v1/agents/alice/inbox/claim", &claim).await.ok(200);
    let repeated = hub.post_with_key(&alice, "c1", "/v1/agents/alice/inbox/claim", &claim).await.ok(200);
    assert_eq!(first, repeated, "the same deliveries, tokens and times");
    assert_eq!(ids(&first, "deliveries", "deliveryId").len(), 2);
    let other = hub.post_with_key(&alice, "c2", "/v1/agents/alice/inbox/claim", &claim).await.ok(200);
    assert_eq!(ids(&other, "deliveries", "deliveryId").len(), 1, "another key takes what is left");
    hub.post_with_key(&alice, "c1", "/v1/agents/alice/inbox/claim", &json!({"max": 3}))
        .await
        .refused(409, "DUPLICATE");
    let lease = &first["deliveries"][0];
    let lease =
        json!({"deliveries": [{"deliveryId": lease["deliveryId"], "leaseToken": lease["leaseToken"]}]});
    hub.post(&alice, "/v1/agents/alice/inbox/ack", &lease).await.ok(200);
}

// Fails under: a waiting claim with a key that is served by another commit, which does not store the key.
#[tokio::test]
async fn i3_a_waiting_claim_is_idempotent_too() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let claim = json!({"waitMs": 30_000, "max": 5});
    let path = "/v1/agents/bob/inbox/claim";
    let sending = async {
        let nothing = hub.post_with_key(&bob, "other", path, &json!({"max": 4})).await.ok(200);
        assert_eq!(nothing["deliveries"], json!([]));
        hub.post(&alice, "/v1/messages", &json!({"to": "bob", "payload": "one"})).await.ok(200);
    };
    let (first, ()) = tokio::join!(hub.post_with_key(&bob, "w", path, &claim), sending);
    let first = first.ok(200);
    hub.post(&alice, "/v1/messages", &json!({"to": "bob", "payload": "two"})).await.ok(200);
    assert_eq!(hub.post_with_key(&bob, "w", path, &claim).await.ok(200), first);
    assert_eq!(first["deliveries"][0]["message"]["payload"], "one");
}

#[tokio::test]
async fn i3_tasks_and_locks_are_granted_once_with_a_key() {
    let hub = TestHub::new().await;
    let alice = hub.register_with_capabilities("alice", &["sum"]).await;
    let bob = hub.register("bob").await;
    for id in ["t1", "t2"] {
        hub.post(&alice, "/v1/tasks", &json!({"id": id, "type": "sum", "input": {"n": 1}})).await.ok(201);
    }
    let first = hub.post_with_key(&alice, "k", "/v1/tasks/claim", &json!({})).await.ok(200);
    assert_eq!(hub.post_with_key(&alice, "k", "/v1/tasks/claim", &json!({})).await.ok(200), first);
    assert_eq!((&first["tasks"][0]["id"], &first["tasks"][0]["input"]), (&json!("t1"), &json!({"n": 1})));
    let request = json!({"ttlMs": 60_000});
    let held = hub.post_with_key(&alice, "l", "/v1/locks/door/acquire", &request).await.ok(200);
    assert_eq!(hub.post_with_key(&alice, "l", "/v1/locks/door/acquire", &request).await.ok(200), held);
    // A rejection stores no key: the same call can succeed later.
    hub.post_with_key(&bob, "b", "/v1/locks/door/acquire", &request).await.refused(408, "TIMEOUT");
    hub.post(&alice, "/v1/locks/door/release", &json!({"fence": held["fence"]})).await.ok(200);
    hub.post_with_key(&bob, "b", "/v1/locks/door/acquire", &request).await.ok(200);
}

// Fails under: `requests::request` that ignores the key, so that bob receives the request twice.
#[tokio::test]
async fn i3_a_request_with_a_key_is_sent_once() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let question = json!({"to": "bob", "type": "query", "payload": {}, "timeoutMs": 60_000});
    let answering = async {
        let claimed = hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({"waitMs": 30_000})).await.ok(200);
        let delivery = &claimed["deliveries"][0];
        let step = json!({"ops": [
            {"op": "ack", "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"]},
            {"op": "send", "to": "alice", "type": "response", "inReplyTo": delivery["message"]["id"], "payload": 4},
        ]});
        hub.post(&bob, "/v1/commit", &step).await.ok(200);
    };
    let (first, ()) = tokio::join!(hub.post_with_key(&alice, "q", "/v1/request", &question), answering);
    let first = first.ok(200);
    assert_eq!(hub.post_with_key(&alice, "q", "/v1/request", &question).await.ok(200), first);
    let claimed = hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({})).await.ok(200);
    assert_eq!(claimed["deliveries"], json!([]));
    let id = first["inReplyTo"].as_str().expect("the question");
    let request = hub.get(&alice, &format!("/v1/requests/{id}")).await.ok(200);
    assert_eq!((&request["state"], &request["answers"]), (&json!("answered"), &json!([first["id"]])));
    hub.get(&bob, &format!("/v1/requests/{id}")).await.refused(404, "NOT_FOUND");
}

// Fails under: a second call without a new token, which is a different commit than the first.
#[tokio::test]
async fn i3_an_agent_is_registered_once_with_a_key_and_its_token_returned_once() {
    let hub = TestHub::new().await;
    let body = json!({"role": "worker", "capabilities": ["sum"]});
    let first = hub.put_with_key(&hub.admin, "new", "/v1/agents/carol", &body).await.ok(201);
    let repeated = hub.put_with_key(&hub.admin, "new", "/v1/agents/carol", &body).await.ok(201);
    assert!(first["token"].is_string() && repeated["token"].is_null());
    assert_eq!((&first["epoch"], &first["agent"]["id"]), (&repeated["epoch"], &repeated["agent"]["id"]));
    let other = json!({"role": "observer"});
    hub.put_with_key(&hub.admin, "new", "/v1/agents/carol", &other).await.refused(409, "DUPLICATE");
    let carol = first["token"].as_str().expect("a token");
    hub.put_with_key(carol, "again", "/v1/agents/carol", &body).await.ok(200);
    let new = json!({"role": "viewer", "name": "board"});
    let created = hub.post_with_key(&hub.admin, "t", "/v1/tokens", &new).await.ok(201);
    let repeated = hub.post_with_key(&hub.admin, "t", "/v1/tokens", &new).await.ok(201);
    assert_eq!((&created["id"], &repeated["token"]), (&repeated["id"], &json!(null)));
}

// Fails under: a POST, PUT or DELETE that commits without the key of the call.
#[tokio::test]
async fn i3_ending_calls_repeat_their_response_with_a_key() {
    let hub = TestHub::new().await;
    let alice = hub.register("alice").await;
    hub.put(&alice, "/v1/agents/alice/subscriptions/news", &json!({})).await.ok(200);
    hub.put(&alice, "/v1/context/plan", &json!({"content": 1})).await.ok(201);
    hub.post(&alice, "/v1/context:snapshot", &json!({"name": "now"})).await.ok(201);
    for path in
        ["/v1/agents/alice/subscriptions/news", "/v1/context/plan?expect=1", "/v1/context:snapshot/now"]
    {
        let delete = async |key: &str| {
            let request = hub.request(&alice, "DELETE", path).header("idempotency-key", key);
            hub.send(request, "").await
        };
        let first = delete(path).await.ok(200);
        assert_eq!(delete(path).await.ok(200), first, "{path}");
        assert!(delete("another").await.status >= 400, "{path}");
    }
}

// Fails under: a response that names the record of the repeat, or none.
#[tokio::test]
async fn i3_a_repeated_ack_or_end_without_a_key_returns_the_same_response() {
    let hub = TestHub::new().await;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    hub.post(&alice, "/v1/messages", &json!([{"to": "bob"}, {"to": "bob"}])).await.ok(200);
    let claimed = hub.post(&bob, "/v1/agents/bob/inbox/claim", &json!({"max": 2})).await.ok(200);
    let held: Vec<_> = claimed["deliveries"].as_array().expect("a list").iter().collect();
    let lease = |n: usize| json!({"deliveryId": held[n]["deliveryId"], "leaseToken": held[n]["leaseToken"]});
    hub.post(&alice, "/v1/tasks", &json!({"id": "t", "type": "x"})).await.ok(201);
    let task = hub.post(&bob, "/v1/tasks/claim", &json!({"types": ["x"]})).await.ok(200);
    let token = &task["tasks"][0]["leaseToken"];
    let (first, second) = (lease(0), lease(1));
    let ends = json!({"op": "task.complete", "task": "t", "leaseToken": token, "result": 1});
    let acks = json!({"op": "ack", "deliveryId": second["deliveryId"], "leaseToken": second["leaseToken"]});
    for (path, body) in [
        ("/v1/agents/bob/inbox/ack", json!({"deliveries": [first]})),
        ("/v1/commit", json!({"ops": [acks, ends]})),
        ("/v1/tasks/t/complete", json!({"leaseToken": token, "result": 1})),
    ] {
        let first = hub.post(&bob, path, &body).await.ok(200);
        hub.post(&alice, "/v1/messages", &json!({"to": "bob"})).await.ok(200);
        assert_eq!(hub.post(&bob, path, &body).await.ok(200), first, "{path}");
    }
}
