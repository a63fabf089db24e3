//! Locks: at most `capacity` holders, increasing fencing tokens, and waiters that are served in order.

use quorate_core::{
    AcquireLocks, Code, Commit, ConsumerEvent, ConsumerId, DeleteEntry, Fence, FenceRef, GrantedLocks,
    Inspect, InspectResult, Item, ItemKey, ItemKind, Lock, LockName, Op, OpResult, Principal, Priority,
    PutEntry, RenewLocks, WaitMode, limits,
};

use super::builders::{agent, delete, id, idempotency_key, key, message_to, put_entry, send};
use super::test_bench::TestBench;
use crate::{ReadQuery, ReadResult};

fn name(text: &str) -> LockName {
    LockName::new(text).expect("valid name")
}

fn lock_request(agent_id: &str, names: &[&str]) -> AcquireLocks {
    AcquireLocks {
        agent: id(agent_id),
        names: names.iter().map(|text| name(text)).collect(),
        ttl_ms: limits::LEASE_MS_DEFAULT,
        priority: Priority::NORMAL,
        capacity: None,
        wait: WaitMode::NoWait,
        within: None,
    }
}

fn acquire(agent_id: &str, names: &[&str]) -> Op {
    Op::AcquireLocks(lock_request(agent_id, names))
}

fn wait(agent_id: &str, names: &[&str], consumer: u64) -> Op {
    Op::AcquireLocks(AcquireLocks {
        wait: WaitMode::Once(ConsumerId(consumer)),
        ..lock_request(agent_id, names)
    })
}

fn fence(lock: &str, fence: u64) -> FenceRef {
    FenceRef { lock: name(lock), fence: Fence(fence) }
}

fn release(lock: &str, number: u64) -> Op {
    Op::ReleaseLocks(vec![fence(lock, number)])
}

fn renew(lock: &str, number: u64) -> Op {
    Op::RenewLocks(RenewLocks::with_granted_ttl(vec![fence(lock, number)]))
}

fn renew_for(ttl_ms: u64, lock: &str, number: u64) -> Op {
    Op::RenewLocks(RenewLocks { locks: vec![fence(lock, number)], ttl_ms: Some(ttl_ms) })
}

fn put_under(lock: &str, number: u64) -> Op {
    Op::Put(PutEntry { fence: Some(fence(lock, number)), ..put_entry("k", "1") })
}

fn granted_locks(fences: &[(&str, u64)]) -> GrantedLocks {
    let locks = fences.iter().map(|(lock, number)| fence(lock, *number)).collect();
    GrantedLocks { locks, ttl_ms: limits::LEASE_MS_DEFAULT }
}

/// Acquires locks that must be free and returns their fencing tokens.
async fn acquired(bench: &TestBench, agent_id: &str, names: &[&str]) -> GrantedLocks {
    match bench.commit_ok(agent(agent_id), vec![acquire(agent_id, names)]).await.results.remove(0) {
        OpResult::LocksGranted(granted_locks) => granted_locks,
        other => panic!("not acquired: {other:?}"),
    }
}

async fn enqueue(bench: &TestBench, agent_id: &str, names: &[&str], consumer: u64) {
    let receipt = bench.commit_ok(agent(agent_id), vec![wait(agent_id, names, consumer)]).await;
    assert_eq!((receipt.seq, receipt.results), (None, vec![OpResult::Queued]));
}

async fn lock(bench: &TestBench, text: &str) -> Lock {
    match bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Lock, text))).await {
        ReadResult::Item(Some(Item::Lock(lock))) => lock,
        other => panic!("not a lock: {other:?}"),
    }
}

fn granted(consumer: u64, fences: &[(&str, u64)]) -> (ConsumerId, ConsumerEvent) {
    (ConsumerId(consumer), ConsumerEvent::LocksGranted(granted_locks(fences)))
}

pub async fn a_lock_has_one_holder_at_a_time(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    assert_eq!(acquired(&bench, "alice", &["x"]).await, granted_locks(&[("x", 1)]));
    bench.commit_refused_with(Code::Timeout, agent("bob"), vec![acquire("bob", &["x"])]).await;
    bench.commit_ok(agent("alice"), vec![release("x", 1)]).await;
    assert_eq!(acquired(&bench, "bob", &["x"]).await, granted_locks(&[("x", 2)]));
    let stored = lock(&bench, "x").await;
    assert_eq!((stored.capacity, stored.last_fence, stored.grants.len()), (1, Fence(2), 1));
    assert_eq!(stored.grants[0].holder, bench.published().agents.number(&id("bob")).expect("bob"));
}

