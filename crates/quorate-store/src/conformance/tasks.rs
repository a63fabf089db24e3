//! Tasks: created as a graph, claimed under increasing lease tokens, ended once, and never stuck.

use std::time::Duration;

use quorate_core::{
    AgentRole, AttemptFailureKind, CancelTask, ClaimTasks, Code, Commit, CompleteTask, ConsumerEvent,
    ConsumerId, CreateTasks, Dependency, EscalateTo, FailTask, HeartbeatTask, Item, ItemKey, ItemKind,
    LeaseLoss, LeaseToken, LeasedTask, NewTask, OnDependencyFailure, Op, OpResult, Policy, Principal,
    Receipt, RegisterAgent, Task, TaskId, TaskLeaseRef, TaskState, TaskStatus, WaitMode, limits,
};

use super::builders::{agent, id, idempotency_key, payload, put_if_version, register};
use super::test_bench::TestBench;
use crate::{PartBytes, ReadQuery, ReadResult};

const FIRST: ConsumerId = ConsumerId(1);
const SECOND: ConsumerId = ConsumerId(2);

fn task_id(name: &str) -> TaskId {
    TaskId::new(name).expect("valid id")
}

pub(super) fn task(name: &str) -> NewTask {
    NewTask { id: Some(task_id(name)), ..NewTask::new("work") }
}

fn with_dependencies(name: &str, dependencies: &[&str]) -> NewTask {
    let depends_on = dependencies.iter().map(|name| Dependency::Task(task_id(name))).collect();
    NewTask { depends_on, ..task(name) }
}

fn create(tasks: Vec<NewTask>) -> Op {
    Op::CreateTasks(CreateTasks { tasks, inputs: None })
}

fn claim(name: &str, max: u32, wait: WaitMode) -> Op {
    Op::ClaimTasks(ClaimTasks { agent: id(name), types: vec!["work".into()], max, lease_ms: None, wait })
}

pub(super) fn done(held: &LeasedTask, result: &str) -> Op {
    Op::CompleteTask(CompleteTask::done(held.lease_ref(), Some(payload(result))))
}

pub(super) fn fail(held: &LeasedTask, recoverable: bool) -> Op {
    let reason = "no luck".into();
    Op::FailTask(FailTask { lease: held.lease_ref(), reason, details: None, recoverable })
}

fn heartbeat(held: &LeasedTask) -> Op {
    Op::HeartbeatTask(HeartbeatTask { lease: held.lease_ref(), partial: None })
}

fn leased_tasks(receipt: &Receipt) -> Vec<LeasedTask> {
    match &receipt.results[..] {
        [.., OpResult::TasksClaimed(leased_tasks)] => leased_tasks.clone(),
        other => panic!("not a claim: {other:?}"),
    }
}

fn accepted(receipt: &Receipt) -> OpResult {
    receipt.results[0].clone()
}

impl TestBench {
    pub(super) async fn create_tasks(&self, tasks: Vec<NewTask>) -> Receipt {
        self.commit_ok(agent("alice"), vec![create(tasks)]).await
    }

    pub(super) async fn claim_tasks(&self, name: &str, max: u32) -> Vec<LeasedTask> {
        leased_tasks(&self.commit_ok(agent(name), vec![claim(name, max, WaitMode::NoWait)]).await)
    }

    async fn claim_task(&self, name: &str) -> LeasedTask {
        let mut leased_tasks = self.claim_tasks(name, 1).await;
        assert_eq!(leased_tasks.len(), 1, "{name} has a task to claim");
        leased_tasks.remove(0)
    }

    async fn task(&self, name: &str) -> Task {
        match self.read(ReadQuery::Item(ItemKey::new(ItemKind::Task, name))).await {
            ReadResult::Item(Some(Item::Task(task))) => task,
            other => panic!("not a task: {other:?}"),
        }
    }

    async fn status(&self, name: &str) -> TaskStatus {
        self.task(name).await.status()
    }

