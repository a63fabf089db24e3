//! Tasks through the library, with a real data directory and a manual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quorate::{
    AgentRole, Code, Failure, Hub, HubOptions, ManualClock, OnDependencyFailure, PageQuery, TaskDraft,
    TaskFilter, TaskId, TaskStatus, TaskWork,
};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};

const START_MS: u64 = 1_800_000_000_000;
const SOON: Duration = Duration::from_secs(20);

async fn hub() -> (TempDir, Hub, Arc<ManualClock>) {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = ManualClock::at(START_MS);
    let options = HubOptions { clock: Arc::<ManualClock>::clone(&clock), ..HubOptions::default() };
    let hub = Hub::open_with(directory.path().join("team"), options).await.expect("the hub opens");
    (directory, hub, clock)
}

/// Waits until this many tasks have a status.
async fn until(hub: &Hub, status: TaskStatus, count: u64) {
    let mut follow = hub.space().expect("an embedded hub").follow();
    let waited = follow.wait_for(|published| published.tasks.get(status) == count);
    tokio::time::timeout(SOON, waited).await.expect("in time").expect("the hub is open");
}

async fn wait_until_ended(hub: &Hub, id: &TaskId) -> quorate::TaskWithPayloads {
    let ended = tokio::time::timeout(SOON, hub.wait_for_task(id, Duration::from_secs(3600)));
    ended.await.expect("in time").expect("the task is there")
}

fn number(view: &quorate::TaskWithPayloads) -> u64 {
    let result = view.result().expect("bytes").expect("a result");
    String::from_utf8_lossy(&result).parse().expect("a number")
}

#[tokio::test]
async fn c4_handlers_work_through_a_graph() {
    let (_directory, hub, _clock) = hub().await;
    let double = |work: TaskWork<u64>| async move {
        work.set_confidence(0.9);
        work.put(&format!("doubled/{}", work.id()), "number", work.input * 2);
        Ok(work.input * 2)
    };
    let total = |work: TaskWork<()>| async move {
        let mut sum = 0;
        for id in &work.task().depends_on {
            let entry = work.agent().memory().get(&format!("doubled/{id}")).await?;
            sum += entry.map_or(Ok(0), |entry| entry.content::<u64>())?;
        }
        Ok(sum)
    };
    let _first = hub.agent("one").on_task("double", double).run().await.expect("it runs");
    let _second =
        hub.agent("two").on_task("double", double).on_task("total", total).concurrency(4).run().await;
    let alice = hub.agent("alice").join().await.expect("she joins");
    let mut graph: Vec<_> = (1..=5u64).map(|n| TaskDraft::new("double", n).priority(5)).collect();
    graph.push(TaskDraft::new("total", ()).depends_on_index(0..5).id("sum"));
    let ids = alice.create_tasks(graph).await.expect("made");
    assert_eq!((ids.len(), ids[5].as_str()), (6, "sum"));
    let sum = wait_until_ended(&hub, &ids[5]).await;
    assert_eq!((sum.task.status, number(&sum)), (TaskStatus::Done, 30));
    let first = hub.task(&ids[0]).await.expect("there").task;
    assert_eq!((first.status, first.confidence), (TaskStatus::Done, Some(0.9)));
    assert_eq!(hub.task_counts().await.expect("read").get(TaskStatus::Done), 6);
    hub.close().await;
}

#[tokio::test]
async fn c9_a_failing_handler_is_retried_and_then_escalated() {
    let (_directory, hub, clock) = hub().await;
    let (sender, mut attempts) = mpsc::unbounded_channel();
    let fail = move |work: TaskWork<()>| {
        let _ = sender.send(work.task().attempt);
        async move { Err::<(), _>(Failure::retry("the model is busy")) }
    };
    let _worker = hub.agent("worker").on_task("try", fail).run().await.expect("it runs");
    let lead = hub.agent("lead").role(AgentRole::Coordinator).join().await.expect("it joins");
    let id = lead.create_task(TaskDraft::new("try", ())).await.expect("made");
    for (attempt, wait) in [(1, 1), (2, 2), (3, 4)] {
        assert_eq!(attempts.recv().await, Some(attempt));
        until(&hub, TaskStatus::Scheduled, 1).await;
        clock.advance(Duration::from_secs(wait));
    }
    assert_eq!(attempts.recv().await, Some(4));
    assert_eq!(wait_until_ended(&hub, &id).await.task.status, TaskStatus::Escalated);
    let received = lead.receive(SOON).await.expect("an answer").expect("a message");
    assert_eq!((received.action(), received.sender()), ("task.escalated", ""));
    let escalation: serde_json::Value = received.payload().expect("JSON");
    assert_eq!(escalation["task"], id.as_str());
    assert_eq!((&escalation["attempts"], &escalation["reason"]), (&4.into(), &"the model is busy".into()));
    hub.close().await;
}

