//! Order in which deliveries are claimed.

use quorate_core::{Code, DeliveryNo, Priority, limits};

use super::builders::{agent, claim, nack, nack_for_retry, with_priority};
use super::test_bench::TestBench;
use quorate_core::{NackAction, WaitMode};

async fn order(bench: &TestBench, count: u32) -> Vec<u64> {
    bench.claim("bob", count).await.iter().map(|leased| leased.delivery.0).collect()
}

pub async fn deliveries_are_claimed_in_fifo_order(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for _ in 0..5 {
        bench.send("alice", "bob").await;
    }
    assert_eq!(order(&bench, 3).await, [1, 2, 3]);
    assert_eq!(order(&bench, 9).await, [4, 5]);
    assert_eq!(order(&bench, 9).await, [0_u64; 0], "leased deliveries are not claimed again");
}

pub async fn higher_priority_is_claimed_first(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for priority in [Priority::LOW, Priority::NORMAL, Priority::URGENT, Priority::HIGH, Priority::URGENT] {
        bench.send_as("alice", with_priority("bob", priority)).await;
    }
    assert_eq!(bench.published().ready_by_priority, [1, 1, 1, 2]);
    assert_eq!(order(&bench, 9).await, [3, 5, 4, 2, 1]);
    assert_eq!(bench.published().ready_by_priority, [0; 4]);
}

pub async fn rank_orders_deliveries_within_a_priority_level(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for value in [4, 6, 5, 6, 7, 3] {
        let priority = Priority::from_ten_scale(value).expect("between 1 and 10");
        bench.send_as("alice", with_priority("bob", priority)).await;
    }
    assert_eq!(order(&bench, 9).await, [5, 2, 4, 3, 1, 6]);
}

pub async fn a_lower_priority_is_served_after_64_higher_ones(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", with_priority("bob", Priority::LOW)).await;
    bench.send_as("alice", with_priority("bob", Priority::NORMAL)).await;
    for _ in 0..70 {
        bench.send_as("alice", with_priority("bob", Priority::HIGH)).await;
    }
    let order_of_claims = order(&bench, 70).await;
    let count = limits::STARVATION_COUNT as usize;
    assert_eq!(order_of_claims[..count], (3..3 + count as u64).collect::<Vec<_>>());
    assert_eq!(order_of_claims[count], 1, "the longest-waiting delivery of a lower priority");
    assert_eq!(order_of_claims[count + 1..], [67, 68, 69, 70, 71], "then the higher priority again");
}

pub async fn a_lower_priority_is_served_after_60_s(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", with_priority("bob", Priority::LOW)).await;
    bench.send_as("alice", with_priority("bob", Priority::LOW)).await;
    for _ in 0..9 {
        bench.send_as("alice", with_priority("bob", Priority::HIGH)).await;
    }
    bench.advance_secs(59);
    assert_eq!(order(&bench, 2).await, [3, 4]);
    bench.advance_secs(1);
    assert_eq!(order(&bench, 3).await, [1, 5, 6], "one of a lower priority, then the higher priority again");
    bench.advance_secs(60);
    assert_eq!(order(&bench, 2).await, [2, 7]);
}

pub async fn a_returned_delivery_keeps_its_place_before_newer_ones(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    bench.send("alice", "bob").await;
    let first = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![nack_for_retry(&first)]).await;
    assert_eq!(order(&bench, 9).await, [1, 2]);
}

pub async fn delayed_retries_are_redelivered_in_send_order(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    for from in ["alice", "carol", "alice", "carol"] {
        bench.send(from, "bob").await;
    }
    let held = bench.claim("bob", 2).await;
    let later = NackAction::Retry { delay_ms: Some(1_000) };
    bench.commit_ok(agent("bob"), held.iter().map(|leased| nack(leased, later)).collect()).await;
    assert_eq!(order(&bench, 9).await, [3, 4], "delayed deliveries are skipped");
    bench.advance_secs(1);
    assert_eq!(order(&bench, 9).await, [1, 2]);
}

pub async fn a_claim_takes_at_most_its_maximum(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let head = bench.head();
    let empty = bench.commit_ok(agent("bob"), vec![claim("bob", 5, WaitMode::NoWait)]).await;
    assert_eq!((empty.seq, bench.head()), (None, head), "an empty claim leaves no record");
    bench.send("alice", "bob").await;
    bench.send("alice", "bob").await;
    let leased = bench.claim_one("bob").await;
    assert_eq!(
        (leased.delivery, leased.attempt, leased.lease_ms),
        (DeliveryNo(1), 1, limits::LEASE_MS_DEFAULT)
    );
    let unknown = vec![claim("nobody", 1, WaitMode::NoWait)];
    bench.commit_refused_with(Code::NotFound, quorate_core::Principal::System, unknown).await;
}