pub async fn a_lock_has_at_most_as_many_holders_as_its_capacity(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let double = Op::AcquireLocks(AcquireLocks { capacity: Some(2), ..lock_request("alice", &["x"]) });
    bench.commit_ok(agent("alice"), vec![double]).await;
    acquired(&bench, "bob", &["x"]).await;
    bench.commit_refused_with(Code::Timeout, agent("bob"), vec![acquire("bob", &["x"])]).await;
    let single = || Op::AcquireLocks(AcquireLocks { capacity: Some(1), ..lock_request("bob", &["x"]) });
    let refused = bench.commit_refused(agent("bob"), vec![single()]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::Conflict, Some(2)));
    bench.commit_ok(agent("alice"), vec![release("x", 1)]).await;
    bench.commit_refused_with(Code::Conflict, agent("bob"), vec![single()]).await;
    bench.commit_ok(agent("bob"), vec![release("x", 2)]).await;
    bench.commit_ok(agent("bob"), vec![single()]).await;
    assert_eq!(lock(&bench, "x").await.capacity, 1, "the capacity of a free lock may change");
}

pub async fn several_locks_are_acquired_atomically(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    acquired(&bench, "alice", &["b"]).await;
    bench.commit_refused_with(Code::Timeout, agent("bob"), vec![acquire("bob", &["c", "b", "a"])]).await;
    enqueue(&bench, "bob", &["c", "b", "a", "c"], 1).await;
    assert!(matches!(
        bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Lock, "a"))).await,
        ReadResult::Item(None)
    ));
    bench.commit_ok(agent("alice"), vec![release("b", 1)]).await;
    assert_eq!(bench.consumer_events(), vec![granted(1, &[("a", 1), ("b", 2), ("c", 1)])]);
}

pub async fn lock_waiters_are_served_by_priority_then_arrival(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    acquired(&bench, "alice", &["x"]).await;
    enqueue(&bench, "bob", &["x"], 1).await;
    let urgent = AcquireLocks {
        priority: Priority::URGENT,
        wait: WaitMode::Once(ConsumerId(2)),
        ..lock_request("carol", &["x"])
    };
    bench.commit_ok(agent("carol"), vec![Op::AcquireLocks(urgent)]).await;
    enqueue(&bench, "carol", &["x"], 3).await;
    bench.commit_ok(agent("alice"), vec![release("x", 1)]).await;
    bench.commit_ok(agent("carol"), vec![release("x", 2)]).await;
    bench.commit_ok(agent("bob"), vec![release("x", 3)]).await;
    assert_eq!(
        bench.consumer_events(),
        vec![granted(2, &[("x", 2)]), granted(1, &[("x", 3)]), granted(3, &[("x", 4)])]
    );
}

pub async fn a_new_acquire_does_not_overtake_waiters(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    acquired(&bench, "alice", &["x"]).await;
    enqueue(&bench, "bob", &["x", "y"], 1).await;
    bench.commit_refused_with(Code::Timeout, agent("carol"), vec![acquire("carol", &["y"])]).await;
    enqueue(&bench, "carol", &["y"], 2).await;
    let lengths = Op::Inspect(Inspect::LockQueueLengths(["z", "y", "x"].map(name).to_vec()));
    let lengths = bench.commit_ok(Principal::System, vec![lengths]).await.results.remove(0);
    assert_eq!(lengths, OpResult::Inspected(Box::new(InspectResult::LockQueueLengths(vec![0, 2, 1]))));
    bench.commit_ok(agent("bob"), vec![Op::CloseConsumer { consumer: ConsumerId(1) }]).await;
    assert_eq!(
        bench.consumer_events(),
        vec![granted(2, &[("y", 1)])],
        "the next waiter is served when one leaves the queue"
    );
}

