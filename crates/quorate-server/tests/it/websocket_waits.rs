//! Frames of calls that wait for something else than an answer: claims of tasks and acquisitions of locks.

use serde_json::{Value, json};

use crate::support::socket::{TestServer, TestSocket};

async fn create_task(socket: &mut TestSocket, id: &str) {
    let create = json!({"op": "task.create", "id": id, "type": "sum", "input": [1, 2]});
    socket.ok("commit", json!({"ops": [create], "idempotencyKey": id})).await;
}

async fn until_disconnected(server: &TestServer, agent: &str) {
    loop {
        let shown = server.hub.get(&server.hub.admin, &format!("/v1/agents/{agent}")).await.ok(200);
        if shown["load"]["listening"] == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn n11_a_claim_waits_and_blocks_no_other_frame() {
    let server = TestServer::new().await;
    let (alice, bob) = (server.hub.register("alice").await, server.hub.register("bob").await);
    let (mut alice, mut bob) = (server.connect_agent(&alice).await, server.connect_agent(&bob).await);
    let claim = bob.send_numbered("claimTasks", json!({"types": ["sum"], "waitMs": 60_000})).await;
    // The reply to a later frame arrives while the claim waits.
    bob.ok("commit", json!({"ops": [{"op": "put", "key": "k", "content": 1}], "idempotencyKey": "k"})).await;
    create_task(&mut alice, "one").await;
    let claimed = bob.response(claim).await;
    let task = &claimed["ok"]["tasks"][0];
    assert_eq!((&task["id"], &task["input"], &task["attempt"]), (&json!("one"), &json!([1, 2]), &json!(1)));
    let complete = json!({"op": "task.complete", "id": "one", "leaseToken": task["leaseToken"], "result": 3});
    bob.ok("commit", json!({"ops": [complete], "idempotencyKey": "done"})).await;
    let shown = server.hub.get(&server.hub.admin, "/v1/tasks/one").await.ok(200);
    assert_eq!((&shown["status"], &shown["result"]), (&json!("done"), &json!(3)));
    assert_eq!(bob.ok("claimTasks", json!({"types": ["sum"]})).await["tasks"], json!([]));
}

// Fails under: a claim that keeps waiting after its connection has closed, and takes the next task.
#[tokio::test]
async fn n11_a_claim_ends_with_its_connection() {
    let server = TestServer::new().await;
    let [alice, bob, carol] = [
        server.hub.register("alice").await,
        server.hub.register("bob").await,
        server.hub.register("carol").await,
    ];
    let mut bob = server.connect_agent(&bob).await;
    bob.send_numbered("claimTasks", json!({"types": ["sum"], "waitMs": 60_000})).await;
    bob.ok("credit", json!({"messages": 1_000, "bytes": 100_000_000})).await;
    drop(bob);
    until_disconnected(&server, "bob").await;
    create_task(&mut server.connect_agent(&alice).await, "one").await;
    let mut carol = server.connect_agent(&carol).await;
    let claimed = carol.ok("claimTasks", json!({"types": ["sum"]})).await;
    assert_eq!(claimed["tasks"][0]["id"], "one", "{claimed}");
}

#[tokio::test]
async fn n11_a_claim_with_a_key_can_be_repeated_after_a_reconnect() {
    let server = TestServer::new().await;
    let (alice, token) = (server.hub.register("alice").await, server.hub.register("bob").await);
    create_task(&mut server.connect_agent(&alice).await, "one").await;
    let (mut bob, welcome) = server.hello(json!({"token": token})).await;
    let claim = json!({"types": ["sum"], "waitMs": 1_000, "idempotencyKey": "first"});
    let claimed = bob.ok("claimTasks", claim.clone()).await;
    drop(bob);
    let (mut bob, _) = server.hello(json!({"token": token, "epoch": welcome["epoch"]})).await;
    assert_eq!(bob.ok("claimTasks", claim).await, claimed);
    assert_eq!(claimed["tasks"][0]["id"], "one", "{claimed}");
}

#[tokio::test]
async fn n11_a_lock_is_granted_when_its_holder_releases_it() {
    let server = TestServer::new().await;
    let (alice, bob) = (server.hub.register("alice").await, server.hub.register("bob").await);
    let (mut alice, mut bob) = (server.connect_agent(&alice).await, server.connect_agent(&bob).await);
    let held = alice.ok("acquireLocks", json!({"name": "web", "ttlMs": 60_000})).await;
    bob.refused("acquireLocks", json!({"name": "web"}), "TIMEOUT").await;
    let waiting = bob.send_numbered("acquireLocks", json!({"names": ["web"], "waitMs": 60_000})).await;
    bob.ok("credit", json!({"messages": 1_000, "bytes": 100_000_000})).await;
    let fence = held["locks"][0]["fence"].clone();
    let release = json!({"op": "lock.release", "name": "web", "fence": fence});
    alice.ok("commit", json!({"ops": [release], "idempotencyKey": "release"})).await;
    let granted = bob.response(waiting).await;
    assert!(granted["ok"]["locks"][0]["fence"].as_u64() > fence.as_u64(), "{granted}");
}

#[tokio::test]
async fn i21_calls_that_wait_are_limited_per_connection() {
    let server = TestServer::new().await;
    let bob = server.hub.register("bob").await;
    let mut bob = server.connect_agent(&bob).await;
    for _ in 0..256 {
        bob.send_numbered("claimTasks", json!({"types": ["sum"], "waitMs": 60_000})).await;
    }
    let problem = bob.refused("claimTasks", json!({"types": ["sum"]}), "LIMIT_EXCEEDED").await;
    assert_eq!((&problem["limit"], &problem["retryable"]), (&json!(256), &json!(true)), "{problem}");
    let too_long = json!({"types": ["sum"], "waitMs": 3_600_000});
    let mut carol = server.connect_agent(&server.hub.register("carol").await).await;
    carol.refused("claimTasks", too_long, "LIMIT_EXCEEDED").await;
    let unknown: Value = json!({"types": ["sum"], "wait": 1});
    carol.refused("claimTasks", unknown, "INVALID").await;
    carol.refused("acquireLocks", json!({}), "INVALID").await;
}