    async fn part(&self, seq: quorate_core::Seq, part: u32) -> Option<PartBytes> {
        match self.read(ReadQuery::Part { seq, part, start: 0, length: u64::MAX }).await {
            ReadResult::Part(part) => part,
            other => panic!("not a part: {other:?}"),
        }
    }

    /// Returns the task notifications since the last call: consumer, task, and the lease token or the loss.
    fn task_notifications(&self) -> Vec<(u64, String, Result<u64, LeaseLoss>)> {
        let sent = self.consumer_events().into_iter().map(|(consumer, notification)| match notification {
            ConsumerEvent::TaskLeased(leased) => {
                let TaskLeaseRef { task, token } = leased.lease_ref();
                (consumer.0, task.to_string(), Ok(token.0))
            }
            ConsumerEvent::TaskLost { task, loss, .. } => (consumer.0, task.to_string(), Err(loss)),
            other => panic!("not a task notification: {other:?}"),
        });
        sent.collect()
    }
}

pub async fn e6_what_a_holder_reports_has_the_structure_that_the_policy_requires(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("t1"), task("t2")]).await;
    let held = bench.claim_tasks("bob", 2).await;
    let policy = Policy { structured: true, ..Policy::default() };
    bench.commit_ok(Principal::System, vec![Op::SetPolicy(policy)]).await;
    let text = || Some(payload("\"{}\""));
    let partial = |partial| Op::HeartbeatTask(HeartbeatTask { lease: held[0].lease_ref(), partial });
    let complete = |result, content_type: Option<&str>| {
        let content_type = content_type.map(str::to_owned);
        Op::CompleteTask(CompleteTask { content_type, ..CompleteTask::done(held[0].lease_ref(), result) })
    };
    let fail = |details| {
        let (lease, reason) = (held[1].lease_ref(), "no luck".into());
        Op::FailTask(FailTask { lease, reason, details, recoverable: false })
    };
    for (op, place) in [
        (partial(text()), "partial"),
        (complete(text(), None), "result"),
        (complete(Some(payload("plain")), Some("text/plain")), "contentType"),
        (fail(text()), "details"),
    ] {
        let refused = bench.commit_refused(agent("bob"), vec![op]).await;
        let rule = (refused.facts.rule.as_deref(), refused.facts.field.as_deref());
        assert_eq!((refused.code, rule), (Code::PolicyViolation, (Some("structured"), Some(place))));
    }
    let structured = || Some(payload("{\"text\":\"{}\"}"));
    let ops = vec![partial(structured()), complete(structured(), None), fail(structured())];
    bench.commit_ok(agent("bob"), ops).await;
}

pub async fn c4_a_task_graph_is_created_in_one_record(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let head = bench.head();
    let receipt = bench
        .create_tasks(vec![task("a"), with_dependencies("b", &["a"]), with_dependencies("c", &["a", "b"])])
        .await;
    assert_eq!(receipt.seq.map(|seq| seq.0), Some(head.0 + 1));
    let OpResult::TasksCreated { seq, first, count, .. } = accepted(&receipt) else { panic!("{receipt:?}") };
    assert_eq!((Some(seq), first, count), (receipt.seq, 0, 3));
    let counts = bench.published().tasks;
    assert_eq!((counts.get(TaskStatus::Ready), counts.get(TaskStatus::Blocked), counts.open()), (1, 2, 3));
}

pub async fn c4_a_task_is_ready_when_all_its_dependencies_are_done(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a"), task("b"), with_dependencies("c", &["a", "b"])]).await;
    let held = bench.claim_tasks("bob", 9).await;
    assert_eq!(held.len(), 2, "c is still blocked");
    bench.commit_ok(agent("bob"), vec![done(&held[0], "1")]).await;
    assert_eq!((bench.status("c").await, bench.claim_tasks("bob", 9).await.len()), (TaskStatus::Blocked, 0));
    bench.commit_ok(agent("bob"), vec![done(&held[1], "2")]).await;
    assert_eq!(bench.claim_task("bob").await.task.spec.id, task_id("c"));
}

