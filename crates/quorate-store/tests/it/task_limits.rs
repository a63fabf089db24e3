//! Limits of task operations that do not depend on stored state. Each test accepts the maximum and refuses one more,
//! with the right error code.

use bytes::Bytes;
use quorate_core::{
    AgentId, CancelTask, ClaimTasks, Code, Commit, CompleteTask, CreateTasks, Dependency, FailTask,
    HeartbeatTask, LeaseToken, NewTask, Op, Payload, Principal, Priority, Refused, TaskId, TaskLeaseRef,
    TaskStatus, WaitMode, limits,
};

fn check(op: Op) -> Result<(), Refused> {
    Commit::new(Principal::System, vec![op]).check()
}

#[track_caller]
fn allowed(op: Op) {
    if let Err(refused) = check(op) {
        panic!("refused: {refused}");
    }
}

#[track_caller]
fn refused(code: Code, limit: Option<u64>, op: Op) {
    let refused = check(op).expect_err("the commit is refused");
    assert_eq!((refused.code, refused.facts.limit, refused.facts.op), (code, limit, Some(0)), "{refused}");
}

fn payload(bytes: usize) -> Payload {
    Payload::seal(Bytes::from(vec![b' '; bytes]), [1; 16])
}

fn create_tasks(tasks: Vec<NewTask>) -> Op {
    Op::CreateTasks(CreateTasks { tasks, inputs: None })
}

fn create_one(change: impl FnOnce(&mut NewTask)) -> Op {
    let mut task = NewTask::new("work");
    change(&mut task);
    create_tasks(vec![task])
}

fn with_input(bytes: usize, input: (u64, u64)) -> Op {
    let task = NewTask { input: Some(input), ..NewTask::new("work") };
    Op::CreateTasks(CreateTasks { tasks: vec![task], inputs: Some(payload(bytes)) })
}

fn claim(change: impl FnOnce(&mut ClaimTasks)) -> Op {
    let agent = AgentId::new("bob").expect("valid id");
    let mut claim = ClaimTasks { agent, types: vec![], max: 1, lease_ms: None, wait: WaitMode::NoWait };
    change(&mut claim);
    Op::ClaimTasks(claim)
}

fn lease() -> TaskLeaseRef {
    TaskLeaseRef { task: TaskId::new("t").expect("valid id"), token: LeaseToken(1) }
}

fn complete(change: impl FnOnce(&mut CompleteTask)) -> Op {
    let mut complete = CompleteTask::done(lease(), None);
    change(&mut complete);
    Op::CompleteTask(complete)
}

#[test]
fn c4_a_graph_has_at_most_10_000_tasks() {
    let max = limits::TASKS_PER_OP_MAX;
    refused(Code::Invalid, None, create_tasks(vec![]));
    allowed(create_tasks(vec![NewTask::new("work"); max]));
    refused(Code::LimitExceeded, Some(max as u64), create_tasks(vec![NewTask::new("work"); max + 1]));
}

#[test]
fn c4_a_graph_has_at_most_100_000_dependencies() {
    let graph = |count| {
        let mut tasks = vec![NewTask::new("work"); 2];
        tasks[1].depends_on = vec![Dependency::Index(0); count];
        create_tasks(tasks)
    };
    allowed(graph(limits::TASK_EDGES_MAX));
    let limit = Some(limits::TASK_EDGES_MAX as u64);
    refused(Code::LimitExceeded, limit, graph(limits::TASK_EDGES_MAX + 1));
    refused(Code::Invalid, None, create_one(|task| task.depends_on = vec![Dependency::Index(1)]));
}

#[test]
fn c4_the_text_fields_of_a_graph_have_at_most_2_mb_together() {
    let text = "x".repeat(128);
    let max = limits::TASK_TEXT_BYTES_MAX / 256;
    let graph =
        |count| create_tasks(vec![NewTask { session: Some(text.clone()), ..NewTask::new(&text) }; count]);
    allowed(graph(max));
    refused(Code::LimitExceeded, Some(limits::TASK_TEXT_BYTES_MAX as u64), graph(max + 1));
}

#[test]
fn c4_inputs_have_at_most_8_mb_together_and_4_mb_each_under_any_policy() {
    let (each, all) = (limits::PAYLOAD_BYTES_MAX as u64, limits::COMMIT_BYTES_MAX);
    allowed(with_input(all, (0, each)));
    refused(Code::TooLarge, Some(each), with_input(all, (0, each + 1)));
    refused(Code::TooLarge, Some(all as u64), with_input(all + 1, (0, 1)));
    allowed(with_input(10, (4, 6)));
    refused(Code::Invalid, None, with_input(10, (4, 7)));
    refused(Code::Invalid, None, with_input(10, (u64::MAX, 1)));
}

