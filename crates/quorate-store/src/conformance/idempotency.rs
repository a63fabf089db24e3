//! Idempotency keys: a replayed commit is applied once and returns the original receipt.

use quorate_core::{Code, Commit, Op, Policy, Preset, Principal, RegisterAgent, WaitMode};

use super::builders::{agent, claim, id, idempotency_key, message_to, put_entry, put_if_version, send};
use super::test_bench::{TestBench, claimed};
use crate::Clock as _;

fn keyed(name: &str, key: &str, ops: Vec<Op>) -> Commit {
    Commit::new(agent(name), ops).keyed(idempotency_key(key))
}

pub async fn a_replayed_commit_is_applied_once_and_returns_the_same_receipt(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let commit =
        || keyed("alice", "k1", vec![send("alice", message_to("bob")), Op::Put(put_entry("x", "1"))]);
    let first = bench.commit(commit()).await.expect("accepted");
    let head = bench.head();
    bench.advance_secs(5);
    let replayed = bench.commit(commit()).await.expect("the same receipt");
    assert_eq!(replayed, first, "including its timestamp");
    assert_eq!(bench.head(), head);
    assert_eq!(bench.counts().ready, 1);
}

pub async fn a_key_reused_with_different_content_is_refused(bench: TestBench) {
    bench.register("alice").await;
    bench.commit(keyed("alice", "k1", vec![Op::Put(put_entry("x", "1"))])).await.expect("accepted");
    let other = bench.commit(keyed("alice", "k1", vec![Op::Put(put_entry("x", "2"))])).await;
    assert_eq!(other.expect_err("a different commit").code, Code::Duplicate);
}

pub async fn keys_are_scoped_to_the_principal(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit(keyed("alice", "k1", vec![Op::Put(put_entry("x", "1"))])).await.expect("accepted");
    bench
        .commit(keyed("bob", "k1", vec![Op::Put(put_entry("x", "2"))]))
        .await
        .expect("the keys of another principal");
    let hub = Commit::new(Principal::System, vec![Op::Put(put_entry("x", "3"))]).keyed(idempotency_key("k1"));
    bench.commit(hub).await.expect("the keys of the hub");
}

pub async fn a_refused_commit_does_not_consume_its_key(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let early = bench.commit(keyed("alice", "k1", vec![put_if_version("x", "1", 1)])).await;
    assert_eq!(early.expect_err("the entry does not exist").code, Code::VersionConflict);
    bench.commit_ok(agent("bob"), vec![put_if_version("x", "0", 0)]).await;
    bench
        .commit(keyed("alice", "k1", vec![put_if_version("x", "1", 1)]))
        .await
        .expect("the version matches now");
}

pub async fn i3_an_empty_claim_does_not_consume_its_key_even_if_it_writes_a_record(bench: TestBench) {
    bench.register("alice").await;
    let new = RegisterAgent { heartbeat_ms: 10_000, ..RegisterAgent::named(id("bob")) };
    bench.commit_ok(agent("bob"), vec![Op::RegisterAgent(new)]).await;
    bench.advance_secs(31);
    bench.sweep().await;
    let claim_commit = || keyed("bob", "k1", vec![claim("bob", 1, WaitMode::NoWait)]);
    let empty_claim = bench.commit(claim_commit()).await.expect("accepted");
    assert!(
        empty_claim.seq.is_some() && claimed(&empty_claim).is_empty(),
        "bob is online again, which is a record"
    );
    bench.send("alice", "bob").await;
    let claim_receipt = bench.commit(claim_commit()).await.expect("accepted");
    assert_eq!(claimed(&claim_receipt).len(), 1, "the key was not consumed");
    assert_eq!(
        bench.commit(claim_commit()).await.expect("accepted"),
        claim_receipt,
        "the key is consumed now"
    );
}

pub async fn an_empty_claim_does_not_consume_its_key(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let empty = || keyed("bob", "k1", vec![claim("bob", 1, WaitMode::NoWait)]);
    let nothing = bench.commit(empty()).await.expect("accepted");
    assert_eq!((nothing.seq, claimed(&nothing)), (None, vec![]));
    bench.send("alice", "bob").await;
    let something = bench.commit(empty()).await.expect("accepted");
    assert_eq!(claimed(&something).len(), 1);
}

// Fails under: keys that are stored only with records: a commit that was a no-op at first would take effect when
// replayed.
pub async fn i3_replaying_a_no_op_commit_is_a_no_op(mut bench: TestBench) {
    bench.register("alice").await;
    let policy = |preset| Op::SetPolicy(Policy { preset, ..Policy::default() });
    let keyed = |preset| Commit::new(Principal::System, vec![policy(preset)]).keyed(idempotency_key("k1"));
    let first = bench.commit(keyed(Preset::Mesh)).await.expect("accepted");
    assert_eq!(first.seq, None, "the policy is already in force");
    bench.commit_ok(Principal::System, vec![policy(Preset::Supervised)]).await;
    assert_eq!(bench.commit(keyed(Preset::Mesh)).await.expect("accepted"), first);
    bench.reopen().await;
    assert_eq!(bench.commit(keyed(Preset::Mesh)).await.expect("accepted"), first);
    assert_eq!(bench.published().policy.policy.preset, Preset::Supervised, "later changes are kept");
    let other = bench.commit(keyed(Preset::Supervised)).await.expect_err("a different commit");
    assert_eq!(other.code, Code::Duplicate);
}

pub async fn a_replayed_claim_returns_the_same_leases(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    bench.send("alice", "bob").await;
    let commit = || keyed("bob", "k1", vec![claim("bob", 1, WaitMode::NoWait)]);
    let first = bench.commit(commit()).await.expect("accepted");
    let replayed = bench.commit(commit()).await.expect("the same receipt");
    assert_eq!(replayed, first);
    assert_eq!((bench.counts().leased, bench.counts().ready), (1, 1));
}

pub async fn a_replay_returns_the_original_receipt_after_later_changes(bench: TestBench) {
    let old = bench.register("alice").await;
    let write = || Commit { epoch: Some(old), ..keyed("alice", "k1", vec![put_if_version("x", "1", 0)]) };
    let first = bench.commit(write()).await.expect("accepted");
    bench.register("alice").await;
    bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("x", "2"))]).await;
    let replayed = bench.commit(write()).await.expect("it was applied once");
    assert_eq!(replayed, first);
}

pub async fn a_key_repeated_within_one_batch_is_a_replay(bench: TestBench) {
    bench.register("alice").await;
    let commit = |text: &str| keyed("alice", "k1", vec![Op::Put(put_entry("x", text))]);
    let batch = vec![commit("1"), commit("1"), commit("2")];
    let outcomes = bench.store().transact(bench.space, batch).await.expect("the storage works");
    assert!(outcomes[0].is_ok());
    assert_eq!(outcomes[0], outcomes[1]);
    assert_eq!(outcomes[2].as_ref().expect_err("a different commit").code, Code::Duplicate);
}

pub async fn a_wall_clock_jump_does_not_expire_keys(bench: TestBench) {
    bench.register("alice").await;
    let write = |key: &str, text: &str| keyed("alice", key, vec![Op::Put(put_entry("x", text))]);
    let first = bench.commit(write("k1", "1")).await.expect("accepted");
    bench.clock.jump_wall_to(bench.clock.now().wall.0 + 10 * 24 * 60 * 60 * 1000);
    bench.commit(write("k2", "2")).await.expect("accepted");
    let replayed = bench.commit(write("k1", "1")).await.expect("only the wall clock has moved");
    assert_eq!(replayed, first);
}