#[tokio::test]
async fn c9_a_permanent_failure_is_not_retried() {
    let (_directory, hub, _clock) = hub().await;
    let fail = |_: TaskWork<()>| async move { Err::<(), _>(Failure::permanent("no such document")) };
    let _worker = hub.agent("worker").on_task("read", fail).run().await.expect("it runs");
    let alice = hub.agent("alice").join().await.expect("she joins");
    let read = TaskDraft::new("read", ()).id("read");
    let dependent =
        TaskDraft::new("read", ()).depends_on(["read"]).on_dependency_failure(OnDependencyFailure::Wait);
    let ids = alice.create_tasks([read, dependent]).await.expect("made");
    let failed = wait_until_ended(&hub, &ids[0]).await.task;
    assert_eq!((failed.status, failed.attempt), (TaskStatus::Failed, 1));
    assert_eq!(failed.reason.as_deref(), Some("no such document"));
    let blocked = hub.task(&ids[1]).await.expect("there");
    assert_eq!((blocked.task.status, blocked.more.blocked_on), (TaskStatus::Blocked, vec![ids[0].clone()]));
    hub.close().await;
}

#[tokio::test]
async fn c9_a_panic_and_a_wrong_input_are_failures() {
    let (_directory, hub, _clock) = hub().await;
    let fail_once = |work: TaskWork<u64>| async move {
        assert!(work.task().attempt > 1, "the first attempt panics on purpose");
        Ok(work.input)
    };
    let _worker = hub.agent("worker").on_task("count", fail_once).run().await.expect("it runs");
    let alice = hub.agent("alice").join().await.expect("she joins");
    let valid = TaskDraft::new("count", 7u64).backoff(Duration::ZERO);
    let invalid = TaskDraft::new("count", "seven").backoff(Duration::ZERO);
    let ids = alice.create_tasks([valid, invalid]).await.expect("made");
    let valid = wait_until_ended(&hub, &ids[0]).await;
    assert_eq!((valid.task.attempt, number(&valid)), (2, 7));
    let invalid = wait_until_ended(&hub, &ids[1]).await.task;
    assert_eq!((invalid.status, invalid.attempt), (TaskStatus::Failed, 1), "a retry would fail again");
    hub.close().await;
}

/// Returns a handler that signals its start and its cancellation, and never returns.
fn endless(
    started: mpsc::UnboundedSender<u16>,
    ended: mpsc::UnboundedSender<u16>,
) -> impl Fn(TaskWork<()>) -> Endless {
    struct SendOnDrop(mpsc::UnboundedSender<u16>, u16);
    impl Drop for SendOnDrop {
        fn drop(&mut self) {
            let _ = self.0.send(self.1);
        }
    }
    move |work: TaskWork<()>| {
        let attempt = work.task().attempt;
        let _ = started.send(attempt);
        let guard = SendOnDrop(ended.clone(), attempt);
        Box::pin(async move {
            let _guard = guard;
            let _ = work.progress("so far").await;
            std::future::pending::<Result<(), Failure>>().await
        })
    }
}

type Endless = std::pin::Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

#[tokio::test]
async fn c9_cancelling_a_task_aborts_its_handler() {
    let (_directory, hub, _clock) = hub().await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let _worker = hub.agent("worker").on_task("wait", endless(started, ended)).run().await.expect("it runs");
    let alice = hub.agent("alice").join().await.expect("she joins");
    let id = alice.create_task(TaskDraft::new("wait", ())).await.expect("made");
    assert_eq!(starts.recv().await, Some(1));
    alice.cancel_task(&id, "no longer needed").await.expect("cancelled");
    assert_eq!(ends.recv().await, Some(1), "without any time passing");
    alice.create_task(TaskDraft::new("wait", ())).await.expect("made");
    assert_eq!(starts.recv().await, Some(1), "the worker continues with the next task");
    hub.close().await;
}

