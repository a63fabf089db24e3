//! Procedures that are paused, resumed, cancelled, signalled or parked.

use quorate_core::{
    Code, Commit, ControlProcedure, Item, ItemKey, ItemKind, Message, MessageType, NewTask, Op, OpResult,
    Principal, Procedure, ProcedureControl, ProcedureId, ProcedureStatus, Request, RequestState, SendRequest,
    SignalProcedure, StartProcedure, StepProcedure, Task, TaskId, TaskStatus, Version, limits,
};

use super::builders::{agent, id, message_to, payload};
use super::tasks::task;
use super::test_bench::TestBench;
use crate::{ReadQuery, ReadResult};

fn procedure_id() -> ProcedureId {
    ProcedureId::new("p").expect("valid id")
}

fn control(control: ProcedureControl, reason: &str) -> Op {
    Op::ControlProcedure(ControlProcedure { procedure: procedure_id(), control, reason: reason.into() })
}

fn signal(name: &str) -> Op {
    let payload = Some(payload("{\"n\":1}"));
    Op::SignalProcedure(SignalProcedure { procedure: procedure_id(), name: name.into(), payload })
}

fn step(expect: u64) -> Op {
    Op::StepProcedure(StepProcedure::new(procedure_id(), Version(expect), "work"))
}

/// Starts procedure p of bob, started by alice, and takes its notice from his inbox.
async fn start(bench: &TestBench) {
    bench.register_all(&["alice", "bob", "eve"]).await;
    let start = StartProcedure {
        id: Some(procedure_id()),
        kind: "own".into(),
        driver: Some(id("bob")),
        spec: Some(payload("1")),
        parent: None,
    };
    bench.commit_ok(agent("alice"), vec![Op::StartProcedure(start)]).await;
    assert_eq!(
        notices(bench).await,
        [("procedure.started".into(), r#"{"procedure":"p","kind":"own"}"#.into())]
    );
}

async fn procedure(bench: &TestBench) -> Procedure {
    match bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Procedure, "p"))).await {
        ReadResult::Item(Some(Item::Procedure(procedure))) => procedure,
        other => panic!("not a procedure: {other:?}"),
    }
}

/// Claims the messages in bob's inbox: action and payload.
async fn notices(bench: &TestBench) -> Vec<(String, String)> {
    let mut notices = Vec::new();
    for leased in bench.claim("bob", 10).await {
        let read = ReadQuery::Message { seq: leased.seq, n: leased.n };
        let ReadResult::Message(Some(stored)) = bench.read(read).await else { panic!("not a message") };
        assert_eq!((&stored.message.from, stored.message.correlation_id.as_deref()), (&None, Some("p")));
        let text = String::from_utf8(stored.message.payload.bytes.to_vec()).expect("text");
        notices.push((stored.message.action.clone(), text));
    }
    notices
}

pub async fn a_paused_procedure_accepts_no_step_until_it_is_resumed(bench: TestBench) {
    start(&bench).await;
    bench.commit_ok(agent("bob"), vec![step(1)]).await;
    bench.advance_secs(5);
    let paused =
        bench.commit_ok(agent("alice"), vec![control(ProcedureControl::Pause, "until Monday")]).await;
    assert_eq!(paused.results, [OpResult::ProcedureChanged { version: Version(3), remaining: 0 }]);
    let stored = procedure(&bench).await;
    assert_eq!((stored.status, stored.reason.as_str()), (ProcedureStatus::Paused, "until Monday"));
    assert_eq!((stored.phase.as_str(), stored.seq), ("work", paused.seq.expect("a record")));
    let notice = r#"{"procedure":"p","kind":"own","reason":"until Monday"}"#.to_owned();
    assert_eq!(notices(&bench).await, [("procedure.paused".to_owned(), notice)]);
    // The driver's step was derived from the version before the pause.
    bench.commit_refused_with(Code::VersionConflict, agent("bob"), vec![step(2)]).await;
    bench.commit_refused_with(Code::Conflict, agent("bob"), vec![step(3)]).await;
    let again = bench.commit_ok(agent("alice"), vec![control(ProcedureControl::Pause, "again")]).await;
    assert_eq!((again.seq, again.results), (None, paused.results));
    bench.commit_ok(agent("bob"), vec![control(ProcedureControl::Resume, "")]).await;
    let stored = procedure(&bench).await;
    assert_eq!((stored.status, stored.reason.as_str()), (ProcedureStatus::Running, ""));
    assert_eq!(notices(&bench).await, [], "a driver is not notified of its own change");
    bench.commit_ok(agent("bob"), vec![step(4)]).await;
}