pub async fn a_lock_hold_expires(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    acquired(&bench, "alice", &["x"]).await;
    enqueue(&bench, "bob", &["x"], 1).await;
    bench.advance_secs(29);
    assert_eq!(bench.sweep().await.seq, None);
    bench.commit_ok(agent("alice"), vec![renew("x", 1)]).await;
    bench.advance_secs(29);
    bench.sweep().await;
    assert_eq!(bench.consumer_events(), vec![]);
    bench.advance_secs(1);
    bench.sweep().await;
    assert_eq!(bench.consumer_events(), vec![granted(1, &[("x", 2)])]);
    for op in [renew("x", 1), release("x", 1)] {
        let refused = bench.commit_refused(agent("alice"), vec![op]).await;
        assert_eq!((refused.code, refused.facts.current_fence), (Code::StaleFence, Some(2)));
    }
}

pub async fn a_lock_renewal_leaves_no_record(bench: TestBench) {
    bench.register("alice").await;
    acquired(&bench, "alice", &["x", "y"]).await;
    let both = |ttl_ms| Op::RenewLocks(RenewLocks { locks: vec![fence("x", 1), fence("y", 1)], ttl_ms });
    assert_eq!(bench.commit_ok(agent("alice"), vec![both(None)]).await.seq, None);
    assert_eq!(bench.commit_ok(agent("alice"), vec![both(Some(60_000))]).await.seq, None);
}

pub async fn a_lock_renewal_may_set_the_ttl(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    acquired(&bench, "alice", &["x"]).await;
    bench.commit_ok(agent("alice"), vec![renew_for(60_000, "x", 1)]).await;
    bench.advance_secs(59);
    assert_eq!(bench.sweep().await.seq, None, "the renewal extended the hold");
    bench.commit_ok(agent("alice"), vec![renew("x", 1)]).await;
    bench.advance_secs(29);
    assert_eq!(bench.sweep().await.seq, None);
    bench.commit_ok(agent("alice"), vec![renew_for(2_000, "x", 1)]).await;
    enqueue(&bench, "bob", &["x"], 1).await;
    bench.advance_secs(1);
    assert_eq!(bench.sweep().await.seq, None);
    bench.advance_secs(1);
    bench.sweep().await;
    assert_eq!(bench.consumer_events(), vec![granted(1, &[("x", 2)])], "a renewal may also shorten the hold");
    bench.commit_ok(agent("bob"), vec![renew_for(60_000, "x", 2)]).await;
    bench.reopen().await;
    bench.advance_secs(29);
    assert_eq!(bench.sweep().await.seq, None);
    bench.advance_secs(1);
    assert!(bench.sweep().await.seq.is_some(), "after a restart the hold runs for its original duration");
}

pub async fn a_new_epoch_releases_locks(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    acquired(&bench, "alice", &["x"]).await;
    acquired(&bench, "bob", &["y"]).await;
    enqueue(&bench, "alice", &["y"], 1).await;
    enqueue(&bench, "bob", &["x"], 2).await;
    bench.register("alice").await;
    assert_eq!(bench.dismissed_consumers(), vec![ConsumerId(1)]);
    assert_eq!(bench.consumer_events(), vec![granted(2, &[("x", 2)])]);
    bench.commit_refused_with(Code::StaleFence, agent("alice"), vec![release("x", 1)]).await;
    bench.commit_ok(agent("bob"), vec![Op::RemoveAgent { agent: id("bob") }]).await;
    assert!(lock(&bench, "x").await.is_free() && lock(&bench, "y").await.is_free());
}

pub async fn only_the_holder_may_renew_or_release_a_lock(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![acquire("alice", &["x"])]).await;
    acquired(&bench, "alice", &["x"]).await;
    for op in [renew("x", 1), release("x", 1)] {
        bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![op]).await;
    }
    for op in [renew("y", 1), release("y", 1), put_under("y", 1)] {
        bench.commit_refused_with(Code::NotFound, agent("alice"), vec![op]).await;
    }
    bench.commit_refused_with(Code::StaleFence, agent("alice"), vec![release("x", 2)]).await;
}

pub async fn a_write_with_a_stale_fencing_token_is_refused(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    acquired(&bench, "alice", &["x"]).await;
    bench.commit_ok(agent("alice"), vec![put_under("x", 1)]).await;
    bench.commit_ok(agent("alice"), vec![release("x", 1)]).await;
    bench.commit_ok(agent("alice"), vec![put_under("x", 1)]).await;
    acquired(&bench, "bob", &["x"]).await;
    let refused = bench.commit_refused(agent("alice"), vec![put_under("x", 1), delete("k", Some(9))]).await;
    assert_eq!((refused.code, refused.facts.stale.len()), (Code::StaleFence, 2));
    let entry = DeleteEntry { key: key("k"), expect: None, fence: Some(fence("x", 1)) };
    bench.commit_refused_with(Code::StaleFence, agent("alice"), vec![Op::Delete(entry)]).await;
    bench.commit_refused_with(Code::StaleFence, agent("alice"), vec![put_under("x", 3)]).await;
    bench.commit_ok(agent("bob"), vec![put_under("x", 2)]).await;
}

