//! Context memory: compare-and-set, immutable history, and versions that are never reused.

use quorate_core::{
    Code, EntryVersion, Key, Op, OpResult, Principal, PutEntry, Receipt, Seq, Timestamp, Version,
};

use super::builders::{agent, delete, erase, key, message_to, payload, put_entry, put_if_version, send};
use super::test_bench::{START_MS, TestBench};
use crate::{AsOf, ReadQuery, ReadResult, StoredEntry};

async fn entry(bench: &TestBench, name: &str, when: AsOf) -> Option<StoredEntry> {
    match bench.read(ReadQuery::Entry { key: key(name), when }).await {
        ReadResult::Entry(found) => found,
        other => panic!("not an entry: {other:?}"),
    }
}

async fn text(bench: &TestBench, name: &str, when: AsOf) -> Option<String> {
    let content = entry(bench, name, when).await.and_then(|entry| entry.content);
    content.map(|content| String::from_utf8_lossy(&content.bytes).into_owned())
}

async fn history(bench: &TestBench, name: &str, after: u64, limit: usize) -> Vec<StoredEntry> {
    match bench.read(ReadQuery::History { key: key(name), after: Version(after), limit }).await {
        ReadResult::Entries(found) => found,
        other => panic!("not a history: {other:?}"),
    }
}

async fn listed(bench: &TestBench, query: ReadQuery) -> Vec<String> {
    match bench.read(query).await {
        ReadResult::Entries(found) => found.iter().map(|entry| entry.key.to_string()).collect(),
        other => panic!("not a list: {other:?}"),
    }
}

fn version(receipt: &Receipt) -> Version {
    match receipt.results[..] {
        [OpResult::Written { version }] => version,
        ref other => panic!("not a write: {other:?}"),
    }
}

pub async fn each_write_increments_the_version(bench: TestBench) {
    bench.register("alice").await;
    assert_eq!(
        version(&bench.commit_ok(agent("alice"), vec![put_if_version("k", "1", 0)]).await),
        Version(1)
    );
    assert_eq!(
        version(&bench.commit_ok(agent("alice"), vec![put_if_version("k", "2", 1)]).await),
        Version(2)
    );
    assert_eq!(
        version(&bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "3"))]).await),
        Version(3)
    );
    assert_eq!(text(&bench, "k", AsOf::Latest).await.as_deref(), Some("3"));
}

pub async fn a_version_conflict_reports_the_current_version(bench: TestBench) {
    bench.register("alice").await;
    for (expect, current) in [(1, 0), (99, 0)] {
        let refused = bench.commit_refused(agent("alice"), vec![put_if_version("k", "1", expect)]).await;
        assert_eq!((refused.code, refused.facts.current_version), (Code::VersionConflict, Some(current)));
    }
    bench.commit_ok(agent("alice"), vec![put_if_version("k", "1", 0)]).await;
    bench.commit_ok(agent("alice"), vec![put_if_version("k", "2", 1)]).await;
    for expect in [0, 1, 3, u64::MAX] {
        for op in [put_if_version("k", "x", expect), delete("k", Some(expect))] {
            let refused = bench.commit_refused(agent("alice"), vec![op]).await;
            assert_eq!((refused.code, refused.facts.current_version), (Code::VersionConflict, Some(2)));
        }
    }
    assert_eq!(text(&bench, "k", AsOf::Latest).await.as_deref(), Some("2"));
}

pub async fn versions_continue_after_a_delete(bench: TestBench) {
    bench.register("alice").await;
    bench.commit_ok(agent("alice"), vec![put_if_version("k", "1", 0)]).await;
    assert_eq!(version(&bench.commit_ok(agent("alice"), vec![delete("k", Some(1))]).await), Version(2));
    let refused = bench.commit_refused(agent("alice"), vec![put_if_version("k", "x", 2)]).await;
    assert_eq!(refused.facts.current_version, Some(0), "a deleted entry has version 0");
    assert_eq!(
        version(&bench.commit_ok(agent("alice"), vec![put_if_version("k", "3", 0)]).await),
        Version(3)
    );
}

pub async fn deleting_a_missing_entry_is_refused(bench: TestBench) {
    bench.register("alice").await;
    bench.commit_refused_with(Code::NotFound, agent("alice"), vec![delete("k", None)]).await;
    bench.commit_refused_with(Code::NotFound, agent("alice"), vec![delete("k", Some(0))]).await;
    bench.commit_refused_with(Code::VersionConflict, agent("alice"), vec![delete("k", Some(1))]).await;
    bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "1"))]).await;
    bench.commit_ok(agent("alice"), vec![delete("k", None)]).await;
    bench.commit_refused_with(Code::NotFound, agent("alice"), vec![delete("k", None)]).await;
}

