//! Rollback: earlier content becomes current as new versions in one commit, without copying payloads.

use quorate_core::{
    Code, Item, ItemKind, MakeSnapshot, Op, OpResult, Principal, PutEntry, Rollback, RollbackScope,
    RollbackTarget, Seq, SnapshotName, Timestamp, Version, limits,
};

use super::builders::{agent, delete, erase, key, message_to, put_entry, put_if_version, send};
use super::test_bench::{START_MS, TestBench};
use crate::{AsOf, ListedItem, ReadQuery, ReadResult, StoredEntry};

fn name(text: &str) -> SnapshotName {
    SnapshotName::new(text).expect("valid name")
}

fn snapshot(text: &str, prefix: &str) -> Op {
    Op::MakeSnapshot(MakeSnapshot { name: name(text), prefix: prefix.into() })
}

fn key_to(text: &str, to: RollbackTarget) -> Op {
    Op::Rollback(Rollback {
        scope: RollbackScope::Key { key: key(text), expect: None },
        target: to,
        fence: None,
    })
}

fn prefix_to(prefix: &str, to: RollbackTarget) -> Op {
    Op::Rollback(Rollback { scope: RollbackScope::Prefix(prefix.into()), target: to, fence: None })
}

async fn entry(bench: &TestBench, name: &str, when: AsOf) -> StoredEntry {
    match bench.read(ReadQuery::Entry { key: key(name), when }).await {
        ReadResult::Entry(Some(entry)) => entry,
        other => panic!("not an entry: {other:?}"),
    }
}

fn text(entry: &StoredEntry) -> Option<String> {
    entry.content.as_ref().map(|content| String::from_utf8_lossy(&content.bytes).into_owned())
}

/// Writes versions 1, 2 and 3 of `k`, ten seconds apart.
async fn three_versions(bench: &TestBench) -> Vec<Seq> {
    bench.register_all(&["alice", "bob"]).await;
    let mut seqs = Vec::new();
    for text in ["1", "2", "3"] {
        bench.advance_secs(10);
        seqs.push(
            bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", text))]).await.seq.expect("a record"),
        );
    }
    seqs
}

pub async fn i11_a_rollback_writes_a_new_version(bench: TestBench) {
    let seqs = three_versions(&bench).await;
    let old = entry(&bench, "k", AsOf::Version(Version(1))).await;
    bench.advance_secs(5);
    let receipt = bench.commit_ok(agent("bob"), vec![key_to("k", RollbackTarget::Version(Version(1)))]).await;
    assert_eq!(receipt.results, [OpResult::RolledBack { to: seqs[0], written: 1, deleted: 0 }]);
    let new = entry(&bench, "k", AsOf::Latest).await;
    assert_eq!(new.content, old.content, "byte for byte, with its digest");
    assert_eq!((new.version.head.version, Some(new.version.head.seq)), (Version(4), receipt.seq));
    assert_eq!((new.version.author.as_str(), new.version.at), ("agent:bob", Timestamp(START_MS + 35_000)));
    assert_eq!(
        (new.version.content_part, new.version.restores),
        (old.version.content_part, Some(Version(1)))
    );
    assert_eq!(new.version.entry_type, old.version.entry_type);
    assert_eq!(entry(&bench, "k", AsOf::Version(Version(1))).await, old, "the history is unchanged");
    let repeated =
        bench.commit_ok(agent("bob"), vec![key_to("k", RollbackTarget::Version(Version(1)))]).await;
    assert_eq!(repeated.seq, None, "the content is already current");
    bench.commit_ok(agent("alice"), vec![put_if_version("k", "5", 4)]).await;
}

