//! Watches and rollback of the shared memory.

use quorate::backend::AsOf;
use quorate::{Code, Inconsistency, PageQuery, RollbackTarget, Seq, Timestamp, Version};

use super::{SOON, TestHub};

// Fails under: a change that a watch skips, reorders or returns with other content.
pub(crate) async fn changes_are_watched_from_any_record(fixture: &TestHub) {
    let alice = fixture.hub.agent("alice").join().await.expect("she joins");
    let memory = alice.memory();
    memory.put("a/one", "note", "first").await.expect("written");
    let mut watch = fixture.hub.memory().watch("a/", Seq(1));
    let early = tokio::time::timeout(SOON, watch.next()).await.expect("in time").expect("a change");
    assert_eq!(
        (early.key.as_str(), early.version, early.author.as_str()),
        ("a/one", Version(1), "agent:alice")
    );
    memory.put("b/other", "note", "not asked for").await.expect("written");
    let step = alice.commit().put("a/two", "note", [2]).delete("a/one");
    let seq = step.commit().await.expect("done").expect("a record");
    memory.rollback("a/one", RollbackTarget::Version(Version(1)), None).await.expect("rolled back");
    let mut changes = Vec::new();
    for _ in 0..3 {
        let change = tokio::time::timeout(SOON, watch.next()).await.expect("in time").expect("a change");
        let content = change.content.map(|content| String::from_utf8_lossy(&content.bytes).into_owned());
        changes.push((change.key.to_string(), change.version.0, content));
    }
    let expected = [("a/two", 1, Some("[2]")), ("a/one", 2, None), ("a/one", 3, Some("\"first\""))];
    let expected = expected.map(|(key, version, text)| (key.to_owned(), version, text.map(str::to_owned)));
    assert_eq!(changes, expected);
    let mut late = fixture.hub.memory().watch("", seq);
    let change = tokio::time::timeout(SOON, late.next()).await.expect("in time").expect("a change");
    assert_eq!((change.seq, change.key.as_str()), (seq, "a/two"), "from that record on");
}

// Fails under: a rollback without a list of changes, or to another position than requested.
pub(crate) async fn entries_can_be_rolled_back(fixture: &TestHub) {
    let (hub, embedded) = (&fixture.hub, &fixture.embedded);
    let alice = hub.agent("alice").join().await.expect("she joins");
    let memory = alice.memory();
    memory.put("plan/a", "note", 1).await.expect("written");
    memory.write("plan/b", "note", 2, None, &["plan/a"]).await.expect("written");
    let seq = memory.snapshot("before", "plan/").await.expect("named");
    assert_eq!(memory.snapshot("before", "").await.expect_err("taken").code(), Code::Duplicate);
    let snapshots = memory.snapshots(PageQuery::newest(10)).await.expect("read");
    assert_eq!(snapshots, embedded.memory().snapshots(PageQuery::newest(10)).await.expect("read"));
    let snapshots = snapshots.items;
    assert_eq!(
        (snapshots[0].name.as_str(), snapshots[0].seq, snapshots[0].by.as_str()),
        ("before", seq, "agent:alice")
    );
    memory.put("plan/a", "note", 10).await.expect("written");
    memory.write("plan/c", "note", 3, None, &["plan/a"]).await.expect("written");
    let check = memory.check().await.expect("checked");
    assert_eq!((check.counts.stale, check.clean), (1, false));
    assert!(
        matches!(&check.findings[..], [Inconsistency::Stale { key, current_version: Version(2), .. }] if key.as_str() == "plan/b")
    );

    let error = memory
        .rollback("plan/a", RollbackTarget::Version(Version(1)), Some(1))
        .await
        .expect_err("it is at 2");
    assert_eq!(
        (error.code(), error.refusal().expect("a refusal").facts.current_version),
        (Code::VersionConflict, Some(2))
    );
    let rollback =
        memory.rollback_all("plan/", RollbackTarget::Snapshot("before".parse().expect("a name"))).await;
    let rollback = rollback.expect("rolled back");
    let changed: Vec<_> =
        rollback.changed.iter().map(|entry| (entry.key.as_str(), entry.version.0, entry.restored)).collect();
    assert_eq!(changed, [("plan/a", 3, Some(Version(1))), ("plan/c", 2, None)]);
    assert_eq!((rollback.to, rollback.complete, rollback.seq.is_some()), (seq, true, true));
    assert_eq!(memory.get("plan/a").await.expect("read").expect("there").restores, Some(Version(1)));
    let rollback = memory.rollback("plan/a", RollbackTarget::Seq(seq), None).await.expect("as it is");
    assert!(rollback.changed.is_empty() || rollback.changed[0].restored == Some(Version(1)), "{rollback:?}");

    let earlier = memory.get_as_of("plan/a", AsOf::Version(Version(2))).await.expect("read").expect("there");
    assert_eq!(earlier.content::<u64>().expect("a number"), 10);
    let by_record = memory.get_as_of("plan/a", AsOf::Seq(earlier.seq)).await.expect("read").expect("there");
    assert_eq!(by_record.version, Version(2));
    let early = memory.get_as_of("plan/a", AsOf::Time(Timestamp(1))).await.expect("read");
    assert!(early.is_none(), "there was nothing in 1970");
    let later = memory
        .get_as_of("plan/a", AsOf::Time(Timestamp(4_000_000_000_000)))
        .await
        .expect("read")
        .expect("there");
    assert!(later.version >= Version(3));
    memory.drop_snapshot("before").await.expect("deleted");
    assert!(memory.snapshots(PageQuery::newest(10)).await.expect("read").items.is_empty());
    assert_eq!(memory.drop_snapshot("before").await.expect_err("gone").code(), Code::NotFound);
}
