//! Restart: everything acknowledged is still there, and in-memory waiters are not.

use std::time::Duration;

use quorate_core::{Code, Commit, ConsumerId, Message, NackAction, Op, Principal, WaitMode};

use super::builders::{
    ack, agent, dead_letter, delayed, delete, erase, expiring, extend, id, idempotency_key, key, message_to,
    nack, nack_for_retry, put_entry, put_if_version, redrive, with_client_id,
};
use super::test_bench::{START_MS, TestBench};
use crate::{AsOf, ReadQuery};

pub async fn messages_survive_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let sent = bench.send("alice", "bob").await;
    let stored = bench.read(ReadQuery::Message { seq: sent.id.seq, n: 0 }).await;
    let before = bench.published();
    bench.reopen().await;
    let after = bench.published();
    assert_eq!((before.head, &before.agents), (after.head, &after.agents));
    assert_eq!((before.counts, &before.generations), (after.counts, &after.generations));
    assert_eq!(bench.read(ReadQuery::Message { seq: sent.id.seq, n: 0 }).await, stored);
    assert_eq!(bench.claim_one("bob").await.delivery, sent.first_delivery);
    let next = bench.send("alice", "bob").await;
    assert_eq!(next.first_delivery.0, sent.first_delivery.0 + 1, "numbering continues");
}

pub async fn a_lease_survives_a_restart_with_its_full_duration(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    bench.advance_secs(20);
    bench.reopen().await;
    bench.clock.advance(Duration::from_millis(held.lease_ms - 1));
    assert_eq!(bench.sweep().await.seq, None);
    assert_eq!(bench.claim("bob", 1).await, vec![]);
    bench.clock.advance(Duration::from_millis(1));
    bench.sweep().await;
    let redelivered = bench.claim_one("bob").await;
    assert_eq!((redelivered.delivery, redelivered.attempt), (held.delivery, 2));
    assert!(redelivered.token > held.token);
    bench.reopen().await;
    bench.commit_ok(agent("bob"), vec![ack(&redelivered)]).await;
}

pub async fn a_lease_extension_survives_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![extend(&held, 3_600_000)]).await;
    bench.reopen().await;
    bench.advance_secs(3_599);
    assert_eq!(bench.sweep().await.seq, None, "the lease was extended to an hour");
    bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
}

pub async fn attempts_and_dead_letters_survive_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", Message { attempts_max: 2, ..message_to("bob") }).await;
    let held = bench.claim_one("bob").await;
    bench.commit_ok(agent("bob"), vec![nack_for_retry(&held)]).await;
    bench.reopen().await;
    let held = bench.claim_one("bob").await;
    assert_eq!(held.attempt, 2);
    bench.commit_ok(agent("bob"), vec![dead_letter(&held, "unusable")]).await;
    let dead_letters = bench.dead_letters().await;
    bench.reopen().await;
    assert_eq!(bench.dead_letters().await, dead_letters);
    assert_eq!(bench.counts().dead, 1);
    bench.commit_ok(Principal::System, vec![redrive(held.delivery)]).await;
    bench.reopen().await;
    assert_eq!(bench.claim_one("bob").await.attempt, 1);
}

pub async fn a_repeated_ack_is_idempotent_after_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    let held = bench.claim_one("bob").await;
    let first = bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
    bench.reopen().await;
    assert_eq!(bench.commit_ok(agent("bob"), vec![ack(&held)]).await.results, first.results);
}

pub async fn delays_and_expiries_survive_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send_as("alice", delayed("bob", START_MS + 20_000)).await;
    bench.send_as("alice", expiring("bob", START_MS + 15_000)).await;
    bench.send("alice", "bob").await;
    let held = bench.claim("bob", 2).await;
    bench.commit_ok(agent("bob"), vec![nack(&held[1], NackAction::Retry { delay_ms: Some(5_000) })]).await;
    bench.commit_ok(agent("bob"), vec![nack(&held[0], NackAction::Release)]).await;
    bench.reopen().await;
    assert_eq!((bench.counts().scheduled, bench.counts().ready), (2, 1));
    bench.advance_secs(5);
    assert_eq!(bench.claim("bob", 9).await.len(), 2);
    bench.reopen().await;
    bench.advance_secs(60);
    bench.sweep().await;
    assert_eq!(bench.counts().expired, 1);
    assert_eq!(bench.claim("bob", 9).await.len(), 2);
}