pub async fn c4_each_task_chooses_how_a_failed_dependency_affects_it(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let dependent =
        |name, on_dependency_failure| NewTask { on_dependency_failure, ..with_dependencies(name, &["a"]) };
    let fails = dependent("fails", OnDependencyFailure::Fail);
    let skips = dependent("skips", OnDependencyFailure::Skip);
    let waits = dependent("waits", OnDependencyFailure::Wait);
    bench.create_tasks(vec![task("a"), fails, skips, waits, with_dependencies("behind", &["fails"])]).await;
    let held = bench.claim_task("bob").await;
    bench.commit_ok(agent("bob"), vec![fail(&held, false)]).await;
    let TaskState::Failed(end) = bench.task("fails").await.state else { panic!("not failed") };
    assert_eq!(end.failed_dependency, Some(task_id("a")));
    assert_eq!(bench.status("behind").await, TaskStatus::Failed);
    let skips = bench.task("skips").await;
    assert_eq!((skips.status(), skips.missing), (TaskStatus::Ready, vec![task_id("a")]));
    let TaskState::Blocked { held_by } = bench.task("waits").await.state else { panic!("not blocked") };
    assert_eq!(held_by, [task_id("a")]);
}

pub async fn i10_dependency_cycles_and_unknown_dependencies_are_refused(bench: TestBench) {
    bench.register("alice").await;
    let cycle =
        vec![with_dependencies("a", &["c"]), with_dependencies("b", &["a"]), with_dependencies("c", &["b"])];
    let refused = bench.commit_refused(agent("alice"), vec![create(cycle)]).await;
    let mut cycle: Vec<String> = refused.facts.cycle.iter().map(|edge| edge.agent.clone()).collect();
    cycle.sort();
    assert_eq!((refused.code, cycle), (Code::Invalid, vec!["a".into(), "b".into(), "c".into()]));
    bench
        .commit_refused_with(
            Code::NotFound,
            agent("alice"),
            vec![create(vec![with_dependencies("a", &["nowhere"])])],
        )
        .await;
    assert_eq!(bench.published().tasks.open(), 0);
}

pub async fn i10_finished_dependencies_count_when_a_task_is_created(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("good"), task("bad")]).await;
    let held = bench.claim_tasks("bob", 2).await;
    bench.commit_ok(agent("bob"), vec![done(&held[0], "1"), fail(&held[1], false)]).await;
    bench
        .create_tasks(vec![
            with_dependencies("after-good", &["good"]),
            with_dependencies("after-bad", &["good", "bad"]),
        ])
        .await;
    assert_eq!(bench.status("after-good").await, TaskStatus::Ready);
    assert_eq!(bench.status("after-bad").await, TaskStatus::Failed);
}

pub async fn c4_tasks_are_claimed_by_priority_then_age(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let with_priority = |name, priority| NewTask {
        priority: quorate_core::Priority::from_ten_scale(priority).expect("1 to 10"),
        ..task(name)
    };
    bench
        .create_tasks(vec![
            with_priority("low", 2),
            with_priority("old", 5),
            with_priority("young", 5),
            with_priority("high", 9),
        ])
        .await;
    let order: Vec<_> =
        bench.claim_tasks("bob", 9).await.iter().map(|leased| leased.task.spec.id.to_string()).collect();
    assert_eq!(order, ["high", "old", "young", "low"]);
}

pub async fn c4_a_task_assigned_to_an_agent_goes_only_to_it(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    bench.create_tasks(vec![NewTask { agent: Some(id("carol")), ..task("hers") }]).await;
    assert_eq!(bench.claim_tasks("bob", 9).await.len(), 0);
    assert_eq!(bench.claim_tasks("carol", 9).await.len(), 1);
    bench
        .commit_refused_with(Code::Conflict, agent("carol"), vec![Op::RemoveAgent { agent: id("carol") }])
        .await;
}

