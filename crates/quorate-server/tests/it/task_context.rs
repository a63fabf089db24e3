//! What the holder of a task learns: what earlier attempts and dependencies left with the claim, that its work is no
//! longer needed, and who waits for a lock.

use serde_json::{Value, json};

use crate::support::TestHub;
use crate::support::socket::TestServer;

async fn claim(hub: &TestHub, token: &str) -> Value {
    let claimed = hub.post(token, "/v1/tasks/claim", &json!({})).await.ok(200);
    claimed["tasks"][0].clone()
}

async fn create(hub: &TestHub, tasks: Value) {
    hub.post(&hub.admin, "/v1/tasks", &json!({"tasks": tasks})).await.ok(201);
}

// Fails under: a claim without the context, an older partial result left out, or the wrong order of dependencies.
#[tokio::test]
async fn m15_a_second_attempt_knows_what_the_first_one_left_and_what_it_depends_on() {
    let hub = TestHub::new().await;
    let bob = hub.register_with_capabilities("bob", &["sum"]).await;
    let retry = json!({"maxAttempts": 3, "backoffMs": 0});
    create(
        &hub,
        json!([
            {"id": "a", "type": "sum"},
            {"id": "b", "type": "sum"},
            {"id": "c", "type": "sum", "dependsOn": ["b", "a"], "retry": retry},
        ]),
    )
    .await;
    for id in ["a", "b"] {
        let task = claim(&hub, &bob).await;
        assert_eq!((&task["id"], task.get("dependencies")), (&json!(id), None), "{task}");
        let done = json!({"leaseToken": task["leaseToken"], "result": {"of": id}});
        hub.post(&bob, &format!("/v1/tasks/{id}/complete"), &done).await.ok(200);
    }
    let first = claim(&hub, &bob).await;
    let dependencies = json!([
        {"task": "b", "status": "done", "result": {"of": "b"}},
        {"task": "a", "status": "done", "result": {"of": "a"}},
    ]);
    assert_eq!((&first["dependencies"], first.get("partials")), (&dependencies, None), "{first}");
    for partial in [1, 2] {
        let beat = json!({"leaseToken": first["leaseToken"], "partial": partial});
        hub.post(&bob, "/v1/tasks/c/heartbeat", &beat).await.ok(200);
    }
    let fail = json!({"leaseToken": first["leaseToken"], "reason": "disk full", "details": {"free": 0}});
    hub.post(&bob, "/v1/tasks/c/fail", &fail).await.ok(200);
    let second = claim(&hub, &bob).await;
    assert_eq!((&second["attempt"], &second["reason"]), (&json!(2), &json!("disk full")), "{second}");
    assert_eq!((&second["partials"], &second["details"]), (&json!([1, 2]), &json!({"free": 0})), "{second}");
    assert_eq!((&second["dependencies"], second.get("truncated")), (&dependencies, None), "{second}");
    // The failure is in the shared memory too, and its second version describes the last attempt.
    let entry = hub.get(&bob, "/v1/context/failures/c").await.ok(200);
    assert_eq!(entry["type"], "task.failure", "{entry}");
    let content = json!({
        "task": "c", "type": "sum", "agent": "bob", "cause": "failed", "reason": "disk full", "attempt": 1,
        "maxAttempts": 3, "retried": true, "details": {"free": 0},
    });
    assert_eq!(entry["content"], content, "{entry}");
    let fail = json!({"leaseToken": second["leaseToken"], "reason": "no", "recoverable": false});
    hub.post(&bob, "/v1/tasks/c/fail", &fail).await.ok(200);
    let entry = hub.get(&bob, "/v1/context/failures/c").await.ok(200);
    let shown = (&entry["version"], &entry["content"]["cause"], &entry["content"]["retried"]);
    assert_eq!(shown, (&json!(2), &json!("hopeless"), &json!(false)), "{entry}");
}

// Fails under: results beyond the limit of a claim that are read nevertheless.
#[tokio::test]
async fn i21_the_context_of_a_claim_is_limited() {
    let hub = TestHub::new().await;
    let bob = hub.register_with_capabilities("bob", &["sum"]).await;
    let ids: Vec<_> = (0..10).map(|n| format!("part-{n}")).collect();
    let mut tasks: Vec<_> = ids.iter().map(|id| json!({"id": id, "type": "sum"})).collect();
    tasks.push(json!({"id": "all", "type": "sum", "dependsOn": ids}));
    create(&hub, json!(tasks)).await;
    let text = "x".repeat(500_000);
    for _ in &ids {
        let task = claim(&hub, &bob).await;
        let path = format!("/v1/tasks/{}/complete", task["id"].as_str().expect("an id"));
        let done = json!({"leaseToken": task["leaseToken"], "result": text});
        hub.post(&bob, &path, &done).await.ok(200);
    }
    let all = claim(&hub, &bob).await;
    let with_result: Vec<_> = all["dependencies"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|found| !found["result"].is_null())
        .collect();
    assert_eq!((with_result.len(), with_result.iter().filter(|found| **found).count()), (10, 8));
    assert_eq!(all["truncated"], true);
}

