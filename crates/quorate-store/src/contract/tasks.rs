//! Tasks: created as a graph, claimed under increasing lease tokens, ended once, and never stuck.

use std::time::Duration;

use quorate_core::{
    AgentRole, AttemptFailureKind, CancelTask, ClaimTasks, Code, Commit, CompleteTask, ConsumerEvent,
    ConsumerId, CreateTasks, Dependency, EscalateTo, FailTask, HeartbeatTask, Item, ItemKey, ItemKind,
    LeaseLoss, LeaseToken, LeasedTask, NewTask, OnDependencyFailure, Op, OpResult, Principal, Receipt,
    RegisterAgent, Task, TaskId, TaskLeaseRef, TaskState, TaskStatus, WaitMode, limits,
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

fn needing(name: &str, needs: &[&str]) -> NewTask {
    let depends_on = needs.iter().map(|name| Dependency::Task(task_id(name))).collect();
    NewTask { depends_on, ..task(name) }
}

fn make(tasks: Vec<NewTask>) -> Op {
    Op::CreateTasks(CreateTasks { tasks, inputs: None })
}

fn claim(name: &str, max: u32, waiting: WaitMode) -> Op {
    Op::ClaimTasks(ClaimTasks { agent: id(name), types: vec!["work".into()], max, lease_ms: None, waiting })
}

pub(super) fn done(held: &LeasedTask, result: &str) -> Op {
    Op::CompleteTask(CompleteTask::done(held.lease_ref(), Some(payload(result))))
}

pub(super) fn fail(held: &LeasedTask, recoverable: bool) -> Op {
    let reason = "no luck".into();
    Op::FailTask(FailTask { lease: held.lease_ref(), reason, details: None, recoverable })
}

fn beat(held: &LeasedTask) -> Op {
    Op::HeartbeatTask(HeartbeatTask { lease: held.lease_ref(), partial: None })
}

fn taken(receipt: &Receipt) -> Vec<LeasedTask> {
    match &receipt.results[..] {
        [.., OpResult::TasksClaimed(taken)] => taken.clone(),
        other => panic!("not a claim: {other:?}"),
    }
}

fn accepted(receipt: &Receipt) -> OpResult {
    receipt.results[0].clone()
}

impl TestBench {
    pub(super) async fn create_tasks(&self, tasks: Vec<NewTask>) -> Receipt {
        self.commit_ok(agent("alice"), vec![make(tasks)]).await
    }

    pub(super) async fn claim_tasks(&self, name: &str, max: u32) -> Vec<LeasedTask> {
        taken(&self.commit_ok(agent(name), vec![claim(name, max, WaitMode::NoWait)]).await)
    }

    async fn claim_task(&self, name: &str) -> LeasedTask {
        let mut taken = self.claim_tasks(name, 1).await;
        assert_eq!(taken.len(), 1, "{name} has a task to claim");
        taken.remove(0)
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
            ConsumerEvent::TaskLeased(handed) => {
                let TaskLeaseRef { task, token } = handed.lease_ref();
                (consumer.0, task.to_string(), Ok(token.0))
            }
            ConsumerEvent::TaskLost { task, loss, .. } => (consumer.0, task.to_string(), Err(loss)),
            other => panic!("not a task notification: {other:?}"),
        });
        sent.collect()
    }
}

pub async fn c4_a_task_graph_is_created_in_one_record(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let head = bench.head();
    let receipt = bench.create_tasks(vec![task("a"), needing("b", &["a"]), needing("c", &["a", "b"])]).await;
    assert_eq!(receipt.seq.map(|seq| seq.0), Some(head.0 + 1));
    let OpResult::TasksCreated { seq, first, count, .. } = accepted(&receipt) else { panic!("{receipt:?}") };
    assert_eq!((Some(seq), first, count), (receipt.seq, 0, 3));
    let counts = bench.published().tasks;
    assert_eq!((counts.get(TaskStatus::Ready), counts.get(TaskStatus::Blocked), counts.open()), (1, 2, 3));
}

pub async fn c4_a_task_is_ready_when_all_its_dependencies_are_done(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a"), task("b"), needing("c", &["a", "b"])]).await;
    let held = bench.claim_tasks("bob", 9).await;
    assert_eq!(held.len(), 2, "c is still blocked");
    bench.commit_ok(agent("bob"), vec![done(&held[0], "1")]).await;
    assert_eq!((bench.status("c").await, bench.claim_tasks("bob", 9).await.len()), (TaskStatus::Blocked, 0));
    bench.commit_ok(agent("bob"), vec![done(&held[1], "2")]).await;
    assert_eq!(bench.claim_task("bob").await.task.spec.id, task_id("c"));
}