pub async fn a_stuck_procedure_states_its_reason_until_it_is_resumed(bench: TestBench) {
    start(&bench).await;
    let stuck = StepProcedure {
        status: ProcedureStatus::Stuck,
        reason: "no analyst".into(),
        ..StepProcedure::new(procedure_id(), Version(1), "work")
    };
    let without_reason = StepProcedure { reason: String::new(), ..stuck.clone() };
    let invalid = [
        without_reason,
        StepProcedure { status: ProcedureStatus::Running, ..stuck.clone() },
        StepProcedure { status: ProcedureStatus::Paused, reason: String::new(), ..stuck.clone() },
    ];
    for step in invalid {
        let commit = Commit::new(agent("bob"), vec![Op::StepProcedure(step)]);
        assert_eq!(commit.check().expect_err("the commit is refused").code, Code::Invalid);
    }
    bench.commit_ok(agent("bob"), vec![Op::StepProcedure(stuck)]).await;
    let stored = procedure(&bench).await;
    assert_eq!((stored.status, stored.reason.as_str()), (ProcedureStatus::Stuck, "no analyst"));
    bench.commit_refused_with(Code::Conflict, agent("bob"), vec![step(2)]).await;
    bench.commit_ok(Principal::System, vec![control(ProcedureControl::Resume, "")]).await;
    bench.commit_ok(agent("bob"), vec![step(3)]).await;
}

fn request(from: &str, correlation: &str) -> Op {
    let message = Message {
        from: Some(id(from)),
        kind: MessageType::Query,
        correlation_id: Some(correlation.into()),
        ..message_to("eve")
    };
    Op::Request(SendRequest::new(message, Some(60_000), None))
}

fn tasks(session: &str, count: usize) -> Vec<NewTask> {
    let new = |n| NewTask { session: Some(session.into()), ..task(&format!("{session}-{n}")) };
    (0..count).map(new).collect()
}

async fn task_status(bench: &TestBench, name: &str) -> TaskStatus {
    let key = ItemKey::new(ItemKind::Task, TaskId::new(name).expect("valid id").to_shared());
    match bench.read(ReadQuery::Item(key)).await {
        ReadResult::Item(Some(Item::Task(task))) => Task::status(&task),
        other => panic!("not a task: {other:?}"),
    }
}

async fn request_state(bench: &TestBench, result: &OpResult) -> RequestState {
    let OpResult::Requested { id, .. } = result else { panic!("not a request: {result:?}") };
    match bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Request, id.to_string()))).await {
        ReadResult::Item(Some(Item::Request(Request { state, .. }))) => state,
        other => panic!("not a request: {other:?}"),
    }
}