pub async fn c4_task_inputs_are_delivered_unchanged(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let long = vec![b'7'; 5_000];
    let tasks = vec![
        (task("short"), Some(b"{\"n\":1}".to_vec())),
        (task("none"), None),
        (task("long"), Some(long.clone())),
    ];
    bench.commit_ok(agent("alice"), vec![Op::CreateTasks(CreateTasks::pack(tasks, [3; 16]))]).await;
    let short = bench.claim_task("bob").await;
    assert_eq!(short.input.as_deref(), Some(&b"{\"n\":1}"[..]), "short inputs are included in the claim");
    assert_eq!(bench.claim_task("bob").await.task.spec.input, None);
    bench.reopen().await;
    let held = bench.claim_task("bob").await;
    let input = held.task.spec.input.expect("the task has an input");
    let (seq, part) = (held.task.spec.number.seq, input.part);
    let read = ReadQuery::Part { seq, part, start: input.start, length: input.length };
    assert_eq!(
        bench.read(read).await,
        ReadResult::Part(Some(PartBytes { bytes: long.into(), erased: false }))
    );
    assert_eq!(bench.part(seq, part + 1).await, None);
}

pub async fn c4_an_erased_task_input_is_not_delivered(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let tasks = vec![(task("a"), Some(b"{\"secret\":1}".to_vec()))];
    let receipt =
        bench.commit_ok(agent("alice"), vec![Op::CreateTasks(CreateTasks::pack(tasks, [3; 16]))]).await;
    let seq = receipt.seq.expect("a record");
    bench.commit_ok(Principal::System, vec![super::builders::erase(seq, 0)]).await;
    assert_eq!(bench.claim_task("bob").await.input, None);
    let bytes = vec![0; 12].into();
    assert_eq!(bench.part(seq, 0).await, Some(PartBytes { bytes, erased: true }));
}

pub async fn i3_creating_the_same_graph_again_is_idempotent(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let graph = |input: &str| {
        let tasks =
            vec![(task("a"), Some(input.as_bytes().to_vec())), (with_dependencies("b", &["a"]), None)];
        vec![Op::CreateTasks(CreateTasks::pack(tasks, [3; 16]))]
    };
    let first = bench.commit_ok(agent("alice"), graph("1")).await;
    bench.reopen().await;
    let repeated = bench.commit_ok(agent("alice"), graph("1")).await;
    assert_eq!((repeated.seq, &repeated.results), (None, &first.results));
    bench.commit_refused_with(Code::Duplicate, agent("alice"), graph("2")).await;
    bench.commit_refused_with(Code::Duplicate, agent("bob"), graph("1")).await;
    bench
        .commit_refused_with(Code::Duplicate, agent("alice"), vec![create(vec![task("c"), task("b")])])
        .await;
    assert_eq!(bench.published().tasks.open(), 2);
}

// Fails under: an id that is only looked up in memory, or only among the ids next to it.
pub async fn i3_a_graph_with_a_used_id_is_refused(mut bench: TestBench) {
    bench.register_all(&["alice"]).await;
    let names = |numbers: std::ops::Range<u32>| numbers.map(|n| format!("g-{n:02}")).collect::<Vec<_>>();
    let graph = |names: &[&str]| vec![create(names.iter().map(|name| task(name)).collect())];
    bench.create_tasks(names(10..40).iter().map(|name| task(name)).collect()).await;
    // Ended tasks are only in the tables.
    for name in names(10..30) {
        let cancel = CancelTask { task: task_id(&name), reason: String::new() };
        bench.commit_ok(agent("alice"), vec![Op::CancelTask(cancel)]).await;
    }
    for _ in 0..2 {
        // An ended or open task, with more other tasks between the ids than ids, with fewer, and with none.
        let graphs = [
            (["g-00", "g-17", "g-99"], "g-17"),
            (["g-0", "g-35", "g-99"], "g-35"),
            (["g-16x", "g-17", "g-17x"], "g-17"),
            (["f", "g-29", "g-29x"], "g-29"),
        ];
        for (names, used) in graphs {
            let refused = bench.commit_refused(agent("alice"), graph(&names)).await;
            assert_eq!(refused.code, Code::Duplicate);
            assert!(refused.detail.contains(&format!("the task id {used} was used")), "{}", refused.detail);
        }
        bench.reopen().await;
    }
    bench.create_tasks(["g-00", "g-16x", "g-99", "a", "z"].map(task).to_vec()).await;
    assert_eq!(bench.published().tasks.open(), 10 + 5);
}

