//! Timers on two clocks: leases use the monotonic clock, everything else the wall clock.

use std::time::Duration;

use quorate_core::{
    Code, ConsumerId, EndState, Mono, NackAction, Op, OpenDeliveryState, Principal, RecordKind, Seq,
    Timestamp, WaitMode,
};

use super::builders::{ack, agent, claim, delayed, expiring, extend, nack, nack_for_retry, put_entry};
use super::test_bench::{START_MS, TestBench};
use crate::{Clock as _, ReadQuery, ReadResult, StoredDeliveryState};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

pub async fn a_lease_expires_after_its_duration(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    bench.clock.advance(Duration::from_millis(held.lease_ms - 1));
    assert_eq!(bench.sweep().await.seq, None, "not yet");
    assert_eq!(bench.claim("bob", 1).await, vec![]);
    bench.clock.advance(Duration::from_millis(1));
    bench.sweep().await;
    let redelivered = bench.claim_one("bob").await;
    assert_eq!((redelivered.delivery, redelivered.attempt), (held.delivery, 2));
    assert!(redelivered.token > held.token);
    bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![ack(&held)]).await;
}

pub async fn an_expired_lease_is_held_until_the_sweep(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    bench.advance_secs(31);
    assert_eq!(bench.claim("bob", 1).await, vec![], "only a sweep returns it");
    bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
}

pub async fn an_extension_leaves_no_record(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    let head = bench.head();
    bench.advance_secs(20);
    let receipt = bench.commit_ok(agent("bob"), vec![extend(&held, 60_000)]).await;
    assert_eq!((receipt.seq, bench.head()), (None, head));
    bench.advance_secs(59);
    assert_eq!(bench.sweep().await.seq, None, "60 s from the extension");
    bench.advance_secs(1);
    assert!(bench.sweep().await.seq.is_some());
    assert_eq!(bench.claim_one("bob").await.attempt, 2);
}

pub async fn an_expired_message_is_not_delivered(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let sent = bench.send_as("alice", expiring("bob", START_MS + 5_000)).await;
    let late = bench.send_as("alice", expiring("bob", START_MS + 5_001)).await;
    bench.advance_secs(5);
    let leased = bench.claim("bob", 9).await;
    assert_eq!(
        leased.iter().map(|leased_delivery| leased_delivery.delivery).collect::<Vec<_>>(),
        [late.first_delivery]
    );
    let ended = StoredDeliveryState::Ended { state: EndState::Expired, seq: bench.head() };
    assert_eq!(bench.delivery_state(sent.first_delivery).await, Some(ended), "expired by the claim");
    bench.commit_ok(agent("bob"), vec![ack(&leased[0])]).await;
}

pub async fn an_unclaimed_message_expires_in_a_sweep(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", expiring("bob", START_MS + 5_000)).await;
    assert_eq!(bench.published().wake.wall, Some(Timestamp(START_MS + 5_000)));
    bench.clock.advance(Duration::from_millis(4_999));
    assert_eq!(bench.sweep().await.seq, None);
    bench.clock.advance(Duration::from_millis(1));
    assert!(bench.sweep().await.seq.is_some());
    assert_eq!((bench.counts().expired, bench.counts().ready), (1, 0));
    assert_eq!(bench.published().wake.wall, None);
}

pub async fn a_leased_message_expires_when_it_is_returned(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for _ in 0..3 {
        bench.send_as("alice", expiring("bob", START_MS + 5_000)).await;
    }
    let held = bench.claim("bob", 3).await;
    bench.advance_secs(6);
    assert_eq!(bench.sweep().await.seq, None, "it is leased and may still be acked");
    bench
        .commit_ok(
            agent("bob"),
            vec![ack(&held[0]), nack_for_retry(&held[1]), nack(&held[2], NackAction::Release)],
        )
        .await;
    assert_eq!((bench.counts().acked, bench.counts().expired), (1, 2));
}

pub async fn a_delayed_message_is_not_delivered_before_its_time(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let sent = bench.send_as("alice", delayed("bob", START_MS + 10_000)).await;
    assert_eq!(bench.counts().scheduled, 1);
    let due = OpenDeliveryState::Scheduled { due: Timestamp(START_MS + 10_000) };
    assert_eq!(
        bench.delivery_state(sent.first_delivery).await,
        Some(StoredDeliveryState::Open { state: due, attempt: 0 })
    );
    bench.clock.advance(Duration::from_millis(9_999));
    assert_eq!(bench.claim("bob", 1).await, vec![]);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.sweep().await.seq, None, "becoming due writes no record");
    assert_eq!((bench.counts().scheduled, bench.counts().ready), (0, 1));
    assert_eq!(bench.claim_one("bob").await.delivery, sent.first_delivery);
}