pub async fn entries_and_their_history_survive_a_restart(mut bench: TestBench) {
    bench.register("alice").await;
    bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "1")), Op::Put(put_entry("l", "1"))]).await;
    let seq =
        bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "2"))]).await.seq.expect("a record");
    bench.commit_ok(agent("alice"), vec![delete("l", None)]).await;
    bench.commit_ok(Principal::System, vec![erase(seq, 0)]).await;
    let reads = || {
        let history = |name| ReadQuery::History { key: key(name), after: quorate_core::Version(0), limit: 9 };
        vec![history("k"), history("l"), ReadQuery::Entry { key: key("k"), when: AsOf::Latest }]
    };
    let before = bench.store().read(bench.space, reads()).await.expect("reads work");
    bench.reopen().await;
    assert_eq!(bench.store().read(bench.space, reads()).await.expect("reads work"), before);
    bench.commit_refused_with(Code::VersionConflict, agent("alice"), vec![put_if_version("k", "3", 1)]).await;
    bench.commit_ok(agent("alice"), vec![put_if_version("k", "3", 2), put_if_version("l", "3", 0)]).await;
    let repeated = bench.commit_ok(Principal::System, vec![erase(seq, 0)]).await;
    assert_eq!(repeated.seq, None, "the payload is already erased");
}

pub async fn idempotency_keys_and_client_ids_survive_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let keyed =
        || Commit::new(agent("alice"), vec![Op::Put(put_entry("k", "1"))]).keyed(idempotency_key("k1"));
    let first = bench.commit(keyed()).await.expect("accepted");
    let sent = bench.send_as("alice", with_client_id("bob", "m1", "{}")).await;
    bench.reopen().await;
    let head = bench.head();
    assert_eq!(bench.commit(keyed()).await.expect("the same receipt"), first);
    assert_eq!(bench.send_as("alice", with_client_id("bob", "m1", "{}")).await, sent);
    assert_eq!(bench.head(), head);
    let other = bench
        .commit(Commit::new(agent("alice"), vec![Op::Put(put_entry("k", "2"))]).keyed(idempotency_key("k1")));
    assert_eq!(other.await.expect_err("another commit").code, Code::Duplicate);
}

pub async fn epochs_survive_a_restart(mut bench: TestBench) {
    bench.register("alice").await;
    let ops = vec![super::builders::register("bob"), super::builders::register("bob")];
    let receipt = bench.commit_ok(Principal::System, ops).await;
    bench.register("carol").await;
    bench.commit_ok(agent("carol"), vec![Op::RemoveAgent { agent: id("carol") }]).await;
    let before = bench.published().agents.clone();
    bench.reopen().await;
    assert_eq!(bench.published().agents, before);
    let quorate_core::OpResult::Registered { epoch } = receipt.results[1] else {
        panic!("not a registration")
    };
    let alive =
        Commit { epoch: Some(epoch), ..Commit::new(agent("bob"), vec![Op::Put(put_entry("k", "1"))]) };
    bench.commit(alive).await.expect("the epoch is still valid");
    assert!(bench.register("bob").await > epoch);
    bench.commit_refused_with(Code::NotFound, agent("carol"), vec![Op::Put(put_entry("k", "1"))]).await;
}

pub async fn waiting_consumers_do_not_survive_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.claim_waiting("bob", 9, WaitMode::Standing(ConsumerId(1))).await;
    bench.reopen().await;
    bench.send("alice", "bob").await;
    assert_eq!(bench.dispatched(), vec![]);
    assert_eq!(bench.counts().ready, 1);
}

pub async fn record_timestamps_never_decrease_across_a_restart(mut bench: TestBench) {
    bench.register("alice").await;
    bench.clock.jump_wall_to(START_MS - 86_400_000);
    bench.reopen().await;
    let receipt = bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "1"))]).await;
    assert_eq!(receipt.at.0, START_MS);
}
