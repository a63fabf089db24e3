//! Delivery leases: only the holder of the current lease may end a delivery, and an ended delivery is never
//! redelivered.

use quorate_core::{
    Code, DeliveryNo, EndState, LeaseToken, Message, NackAction, Op, OpResult, OpenDeliveryState, Principal,
    Seq, WaitMode,
};

use super::builders::{
    ack, agent, claim, dead_letter, expiring, extend, lease_ref, message_to, nack, nack_for_retry,
    put_if_version, redrive, send,
};
use super::test_bench::{START_MS, TestBench, claimed};
use crate::StoredDeliveryState;

pub async fn an_acked_delivery_is_never_redelivered(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    let receipt = bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
    let seq = receipt.seq.expect("an ack is a record");
    assert_eq!(receipt.results, vec![OpResult::Acked { seq }]);
    bench.advance_secs(3600);
    bench.sweep().await;
    bench.register("bob").await;
    bench.reopen().await;
    assert_eq!(bench.claim("bob", 10).await, vec![]);
    let ended = StoredDeliveryState::Ended { state: EndState::Acked, seq };
    assert_eq!(bench.delivery_state(held.delivery).await, Some(ended));
}

pub async fn a_repeated_ack_returns_the_same_result(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    let first = bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
    bench.send("alice", "bob").await;
    let repeated = bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
    assert_eq!(repeated.results, first.results);
    assert_eq!(repeated.seq, None, "nothing has changed");
    let wrong_token = Op::Ack(lease_ref(held.delivery.0, held.token.0 + 1));
    bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![wrong_token]).await;
}

pub async fn an_ack_repeated_within_one_commit_is_idempotent(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    let receipt = bench.commit_ok(agent("bob"), vec![ack(&held), ack(&held)]).await;
    assert_eq!(receipt.results[0], receipt.results[1]);
    assert_eq!(bench.counts().acked, 1);
    bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![ack(&held), nack_for_retry(&held)]).await;
}

pub async fn a_stale_lease_token_is_refused(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let old = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![nack_for_retry(&old)]).await;
    let stale = |held| [ack(held), nack_for_retry(held), dead_letter(held, "x"), extend(held, 60_000)];
    for op in stale(&old) {
        bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![op]).await;
    }
    let new = bench.claim_one("bob").await;
    for op in stale(&old) {
        bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![op]).await;
    }
    let held =
        StoredDeliveryState::Open { state: OpenDeliveryState::Leased { token: new.token }, attempt: 2 };
    assert_eq!(bench.delivery_state(new.delivery).await, Some(held));
    bench.commit_ok(agent("bob"), vec![ack(&new)]).await;
    for op in [nack_for_retry(&new), dead_letter(&new, "x"), extend(&new, 60_000), ack(&old)] {
        bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![op]).await;
    }
}

pub async fn a_refusal_lists_every_stale_item(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for _ in 0..3 {
        bench.send("alice", "bob").await;
    }
    let held = bench.claim("bob", 3).await;
    bench.commit_ok(agent("bob"), vec![nack_for_retry(&held[0]), ack(&held[2])]).await;
    let ops = vec![
        ack(&held[1]),
        ack(&held[0]),
        send("bob", message_to("alice")),
        put_if_version("plan", "1", 7),
        nack_for_retry(&held[2]),
    ];
    let refused = bench.commit_refused(agent("bob"), ops).await;
    assert_eq!((refused.code, refused.facts.op), (Code::StaleLease, Some(1)));
    let stale: Vec<_> = refused
        .facts
        .stale
        .iter()
        .map(|reference| (reference.op, reference.item.as_str(), reference.code))
        .collect();
    assert_eq!(
        stale,
        [
            (1, "dlv_0-1", Code::StaleLease),
            (3, "plan", Code::VersionConflict),
            (4, "dlv_0-3", Code::StaleLease)
        ]
    );
    bench.commit_ok(agent("bob"), vec![ack(&held[1])]).await;
}

pub async fn only_the_recipient_may_end_a_delivery(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    for op in [ack(&held), nack_for_retry(&held), extend(&held, 60_000)] {
        bench.commit_refused_with(Code::NotFound, agent("alice"), vec![op]).await;
    }
    bench.commit_ok(Principal::System, vec![ack(&held)]).await;
}

pub async fn an_unknown_delivery_is_not_found(bench: TestBench) {
    bench.register("bob").await;
    for number in [0, 1, 7, (1 << 47) - 1] {
        for op in [Op::Ack(lease_ref(number, 1)), redrive(DeliveryNo(number))] {
            bench.commit_refused_with(Code::NotFound, Principal::System, vec![op]).await;
        }
        assert_eq!(bench.delivery_state(DeliveryNo(number)).await, None);
    }
}