pub async fn c11_a_rollback_targets_a_record_a_time_or_a_snapshot(bench: TestBench) {
    let seqs = three_versions(&bench).await;
    let at = |ms| RollbackTarget::Time(Timestamp(START_MS + ms));
    bench.commit_ok(agent("alice"), vec![snapshot("three", "k"), Op::Put(put_entry("k", "4"))]).await;
    let expected = [
        (RollbackTarget::Seq(seqs[0]), "1"),
        (RollbackTarget::Seq(seqs[1]), "2"),
        (at(10_000), "1"),
        (at(29_999), "2"),
        (RollbackTarget::Snapshot(name("three")), "3"),
        (RollbackTarget::Version(Version(4)), "4"),
    ];
    for (to, content) in expected {
        bench.commit_ok(agent("alice"), vec![key_to("k", to.clone())]).await;
        assert_eq!(text(&entry(&bench, "k", AsOf::Latest).await).as_deref(), Some(content), "{to:?}");
    }
    for nothing in [RollbackTarget::Seq(Seq(u64::MAX)), RollbackTarget::Time(Timestamp(u64::MAX))] {
        assert_eq!(bench.commit_ok(agent("alice"), vec![key_to("k", nothing)]).await.seq, None);
    }
    bench.commit_ok(agent("alice"), vec![key_to("k", at(9_999))]).await;
    assert!(
        entry(&bench, "k", AsOf::Latest).await.version.head.deleted,
        "the entry did not exist at that point"
    );
    assert_eq!(
        bench.commit_ok(agent("alice"), vec![key_to("k", RollbackTarget::Seq(Seq(0)))]).await.seq,
        None
    );
}

pub async fn c11_a_prefix_is_rolled_back_in_one_commit(bench: TestBench) {
    bench.register("alice").await;
    let together =
        vec![Op::Put(put_entry("p/a", "1")), Op::Put(put_entry("p/b", "1")), Op::Put(put_entry("q", "1"))];
    let seq = bench.commit_ok(agent("alice"), together).await.seq.expect("a record");
    bench
        .commit_ok(
            agent("alice"),
            vec![Op::Put(put_entry("p/a", "2")), delete("p/b", None), Op::Put(put_entry("p/c", "1"))],
        )
        .await;
    bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("q", "2")), Op::Put(put_entry("p", "1"))]).await;
    let receipt = bench.commit_ok(agent("alice"), vec![prefix_to("p/", RollbackTarget::Seq(seq))]).await;
    assert_eq!(receipt.results, [OpResult::RolledBack { to: seq, written: 2, deleted: 1 }]);
    for (name, version, content) in [
        ("p/a", 3, Some("1")),
        ("p/b", 3, Some("1")),
        ("p/c", 2, None),
        ("q", 2, Some("2")),
        ("p", 1, Some("1")),
    ] {
        let now = entry(&bench, name, AsOf::Latest).await;
        assert_eq!((now.version.head.version.0, text(&now).as_deref()), (version, content), "{name}");
    }
    let all = bench.commit_ok(agent("alice"), vec![prefix_to("", RollbackTarget::Seq(Seq(1)))]).await;
    assert_eq!(all.results, [OpResult::RolledBack { to: Seq(1), written: 0, deleted: 4 }]);
}

pub async fn c11_a_rollback_sees_earlier_operations_of_its_commit(bench: TestBench) {
    let seqs = three_versions(&bench).await;
    let ops = vec![
        Op::Put(put_entry("k", "4")),
        key_to("k", RollbackTarget::Seq(seqs[2])),
        key_to("k", RollbackTarget::Version(Version(4))),
        send("alice", message_to("bob")),
        Op::Put(put_entry("new", "1")),
        prefix_to("", RollbackTarget::Seq(seqs[0])),
    ];
    let receipt = bench.commit_ok(agent("alice"), ops).await;
    assert_eq!(receipt.results[5], OpResult::RolledBack { to: seqs[0], written: 1, deleted: 1 });
    let mut contents = Vec::new();
    for version in 4..=7 {
        contents.push(text(&entry(&bench, "k", AsOf::Version(Version(version))).await).expect("content"));
    }
    assert_eq!(contents, ["4", "3", "4", "1"]);
    assert!(entry(&bench, "new", AsOf::Latest).await.version.head.deleted);
    let dependent = Op::Put(PutEntry { depends_on: vec![key("k")], ..put_entry("d", "{}") });
    bench.commit_ok(agent("alice"), vec![key_to("k", RollbackTarget::Version(Version(2))), dependent]).await;
    assert_eq!(entry(&bench, "d", AsOf::Latest).await.version.depends_on, [(key("k"), Version(8))]);
}