pub async fn a_tombstone_is_in_the_history_but_not_listed(bench: TestBench) {
    bench.register("alice").await;
    bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "1"))]).await;
    bench.commit_ok(agent("alice"), vec![delete("k", None)]).await;
    let newest = entry(&bench, "k", AsOf::Latest).await.expect("its tombstone");
    assert!(newest.version.head.deleted);
    assert_eq!((newest.version.content_part, newest.content), (None, None));
    let all =
        ReadQuery::Entries { prefix: String::new(), entry_type: None, author: None, after: None, limit: 9 };
    assert_eq!(listed(&bench, all).await, [""; 0]);
    let versions: Vec<_> =
        history(&bench, "k", 0, 9).await.iter().map(|entry| entry.version.head.deleted).collect();
    assert_eq!(versions, [false, true]);
}

pub async fn an_entry_records_author_type_time_and_dependencies(bench: TestBench) {
    bench.register("alice").await;
    bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("base", "0"))]).await;
    bench.advance_secs(3);
    let whole = PutEntry {
        entry_type: "decision".into(),
        content: payload("<yes/>"),
        content_type: Some("text/xml".into()),
        depends_on: vec![key("base"), key("missing")],
        fence: None,
        ..put_entry("k", "")
    };
    let receipt =
        bench.commit_ok(agent("alice"), vec![send("alice", message_to("alice")), Op::Put(whole)]).await;
    let found = entry(&bench, "k", AsOf::Latest).await.expect("the entry exists");
    let EntryVersion { head, at, author, entry_type, content_type, content_part, depends_on, restores } =
        found.version;
    assert_eq!((Some(head.seq), Timestamp(START_MS + 3_000)), (receipt.seq, at));
    assert_eq!((author.as_str(), entry_type.as_str()), ("agent:alice", "decision"));
    assert_eq!((content_type.as_deref(), content_part), (Some("text/xml"), Some((head.seq, 1))));
    assert_eq!(restores, None);
    assert_eq!(depends_on, [(key("base"), Version(1)), (key("missing"), Version(0))]);
    assert_eq!(found.content, Some(payload("<yes/>")));
}

pub async fn an_entry_can_be_read_as_of_an_earlier_point(bench: TestBench) {
    bench.register("alice").await;
    let mut seqs = Vec::new();
    for text in ["1", "2", "3"] {
        bench.advance_secs(10);
        seqs.push(
            bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", text))]).await.seq.expect("a record"),
        );
    }
    bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("other", "x"))]).await;
    for (when, expected) in [
        (AsOf::Version(Version(1)), Some("1")),
        (AsOf::Version(Version(2)), Some("2")),
        (AsOf::Version(Version(4)), None),
        (AsOf::Version(Version(0)), None),
        (AsOf::Version(Version(u64::MAX)), None),
        (AsOf::Seq(Seq(seqs[0].0 - 1)), None),
        (AsOf::Seq(seqs[0]), Some("1")),
        (AsOf::Seq(Seq(u64::MAX)), Some("3")),
        (AsOf::Time(Timestamp(START_MS + 9_999)), None),
        (AsOf::Time(Timestamp(START_MS + 10_000)), Some("1")),
        (AsOf::Time(Timestamp(START_MS + 29_999)), Some("2")),
        (AsOf::Time(Timestamp(u64::MAX)), Some("3")),
    ] {
        assert_eq!(text(&bench, "k", when).await.as_deref(), expected, "{when:?}");
    }
    assert_eq!(entry(&bench, "nothing", AsOf::Latest).await, None);
}