pub async fn a_refused_commit_neither_acquires_nor_releases_locks(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let delete_wrong_version = || delete("k", Some(9));
    bench.commit_refused(agent("alice"), vec![acquire("alice", &["x"]), delete_wrong_version()]).await;
    acquired(&bench, "alice", &["x"]).await;
    enqueue(&bench, "bob", &["x"], 1).await;
    bench.commit_refused(agent("alice"), vec![release("x", 1), delete_wrong_version()]).await;
    bench
        .commit_refused(
            agent("bob"),
            vec![Op::CloseConsumer { consumer: ConsumerId(1) }, delete_wrong_version()],
        )
        .await;
    assert_eq!(bench.consumer_events(), vec![]);
    bench.commit_ok(agent("alice"), vec![release("x", 1)]).await;
    assert_eq!(bench.consumer_events(), vec![granted(1, &[("x", 2)])]);
}

pub async fn later_operations_see_earlier_lock_changes_of_the_same_commit(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let ops = vec![acquire("alice", &["x"]), put_under("x", 1), release("x", 1), acquire("alice", &["x"])];
    let receipt = bench.commit_ok(agent("alice"), ops).await;
    assert_eq!(receipt.results[3], OpResult::LocksGranted(granted_locks(&[("x", 2)])));
    let within = send("alice", message_to("alice"));
    let receipt =
        bench.commit_ok(agent("alice"), vec![within, release("x", 2), wait("alice", &["x"], 1)]).await;
    assert_eq!(receipt.results[2], OpResult::LocksGranted(granted_locks(&[("x", 3)])));
}

pub async fn a_replayed_acquire_returns_the_same_fencing_tokens(mut bench: TestBench) {
    bench.register("alice").await;
    let keyed = || Commit::new(agent("alice"), vec![acquire("alice", &["x"])]).keyed(idempotency_key("k"));
    let first = bench.commit(keyed()).await;
    assert_eq!(bench.commit(keyed()).await, first);
    bench.reopen().await;
    assert_eq!(bench.commit(keyed()).await, first);
    assert_eq!(lock(&bench, "x").await.last_fence, Fence(1));
}

pub async fn fencing_tokens_keep_increasing_after_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    acquired(&bench, "alice", &["x", "y"]).await;
    enqueue(&bench, "bob", &["x"], 1).await;
    bench.commit_ok(agent("alice"), vec![release("y", 1)]).await;
    bench.advance_secs(29);
    bench.reopen().await;
    bench.advance_secs(29);
    assert_eq!(bench.sweep().await.seq, None, "a hold restarts with its full duration");
    assert_eq!(acquired(&bench, "bob", &["y"]).await, granted_locks(&[("y", 2)]));
    bench.advance_secs(1);
    bench.sweep().await;
    assert_eq!(bench.consumer_events(), vec![], "waiters do not survive a restart");
    assert_eq!(acquired(&bench, "bob", &["x"]).await, granted_locks(&[("x", 2)]));
    bench.commit_refused_with(Code::StaleFence, agent("alice"), vec![put_under("x", 1)]).await;
}

pub async fn an_agent_has_at_most_1_000_lock_waits(bench: TestBench) {
    bench.register("alice").await;
    acquired(&bench, "alice", &["x"]).await;
    let max = limits::LOCK_WAITS_PER_AGENT_MAX as u64;
    let consumers: Vec<u64> = (1..=max).collect();
    for some in consumers.chunks(limits::OPS_MAX) {
        let ops = some.iter().map(|consumer| wait("alice", &["x"], *consumer)).collect();
        bench.commit_ok(agent("alice"), ops).await;
    }
    let refused = bench.commit_refused(agent("alice"), vec![wait("alice", &["y", "x"], max + 1)]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(max)));
    enqueue(&bench, "alice", &["x"], 7).await;
}