pub async fn c11_a_rollback_cannot_restore_erased_content(bench: TestBench) {
    let seqs = three_versions(&bench).await;
    bench.commit_ok(agent("alice"), vec![key_to("k", RollbackTarget::Version(Version(1)))]).await;
    bench.commit_ok(Principal::System, vec![erase(seqs[0], 0)]).await;
    assert!(
        entry(&bench, "k", AsOf::Latest).await.content.expect("its length").is_erased(),
        "both versions share the erased payload"
    );
    bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "5")), Op::Put(put_entry("l", "1"))]).await;
    for to in [
        RollbackTarget::Version(Version(1)),
        RollbackTarget::Version(Version(4)),
        RollbackTarget::Seq(seqs[0]),
    ] {
        let refused = bench.commit_refused(agent("alice"), vec![key_to("k", to)]).await;
        assert_eq!(refused.code, Code::Conflict);
    }
    bench
        .commit_refused_with(
            Code::Conflict,
            agent("alice"),
            vec![prefix_to("", RollbackTarget::Seq(seqs[0]))],
        )
        .await;
    let ops = vec![erase(seqs[1], 0), key_to("k", RollbackTarget::Version(Version(2)))];
    bench.commit_refused_with(Code::Conflict, Principal::System, ops).await;
    bench.commit_ok(agent("alice"), vec![key_to("k", RollbackTarget::Version(Version(2)))]).await;
}

pub async fn c11_a_rollback_is_atomic(bench: TestBench) {
    three_versions(&bench).await;
    let expecting = |version| {
        Op::Rollback(Rollback {
            scope: RollbackScope::Key { key: key("k"), expect: Some(Version(version)) },
            target: RollbackTarget::Version(Version(1)),
            fence: None,
        })
    };
    let stale = bench.commit_refused(agent("alice"), vec![expecting(2), put_if_version("k", "x", 1)]).await;
    assert_eq!(
        (stale.code, stale.facts.current_version, stale.facts.stale.len()),
        (Code::VersionConflict, Some(3), 2)
    );
    assert_eq!(stale.facts.stale[0].item, "k");
    bench
        .commit_refused_with(
            Code::NotFound,
            agent("alice"),
            vec![key_to("k", RollbackTarget::Version(Version(9)))],
        )
        .await;
    bench
        .commit_refused_with(
            Code::NotFound,
            agent("alice"),
            vec![key_to("k", RollbackTarget::Version(Version(0)))],
        )
        .await;
    bench
        .commit_refused_with(
            Code::NotFound,
            agent("alice"),
            vec![key_to("never", RollbackTarget::Seq(Seq(1)))],
        )
        .await;
    bench
        .commit_refused_with(
            Code::NotFound,
            agent("alice"),
            vec![key_to("k", RollbackTarget::Snapshot(name("s")))],
        )
        .await;
    bench.commit_ok(agent("alice"), vec![snapshot("s", "k/")]).await;
    bench
        .commit_refused_with(
            Code::Invalid,
            agent("alice"),
            vec![key_to("k", RollbackTarget::Snapshot(name("s")))],
        )
        .await;
    bench
        .commit_refused_with(
            Code::Invalid,
            agent("alice"),
            vec![prefix_to("", RollbackTarget::Snapshot(name("s")))],
        )
        .await;
    let version_of_many = prefix_to("k", RollbackTarget::Version(Version(1)));
    assert!(quorate_core::Commit::new(agent("alice"), vec![version_of_many]).check().is_err());
    bench.commit_ok(agent("alice"), vec![expecting(3)]).await;
}

pub async fn c11_a_rollback_changes_at_most_4096_entries(bench: TestBench) {
    bench.register("alice").await;
    let before = bench.head();
    for batch in 0..=(limits::ROLLBACK_KEYS_MAX / limits::OPS_MAX) {
        let puts =
            (0..limits::OPS_MAX).map(|index| Op::Put(put_entry(&format!("many/{batch:03}-{index:03}"), "1")));
        let count = if batch == limits::ROLLBACK_KEYS_MAX / limits::OPS_MAX { 1 } else { limits::OPS_MAX };
        bench.commit_ok(agent("alice"), puts.take(count).collect()).await;
    }
    let refused =
        bench.commit_refused(agent("alice"), vec![prefix_to("many/", RollbackTarget::Seq(before))]).await;
    assert_eq!(
        (refused.code, refused.facts.limit),
        (Code::LimitExceeded, Some(limits::ROLLBACK_KEYS_MAX as u64))
    );
    bench.commit_ok(agent("alice"), vec![delete("many/000-000", None)]).await;
    let receipt =
        bench.commit_ok(agent("alice"), vec![prefix_to("many/", RollbackTarget::Seq(before))]).await;
    let deleted = limits::ROLLBACK_KEYS_MAX as u32;
    assert_eq!(receipt.results, [OpResult::RolledBack { to: before, written: 0, deleted }]);
}

