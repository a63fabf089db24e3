//! Lists of items: by creation, in both directions, and by id, in pages.

use quorate_core::{
    AddToSession, BudgetId, ChangeSession, ContributionKind, CreateTasks, CreationPosition, Generation,
    ItemKind, ItemRange, MakeSnapshot, NewTask, Op, OpenSession, Principal, SessionChange, SessionId,
    SetBudget, SnapshotName, TaskId,
};

use super::builders::{agent, payload};
use super::test_bench::TestBench;
use crate::{ListedItem, ReadQuery, ReadResult};

fn snapshot(name: &str) -> Op {
    let name = SnapshotName::new(name).expect("valid name");
    Op::MakeSnapshot(MakeSnapshot { name, prefix: String::new() })
}

fn drop_snapshot(name: &str) -> Op {
    Op::DropSnapshot { name: SnapshotName::new(name).expect("valid name") }
}

fn budget(name: &str, messages_max: u64) -> Op {
    let id = BudgetId::new(name).expect("valid id");
    Op::SetBudget(SetBudget { id, messages_max, tokens_max: None, money_max: None })
}

fn session(name: &str) -> SessionId {
    SessionId::new(name).expect("valid id")
}

fn open_session(name: &str) -> Op {
    let (id, title) = (Some(session(name)), "work".into());
    Op::OpenSession(OpenSession { id, coordinator: None, participants: Vec::new(), title, task: None })
}

fn complete_session(name: &str) -> Op {
    let change = SessionChange::Complete;
    Op::ChangeSession(ChangeSession { session: session(name), change, reason: String::new() })
}

fn add_note(name: &str) -> Op {
    let (session, body) = (session(name), payload("1"));
    let (content_type, rationale) = (None, String::new());
    Op::AddToSession(AddToSession { session, kind: ContributionKind::Note, body, content_type, rationale })
}

impl TestBench {
    async fn page(&self, kind: ItemKind, range: ItemRange, limit: usize) -> Vec<ListedItem> {
        match self.read(ReadQuery::Items { kind, range, limit }).await {
            ReadResult::Items(items) => items,
            other => panic!("not items: {other:?}"),
        }
    }

    /// Returns the ids of the whole list, read in pages of this size.
    async fn pages(&self, kind: ItemKind, mut range: ItemRange, size: usize) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            let page = self.page(kind, range.clone(), size).await;
            assert!(page.len() <= size, "a page does not exceed its limit");
            ids.extend(page.iter().map(id));
            match page.last() {
                Some(last) if page.len() == size => range = range.after(last.created, &last.item.key().id),
                _ => return ids,
            }
        }
    }

    /// Asserts the ids of a kind: by creation in both directions and by id, each with several page sizes.
    async fn assert_created(&self, kind: ItemKind, expected: &[&str]) {
        let newest: Vec<_> = expected.iter().rev().copied().collect();
        let mut by_id = expected.to_vec();
        by_id.sort_unstable();
        for size in [1, 2, 3, 1000] {
            assert_eq!(self.pages(kind, ItemRange::Oldest(None), size).await, expected, "oldest, {size}");
            assert_eq!(self.pages(kind, ItemRange::Newest(None), size).await, newest, "newest, {size}");
            assert_eq!(self.pages(kind, ItemRange::ById(None), size).await, by_id, "by id, {size}");
        }
    }
}

fn id(listed: &ListedItem) -> String {
    listed.item.key().id.to_string()
}

fn ids(page: &[ListedItem]) -> Vec<String> {
    page.iter().map(id).collect()
}

pub async fn items_are_listed_in_creation_order(mut bench: TestBench) {
    bench.register("alice").await;
    let mut created = Vec::new();
    for _ in 0..12 {
        let create = CreateTasks { tasks: vec![NewTask::new("work")], inputs: None };
        let receipt = bench.commit_ok(agent("alice"), vec![Op::CreateTasks(create)]).await;
        let seq = receipt.seq.expect("a task is a record");
        created.push(TaskId::generated(Generation(0), seq, 0).to_string());
    }
    let created: Vec<_> = created.iter().map(String::as_str).collect();
    assert!(!created.is_sorted(), "creation order differs from id order");
    bench.assert_created(ItemKind::Task, &created).await;
    bench.reopen().await;
    bench.assert_created(ItemKind::Task, &created).await;
}

