//! C8, I12: locks through the library.

use std::sync::Arc;
use std::time::Duration;

use quorate::{Agent, Code, Hub, HubOptions, ManualClock};
use quorate_core::{Commit, Lock, LockName, Op, Principal};
use tempfile::TempDir;

const SECOND: Duration = Duration::from_secs(1);

async fn hub() -> (TempDir, Hub, Arc<ManualClock>) {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(1_800_000_000_000);
    let options = HubOptions { clock: clock.clone(), ..HubOptions::default() };
    let hub = Hub::open_with(directory.path().join("team"), options).await.unwrap();
    (directory, hub, clock)
}

async fn join(hub: &Hub, id: &str) -> Agent {
    hub.agent(id).join().await.unwrap()
}

/// Waits until the log has this many records, to observe background commits.
async fn until_record(hub: &Hub, seq: u64) {
    let mut follow = hub.space().expect("an embedded hub").follow();
    let reached = follow.wait_for(|published| published.head.seq.0 >= seq);
    tokio::time::timeout(Duration::from_secs(20), reached).await.expect("in time").unwrap();
}

/// Lets spawned tasks make progress.
async fn settle(hub: &Hub) {
    for _ in 0..10 {
        tokio::task::yield_now().await;
        // Resolves after all earlier commands of the writer, and writes nothing.
        hub.space()
            .expect("an embedded hub")
            .commit(Commit::new(Principal::System, vec![Op::Sweep]))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn c8_a_waiting_agent_gets_the_lock_when_it_is_released() {
    let (_directory, hub, _clock) = hub().await;
    let (alice, bob) = (join(&hub, "alice").await, join(&hub, "bob").await);
    let held = alice.lock(["plan", "budget"]).await.unwrap();
    assert_eq!(held.fences().len(), 2);
    let waiting = tokio::spawn(async move { bob.lock(["plan"]).await });
    settle(&hub).await;
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    let granted = waiting.await.unwrap().unwrap();
    assert_eq!(granted.fence("plan").unwrap().fence.0, 2);
    assert_eq!(granted.fence("budget").unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn c8_a_lock_not_granted_in_time_is_a_timeout() {
    let (_directory, hub, clock) = hub().await;
    let (alice, bob) = (join(&hub, "alice").await, join(&hub, "bob").await);
    let held = alice.lock(["plan"]).await.unwrap();
    let refused = bob.lock(["plan"]).timeout(Duration::ZERO).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::Timeout);
    let waiting = tokio::spawn(async move { bob.lock(["plan"]).timeout(5 * SECOND).await.map(drop) });
    settle(&hub).await;
    clock.advance(5 * SECOND);
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::Timeout);
    held.release().await.unwrap();
    let name = LockName::new("plan").unwrap();
    let lock: Lock = hub.space().expect("an embedded hub").item(&name).await.unwrap();
    assert!(lock.is_free(), "a waiter that timed out leaves the queue");
}

#[tokio::test]
async fn c8_a_dropped_wait_leaves_the_queue() {
    let (_directory, hub, _clock) = hub().await;
    let (alice, bob) = (join(&hub, "alice").await, join(&hub, "bob").await);
    let held = alice.lock(["plan"]).await.unwrap();
    let waiting = tokio::spawn(async move { bob.lock(["plan"]).await.map(drop) });
    settle(&hub).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    settle(&hub).await;
    held.release().await.unwrap();
    settle(&hub).await;
    let carol = join(&hub, "carol").await;
    let granted = carol.lock(["plan"]).timeout(Duration::ZERO).await.unwrap();
    assert_eq!(granted.fences()[0].1.0, 2, "it was not granted in between");
}

#[tokio::test]
async fn c8_a_dropped_guard_releases_its_locks() {
    let (_directory, hub, _clock) = hub().await;
    let (alice, bob) = (join(&hub, "alice").await, join(&hub, "bob").await);
    let held = alice.lock(["plan"]).await.unwrap();
    let head = hub.space().expect("an embedded hub").published().head.seq.0;
    drop(held);
    until_record(&hub, head + 1).await;
    assert!(bob.lock(["plan"]).timeout(Duration::ZERO).await.is_ok());
}

#[tokio::test]
async fn i12_a_stale_fencing_token_is_rejected() {
    let (_directory, hub, clock) = hub().await;
    let (alice, bob) = (join(&hub, "alice").await, join(&hub, "bob").await);
    let expired = alice.lock(["plan"]).ttl(10 * SECOND).await.unwrap();
    clock.advance(9 * SECOND);
    expired.renew().await.unwrap();
    let head = hub.space().expect("an embedded hub").published().head.seq.0;
    clock.advance(10 * SECOND);
    until_record(&hub, head + 1).await;
    let next = bob.lock(["plan"]).timeout(Duration::ZERO).await.unwrap();
    bob.memory().with_fence(next.fence("plan").unwrap()).put("plan", "plan", 2).await.unwrap();
    let fence = expired.fence("plan").unwrap();
    let written = alice.memory().with_fence(fence.clone()).put("plan", "plan", 1).await;
    assert_eq!(written.unwrap_err().code(), Code::StaleFence);
    let deleted = alice.memory().with_fence(fence.clone()).delete("plan", None).await;
    assert_eq!(deleted.unwrap_err().code(), Code::StaleFence);
    let step = alice.commit().with_fence(fence).put("plan", "plan", 1).commit().await;
    assert_eq!(step.unwrap_err().code(), Code::StaleFence);
    assert_eq!(expired.renew().await.unwrap_err().code(), Code::StaleFence);
    assert_eq!(hub.memory().get("plan").await.unwrap().unwrap().content::<u32>().unwrap(), 2);
}

#[tokio::test]
async fn c8_a_new_epoch_ends_the_waits_of_the_old_one() {
    let (_directory, hub, _clock) = hub().await;
    let (alice, bob) = (join(&hub, "alice").await, join(&hub, "bob").await);
    let _held = alice.lock(["plan"]).await.unwrap();
    let waiting = tokio::spawn(async move { bob.lock(["plan"]).await.map(drop) });
    settle(&hub).await;
    join(&hub, "bob").await;
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::StaleEpoch);
}