pub async fn c4_each_task_chooses_how_a_failed_dependency_affects_it(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let with = |name, on_dependency_failure| NewTask { on_dependency_failure, ..needing(name, &["a"]) };
    let fails = with("fails", OnDependencyFailure::Fail);
    let skips = with("skips", OnDependencyFailure::Skip);
    let waits = with("waits", OnDependencyFailure::Wait);
    bench.create_tasks(vec![task("a"), fails, skips, waits, needing("behind", &["fails"])]).await;
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
    let cycle = vec![needing("a", &["c"]), needing("b", &["a"]), needing("c", &["b"])];
    let refused = bench.commit_refused(agent("alice"), vec![make(cycle)]).await;
    let mut named: Vec<String> = refused.facts.cycle.iter().map(|one| one.agent.clone()).collect();
    named.sort();
    assert_eq!((refused.code, named), (Code::Invalid, vec!["a".into(), "b".into(), "c".into()]));
    bench
        .commit_refused_with(Code::NotFound, agent("alice"), vec![make(vec![needing("a", &["nowhere"])])])
        .await;
    assert_eq!(bench.published().tasks.open(), 0);
}

pub async fn i10_finished_dependencies_count_when_a_task_is_created(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("good"), task("bad")]).await;
    let held = bench.claim_tasks("bob", 2).await;
    bench.commit_ok(agent("bob"), vec![done(&held[0], "1"), fail(&held[1], false)]).await;
    bench.create_tasks(vec![needing("after-good", &["good"]), needing("after-bad", &["good", "bad"])]).await;
    assert_eq!(bench.status("after-good").await, TaskStatus::Ready);
    assert_eq!(bench.status("after-bad").await, TaskStatus::Failed);
}

pub async fn c4_tasks_are_claimed_by_priority_then_age(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let at = |name, ten| NewTask {
        priority: quorate_core::Priority::from_ten_scale(ten).expect("1 to 10"),
        ..task(name)
    };
    bench.create_tasks(vec![at("low", 2), at("old", 5), at("young", 5), at("high", 9)]).await;
    let order: Vec<_> =
        bench.claim_tasks("bob", 9).await.iter().map(|one| one.task.spec.id.to_string()).collect();
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
    let made =
        bench.commit_ok(agent("alice"), vec![Op::CreateTasks(CreateTasks::pack(tasks, [3; 16]))]).await;
    let seq = made.seq.expect("a record");
    bench.commit_ok(Principal::System, vec![super::builders::erase(seq, 0)]).await;
    assert_eq!(bench.claim_task("bob").await.input, None);
    let bytes = vec![0; 12].into();
    assert_eq!(bench.part(seq, 0).await, Some(PartBytes { bytes, erased: true }));
}

pub async fn i3_creating_the_same_graph_again_is_idempotent(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let graph = |input: &str| {
        let tasks = vec![(task("a"), Some(input.as_bytes().to_vec())), (needing("b", &["a"]), None)];
        vec![Op::CreateTasks(CreateTasks::pack(tasks, [3; 16]))]
    };
    let first = bench.commit_ok(agent("alice"), graph("1")).await;
    bench.reopen().await;
    let again = bench.commit_ok(agent("alice"), graph("1")).await;
    assert_eq!((again.seq, &again.results), (None, &first.results));
    bench.commit_refused_with(Code::Duplicate, agent("alice"), graph("2")).await;
    bench.commit_refused_with(Code::Duplicate, agent("bob"), graph("1")).await;
    bench.commit_refused_with(Code::Duplicate, agent("alice"), vec![make(vec![task("c"), task("b")])]).await;
    assert_eq!(bench.published().tasks.open(), 2);
}