pub async fn c11_entries_record_their_dependencies(bench: TestBench) {
    bench.register("alice").await;
    let put_depending = |name: &str, dependencies: &[&str]| {
        Op::Put(PutEntry {
            depends_on: dependencies.iter().map(|name| key(name)).collect(),
            ..put_entry(name, "{}")
        })
    };
    let ops = vec![
        Op::Put(put_entry("a", "1")),
        put_depending("b", &["a", "never"]),
        put_depending("c", &["b"]),
        put_depending("d", &["a"]),
        Op::Put(put_entry("e", "1")),
    ];
    bench.commit_ok(agent("alice"), ops).await;
    bench
        .commit_ok(
            agent("alice"),
            vec![
                Op::Put(put_entry("a", "2")),
                delete("d", None),
                Op::Put(put_entry("c", "2")),
                put_depending("f", &["d"]),
            ],
        )
        .await;
    let query = |after: Option<&str>, limit| ReadQuery::Dependencies { after: after.map(key), limit };
    let all = match bench.read(query(None, 9)).await {
        ReadResult::Dependencies(all) => all,
        other => panic!("not dependencies: {other:?}"),
    };
    let rows = all.iter().flat_map(|entry| {
        entry.depends_on.iter().map(move |(dependency, version, current)| {
            let current = current.map(|head| (head.version.0, head.deleted));
            (entry.key.as_str(), entry.version.0, dependency.as_str(), version.0, current)
        })
    });
    let expected =
        [("b", 1, "a", 1, Some((2, false))), ("b", 1, "never", 0, None), ("f", 1, "d", 0, Some((2, true)))];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    assert_eq!(bench.read(query(Some("b"), 9)).await, ReadResult::Dependencies(all[1..].to_vec()));
    assert_eq!(bench.read(query(None, 1)).await, ReadResult::Dependencies(all[..1].to_vec()));
}

pub async fn c11_a_snapshot_names_a_position_in_the_history(mut bench: TestBench) {
    three_versions(&bench).await;
    let before = bench.head();
    let receipt =
        bench.commit_ok(agent("alice"), vec![snapshot("s", "k"), Op::Put(put_entry("k", "4"))]).await;
    assert_eq!(receipt.results[0], OpResult::SnapshotMade { seq: before });
    bench.commit_refused_with(Code::Duplicate, agent("alice"), vec![snapshot("s", "k")]).await;
    bench.reopen().await;
    let all = ReadQuery::items(ItemKind::Snapshot, 9);
    match bench.read(all.clone()).await {
        ReadResult::Items(items) => match &items[..] {
            [ListedItem { item: Item::Snapshot(snapshot), .. }] => {
                assert_eq!(
                    (snapshot.seq, snapshot.by.as_str(), snapshot.prefix.as_str()),
                    (before, "agent:alice", "k")
                )
            }
            other => panic!("not exactly one snapshot: {other:?}"),
        },
        other => panic!("not items: {other:?}"),
    }
    bench.commit_ok(agent("bob"), vec![prefix_to("k", RollbackTarget::Snapshot(name("s")))]).await;
    assert_eq!(text(&entry(&bench, "k", AsOf::Latest).await).as_deref(), Some("3"));
    let drop = || Op::DropSnapshot { name: name("s") };
    bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![drop()]).await;
    bench.commit_refused_with(Code::NotFound, agent("alice"), vec![drop(), drop()]).await;
    bench.commit_ok(agent("alice"), vec![drop(), snapshot("s", "")]).await;
    bench.commit_ok(Principal::System, vec![drop()]).await;
    assert_eq!(bench.read(all).await, ReadResult::Items(Vec::new()));
}