pub async fn items_of_one_record_keep_the_order_of_its_operations(mut bench: TestBench) {
    bench.register("alice").await;
    bench.commit_ok(agent("alice"), vec![snapshot("c"), snapshot("b"), budget("y", 1), snapshot("d")]).await;
    bench.commit_ok(agent("alice"), vec![budget("x", 1), snapshot("a")]).await;
    for _ in 0..2 {
        bench.assert_created(ItemKind::Snapshot, &["c", "b", "d", "a"]).await;
        bench.assert_created(ItemKind::Budget, &["y", "x"]).await;
        bench.reopen().await;
    }
    bench.restore().await;
    bench.assert_created(ItemKind::Snapshot, &["c", "b", "d", "a"]).await;
    let page = bench.page(ItemKind::Snapshot, ItemRange::Oldest(None), 9).await;
    let first = CreationPosition::new(page[0].created.seq(), usize::MAX);
    let later = bench.page(ItemKind::Snapshot, ItemRange::Oldest(Some(first)), 9).await;
    assert_eq!(ids(&later), ["a"], "after the end of the first record");
}

pub async fn an_update_does_not_change_the_list_order(mut bench: TestBench) {
    bench.register("alice").await;
    for name in ["c", "a", "b"] {
        bench.commit_ok(agent("alice"), vec![open_session(name), budget(name, 1)]).await;
    }
    bench.commit_ok(agent("alice"), vec![add_note("a"), budget("a", 2), complete_session("c")]).await;
    bench.assert_created(ItemKind::Session, &["c", "a", "b"]).await;
    bench.assert_created(ItemKind::Budget, &["c", "a", "b"]).await;
    bench.reopen().await;
    // The existing items are now in tables or replayed from the log; some of them change again.
    bench
        .commit_ok(agent("alice"), vec![budget("c", 3), budget("d", 1), add_note("b"), budget("a", 4)])
        .await;
    for _ in 0..2 {
        bench.assert_created(ItemKind::Session, &["c", "a", "b"]).await;
        bench.assert_created(ItemKind::Budget, &["c", "a", "b", "d"]).await;
        bench.reopen().await;
    }
}

pub async fn a_recreated_item_is_listed_as_the_newest(mut bench: TestBench) {
    bench.register("alice").await;
    for name in ["a", "b", "c"] {
        bench.commit_ok(agent("alice"), vec![snapshot(name)]).await;
    }
    bench.commit_ok(agent("alice"), vec![drop_snapshot("a")]).await;
    bench.assert_created(ItemKind::Snapshot, &["b", "c"]).await;
    bench.commit_ok(agent("alice"), vec![snapshot("a")]).await;
    bench.assert_created(ItemKind::Snapshot, &["b", "c", "a"]).await;
    bench.reopen().await;
    bench.commit_ok(agent("alice"), vec![drop_snapshot("b"), snapshot("d"), snapshot("b")]).await;
    bench.assert_created(ItemKind::Snapshot, &["c", "a", "d", "b"]).await;
    bench.commit_ok(agent("alice"), vec![snapshot("e"), drop_snapshot("d"), drop_snapshot("e")]).await;
    for _ in 0..2 {
        bench.assert_created(ItemKind::Snapshot, &["c", "a", "b"]).await;
        bench.reopen().await;
    }
}

pub async fn a_cursor_stays_valid_while_items_are_created_and_removed(bench: TestBench) {
    bench.register("alice").await;
    let make = |names: &[&str]| names.iter().map(|name| snapshot(name)).collect::<Vec<_>>();
    bench.commit_ok(agent("alice"), make(&["d", "b"])).await;
    bench.commit_ok(agent("alice"), make(&["c", "a"])).await;
    let all = [ItemRange::Newest(None), ItemRange::Oldest(None), ItemRange::ById(None)];
    let mut next_pages = Vec::new();
    for range in all {
        let page = bench.page(ItemKind::Snapshot, range.clone(), 2).await;
        let last = page.last().expect("a page of two");
        next_pages.push(range.after(last.created, &last.item.key().id));
    }
    // The items at the cursors are removed and new items are created.
    bench.commit_ok(agent("alice"), vec![snapshot("e"), drop_snapshot("b"), drop_snapshot("c")]).await;
    bench.commit_ok(agent("alice"), vec![snapshot("b")]).await;
    let mut found = Vec::new();
    for range in next_pages {
        found.push(ids(&bench.page(ItemKind::Snapshot, range, 9).await));
    }
    assert_eq!(found, [vec!["d"], vec!["a", "e", "b"], vec!["d", "e"]]);
}

pub async fn a_list_is_scoped_to_one_kind_and_one_space(mut bench: TestBench) {
    let other_space = bench.open_space("there").await;
    bench.register("alice").await;
    bench.commit_ok(agent("alice"), vec![snapshot("a"), open_session("s")]).await;
    bench.switch_space(other_space);
    bench.commit_ok(Principal::System, vec![snapshot("z")]).await;
    bench.assert_created(ItemKind::Snapshot, &["z"]).await;
    bench.assert_created(ItemKind::Session, &[]).await;
    assert!(bench.page(ItemKind::Snapshot, ItemRange::Newest(None), 0).await.is_empty());
}