pub async fn i8_task_lease_tokens_increase_and_stale_ones_are_refused(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    bench.create_tasks(vec![task("a")]).await;
    let old = bench.claim_task("bob").await;
    bench.advance_secs(30);
    bench.sweep().await;
    let new = bench.claim_task("carol").await;
    assert!(new.lease_ref().token > old.lease_ref().token);
    for op in [done(&old, "1"), fail(&old, true), beat(&old), Op::ReleaseTask(old.lease_ref())] {
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
        let again = bench.commit_ok(agent("bob"), vec![done(&held, "1")]).await;
        assert_eq!((again.seq, accepted(&again)), (None, accepted(&first)), "round {round}");
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
    let old = taken(&bench.commit_ok(agent("bob"), vec![claim("bob", 3, WaitMode::NoWait)]).await);
    let first = bench.commit_ok(agent("bob"), old.iter().map(|one| fail(one, true)).collect()).await;
    let again = bench.commit_ok(agent("bob"), old.iter().map(|one| fail(one, true)).collect()).await;
    assert_eq!((again.seq, again.results), (None, first.results), "not claimed again yet");
    bench.advance_secs(1);
    bench.sweep().await;
    let new = taken(&bench.commit_ok(agent("carol"), vec![claim("carol", 3, WaitMode::NoWait)]).await);
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
    bench.create_tasks(vec![task("a"), needing("b", &["a"])]).await;
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
        bench.commit_ok(agent("bob"), vec![beat(&held)]).await.seq,
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
    assert_eq!(task.last_failure.map(|one| one.kind), Some(AttemptFailureKind::LeaseExpired));
}

pub async fn i9_task_leases_backoffs_and_counts_survive_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![task("a"), task("b"), task("c"), needing("d", &["a", "b"])]).await;
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
    let leads = |name| {
        Op::RegisterAgent(RegisterAgent { role: AgentRole::Coordinator, ..RegisterAgent::named(id(name)) })
    };
    bench.commit_ok(Principal::System, vec![leads("alice"), register("bob"), leads("carol")]).await;
    let silent = NewTask { escalate_to: EscalateTo::Never, ..task("quiet") };
    let bob = NewTask { escalate_to: EscalateTo::Agent(id("bob")), ..task("for-bob") };
    bench.create_tasks(vec![task("a"), silent, bob]).await;
    let held = bench.claim_tasks("bob", 3).await;
    let ended = bench.commit_ok(agent("bob"), held.iter().map(|one| fail(one, false)).collect()).await;
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
    let beat = Op::HeartbeatTask(HeartbeatTask { lease: lease.clone(), partial: None });
    bench.commit_refused_with(Code::Cancelled, agent("bob"), vec![beat]).await;
    let complete = Op::CompleteTask(CompleteTask::done(lease, None));
    bench.commit_refused_with(Code::Cancelled, agent("bob"), vec![complete]).await;
    let again = bench.commit_ok(agent("alice"), cancel()).await;
    assert_eq!((again.seq, accepted(&again)), (None, accepted(&first)));
}

pub async fn c10_partial_results_are_stored(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.create_tasks(vec![NewTask { timeout_ms: Some(10_000), ..task("a") }]).await;
    let held = bench.claim_task("bob").await;
    let partial = Some(payload("{\"half\":1}"));
    let beat = Op::HeartbeatTask(HeartbeatTask { lease: held.lease_ref(), partial });
    let reported = bench.commit_ok(agent("bob"), vec![beat]).await.seq.expect("a partial result is a record");
    bench.advance_secs(10);
    bench.sweep().await;
    bench.reopen().await;
    let task = bench.task("a").await;
    assert_eq!(task.last_failure.as_ref().map(|one| one.kind), Some(AttemptFailureKind::TimedOut));
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
    bench.create_tasks(vec![task("a"), task("b"), task("c"), needing("d", &["a"])]).await;
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
    let create =
        || Commit::new(agent("alice"), vec![make(vec![NewTask::new("work")])]).keyed(idempotency_key("m"));
    let take =
        || Commit::new(agent("bob"), vec![claim("bob", 1, WaitMode::NoWait)]).keyed(idempotency_key("t"));
    let made = bench.commit(create()).await.expect("the commit is accepted");
    let held = bench.commit(take()).await.expect("the commit is accepted");
    bench.reopen().await;
    assert_eq!(bench.commit(create()).await.expect("the replay is accepted"), made);
    let again = bench.commit(take()).await.expect("the replay is accepted");
    assert_eq!((again.seq, taken(&again)[0].lease_ref()), (held.seq, taken(&held)[0].lease_ref()));
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
    bench.commit_refused_with(Code::NotFound, agent("alice"), vec![make(vec![needing("b", &["a"])])]).await;
    assert_eq!(bench.claim_tasks("bob", 9).await.len(), 0);
    bench.create_tasks(vec![task("a")]).await;
    assert_eq!(bench.published().tasks.open(), 1);
}