pub async fn i8_task_lease_tokens_increase_and_stale_ones_are_refused(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    bench.create_tasks(vec![task("a")]).await;
    let old = bench.claim_task("bob").await;
    bench.advance_secs(30);
    bench.sweep().await;
    let new = bench.claim_task("carol").await;
    assert!(new.lease_ref().token > old.lease_ref().token);
    for op in [done(&old, "1"), fail(&old, true), heartbeat(&old), Op::ReleaseTask(old.lease_ref())] {
        bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![op]).await;
    }
    bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![done(&new, "1")]).await;
    let made_up = TaskLeaseRef { token: LeaseToken(new.lease_ref().token.0 + 1), ..new.lease_ref() };
    let op = Op::CompleteTask(CompleteTask::done(made_up, None));
    bench.commit_refused_with(Code::StaleLease, agent("carol"), vec![op]).await;
    bench.commit_ok(agent("carol"), vec![done(&new, "2")]).await;
    assert_eq!(bench.task("a").await.accepted_token(), Some(new.lease_ref().token));
}

pub async fn i8_one_completion_is_accepted_and_its_repetition_is_idempotent(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a")]).await;
    let held = bench.claim_task("bob").await;
    let first = bench.commit_ok(agent("bob"), vec![done(&held, "1")]).await;
    for round in 0..2 {
        let repeated = bench.commit_ok(agent("bob"), vec![done(&held, "1")]).await;
        assert_eq!((repeated.seq, accepted(&repeated)), (None, accepted(&first)), "round {round}");
        bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![fail(&held, true)]).await;
        bench.reopen().await;
    }
    let TaskState::Done(end) = bench.task("a").await.state else { panic!("not done") };
    let result = end.result.expect("a result");
    let bytes = bench.part(result.seq, result.part).await.expect("the part exists").bytes;
    assert_eq!(&bytes[..], b"1", "the first result is stored");
}

pub async fn i8_a_failure_report_is_idempotent_until_the_task_is_claimed_again(mut bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    bench.create_tasks(vec![task("held"), task("done"), task("released")]).await;
    let old = leased_tasks(&bench.commit_ok(agent("bob"), vec![claim("bob", 3, WaitMode::NoWait)]).await);
    let first = bench.commit_ok(agent("bob"), old.iter().map(|leased| fail(leased, true)).collect()).await;
    let repeated = bench.commit_ok(agent("bob"), old.iter().map(|leased| fail(leased, true)).collect()).await;
    assert_eq!((repeated.seq, repeated.results), (None, first.results), "not claimed again yet");
    bench.advance_secs(1);
    bench.sweep().await;
    let new = leased_tasks(&bench.commit_ok(agent("carol"), vec![claim("carol", 3, WaitMode::NoWait)]).await);
    bench.commit_ok(agent("carol"), vec![done(&new[1], "1"), Op::ReleaseTask(new[2].lease_ref())]).await;
    for _ in 0..2 {
        for stale in &old {
            bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![fail(stale, true)]).await;
            let release = Op::ReleaseTask(stale.lease_ref());
            bench.commit_refused_with(Code::StaleLease, agent("bob"), vec![release]).await;
        }
        bench.reopen().await;
    }
}

pub async fn i8_a_completion_and_its_other_operations_are_one_commit(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a"), with_dependencies("b", &["a"])]).await;
    let held = bench.claim_task("bob").await;
    let refused =
        bench.commit_refused(agent("bob"), vec![done(&held, "1"), put_if_version("k", "1", 7)]).await;
    assert_eq!(refused.code, Code::VersionConflict);
    assert_eq!((bench.status("a").await, bench.status("b").await), (TaskStatus::Leased, TaskStatus::Blocked));
    bench.commit_ok(agent("bob"), vec![done(&held, "1"), put_if_version("k", "1", 0)]).await;
    assert_eq!((bench.status("a").await, bench.status("b").await), (TaskStatus::Done, TaskStatus::Ready));
}

