//! The log: every commit that changes something is exactly one record, and nothing else writes records.

use quorate_core::{Code, Commit, Op, Principal, RecordKind, Seq};

use super::builders::{agent, message_to, put_entry, put_if_version, register, send};
use super::test_bench::TestBench;

pub async fn every_change_is_one_record(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let ops =
        vec![send("alice", message_to("bob")), Op::Put(put_entry("k", "1")), Op::Put(put_entry("l", "1"))];
    let receipt = bench.commit_ok(agent("alice"), ops).await;
    bench.commit_refused_with(Code::VersionConflict, agent("alice"), vec![put_if_version("k", "x", 9)]).await;
    bench.sweep().await;
    assert_eq!(receipt.seq, Some(bench.head()));
    let records = bench.store().log(bench.space, Seq(1), 100).await.expect("reads work");
    let found: Vec<_> =
        records.iter().map(|record| (record.seq.0, record.kind, record.principal.as_str())).collect();
    let (genesis, commit) = (RecordKind::Genesis.number(), RecordKind::Commit.number());
    assert_eq!(
        found,
        [
            (1, genesis, "system"),
            (2, commit, "agent:alice"),
            (3, commit, "agent:bob"),
            (4, commit, "agent:alice")
        ]
    );
    assert_eq!(records[3].at, receipt.at);
}

pub async fn the_log_is_paged(bench: TestBench) {
    bench.register("alice").await;
    for text in ["1", "2", "3", "4"] {
        bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", text))]).await;
    }
    let page = |from, max| bench.store().log(bench.space, Seq(from), max);
    let seqs =
        |records: Vec<quorate_core::Record>| records.iter().map(|record| record.seq.0).collect::<Vec<_>>();
    assert_eq!(seqs(page(3, 2).await.expect("reads work")), [3, 4]);
    assert_eq!(seqs(page(5, 9).await.expect("reads work")), [5, 6]);
    assert_eq!(seqs(page(7, 9).await.expect("reads work")), [0; 0]);
    assert_eq!(seqs(page(0, 1).await.expect("reads work")), [1]);
}

/// A page of bodies may end early if records are large; all pages together cover the whole log.
pub async fn paged_record_bodies_cover_the_whole_log(bench: TestBench) {
    bench.register("alice").await;
    for n in 0..4 {
        let large =
            (0..200).map(|m| Op::Put(put_entry(&format!("{}/{n}/{m}", "k".repeat(400)), "1"))).collect();
        bench.commit_ok(agent("alice"), large).await;
    }
    let log = bench.store().log(bench.space, Seq(1), 100).await.expect("reads work");
    let mut bodies = Vec::new();
    while bodies.len() < log.len() {
        let from = Seq(bodies.len() as u64 + 1);
        let page = bench.store().log_bodies(bench.space, from, 100).await.expect("reads work");
        assert!(!page.is_empty(), "there are more records from {from}");
        bodies.extend(page);
    }
    let identity = |record: &quorate_core::Record| (record.seq, record.hash, record.body.clone());
    assert_eq!(bodies.iter().map(identity).collect::<Vec<_>>(), log.iter().map(identity).collect::<Vec<_>>());
}

pub async fn commits_of_a_batch_are_decided_independently(bench: TestBench) {
    bench.register("alice").await;
    let commit = |ops| Commit::new(agent("alice"), ops);
    let batch = vec![
        commit(vec![put_if_version("k", "1", 0)]),
        commit(vec![put_if_version("k", "x", 0), Op::Put(put_entry("never", "1"))]),
        commit(vec![put_if_version("k", "2", 1)]),
    ];
    let head = bench.head();
    let outcomes = bench.store().transact(bench.space, batch).await.expect("the storage works");
    let seqs: Vec<_> =
        outcomes.iter().map(|outcome| outcome.as_ref().map(|receipt| receipt.seq).ok()).collect();
    assert_eq!(seqs, [Some(Some(Seq(head.0 + 1))), None, Some(Some(Seq(head.0 + 2)))]);
    assert_eq!(outcomes[1].as_ref().expect_err("refused").facts.current_version, Some(1));
    bench.commit_ok(agent("alice"), vec![put_if_version("never", "1", 0)]).await;
}

pub async fn an_empty_batch_returns_no_outcomes(bench: TestBench) {
    let outcomes = bench.store().transact(bench.space, vec![]).await.expect("the storage works");
    assert!(outcomes.is_empty());
}

pub async fn the_published_state_is_updated_before_the_commit_is_acknowledged(bench: TestBench) {
    let mut published = bench.store().published(bench.space).expect("the space exists");
    published.mark_unchanged();
    let receipt = bench.commit_ok(Principal::System, vec![register("alice")]).await;
    assert!(published.has_changed().expect("the store is open"), "before the commit returns");
    let now = published.borrow_and_update().clone();
    assert_eq!((Some(now.head.seq), now.head.at), (receipt.seq, receipt.at));
    assert_eq!(now.agents.len(), 1);
    assert_eq!(now.generations.0.len(), 1);
}