// Fails under: a time-out without a reason.
#[tokio::test]
async fn n15_why_states_the_reason_of_an_escalation() {
    let hub = TestHub::new().await;
    let bob = hub.register_with_capabilities("bob", &["sum"]).await;
    hub.put(&hub.admin, "/v1/agents/lead", &json!({"role": "coordinator"})).await.ok(201);
    let retry = json!({"maxAttempts": 1});
    create(&hub, json!([{"id": "slow", "type": "sum", "timeoutMs": 1_000, "retry": retry}])).await;
    claim(&hub, &bob).await;
    let ended = hub.get(&bob, "/v1/tasks/slow?waitMs=20000").await.ok(200);
    let reason = "attempt 1 exceeded its time limit of 1000 ms";
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("escalated"), &json!(reason)), "{ended}");
    let why = hub.get(&bob, "/v1/tasks/slow/why").await.ok(200);
    let sentence = why["sentence"].as_str().expect("a sentence");
    assert!(sentence.starts_with("escalated with message msg_"), "{why}");
    assert!(sentence.ends_with(&format!("after 1 attempt: {reason}")), "{why}");
    let entry = hub.get(&bob, "/v1/context/failures/slow").await.ok(200);
    assert_eq!(entry["content"]["reason"], reason, "{entry}");
}

// Fails under: a holder that is notified only if it claimed the task while waiting.
#[tokio::test]
async fn m16_cancelling_notifies_the_holder_of_a_task() {
    let server = TestServer::new().await;
    let (bob, carol) = (
        server.hub.register_with_capabilities("bob", &["sum"]).await,
        server.hub.register_with_capabilities("carol", &["sum"]).await,
    );
    create(&server.hub, json!([{"id": "one", "type": "sum"}, {"id": "two", "type": "sum"}])).await;
    let mut connected = server.connect_agent(&bob).await;
    let held = connected.ok("claimTasks", json!({"types": ["sum"]})).await["tasks"][0].clone();
    let polled = claim(&server.hub, &carol).await;
    for id in ["one", "two"] {
        let cancel = json!({"reason": "not needed"});
        server.hub.post(&server.hub.admin, &format!("/v1/tasks/{id}/cancel"), &cancel).await.ok(200);
    }
    let frame = connected.next_frame().await;
    let lost = json!({"taskLost": {
        "task": "one", "leaseToken": held["leaseToken"], "code": "CANCELLED", "reason": "not needed",
    }});
    assert_eq!(frame, lost);
    let beat = json!({"leaseToken": polled["leaseToken"]});
    let problem = server.hub.post(&carol, "/v1/tasks/two/heartbeat", &beat).await.refused(409, "CANCELLED");
    assert_eq!(problem["detail"], "task two was cancelled: not needed");
}

// Fails under: a holder of a cancelled request that is not notified.
#[tokio::test]
async fn m16_cancelling_notifies_the_holder_of_a_request() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let (alice, bob) = (hub.register("alice").await, hub.register("bob").await);
    let request = json!({"to": "bob", "action": "work", "payload": 1});
    let pending = hub.post(&alice, "/v1/requests", &request).await.ok(201);
    let mut connected = server.connect_agent(&bob).await;
    let delivery = connected.deliveries(1).await.remove(0).1;
    let id = pending["id"].as_str().expect("an id");
    let extend = json!({"deliveries": [{
        "deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"], "leaseMs": 60_000,
    }]});
    let extended = hub.post(&bob, "/v1/agents/bob/inbox/extend", &extend).await.ok(200);
    assert_eq!(extended, json!({"seq": null}));
    hub.post(&alice, &format!("/v1/requests/{id}/cancel"), &json!({})).await.ok(200);
    let frame = connected.next_frame().await;
    let ended = json!({"messageId": id, "deliveryId": delivery["deliveryId"], "code": "CANCELLED"});
    assert_eq!(frame, json!({"requestEnded": ended}));
    let extended = hub.post(&bob, "/v1/agents/bob/inbox/extend", &extend).await.ok(200);
    assert_eq!(extended["endedRequests"], json!([ended]), "{extended}");
}

// Fails under: a queue in another order, or without those who wait for several locks.
#[tokio::test]
async fn m17_a_lock_shows_who_waits_for_it() {
    let server = TestServer::new().await;
    let hub = &server.hub;
    let (alice, bob, carol) =
        (hub.register("alice").await, hub.register("bob").await, hub.register("carol").await);
    hub.post(&alice, "/v1/locks/web/acquire", &json!({"ttlMs": 60_000})).await.ok(200);
    assert_eq!(hub.get(&alice, "/v1/locks/web").await.ok(200)["waiting"], json!([]));
    let (mut bob, mut carol) = (server.connect_agent(&bob).await, server.connect_agent(&carol).await);
    bob.send_numbered("acquireLocks", json!({"name": "web", "names": ["db"], "waitMs": 60_000})).await;
    // The reply to a later frame shows that the lock request is in the queue.
    bob.ok("commit", json!({"ops": [{"op": "put", "key": "k", "content": 1}], "idempotencyKey": "k"})).await;
    carol.send_numbered("acquireLocks", json!({"name": "web", "waitMs": 60_000, "priority": "urgent"})).await;
    carol
        .ok("commit", json!({"ops": [{"op": "put", "key": "k", "content": 2}], "idempotencyKey": "k"}))
        .await;
    let shown = hub.get(&alice, "/v1/locks/web").await.ok(200);
    let waiting = shown["waiting"].as_array().expect("a list");
    let queue: Vec<_> =
        waiting.iter().map(|wait| json!([wait["agent"], wait["priority"], wait["locks"]])).collect();
    assert_eq!(json!(queue), json!([["carol", "urgent", ["web"]], ["bob", "normal", ["db", "web"]]]));
    assert!(waiting[0]["since"].is_string() && shown["holders"][0]["agent"] == "alice", "{shown}");
}
