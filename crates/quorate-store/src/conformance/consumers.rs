//! Waiting consumers: they receive new deliveries in turn and within their credit.

use quorate_core::{
    Code, Commit, ConsumerId, LeasedDelivery, Message, Op, Principal, Priority, WaitMode, limits,
};

use super::builders::{ack, agent, claim, expiring, message_to, nack_for_retry, send, with_priority};
use super::test_bench::{TestBench, claimed};

const FIRST: ConsumerId = ConsumerId(1);
const SECOND: ConsumerId = ConsumerId(2);

fn deliveries_by_consumer(bench: &TestBench) -> Vec<(u64, u64)> {
    bench.dispatched().iter().map(|(consumer, leased)| (consumer.0, leased.delivery.0)).collect()
}

pub async fn a_waiting_claim_is_leased_the_message_in_the_commit_that_sends_it(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 3, WaitMode::Once(FIRST)).await;
    let head = bench.head();
    let sent = bench.send("alice", "bob").await;
    assert_eq!(bench.head().0, head.0 + 1, "one record for both");
    let dispatched = bench.dispatched();
    let (consumer, leased) = &dispatched[0];
    assert_eq!((dispatched.len(), *consumer), (1, FIRST));
    assert_eq!((leased.delivery, leased.attempt, leased.seq), (sent.first_delivery, 1, sent.id.seq));
    let (at, message) = leased.message.as_ref().expect("the message is included");
    assert_eq!((*at, message.action.as_str()), (bench.published().head.at, "work"));
    assert_eq!((bench.counts().leased, bench.counts().ready), (1, 0));
    bench.commit_ok(agent("bob"), vec![ack(leased)]).await;
}

pub async fn a_waiting_claim_ends_after_its_first_delivery(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 9, WaitMode::Once(FIRST)).await;
    bench.send("alice", "bob").await;
    bench.send("alice", "bob").await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 1)]);
    assert_eq!(bench.counts().ready, 1);
}

pub async fn a_claim_that_returns_deliveries_does_not_wait(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let receipt = bench.commit_ok(agent("bob"), vec![claim("bob", 5, WaitMode::Once(FIRST))]).await;
    assert_eq!(claimed(&receipt).len(), 1);
    bench.send("alice", "bob").await;
    assert_eq!(deliveries_by_consumer(&bench), []);
}

pub async fn a_standing_consumer_is_limited_by_its_credit(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 2, WaitMode::Standing(FIRST)).await;
    for _ in 0..4 {
        bench.send("alice", "bob").await;
    }
    assert_eq!(deliveries_by_consumer(&bench), [(1, 1), (1, 2)]);
    let grant = Op::GrantCredit { consumer: FIRST, credit: 1 };
    bench.commit_ok(agent("bob"), vec![grant.clone()]).await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 3)]);
    bench.commit_ok(agent("bob"), vec![grant.clone(), grant.clone()]).await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 4)]);
    let closed = bench.commit_ok(agent("bob"), vec![Op::GrantCredit { consumer: SECOND, credit: 1 }]).await;
    assert_eq!(closed.seq, None, "a grant to a closed consumer is not an error");
    bench.send("alice", "bob").await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 5)], "its last credit");
}

pub async fn a_standing_consumer_receives_the_backlog_first(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let receipt = bench.commit_ok(agent("bob"), vec![claim("bob", 2, WaitMode::Standing(FIRST))]).await;
    assert_eq!(claimed(&receipt).len(), 1, "in the receipt itself");
    bench.send("alice", "bob").await;
    bench.send("alice", "bob").await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 2)], "the rest of its credit");
}

pub async fn consumers_are_served_round_robin(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 9, WaitMode::Standing(FIRST)).await;
    bench.claim_waiting("bob", 9, WaitMode::Standing(SECOND)).await;
    for _ in 0..4 {
        bench.send("alice", "bob").await;
    }
    assert_eq!(deliveries_by_consumer(&bench), [(1, 1), (2, 2), (1, 3), (2, 4)]);
}

pub async fn a_closed_consumer_receives_nothing(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 9, WaitMode::Standing(FIRST)).await;
    bench.send("alice", "bob").await;
    let held = bench.dispatched().remove(0).1;
    let closed = bench.commit_ok(agent("bob"), vec![Op::CloseConsumer { consumer: FIRST }]).await;
    assert_eq!((closed.seq, bench.dismissed_consumers()), (None, vec![]));
    bench.send("alice", "bob").await;
    assert_eq!(deliveries_by_consumer(&bench), []);
    bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
}

pub async fn a_returned_delivery_goes_to_a_waiting_consumer(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    bench.claim_waiting("bob", 1, WaitMode::Once(FIRST)).await;
    bench.commit_ok(agent("bob"), vec![nack_for_retry(&held)]).await;
    let dispatched = bench.dispatched();
    assert_eq!((dispatched[0].0, dispatched[0].1.attempt), (FIRST, 2));
    assert_eq!(dispatched[0].1.message, None, "the message is not included and must be read from the log");
    bench.claim_waiting("bob", 1, WaitMode::Once(SECOND)).await;
    bench.advance_secs(30);
    bench.sweep().await;
    assert_eq!(deliveries_by_consumer(&bench), [(2, 1)]);
}

pub async fn an_already_expired_message_is_not_leased_to_a_waiting_consumer(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 1, WaitMode::Once(FIRST)).await;
    bench.advance_secs(10);
    bench.send_as("alice", expiring("bob", super::test_bench::START_MS + 5_000)).await;
    assert_eq!(deliveries_by_consumer(&bench), []);
    assert_eq!(bench.counts().expired, 1);
    bench.send("alice", "bob").await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 2)]);
}