pub async fn i9_a_task_lease_expires_without_heartbeats(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a")]).await;
    let held = bench.claim_task("bob").await;
    bench.advance_secs(29);
    assert_eq!(
        bench.commit_ok(agent("bob"), vec![heartbeat(&held)]).await.seq,
        None,
        "a heartbeat leaves no record"
    );
    bench.clock.advance(Duration::from_millis(29_999));
    assert_eq!(bench.sweep().await.seq, None, "the heartbeat extended the lease");
    bench.clock.advance(Duration::from_millis(1));
    assert!(bench.published().wake.is_due(crate::Clock::now(&*bench.clock)));
    bench.sweep().await;
    let task = bench.task("a").await;
    assert_eq!((task.status(), task.attempt), (TaskStatus::Ready, 1));
    assert_eq!(task.last_failure.map(|failure| failure.kind), Some(AttemptFailureKind::LeaseExpired));
}

pub async fn i9_task_leases_backoffs_and_counts_survive_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a"), task("b"), task("c"), with_dependencies("d", &["a", "b"])]).await;
    let held = bench.claim_tasks("bob", 3).await;
    bench.commit_ok(agent("bob"), vec![done(&held[0], "1"), fail(&held[2], true)]).await;
    let counts = bench.published().tasks;
    bench.advance_secs(20);
    bench.reopen().await;
    assert_eq!(bench.published().tasks, counts);
    bench.sweep().await;
    assert_eq!(bench.status("c").await, TaskStatus::Ready, "its backoff has elapsed");
    bench.advance_secs(29);
    bench.sweep().await;
    assert_eq!(bench.status("b").await, TaskStatus::Leased, "its lease restarts with its full duration");
    bench.commit_ok(agent("bob"), vec![done(&held[1], "2")]).await;
    assert_eq!(bench.status("d").await, TaskStatus::Ready);
}

pub async fn c9_a_failed_task_is_retried_with_backoff_and_then_fails(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a")]).await;
    for wait in [1, 2, 4] {
        let held = bench.claim_task("bob").await;
        bench.commit_ok(agent("bob"), vec![fail(&held, true)]).await;
        bench.clock.advance(Duration::from_millis(wait * 1_000 - 1));
        assert_eq!(bench.sweep().await.seq, None);
        bench.clock.advance(Duration::from_millis(1));
        bench.sweep().await;
    }
    let held = bench.claim_task("bob").await;
    assert_eq!(held.task.attempt, 4);
    bench.commit_ok(agent("bob"), vec![fail(&held, true)]).await;
    assert_eq!(bench.status("a").await, TaskStatus::Failed);
}

pub async fn c9_an_escalated_task_notifies_the_coordinators(bench: TestBench) {
    let coordinator = |name| {
        Op::RegisterAgent(RegisterAgent { role: AgentRole::Coordinator, ..RegisterAgent::named(id(name)) })
    };
    bench
        .commit_ok(Principal::System, vec![coordinator("alice"), register("bob"), coordinator("carol")])
        .await;
    let never_escalated = NewTask { escalate_to: EscalateTo::Nobody, ..task("quiet") };
    let bob = NewTask { escalate_to: EscalateTo::Agent(id("bob")), ..task("for-bob") };
    bench.create_tasks(vec![task("a"), never_escalated, bob]).await;
    let held = bench.claim_tasks("bob", 3).await;
    let ended = bench.commit_ok(agent("bob"), held.iter().map(|leased| fail(leased, false)).collect()).await;
    let TaskState::Escalated(end) = bench.task("a").await.state else { panic!("not escalated") };
    assert_eq!(Some(end.message.seq), ended.seq, "in the same commit");
    let stored = bench.read(ReadQuery::Message { seq: end.message.seq, n: end.message.n }).await;
    let ReadResult::Message(Some(stored)) = stored else { panic!("{stored:?}") };
    assert_eq!((stored.message.action.as_str(), stored.message.from.as_ref()), ("task.escalated", None));
    assert_eq!(stored.recipients.len(), 2);
    assert_eq!(bench.status("quiet").await, TaskStatus::Failed);
    assert_eq!(bench.status("for-bob").await, TaskStatus::Escalated);
    assert_eq!((bench.claim("alice", 9).await.len(), bench.claim("bob", 9).await.len()), (1, 1));
}