#[test]
fn c4_invalid_task_fields_are_refused() {
    let long = "x".repeat(limits::ID_BYTES_MAX + 1);
    refused(Code::Invalid, None, create_one(|task| task.task_type = String::new()));
    allowed(create_one(|task| {
        task.task_type = String::new();
        task.agent = Some(AgentId::new("bob").expect("valid id"));
    }));
    refused(Code::Invalid, Some(128), create_one(|task| task.task_type = long.clone()));
    refused(Code::Invalid, Some(128), create_one(|task| task.session = Some(long.clone())));
    refused(
        Code::Invalid,
        None,
        create_one(|task| task.id = Some(TaskId::new("tsk_0-1-0").expect("valid id"))),
    );
    refused(Code::Invalid, None, create_one(|task| task.priority = Priority { level: 4, rank: 0 }));
    assert!(Priority::from_ten_scale(0).is_err() && Priority::from_ten_scale(11).is_err());
}

#[test]
fn c9_attempts_backoffs_and_durations_are_bounded() {
    let attempts = Some(u64::from(limits::ATTEMPTS_MAX));
    refused(Code::Invalid, attempts, create_one(|task| task.attempts_max = 0));
    allowed(create_one(|task| task.attempts_max = limits::ATTEMPTS_MAX));
    refused(Code::Invalid, attempts, create_one(|task| task.attempts_max = limits::ATTEMPTS_MAX + 1));
    allowed(create_one(|task| task.backoff_ms = limits::BACKOFF_MS_MAX));
    let backoff = Some(limits::BACKOFF_MS_MAX);
    refused(Code::Invalid, backoff, create_one(|task| task.backoff_ms = limits::BACKOFF_MS_MAX + 1));
    for lease_ms in [limits::LEASE_MS_MIN - 1, limits::LEASE_MS_MAX + 1] {
        refused(Code::Invalid, None, create_one(|task| task.lease_ms = lease_ms));
        refused(Code::Invalid, None, claim(|claim| claim.lease_ms = Some(lease_ms)));
    }
    for timeout_ms in [limits::TASK_TIMEOUT_MS_MIN, limits::TASK_TIMEOUT_MS_MAX] {
        allowed(create_one(|task| task.timeout_ms = Some(timeout_ms)));
    }
    let timeout = Some(limits::TASK_TIMEOUT_MS_MAX);
    for timeout_ms in [limits::TASK_TIMEOUT_MS_MIN - 1, limits::TASK_TIMEOUT_MS_MAX + 1] {
        refused(Code::Invalid, timeout, create_one(|task| task.timeout_ms = Some(timeout_ms)));
    }
}

#[test]
fn c4_a_claim_takes_1_to_256_tasks_of_at_most_256_types() {
    let limit = Some(u64::from(limits::CLAIM_MAX));
    refused(Code::LimitExceeded, limit, claim(|claim| claim.max = 0));
    allowed(claim(|claim| claim.max = limits::CLAIM_MAX));
    refused(Code::LimitExceeded, limit, claim(|claim| claim.max = limits::CLAIM_MAX + 1));
    allowed(claim(|claim| claim.types = vec!["x".into(); limits::LIST_MAX]));
    let types = Some(limits::LIST_MAX as u64);
    refused(Code::LimitExceeded, types, claim(|claim| claim.types = vec!["x".into(); limits::LIST_MAX + 1]));
    refused(Code::Invalid, None, claim(|claim| claim.types = vec![String::new()]));
}

#[test]
fn c9_the_fields_of_holder_operations_are_bounded() {
    let max = limits::PAYLOAD_BYTES_MAX;
    let reason = limits::REASON_CHARS_MAX;
    let fail = |reason: usize, details: Option<Payload>| {
        let reason = "é".repeat(reason);
        Op::FailTask(FailTask { lease: lease(), reason, details, recoverable: true })
    };
    allowed(fail(reason, Some(payload(max))));
    refused(Code::TooLarge, Some(reason as u64), fail(reason + 1, None));
    refused(Code::TooLarge, Some(max as u64), fail(0, Some(payload(max + 1))));
    allowed(complete(|complete| complete.result = Some(payload(max))));
    refused(Code::TooLarge, Some(max as u64), complete(|complete| complete.result = Some(payload(max + 1))));
    allowed(complete(|complete| complete.status = TaskStatus::Partial));
    refused(Code::Invalid, None, complete(|complete| complete.status = TaskStatus::Failed));
    refused(Code::Invalid, None, complete(|complete| complete.confidence = Some(1.1)));
    refused(Code::Invalid, None, complete(|complete| complete.confidence = Some(f64::NAN)));
    let rationale = |count| complete(|complete| complete.rationale = Some("x".repeat(count)));
    allowed(rationale(reason));
    refused(Code::TooLarge, Some(reason as u64), rationale(reason + 1));
    let heartbeat =
        |bytes| Op::HeartbeatTask(HeartbeatTask { lease: lease(), partial: Some(payload(bytes)) });
    allowed(heartbeat(max));
    refused(Code::TooLarge, Some(max as u64), heartbeat(max + 1));
    let cancel = |count| Op::CancelTask(CancelTask { task: lease().task, reason: "x".repeat(count) });
    allowed(cancel(reason));
    refused(Code::TooLarge, Some(reason as u64), cancel(reason + 1));
}