pub async fn history_is_paged_and_immutable(bench: TestBench) {
    bench.register("alice").await;
    for text in ["1", "2", "3"] {
        bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", text))]).await;
    }
    let whole = history(&bench, "k", 0, 99).await;
    assert_eq!(whole.iter().map(|entry| entry.version.head.version.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(history(&bench, "k", 0, 2).await, whole[..2]);
    assert_eq!(history(&bench, "k", 2, 2).await, whole[2..]);
    bench.commit_ok(agent("alice"), vec![delete("k", None), put_if_version("k", "5", 0)]).await;
    assert_eq!(history(&bench, "k", 0, 3).await, whole);
    assert_eq!(history(&bench, "k", 0, 99).await.len(), 5);
}

pub async fn entries_are_listed_by_prefix_type_and_author(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for (agent_id, name, kind) in [
        ("alice", "plan", "note"),
        ("alice", "plan/b", "note"),
        ("bob", "plan/a", "decision"),
        ("bob", "plan/ä", "note"),
        ("bob", "plam", "note"),
        ("alice", "pla", "note"),
    ] {
        let entry = PutEntry { entry_type: kind.into(), ..put_entry(name, "{}") };
        bench.commit_ok(agent(agent_id), vec![Op::Put(entry)]).await;
    }
    let list = |prefix: &str, kind: Option<&str>, author: Option<&str>, after: Option<&str>, limit| {
        ReadQuery::Entries {
            prefix: prefix.into(),
            entry_type: kind.map(Into::into),
            author: author.map(Into::into),
            after: after.map(|text| Key::new(text).expect("valid key")),
            limit,
        }
    };
    let all = ["pla", "plam", "plan", "plan/a", "plan/b", "plan/ä"];
    assert_eq!(listed(&bench, list("", None, None, None, 99)).await, all);
    assert_eq!(listed(&bench, list("plan/", None, None, None, 99)).await, all[3..]);
    assert_eq!(listed(&bench, list("plan/", None, None, Some("plan/a"), 1)).await, ["plan/b"]);
    assert_eq!(listed(&bench, list("plan", None, None, Some("a"), 2)).await, ["plan", "plan/a"]);
    assert_eq!(listed(&bench, list("", Some("decision"), None, None, 9)).await, ["plan/a"]);
    assert_eq!(
        listed(&bench, list("", None, Some("agent:bob"), None, 9)).await,
        ["plam", "plan/a", "plan/ä"]
    );
    assert_eq!(listed(&bench, list("plan/", Some("note"), Some("agent:bob"), None, 9)).await, ["plan/ä"]);
    assert_eq!(listed(&bench, list("x", None, None, None, 9)).await, [""; 0]);
}

pub async fn later_operations_see_earlier_ones_of_the_same_commit(bench: TestBench) {
    bench.register("alice").await;
    let dependent = PutEntry { depends_on: vec![key("k")], ..put_entry("d", "{}") };
    let ops = vec![
        put_if_version("k", "1", 0),
        put_if_version("k", "2", 1),
        Op::Put(dependent),
        delete("k", Some(2)),
        put_if_version("k", "4", 0),
    ];
    let receipt = bench.commit_ok(agent("alice"), ops).await;
    let versions = receipt.results.iter().map(|result| match result {
        OpResult::Written { version } => version.0,
        other => panic!("not a write: {other:?}"),
    });
    assert_eq!(versions.collect::<Vec<_>>(), [1, 2, 1, 3, 4]);
    let stored = entry(&bench, "d", AsOf::Latest).await.expect("the entry exists");
    assert_eq!(stored.version.depends_on, [(key("k"), Version(2))]);
    assert_eq!(history(&bench, "k", 0, 9).await.len(), 4);
    assert_eq!(text(&bench, "k", AsOf::Version(Version(2))).await.as_deref(), Some("2"));
}

pub async fn an_erased_payload_reads_as_zeros(bench: TestBench) {
    bench.register("alice").await;
    let ops = vec![
        send("alice", message_to("alice")),
        Op::Put(put_entry("k", "secret")),
        Op::Put(put_entry("l", "kept")),
    ];
    let seq = bench.commit_ok(agent("alice"), ops).await.seq.expect("a record");
    bench.commit_refused_with(Code::Forbidden, agent("alice"), vec![erase(seq, 1)]).await;
    let receipt = bench.commit_ok(Principal::System, vec![erase(seq, 1), erase(seq, 1)]).await;
    assert_eq!(receipt.seq, Some(bench.head()), "an erasure is a record");
    let blank =
        entry(&bench, "k", AsOf::Latest).await.and_then(|entry| entry.content).expect("the entry exists");
    assert_eq!(&blank.bytes[..], [0; 6]);
    assert!(blank.is_erased());
    assert_eq!(
        blank.digest,
        payload("secret").digest,
        "the digest, and with it the hash chain, is unchanged"
    );
    assert_eq!(text(&bench, "l", AsOf::Latest).await.as_deref(), Some("kept"));
    let repeated = bench.commit_ok(Principal::System, vec![erase(seq, 1)]).await;
    assert_eq!(repeated.seq, None, "erasing twice is a no-op");
    bench.commit_ok(Principal::System, vec![erase(seq, 0)]).await;
    match bench.read(ReadQuery::Message { seq, n: 0 }).await {
        ReadResult::Message(Some(found)) => assert_eq!(&found.message.payload.bytes[..], [0; 2]),
        other => panic!("not a message: {other:?}"),
    }
}

pub async fn erasing_a_missing_payload_is_refused(bench: TestBench) {
    bench.register("alice").await;
    let seq =
        bench.commit_ok(agent("alice"), vec![Op::Put(put_entry("k", "1"))]).await.seq.expect("a record");
    for (seq, part) in [(seq, 1), (Seq(1), 0), (Seq(0), 0), (Seq(seq.0 + 1), 0), (seq, u32::MAX)] {
        bench.commit_refused_with(Code::NotFound, Principal::System, vec![erase(seq, part)]).await;
    }
    let own = vec![Op::Put(put_entry("k", "2")), erase(Seq(seq.0 + 1), 0)];
    bench.commit_refused_with(Code::NotFound, Principal::System, own).await;
}