pub async fn a_delayed_message_is_delivered_to_a_waiting_consumer_when_due(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 1, WaitMode::Once(ConsumerId(1))).await;
    let sent = bench.send_as("alice", delayed("bob", START_MS + 10_000)).await;
    assert_eq!(bench.dispatched(), vec![]);
    bench.advance_secs(10);
    bench.sweep().await;
    let dispatched = bench.dispatched();
    assert_eq!((dispatched[0].0, dispatched[0].1.delivery), (ConsumerId(1), sent.first_delivery));
}

pub async fn a_delayed_message_that_falls_due_in_a_refused_commit_is_delivered_by_the_next_sweep(
    bench: TestBench,
) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 1, WaitMode::Once(ConsumerId(1))).await;
    bench.send_as("alice", delayed("bob", START_MS + 10_000)).await;
    bench.advance_secs(10);
    let stale = vec![super::builders::put_if_version("k", "1", 9)];
    bench.commit_refused_with(Code::VersionConflict, agent("alice"), stale).await;
    assert_eq!(bench.dispatched(), vec![]);
    assert!(bench.published().wake.is_due(bench.clock.now()), "the next sweep is due immediately");
    bench.sweep().await;
    assert_eq!(bench.dispatched().len(), 1);
}

pub async fn a_forward_wall_clock_jump_does_not_expire_leases(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    bench.clock.jump_wall_to(START_MS + DAY_MS);
    assert_eq!(bench.sweep().await.seq, None, "a jump of a day forward expires nothing");
    bench.advance_secs(29);
    assert_eq!(bench.sweep().await.seq, None);
    bench.advance_secs(1);
    bench.sweep().await;
    assert_eq!(bench.claim_one("bob").await.delivery, held.delivery);
}

pub async fn a_backward_wall_clock_jump_does_not_extend_leases(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    bench.clock.jump_wall_to(START_MS - DAY_MS);
    bench.advance_secs(30);
    bench.sweep().await;
    assert_eq!(bench.claim_one("bob").await.delivery, held.delivery, "a jump of a day back extends nothing");
}

pub async fn record_timestamps_never_decrease(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    bench.clock.jump_wall_to(START_MS - DAY_MS);
    let receipt = bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "1"))]).await;
    assert_eq!(receipt.at, Timestamp(START_MS));
    bench.send("alice", "bob").await;
    let order: Vec<_> = bench.claim("bob", 9).await.iter().map(|leased| leased.delivery.0).collect();
    assert_eq!(order, [1, 2], "the order is unchanged");
    let records = bench.store().log(bench.space, Seq(1), 100).await.expect("reads work");
    assert!(records.windows(2).all(|pair| pair[0].at <= pair[1].at));
    bench.clock.jump_wall_to(START_MS + DAY_MS);
    let receipt = bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "2"))]).await;
    assert_eq!(receipt.at, Timestamp(START_MS + DAY_MS));
}

pub async fn only_the_hub_may_sweep(bench: TestBench) {
    bench.register("bob").await;
    bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![Op::Sweep]).await;
    assert_eq!(bench.sweep().await.seq, None, "nothing is due, so there is no record");
}

pub async fn a_sweep_writes_a_sweep_record(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    bench.claim_one("bob").await;
    bench.advance_secs(30);
    let seq = bench.sweep().await.seq.expect("a lease expired");
    let records = bench.store().log(bench.space, seq, 1).await.expect("reads work");
    assert_eq!(records[0].kind, RecordKind::Sweep.number());
    assert_eq!(records[0].principal, Principal::System.to_string());
}

pub async fn the_wake_time_is_the_next_timer(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    assert_eq!(bench.published().wake, quorate_core::NextWake::default());
    bench.send("alice", "bob").await;
    bench.advance_secs(7);
    bench.commit_ok(agent("bob"), vec![claim("bob", 1, WaitMode::NoWait)]).await;
    assert_eq!(bench.published().wake.mono, Some(Mono(37_000)));
    bench.send_as("alice", delayed("bob", START_MS + 20_000)).await;
    bench.send_as("alice", expiring("bob", START_MS + 15_000)).await;
    assert_eq!(bench.published().wake.wall, Some(Timestamp(START_MS + 15_000)));
}

pub async fn the_newest_record_as_of_a_time_is_found(bench: TestBench) {
    bench.register("alice").await;
    let first = bench.head();
    bench.advance_secs(10);
    bench.register("bob").await;
    for (ms, seq) in [(0, Seq(0)), (START_MS, first), (START_MS + 9_999, first), (u64::MAX, bench.head())] {
        assert_eq!(bench.read(ReadQuery::SeqAt(Timestamp(ms))).await, ReadResult::Seq(seq), "at {ms}");
    }
}