pub async fn c9_a_retry_prefers_another_agent(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    bench.create_tasks(vec![NewTask { backoff_ms: 0, ..task("a") }]).await;
    let held = bench.claim_task("bob").await;
    bench.commit_ok(agent("bob"), vec![claim("bob", 1, WaitMode::Standing(FIRST))]).await;
    bench.commit_ok(agent("carol"), vec![claim("carol", 1, WaitMode::Standing(SECOND))]).await;
    bench.commit_ok(agent("bob"), vec![fail(&held, true)]).await;
    assert_eq!(bench.task_notifications(), [(2, "a".into(), Ok(2))]);
}

pub async fn c9_a_cancellation_notifies_the_holder(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(agent("bob"), vec![claim("bob", 1, WaitMode::Standing(FIRST))]).await;
    bench.create_tasks(vec![task("a")]).await;
    assert_eq!(bench.task_notifications(), [(1, "a".into(), Ok(1))]);
    let cancel = || vec![Op::CancelTask(CancelTask { task: task_id("a"), reason: "late".into() })];
    bench.commit_refused_with(Code::Forbidden, agent("bob"), cancel()).await;
    let first = bench.commit_ok(agent("alice"), cancel()).await;
    assert_eq!(bench.task_notifications(), [(1, "a".into(), Err(LeaseLoss::Cancelled))]);
    let lease = TaskLeaseRef { task: task_id("a"), token: LeaseToken(1) };
    let heartbeat = Op::HeartbeatTask(HeartbeatTask { lease: lease.clone(), partial: None });
    bench.commit_refused_with(Code::Cancelled, agent("bob"), vec![heartbeat]).await;
    let complete = Op::CompleteTask(CompleteTask::done(lease, None));
    bench.commit_refused_with(Code::Cancelled, agent("bob"), vec![complete]).await;
    let repeated = bench.commit_ok(agent("alice"), cancel()).await;
    assert_eq!((repeated.seq, accepted(&repeated)), (None, accepted(&first)));
}

pub async fn c10_partial_results_are_stored(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![NewTask { timeout_ms: Some(10_000), ..task("a") }]).await;
    let held = bench.claim_task("bob").await;
    let partial = Some(payload("{\"half\":1}"));
    let heartbeat = Op::HeartbeatTask(HeartbeatTask { lease: held.lease_ref(), partial });
    let reported =
        bench.commit_ok(agent("bob"), vec![heartbeat]).await.seq.expect("a partial result is a record");
    bench.advance_secs(10);
    bench.sweep().await;
    bench.reopen().await;
    let task = bench.task("a").await;
    assert_eq!(task.last_failure.as_ref().map(|failure| failure.kind), Some(AttemptFailureKind::TimedOut));
    assert_eq!((task.status(), task.partials.len()), (TaskStatus::Scheduled, 1));
    assert_eq!(task.partials[0].part.seq, reported);
    let bytes = bench.part(reported, task.partials[0].part.part).await.expect("the part exists").bytes;
    assert_eq!(&bytes[..], b"{\"half\":1}");
}