#[tokio::test]
async fn c10_a_timed_out_attempt_keeps_its_partial_result() {
    let (_directory, hub, clock) = hub().await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let _worker = hub.agent("worker").on_task("wait", endless(started, ended)).run().await.expect("it runs");
    let alice = hub.agent("alice").join().await.expect("she joins");
    let draft =
        TaskDraft::new("wait", ()).timeout(Duration::from_secs(5)).backoff(Duration::ZERO).max_attempts(2);
    let id = alice.create_task(draft).await.expect("made");
    for attempt in [1, 2] {
        assert_eq!(starts.recv().await, Some(attempt));
        let mut follow = hub.space().expect("an embedded hub").follow();
        // The partial result is on disk before the timeout.
        while hub.task(&id).await.expect("there").more.partials.len() < usize::from(attempt) {
            follow.changed().await.expect("the hub is open");
        }
        clock.advance(Duration::from_secs(5));
        assert_eq!(ends.recv().await, Some(attempt));
    }
    let view = wait_until_ended(&hub, &id).await;
    assert_eq!(view.task.status, TaskStatus::Failed);
    assert_eq!(view.more.partials.len(), 2);
    assert_eq!(&view.more.partials[1].0[..], b"\"so far\"");
    hub.close().await;
}

#[tokio::test]
async fn i9_a_lease_is_extended_while_its_handler_runs() {
    let (_directory, hub, clock) = hub().await;
    let (running, mut handlers) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
    let slow = move |_: TaskWork<()>| {
        let (sender, receiver) = oneshot::channel();
        let _ = running.send(sender);
        async move {
            let _ = receiver.await;
            Ok("done")
        }
    };
    // Heartbeats of the agent are disabled, so that only the lease can expire.
    let heartbeat_interval = Duration::from_secs(3600);
    let worker = hub.agent("worker").heartbeat_interval(heartbeat_interval).on_task("slow", slow);
    let _worker = worker.run().await.expect("it runs");
    let alice = hub.agent("alice").join().await.expect("she joins");
    let id = alice.create_task(TaskDraft::new("slow", ())).await.expect("made");
    let finish = handlers.recv().await.expect("it started");
    let head = hub.space().expect("an embedded hub").published().head;
    for _ in 0..12 {
        // The worker extends its lease after each third of it. It may read the clock a little late, so the clock
        // advances in smaller steps until it did.
        let mut follow = hub.space().expect("an embedded hub").follow();
        let wake = follow.borrow_and_update().wake.mono;
        let mut extended = false;
        for _ in 0..5 {
            clock.advance(Duration::from_secs(5));
            let later = follow.wait_for(|published| published.wake.mono > wake);
            extended = tokio::time::timeout(Duration::from_millis(500), later).await.is_ok();
            if extended {
                break;
            }
        }
        assert!(extended, "no heartbeat for 25 s");
        assert_eq!(hub.task(&id).await.expect("there").task.status, TaskStatus::Leased);
    }
    assert_eq!(hub.space().expect("an embedded hub").published().head, head, "heartbeats leave no record");
    let _ = finish.send(());
    let view = wait_until_ended(&hub, &id).await.task;
    assert_eq!((view.status, view.attempt), (TaskStatus::Done, 1));
    hub.close().await;
}

