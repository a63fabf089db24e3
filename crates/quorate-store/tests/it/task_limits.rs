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

fn make(tasks: Vec<NewTask>) -> Op {
    Op::CreateTasks(CreateTasks { tasks, inputs: None })
}

fn one(change: impl FnOnce(&mut NewTask)) -> Op {
    let mut task = NewTask::new("work");
    change(&mut task);
    make(vec![task])
}

fn with_input(bytes: usize, input: (u64, u64)) -> Op {
    let task = NewTask { input: Some(input), ..NewTask::new("work") };
    Op::CreateTasks(CreateTasks { tasks: vec![task], inputs: Some(payload(bytes)) })
}

fn claim(change: impl FnOnce(&mut ClaimTasks)) -> Op {
    let agent = AgentId::new("bob").expect("valid id");
    let mut claim = ClaimTasks { agent, types: vec![], max: 1, lease_ms: None, waiting: WaitMode::NoWait };
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
    let most = limits::TASKS_PER_OP_MAX;
    refused(Code::Invalid, None, make(vec![]));
    allowed(make(vec![NewTask::new("work"); most]));
    refused(Code::LimitExceeded, Some(most as u64), make(vec![NewTask::new("work"); most + 1]));
}

#[test]
fn c4_a_graph_has_at_most_100_000_dependencies() {
    let graph = |count| {
        let mut tasks = vec![NewTask::new("work"); 2];
        tasks[1].depends_on = vec![Dependency::Index(0); count];
        make(tasks)
    };
    allowed(graph(limits::TASK_EDGES_MAX));
    let limit = Some(limits::TASK_EDGES_MAX as u64);
    refused(Code::LimitExceeded, limit, graph(limits::TASK_EDGES_MAX + 1));
    refused(Code::Invalid, None, one(|task| task.depends_on = vec![Dependency::Index(1)]));
}

#[test]
fn c4_the_text_fields_of_a_graph_have_at_most_2_mb_together() {
    let word = "x".repeat(128);
    let most = limits::TASK_TEXT_BYTES_MAX / 256;
    let graph = |count| make(vec![NewTask { session: Some(word.clone()), ..NewTask::new(&word) }; count]);
    allowed(graph(most));
    refused(Code::LimitExceeded, Some(limits::TASK_TEXT_BYTES_MAX as u64), graph(most + 1));
}

#[test]
fn c4_inputs_have_at_most_2_mb_together_and_512_kb_each() {
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
    refused(Code::Invalid, None, one(|task| task.task_type = String::new()));
    allowed(one(|task| {
        task.task_type = String::new();
        task.agent = Some(AgentId::new("bob").expect("valid id"));
    }));
    refused(Code::Invalid, Some(128), one(|task| task.task_type = long.clone()));
    refused(Code::Invalid, Some(128), one(|task| task.session = Some(long.clone())));
    refused(Code::Invalid, None, one(|task| task.id = Some(TaskId::new("tsk_0-1-0").expect("valid id"))));
    refused(Code::Invalid, None, one(|task| task.priority = Priority { level: 4, rank: 0 }));
    assert!(Priority::from_ten_scale(0).is_err() && Priority::from_ten_scale(11).is_err());
}

#[test]
fn c9_attempts_backoffs_and_durations_are_bounded() {
    let attempts = Some(u64::from(limits::ATTEMPTS_MAX));
    refused(Code::Invalid, attempts, one(|task| task.attempts_max = 0));
    allowed(one(|task| task.attempts_max = limits::ATTEMPTS_MAX));
    refused(Code::Invalid, attempts, one(|task| task.attempts_max = limits::ATTEMPTS_MAX + 1));
    allowed(one(|task| task.backoff_ms = limits::BACKOFF_MS_MAX));
    let backoff = Some(limits::BACKOFF_MS_MAX);
    refused(Code::Invalid, backoff, one(|task| task.backoff_ms = limits::BACKOFF_MS_MAX + 1));
    for lease_ms in [limits::LEASE_MS_MIN - 1, limits::LEASE_MS_MAX + 1] {
        refused(Code::Invalid, None, one(|task| task.lease_ms = lease_ms));
        refused(Code::Invalid, None, claim(|claim| claim.lease_ms = Some(lease_ms)));
    }
    for timeout_ms in [limits::TASK_TIMEOUT_MS_MIN, limits::TASK_TIMEOUT_MS_MAX] {
        allowed(one(|task| task.timeout_ms = Some(timeout_ms)));
    }
    let timeout = Some(limits::TASK_TIMEOUT_MS_MAX);
    for timeout_ms in [limits::TASK_TIMEOUT_MS_MIN - 1, limits::TASK_TIMEOUT_MS_MAX + 1] {
        refused(Code::Invalid, timeout, one(|task| task.timeout_ms = Some(timeout_ms)));
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
    let most = limits::PAYLOAD_BYTES_MAX;
    let reason = limits::REASON_CHARS_MAX;
    let fail = |reason: usize, details: Option<Payload>| {
        let reason = "é".repeat(reason);
        Op::FailTask(FailTask { lease: lease(), reason, details, recoverable: true })
    };
    allowed(fail(reason, Some(payload(most))));
    refused(Code::TooLarge, Some(reason as u64), fail(reason + 1, None));
    refused(Code::TooLarge, Some(most as u64), fail(0, Some(payload(most + 1))));
    allowed(complete(|complete| complete.result = Some(payload(most))));
    refused(
        Code::TooLarge,
        Some(most as u64),
        complete(|complete| complete.result = Some(payload(most + 1))),
    );
    allowed(complete(|complete| complete.status = TaskStatus::Partial));
    refused(Code::Invalid, None, complete(|complete| complete.status = TaskStatus::Failed));
    refused(Code::Invalid, None, complete(|complete| complete.confidence = Some(1.1)));
    refused(Code::Invalid, None, complete(|complete| complete.confidence = Some(f64::NAN)));
    let rationale = |count| complete(|complete| complete.rationale = Some("x".repeat(count)));
    allowed(rationale(reason));
    refused(Code::TooLarge, Some(reason as u64), rationale(reason + 1));
    let beat = |bytes| Op::HeartbeatTask(HeartbeatTask { lease: lease(), partial: Some(payload(bytes)) });
    allowed(beat(most));
    refused(Code::TooLarge, Some(most as u64), beat(most + 1));
    let cancel = |count| Op::CancelTask(CancelTask { task: lease().task, reason: "x".repeat(count) });
    allowed(cancel(reason));
    refused(Code::TooLarge, Some(reason as u64), cancel(reason + 1));
}