pub async fn c4_a_ready_task_goes_to_a_waiting_claim(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    bench.commit_ok(agent("bob"), vec![claim("bob", 2, WaitMode::Once(FIRST))]).await;
    bench.commit_ok(agent("carol"), vec![claim("carol", 9, WaitMode::Standing(SECOND))]).await;
    let head = bench.head();
    bench.create_tasks(vec![task("a"), task("b"), task("c"), with_dependencies("d", &["a"])]).await;
    assert_eq!(bench.head().0, head.0 + 1, "created and leased in one record");
    let sent = bench.task_notifications();
    assert_eq!(sent, [(1, "a".into(), Ok(1)), (2, "b".into(), Ok(2)), (1, "c".into(), Ok(3))]);
    let lease = TaskLeaseRef { task: task_id("a"), token: LeaseToken(1) };
    bench.commit_ok(agent("bob"), vec![Op::CompleteTask(CompleteTask::done(lease, None))]).await;
    assert_eq!(bench.task_notifications(), [(2, "d".into(), Ok(4))], "bob's claim was for one delivery only");
    bench.commit_ok(agent("carol"), vec![Op::CloseConsumer { consumer: SECOND }]).await;
    bench.create_tasks(vec![task("e")]).await;
    assert_eq!(bench.task_notifications(), []);
}

pub async fn i13_a_new_epoch_loses_task_leases_and_waiting_claims(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(agent("bob"), vec![claim("bob", 9, WaitMode::Standing(FIRST))]).await;
    bench.create_tasks(vec![task("a")]).await;
    assert_eq!(bench.task_notifications().len(), 1);
    bench.register("bob").await;
    assert_eq!(bench.task_notifications(), [(1, "a".into(), Err(LeaseLoss::HolderGone))]);
    assert_eq!(bench.dismissed_consumers(), [FIRST]);
    assert_eq!(bench.status("a").await, TaskStatus::Ready);
    bench.create_tasks(vec![task("b")]).await;
    assert_eq!(bench.task_notifications(), []);
}

pub async fn i3_keyed_task_commits_are_replayed(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let create_commit =
        || Commit::new(agent("alice"), vec![create(vec![NewTask::new("work")])]).keyed(idempotency_key("m"));
    let claim_commit =
        || Commit::new(agent("bob"), vec![claim("bob", 1, WaitMode::NoWait)]).keyed(idempotency_key("t"));
    let created = bench.commit(create_commit()).await.expect("the commit is accepted");
    let held = bench.commit(claim_commit()).await.expect("the commit is accepted");
    bench.reopen().await;
    assert_eq!(bench.commit(create_commit()).await.expect("the replay is accepted"), created);
    let replayed = bench.commit(claim_commit()).await.expect("the replay is accepted");
    assert_eq!(
        (replayed.seq, leased_tasks(&replayed)[0].lease_ref()),
        (held.seq, leased_tasks(&held)[0].lease_ref())
    );
    assert_eq!(bench.published().tasks.open(), 1);
}

pub async fn c4_an_agent_has_at_most_256_waiting_task_claims(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    for number in 0..limits::CONSUMERS_PER_AGENT_MAX as u64 {
        bench.commit_ok(agent("bob"), vec![claim("bob", 1, WaitMode::Once(ConsumerId(number)))]).await;
    }
    let refused =
        bench.commit_refused(agent("bob"), vec![claim("bob", 1, WaitMode::Once(ConsumerId(999)))]).await;
    let limit = Some(limits::CONSUMERS_PER_AGENT_MAX as u64);
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, limit));
    bench.commit_ok(agent("alice"), vec![claim("alice", 1, WaitMode::Once(ConsumerId(999)))]).await;
}

pub async fn i16_tasks_are_scoped_to_one_space(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a")]).await;
    let held = bench.claim_task("bob").await;
    let other = bench.open_space("other").await;
    bench.switch_space(other);
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_refused_with(Code::NotFound, agent("bob"), vec![done(&held, "1")]).await;
    bench
        .commit_refused_with(
            Code::NotFound,
            agent("alice"),
            vec![create(vec![with_dependencies("b", &["a"])])],
        )
        .await;
    assert_eq!(bench.claim_tasks("bob", 9).await.len(), 0);
    bench.create_tasks(vec![task("a")]).await;
    assert_eq!(bench.published().tasks.open(), 1);
}
