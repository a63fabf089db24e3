//! Restore from a backup: it ends every lease and every lock hold, and no number is reused.

use quorate_core::{
    AcquireLocks, ClaimTasks, Code, CompleteTask, CreateTasks, EndState, Fence, FenceRef, HeartbeatTask,
    LeasedTask, LockName, Message, NewTask, Op, OpResult, Priority, PutEntry, RenewLocks, Version, WaitMode,
    limits,
};

use super::builders::{ack, agent, extend, id, message_to, nack_for_retry, put_entry};
use super::test_bench::TestBench;
use crate::StoredDeliveryState;

async fn acquire_lock(bench: &TestBench, agent_id: &str) -> FenceRef {
    let acquire = AcquireLocks {
        agent: id(agent_id),
        names: vec![LockName::new("l").expect("valid name")],
        ttl_ms: limits::LEASE_MS_DEFAULT,
        priority: Priority::NORMAL,
        capacity: None,
        wait: WaitMode::NoWait,
        within: None,
    };
    match bench.commit_ok(agent(agent_id), vec![Op::AcquireLocks(acquire)]).await.results.remove(0) {
        OpResult::LocksGranted(mut granted) => granted.locks.remove(0),
        other => panic!("not acquired: {other:?}"),
    }
}

async fn claim_task(bench: &TestBench, agent_id: &str) -> LeasedTask {
    let claim = ClaimTasks {
        agent: id(agent_id),
        types: vec!["work".into()],
        max: 1,
        lease_ms: None,
        wait: WaitMode::NoWait,
    };
    match bench.commit_ok(agent(agent_id), vec![Op::ClaimTasks(claim)]).await.results.remove(0) {
        OpResult::TasksClaimed(mut leased) => leased.remove(0),
        other => panic!("not a claim: {other:?}"),
    }
}

fn put_under(fence: &FenceRef) -> Op {
    Op::Put(PutEntry { fence: Some(fence.clone()), ..put_entry("k", "1") })
}

async fn create_task(bench: &TestBench, agent_id: &str) {
    let create = CreateTasks { tasks: vec![NewTask::new("work")], inputs: None };
    bench.commit_ok(agent(agent_id), vec![Op::CreateTasks(create)]).await;
}

fn done(held: &LeasedTask) -> Op {
    Op::CompleteTask(CompleteTask::done(held.lease_ref(), None))
}

// Fails under: a restore that keeps the leases of the backup, or only raises the tokens of later leases.
pub async fn i8_a_restore_ends_every_lease(mut bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    bench.send("alice", "bob").await;
    let delivery = bench.claim_one("bob").await;
    create_task(&bench, "alice").await;
    let task = claim_task(&bench, "bob").await;
    let before = bench.published();
    bench.restore().await;
    let after = bench.published();
    assert_eq!(after.head.seq.0, before.head.seq.0 + 1, "the restore is one record");
    assert_eq!((after.counts.leased, after.counts.ready), (0, 1));
    let heartbeat = Op::HeartbeatTask(HeartbeatTask { lease: task.lease_ref(), partial: None });
    for stale in
        [ack(&delivery), nack_for_retry(&delivery), extend(&delivery, 60_000), done(&task), heartbeat]
    {
        bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![stale]).await;
    }
    let redelivered = bench.claim_one("bob").await;
    assert_eq!((redelivered.delivery, redelivered.attempt), (delivery.delivery, 2));
    let reclaimed = claim_task(&bench, "carol").await;
    assert_eq!((&reclaimed.task.spec.id, reclaimed.task.attempt), (&task.task.spec.id, 2));
    assert!(redelivered.token > delivery.token && reclaimed.lease_ref().token > task.lease_ref().token);
    for stale in [ack(&delivery), done(&task)] {
        bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![stale]).await;
    }
    bench.commit_ok(agent("bob"), vec![ack(&redelivered)]).await;
    bench.commit_ok(agent("carol"), vec![done(&reclaimed)]).await;
    bench.reopen().await;
    bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![done(&task)]).await;
}

// Fails under: a restore that keeps the lock holds of the backup; a `Lock::accepts` that ignores the generation.
pub async fn i12_a_restore_ends_every_lock_hold_and_invalidates_earlier_fencing_tokens(mut bench: TestBench) {
    bench.register_all(&["bob", "carol"]).await;
    let old = acquire_lock(&bench, "bob").await;
    bench.commit_ok(agent("bob"), vec![put_under(&old)]).await;
    bench.restore().await;
    bench.commit_refused_with(Code::StaleFence, agent("bob"), vec![put_under(&old)]).await;
    let renew = Op::RenewLocks(RenewLocks::with_granted_ttl(vec![old.clone()]));
    bench.commit_refused_with(Code::StaleFence, agent("bob"), vec![renew]).await;
    bench
        .commit_refused_with(Code::StaleFence, agent("bob"), vec![Op::ReleaseLocks(vec![old.clone()])])
        .await;
    let new = acquire_lock(&bench, "carol").await;
    assert!(
        new.fence > Fence(old.fence.0 + 1),
        "it skips the fencing tokens that the lost history may have used"
    );
    bench.commit_ok(agent("carol"), vec![put_under(&new)]).await;
    bench.commit_ok(agent("carol"), vec![Op::ReleaseLocks(vec![new.clone()])]).await;
    bench.commit_ok(agent("carol"), vec![put_under(&new)]).await;
    bench.reopen().await;
    bench.commit_ok(agent("carol"), vec![put_under(&new)]).await;
    bench.commit_refused_with(Code::StaleFence, agent("bob"), vec![put_under(&old)]).await;
}

// Fails under: a restore that does not count the interrupted attempt: a message that crashes its holder would be
// redelivered forever.
pub async fn i24_a_restore_counts_the_interrupted_attempt(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let sent = bench.send_as("alice", Message { attempts_max: 1, ..message_to("bob") }).await;
    bench.claim_one("bob").await;
    bench.restore().await;
    assert_eq!(bench.claim("bob", 1).await, vec![]);
    assert_eq!(bench.published().counts.dead, 1);
    let state = bench.delivery_state(sent.first_delivery).await;
    assert!(matches!(state, Some(StoredDeliveryState::Ended { state: EndState::Dead, .. })), "{state:?}");
    let dead_letters = bench.dead_letters().await;
    assert_eq!(dead_letters[0].reason, "a backup was restored during the last attempt");
}

// Fails under: a restore that reuses the generation of the previous one.
pub async fn i24_numbers_increase_with_every_restore(mut bench: TestBench) {
    bench.register_all(&["bob"]).await;
    bench.commit_ok(agent("bob"), vec![Op::Put(put_entry("k", "1"))]).await;
    let mut last = (Version(0), Fence(0), bench.published().head.generation);
    for _ in 0..2 {
        let old = acquire_lock(&bench, "bob").await;
        bench.advance_secs(60);
        bench.restore().await;
        let version = match bench.commit_ok(agent("bob"), vec![Op::Put(put_entry("k", "2"))]).await.results[0]
        {
            OpResult::Written { version } => version,
            ref other => panic!("not a write: {other:?}"),
        };
        let new = acquire_lock(&bench, "bob").await;
        let generation = bench.published().head.generation;
        assert!(new.fence > old.fence && version > last.0 && new.fence > last.1 && generation > last.2);
        bench.commit_ok(agent("bob"), vec![Op::ReleaseLocks(vec![new.clone()])]).await;
        bench.commit_refused_with(Code::StaleFence, agent("bob"), vec![put_under(&old)]).await;
        last = (version, new.fence, generation);
    }
}