pub async fn a_nacked_delivery_is_redelivered_after_its_delay(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![nack(&held, NackAction::Retry { delay_ms: Some(2_000) })]).await;
    assert_eq!((bench.counts().scheduled, bench.counts().ready), (1, 0));
    bench.advance_secs(1);
    assert_eq!(bench.claim("bob", 1).await, vec![]);
    bench.advance_secs(1);
    let redelivered = bench.claim_one("bob").await;
    assert_eq!((redelivered.delivery, redelivered.attempt), (held.delivery, 2));
}

pub async fn a_nack_without_a_delay_backs_off(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", Message { attempts_max: 7, ..message_to("bob") }).await;
    for (failures, backoff) in [1, 2, 4, 8, 16, 16].into_iter().enumerate() {
        let held = bench.claim_one("bob").await;
        assert_eq!(usize::from(held.attempt), failures + 1);
        bench.commit_ok(agent("bob"), vec![nack(&held, NackAction::Retry { delay_ms: None })]).await;
        bench.reopen().await;
        bench.advance_secs(backoff - 1);
        assert_eq!(bench.claim("bob", 1).await, vec![], "{backoff} s");
        bench.advance_secs(1);
    }
    let last = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![nack(&last, NackAction::Retry { delay_ms: None })]).await;
    assert_eq!(bench.counts().dead, 1, "no attempts are left");
}

pub async fn a_release_does_not_count_as_an_attempt(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", Message { attempts_max: 1, ..message_to("bob") }).await;
    for _ in 0..3 {
        let held = bench.claim_one("bob").await;
        assert_eq!(held.attempt, 1);
        bench.commit_ok(agent("bob"), vec![nack(&held, NackAction::Release)]).await;
    }
    let held = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![nack_for_retry(&held)]).await;
    assert_eq!(bench.counts().dead, 1, "only one attempt counted, and it was the last");
}

pub async fn a_delivery_is_dead_lettered_after_its_last_attempt(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", Message { attempts_max: 2, ..message_to("bob") }).await;
    let first = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![nack_for_retry(&first)]).await;
    bench.claim_one("bob").await;
    bench.advance_secs(30);
    let swept = bench.sweep().await;
    assert_eq!(bench.claim("bob", 1).await, vec![]);
    let seq = swept.seq.expect("a record");
    assert_eq!(
        bench.delivery_state(first.delivery).await,
        Some(StoredDeliveryState::Ended { state: EndState::Dead, seq })
    );
    let dead_letters = bench.dead_letters().await;
    assert_eq!(dead_letters.len(), 1);
    assert_eq!((dead_letters[0].delivery, dead_letters[0].attempts), (first.delivery, 2));
    assert_eq!((dead_letters[0].seq, dead_letters[0].at), (first.seq, swept.at));
    assert!(!dead_letters[0].reason.is_empty(), "the dead letter has a reason");
}

pub async fn a_dead_letter_keeps_its_reason(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![dead_letter(&held, "not a number")]).await;
    let dead_letters = bench.dead_letters().await;
    assert_eq!(dead_letters[0].reason, "not a number");
    assert_eq!(dead_letters[0].attempts, 1);
}

pub async fn a_redrive_resets_the_attempt_count(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", Message { attempts_max: 2, ..message_to("bob") }).await;
    let first = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![dead_letter(&first, "x")]).await;
    bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![redrive(first.delivery)]).await;
    bench.commit_ok(Principal::System, vec![redrive(first.delivery)]).await;
    assert_eq!(bench.dead_letters().await, vec![]);
    for attempt in 1..=2 {
        let held = bench.claim_one("bob").await;
        assert_eq!((held.delivery, held.attempt), (first.delivery, attempt));
        assert!(held.token > first.token, "a lease token is never reused");
        bench.commit_ok(agent("bob"), vec![nack_for_retry(&held)]).await;
    }
    assert_eq!((bench.counts().dead, bench.counts().ready), (1, 0));
}

pub async fn only_dead_letters_can_be_redriven(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let drive = || vec![redrive(DeliveryNo(1))];
    bench.commit_refused_with(Code::NotFound, Principal::System, drive()).await;
    let held = bench.claim_one("bob").await;
    bench.commit_refused_with(Code::NotFound, Principal::System, drive()).await;
    bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
    bench.commit_refused_with(Code::NotFound, Principal::System, drive()).await;
}

pub async fn a_redrive_sees_earlier_operations_of_its_commit(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    let number = held.delivery;
    bench.commit_ok(Principal::System, vec![dead_letter(&held, "x"), redrive(number)]).await;
    assert_eq!((bench.counts().dead, bench.counts().ready), (0, 1));
    let held = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![dead_letter(&held, "x")]).await;
    let purge = || Op::Purge { agent: super::builders::id("bob") };
    let purged = vec![redrive(number), purge(), redrive(number)];
    bench.commit_refused_with(Code::NotFound, Principal::System, purged).await;
    let ops = vec![redrive(number), redrive(number)];
    bench.commit_refused_with(Code::NotFound, Principal::System, ops).await;
    let next = LeaseToken(held.token.0 + 1);
    let acked = vec![
        redrive(number),
        claim("bob", 1, WaitMode::NoWait),
        Op::Ack(lease_ref(number.0, next.0)),
        redrive(number),
    ];
    bench.commit_refused_with(Code::NotFound, Principal::System, acked).await;
    assert_eq!(bench.counts().dead, 1);
}