pub async fn messages_of_one_commit_are_delivered_in_order_while_credit_lasts(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 2, WaitMode::Standing(FIRST)).await;
    let low = || send("alice", with_priority("bob", Priority::LOW));
    let urgent = || send("alice", with_priority("bob", Priority::URGENT));
    bench.commit_ok(agent("alice"), vec![low(), low(), low(), urgent()]).await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 1), (1, 2)], "each message is leased when it is sent");
    bench.commit_ok(agent("bob"), vec![Op::GrantCredit { consumer: FIRST, credit: 2 }]).await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 4), (1, 3)], "the backlog is ordered by priority");
}

fn resume(name: &str) -> Op {
    Op::ResumeLeases { agent: name.parse().expect("an id"), lease_ms: 30_000 }
}

// Fails under: a resume that issues new tokens, does not renew the leases, or writes a record.
pub async fn a_resume_returns_the_held_leases_and_renews_them(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    bench.send("alice", "bob").await;
    let held = bench.claim("bob", 2).await;
    let leases = |held: &[LeasedDelivery]| {
        held.iter().map(|leased| (leased.delivery, leased.token, leased.attempt)).collect::<Vec<_>>()
    };
    bench.advance_secs(20);
    let resumed = bench.commit_ok(agent("bob"), vec![resume("bob")]).await;
    assert_eq!((resumed.seq, leases(&claimed(&resumed))), (None, leases(&held)));
    bench.advance_secs(20);
    bench.sweep().await;
    bench.commit_ok(agent("bob"), vec![ack(&held[0])]).await;
    bench.reopen().await;
    let remaining = bench.commit_ok(agent("bob"), vec![resume("bob")]).await;
    assert_eq!(leases(&claimed(&remaining)), leases(&held[1..]));
    bench.advance_secs(31);
    bench.sweep().await;
    assert_eq!(claimed(&bench.commit_ok(agent("bob"), vec![resume("bob")]).await), vec![]);
    assert_eq!(bench.claim_one("bob").await.attempt, 2);
}

pub async fn only_the_same_epoch_can_resume_its_leases(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    bench.claim_one("bob").await;
    bench.commit_refused_with(Code::Forbidden, agent("alice"), vec![resume("bob")]).await;
    bench.commit_refused_with(Code::NotFound, Principal::System, vec![resume("carol")]).await;
    bench.register("bob").await;
    assert_eq!(claimed(&bench.commit_ok(agent("bob"), vec![resume("bob")]).await), vec![]);
}

pub async fn a_standing_consumer_may_start_without_credit(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 0, WaitMode::Standing(FIRST)).await;
    bench.send("alice", "bob").await;
    assert_eq!(deliveries_by_consumer(&bench), []);
    bench.commit_ok(agent("bob"), vec![Op::GrantCredit { consumer: FIRST, credit: 1 }]).await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 1)]);
    let none = claim("bob", 0, WaitMode::Once(SECOND));
    assert!(
        Commit::new(agent("bob"), vec![none]).check().is_err(),
        "a one-time claim needs a maximum above 0"
    );
}

pub async fn an_inbox_has_at_most_256_waiting_consumers(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for number in 0..limits::CONSUMERS_PER_AGENT_MAX as u64 {
        bench.claim_waiting("bob", 1, WaitMode::Once(ConsumerId(number))).await;
    }
    let refused =
        bench.commit_refused(agent("bob"), vec![claim("bob", 1, WaitMode::Once(ConsumerId(999)))]).await;
    assert_eq!(refused.code, Code::LimitExceeded);
    assert_eq!(refused.facts.limit, Some(limits::CONSUMERS_PER_AGENT_MAX as u64));
    bench.claim_waiting("alice", 1, WaitMode::Once(ConsumerId(999))).await;
}

pub async fn an_agent_has_at_most_4096_deliveries_in_flight(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let extra = 3;
    for _ in 0..limits::IN_FLIGHT_MAX / 256 {
        bench.commit_ok(agent("alice"), (0..256).map(|_| send("alice", message_to("bob"))).collect()).await;
    }
    bench.commit_ok(agent("alice"), (0..extra).map(|_| send("alice", message_to("bob"))).collect()).await;
    let mut held = Vec::new();
    for _ in 0..limits::IN_FLIGHT_MAX / 256 {
        held.extend(bench.claim("bob", 256).await);
    }
    assert_eq!(held.len(), limits::IN_FLIGHT_MAX);
    assert_eq!(
        bench.claim("bob", 256).await,
        vec![],
        "the in-flight limit holds back {extra} ready deliveries"
    );
    bench.claim_waiting("bob", 9, WaitMode::Standing(FIRST)).await;
    bench.send("alice", "bob").await;
    assert_eq!(deliveries_by_consumer(&bench), []);
    bench.commit_ok(agent("bob"), vec![ack(&held[0])]).await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 4097)], "an ack frees capacity");
    bench
        .commit_ok(agent("bob"), vec![super::builders::dead_letter(&held[1], "x"), nack_for_retry(&held[2])])
        .await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 3), (1, 4098)]);
}

pub async fn an_agent_can_send_to_itself(bench: TestBench) {
    bench.register("bob").await;
    let ops = vec![claim("bob", 1, WaitMode::Once(FIRST)), send("bob", message_to("bob"))];
    bench.commit_ok(agent("bob"), ops).await;
    assert_eq!(deliveries_by_consumer(&bench), [(1, 1)]);
    let three = Message { priority: Priority::HIGH, ..message_to("bob") };
    bench.commit_ok(Principal::System, vec![send("bob", three)]).await;
    assert_eq!(bench.counts().ready, 1);
}