pub async fn m4_cancelling_a_procedure_cancels_its_requests_and_tasks(mut bench: TestBench) {
    start(&bench).await;
    let asked =
        bench.commit_ok(agent("bob"), vec![request("bob", "p"), request("bob", "q"), step(1)]).await.results;
    let of_alice = bench.commit_ok(agent("alice"), vec![request("alice", "p")]).await.results;
    let create = |tasks| Op::CreateTasks(quorate_core::CreateTasks { tasks, inputs: None });
    bench.commit_ok(agent("bob"), vec![create(tasks("p", 3)), create(tasks("q", 1))]).await;
    bench
        .commit_ok(agent("alice"), vec![create(vec![NewTask { session: Some("p".into()), ..task("alice") }])])
        .await;
    // The relation of tasks and procedures is rebuilt from the stored tasks.
    bench.reopen().await;
    let cancel = control(ProcedureControl::Cancel, "not needed");
    let cancelled = bench.commit_ok(agent("alice"), vec![cancel.clone()]).await;
    assert_eq!(cancelled.results, [OpResult::ProcedureChanged { version: Version(3), remaining: 0 }]);
    let stored = procedure(&bench).await;
    assert_eq!((stored.status, stored.reason.as_str()), (ProcedureStatus::Cancelled, "not needed"));
    assert_eq!(request_state(&bench, &asked[0]).await, RequestState::Cancelled);
    assert_eq!(request_state(&bench, &asked[1]).await, RequestState::Waiting, "another correlation id");
    assert_eq!(request_state(&bench, &of_alice[0]).await, RequestState::Waiting, "another requester");
    for name in ["p-0", "p-1", "p-2"] {
        assert_eq!(task_status(&bench, name).await, TaskStatus::Cancelled);
    }
    for name in ["q-0", "alice"] {
        assert_eq!(task_status(&bench, name).await, TaskStatus::Ready);
    }
    bench.commit_refused_with(Code::Conflict, agent("bob"), vec![step(3)]).await;
    bench
        .commit_refused_with(Code::Conflict, agent("bob"), vec![control(ProcedureControl::Resume, "")])
        .await;
    let again = bench.commit_ok(agent("alice"), vec![cancel]).await;
    assert_eq!((again.seq, again.results), (None, cancelled.results));
    let last = notices(&bench).await.pop().expect("a notice");
    assert_eq!(last.0, "procedure.cancelled");
}

pub async fn a_cancellation_is_limited_per_operation(bench: TestBench) {
    start(&bench).await;
    let count = limits::PROCEDURE_CANCEL_MAX + 5;
    let create = Op::CreateTasks(quorate_core::CreateTasks { tasks: tasks("p", count), inputs: None });
    bench.commit_ok(agent("bob"), vec![create]).await;
    let cancel = || control(ProcedureControl::Cancel, "");
    let first = bench.commit_ok(agent("alice"), vec![cancel()]).await;
    assert_eq!(first.results, [OpResult::ProcedureChanged { version: Version(2), remaining: 5 }]);
    assert_eq!(task_status(&bench, "p-0").await, TaskStatus::Ready, "the newest are cancelled first");
    let second = bench.commit_ok(agent("alice"), vec![cancel()]).await;
    assert_eq!(second.results, [OpResult::ProcedureChanged { version: Version(2), remaining: 0 }]);
    assert_eq!(task_status(&bench, "p-0").await, TaskStatus::Cancelled);
}

pub async fn a_signal_is_a_message_to_the_driver(bench: TestBench) {
    start(&bench).await;
    let signalled = bench.commit_ok(agent("alice"), vec![signal("go")]).await;
    assert_eq!(signalled.results, [OpResult::Done]);
    let text = r#"{"procedure":"p","kind":"own","name":"go","by":"agent:alice","payload":{"n":1}}"#;
    assert_eq!(notices(&bench).await, [("procedure.signalled".to_owned(), text.to_owned())]);
    assert_eq!(procedure(&bench).await.version, Version(1), "a signal is no step");
    // Agents that neither started nor drive it have no influence.
    let every = [signal("go"), control(ProcedureControl::Pause, ""), control(ProcedureControl::Cancel, "")];
    for op in every {
        bench.commit_refused_with(Code::Forbidden, agent("eve"), vec![op]).await;
    }
    let nameless = SignalProcedure { procedure: procedure_id(), name: String::new(), payload: None };
    let large = SignalProcedure {
        name: "go".into(),
        payload: Some(payload(&"1".repeat(limits::SIGNAL_BYTES_MAX + 1))),
        ..nameless.clone()
    };
    for (code, signal) in [(Code::Invalid, nameless), (Code::TooLarge, large)] {
        let commit = Commit::new(agent("alice"), vec![Op::SignalProcedure(signal)]);
        assert_eq!(commit.check().expect_err("the commit is refused").code, code);
    }
    bench.commit_ok(agent("bob"), vec![control(ProcedureControl::Cancel, "")]).await;
    bench.commit_refused_with(Code::Conflict, agent("alice"), vec![signal("go")]).await;
    let unknown = SignalProcedure {
        procedure: ProcedureId::new("x").expect("valid id"),
        name: "go".into(),
        payload: None,
    };
    bench.commit_refused_with(Code::NotFound, agent("alice"), vec![Op::SignalProcedure(unknown)]).await;
}