pub async fn a_dead_letter_keeps_the_reason_of_its_last_attempt(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    let last = lease_ref(held.delivery.0, held.token.0 + 1);
    let first = quorate_core::Nack {
        lease: lease_ref(held.delivery.0, held.token.0),
        action: NackAction::Retry { delay_ms: Some(0) },
        reason: "the first".into(),
    };
    let second =
        quorate_core::Nack { lease: last, action: NackAction::DeadLetter, reason: "the second".into() };
    let ops = vec![Op::Nack(first), claim("bob", 1, WaitMode::NoWait), Op::Nack(second)];
    bench.commit_ok(agent("bob"), ops).await;
    assert_eq!(bench.dead_letters().await[0].reason, "the second");
}

pub async fn a_purge_ends_all_open_deliveries(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for _ in 0..3 {
        bench.send("alice", "bob").await;
    }
    let held = bench.claim("bob", 2).await;
    bench.commit_ok(agent("bob"), vec![nack(&held[1], NackAction::Retry { delay_ms: Some(9_000) })]).await;
    let purge = vec![Op::Purge { agent: super::builders::id("bob") }];
    let receipt = bench.commit_ok(agent("bob"), purge.clone()).await;
    assert_eq!(receipt.results, vec![OpResult::Purged { count: 3 }]);
    assert_eq!(bench.counts().purged, 3);
    bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![ack(&held[0])]).await;
    let repeated = bench.commit_ok(agent("bob"), purge).await;
    assert_eq!((repeated.seq, repeated.results), (None, vec![OpResult::Purged { count: 0 }]));
}

pub async fn lease_tokens_strictly_increase(mut bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    let mut last = LeaseToken(0);
    for round in 0..4 {
        bench.send("alice", "bob").await;
        bench.send("alice", "carol").await;
        for name in ["bob", "carol"] {
            let held = bench.claim_one(name).await;
            assert!(held.token > last, "{} is above {last}", held.token);
            last = held.token;
            bench
                .commit_ok(agent(name), vec![if round % 2 == 0 { nack_for_retry(&held) } else { ack(&held) }])
                .await;
        }
        bench.reopen().await;
    }
}

pub async fn delivery_counts_match_the_delivery_states(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for _ in 0..6 {
        bench.send("alice", "bob").await;
    }
    let due = bench.published().head.at.0 + 90_000;
    bench.send_as("alice", super::builders::delayed("bob", due)).await;
    bench.send_as("alice", super::builders::expiring("bob", due - 89_999)).await;
    let held = bench.claim("bob", 4).await;
    let later = NackAction::Retry { delay_ms: Some(1) };
    bench
        .commit_ok(agent("bob"), vec![ack(&held[0]), dead_letter(&held[1], "x"), nack(&held[2], later)])
        .await;
    bench.clock.advance(std::time::Duration::from_millis(1));
    bench.sweep().await;
    let counts = bench.counts();
    assert_eq!((counts.acked, counts.dead, counts.expired, counts.leased), (1, 1, 1, 1));
    assert_eq!((counts.ready, counts.scheduled, counts.purged), (3, 1, 0));
    bench.commit_ok(agent("bob"), vec![Op::Purge { agent: super::builders::id("bob") }]).await;
    let counts = bench.counts();
    assert_eq!((counts.ready, counts.scheduled, counts.leased, counts.purged), (0, 0, 0, 5));
}

pub async fn a_commit_is_atomic(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    let step =
        |expect| vec![ack(&held), put_if_version("result", "42", expect), send("bob", message_to("alice"))];
    bench.commit_refused_with(Code::VersionConflict, agent("bob"), step(1)).await;
    assert_eq!((bench.counts().leased, bench.counts().ready), (1, 0));
    let receipt = bench.commit_ok(agent("bob"), step(0)).await;
    assert_eq!(receipt.seq, Some(Seq(bench.head().0)));
    assert_eq!((bench.counts().acked, bench.counts().ready), (1, 1));
    assert_eq!(claimed(&receipt), vec![]);
}

pub async fn a_redriven_delivery_that_expires_in_the_same_commit_is_not_a_dead_letter(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", expiring("bob", START_MS + 10_000)).await;
    let held = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![dead_letter(&held, "unusable")]).await;
    bench.advance_secs(10);
    bench.commit_ok(Principal::System, vec![redrive(held.delivery), Op::Sweep]).await;
    assert_eq!(bench.dead_letters().await, vec![]);
    assert_eq!((bench.counts().dead, bench.counts().expired), (0, 1));
    bench.commit_refused_with(Code::NotFound, Principal::System, vec![redrive(held.delivery)]).await;
}