#[tokio::test]
async fn c4_tasks_are_claimed_and_completed_explicitly() {
    let (_directory, hub, _clock) = hub().await;
    let alice = hub.agent("alice").join().await.expect("she joins");
    let bob = hub.agent("bob").capability("review").join().await.expect("he joins");
    assert!(bob.claim_task(&[], Duration::ZERO).await.expect("an answer").is_none());
    alice.create_task(TaskDraft::new("review", vec![1, 2]).id("r1")).await.expect("made");
    let claimed = bob.claim_task(&[], SOON).await.expect("an answer").expect("a task");
    assert_eq!((claimed.id().as_str(), claimed.input::<Vec<u8>>().expect("a list")), ("r1", vec![1, 2]));
    bob.heartbeat_task(&claimed).await.expect("alive");
    let seq = bob.commit().complete_task(&claimed, "fine").put("notes/r1", "note", "fine").commit().await;
    let entry = hub.memory().get("notes/r1").await.expect("read").expect("there");
    assert_eq!(seq.expect("done"), Some(entry.seq), "one record holds both");
    bob.complete_task(&claimed, "fine").await.expect("the same answer");
    let refused = bob.complete_task(&claimed, "again").await.expect_err("another result");
    assert_eq!(
        (refused.code(), refused.refusal().and_then(|refused| refused.facts.ended_by)),
        (Code::StaleLease, Some(entry.seq))
    );
    let refused = bob.fail_task(&claimed, Failure::retry("late")).await.expect_err("it is done");
    assert_eq!(refused.code(), Code::StaleLease);
    let done = TaskFilter { status: Some(TaskStatus::Done), ..TaskFilter::default() };
    let page = hub.tasks(&done, PageQuery::newest(10)).await.expect("read");
    assert_eq!((page.items.len(), page.cursor), (1, None));
    let none = TaskFilter { task_type: Some("other".into()), ..done };
    assert_eq!(hub.tasks(&none, PageQuery::newest(10)).await.expect("read").items.len(), 0);
    hub.close().await;
}

#[tokio::test]
async fn c4_lists_are_paged_and_filtered() {
    let (_directory, hub, _clock) = hub().await;
    let alice = hub.agent("alice").join().await.expect("she joins");
    let _bob = hub.agent("bob").join().await.expect("he joins");
    let task_type = |n: u32| if n % 2 == 1 { "odd" } else { "even" };
    let drafts = (0..1200).map(|n| TaskDraft::new(task_type(n), n).id(format!("t{n:04}")));
    let drafts = drafts.chain([TaskDraft::new("odd", 0).id("u").for_agent("bob")]);
    alice.create_tasks(drafts).await.expect("made");
    let filter = TaskFilter { task_type: Some("odd".into()), ..TaskFilter::default() };
    let (mut found, mut query) = (Vec::new(), PageQuery::newest(250));
    loop {
        let page = hub.tasks(&filter, query.clone()).await.expect("read");
        found.extend(page.items.into_iter().map(|task| task.id.to_string()));
        query = query.after(page.cursor);
        if query.cursor.is_none() {
            break;
        }
    }
    let expected = (0..1200).filter(|n| n % 2 == 1).map(|n| format!("t{n:04}")).chain(["u".to_owned()]);
    assert_eq!(found, expected.rev().collect::<Vec<_>>(), "newest first, each once");
    let of_bob = TaskFilter { agent: Some("bob".parse().expect("a good id")), ..TaskFilter::default() };
    assert_eq!(hub.tasks(&of_bob, PageQuery::newest(10)).await.expect("read").items.len(), 1);
    hub.close().await;
}

#[tokio::test]
async fn c4_messages_and_tasks_share_the_concurrency_limit() {
    let (_directory, hub, _clock) = hub().await;
    let running = Arc::new(AtomicU32::new(0));
    let running_max = Arc::new(AtomicU32::new(0));
    let count = {
        let (running, running_max) = (Arc::clone(&running), Arc::clone(&running_max));
        move || {
            let (running, running_max) = (Arc::clone(&running), Arc::clone(&running_max));
            async move {
                running_max.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok::<(), Failure>(())
            }
        }
    };
    let count_message = count.clone();
    let worker = hub.agent("worker");
    let worker = worker
        .on_task("t", move |_: TaskWork<()>| count())
        .on("m", move |_: quorate::Work<()>| count_message());
    let worker = worker.run().await.expect("it runs");
    let alice = hub.agent("alice").join().await.expect("she joins");
    alice.create_tasks((0..10).map(|_| TaskDraft::new("t", ()))).await.expect("made");
    for _ in 0..10 {
        alice.send("worker", "m", ()).kind(quorate_core::MessageType::Event).await.expect("sent");
    }
    until(&hub, TaskStatus::Done, 10).await;
    let mut follow = hub.space().expect("an embedded hub").follow();
    let acked = follow.wait_for(|published| published.counts.acked == 10);
    tokio::time::timeout(SOON, acked).await.expect("in time").expect("the hub is open");
    assert_eq!(running_max.load(Ordering::SeqCst), 1, "one handler at a time");
    worker.stop().await.expect("stopped");
    hub.close().await;
}
