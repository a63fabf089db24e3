//! Procedures with children: what a cancellation reaches, and what a procedure waits for.

use quorate_core::{
    Absence, AbsentAgent, ApprovalId, Code, ControlProcedure, CreateTasks, Inspect, InspectResult, Item,
    ItemKey, ItemKind, Message, MessageType, NewTask, Op, OpResult, Principal, Priority, Procedure,
    ProcedureControl, ProcedureId, ProcedureInspection, ProcedureStatus, ProcedureWait, ProcedureWaitSubject,
    RegisterAgent, RequestApproval, SendRequest, StartProcedure, StepProcedure, StuckSubject, StuckWork,
    TaskId, Version, limits,
};

use super::builders::{agent, id, message_to, payload};
use super::tasks::task;
use super::test_bench::TestBench;
use crate::{ReadQuery, ReadResult};

fn procedure_id(name: &str) -> ProcedureId {
    ProcedureId::new(name).expect("valid id")
}

fn start(name: &str, driver: &str, parent: Option<&str>) -> Op {
    Op::StartProcedure(StartProcedure {
        id: Some(procedure_id(name)),
        kind: "own".into(),
        driver: Some(id(driver)),
        spec: None,
        parent: parent.map(procedure_id),
    })
}

fn cancel(name: &str) -> Op {
    let control = ProcedureControl::Cancel;
    Op::ControlProcedure(ControlProcedure { procedure: procedure_id(name), control, reason: "late".into() })
}

fn tasks(procedure: &str, count: usize) -> Op {
    let new = |n| NewTask { session: Some(procedure.into()), ..task(&format!("{procedure}-{n}")) };
    Op::CreateTasks(CreateTasks { tasks: (0..count).map(new).collect(), inputs: None })
}

fn request(from: &str, to: &str, procedure: &str) -> Op {
    let message = Message {
        from: Some(id(from)),
        kind: MessageType::Query,
        correlation_id: Some(procedure.into()),
        ..message_to(to)
    };
    Op::Request(SendRequest::new(message, Some(600_000), None))
}

async fn procedure(bench: &TestBench, name: &str) -> Procedure {
    match bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Procedure, name))).await {
        ReadResult::Item(Some(Item::Procedure(procedure))) => procedure,
        other => panic!("not a procedure: {other:?}"),
    }
}

async fn statuses(bench: &TestBench, names: &[&str]) -> Vec<ProcedureStatus> {
    let mut statuses = Vec::new();
    for name in names {
        statuses.push(procedure(bench, name).await.status);
    }
    statuses
}

pub async fn m4_cancelling_a_procedure_cancels_its_descendants(mut bench: TestBench) {
    bench.register_all(&["alice", "bob", "eve"]).await;
    let started = vec![
        start("p", "alice", None),
        start("p/c", "bob", Some("p")),
        start("other", "alice", None),
        start("p/d", "alice", Some("p")),
    ];
    bench.commit_ok(agent("alice"), started).await;
    bench.commit_ok(agent("bob"), vec![start("p/c/e", "eve", Some("p/c")), tasks("p/c", 2)]).await;
    bench.commit_ok(agent("eve"), vec![request("eve", "bob", "p/c/e")]).await;
    // The relation of children is rebuilt from the stored procedures.
    bench.reopen().await;
    assert_eq!(procedure(&bench, "p/c/e").await.parent, Some(procedure_id("p/c")));
    let cancelled = bench.commit_ok(agent("alice"), vec![cancel("p")]).await;
    assert_eq!(cancelled.results, [OpResult::ProcedureChanged { version: Version(2), remaining: 0 }]);
    let all = statuses(&bench, &["p", "p/c", "p/c/e", "p/d"]).await;
    assert_eq!(all, [ProcedureStatus::Cancelled; 4]);
    assert_eq!(statuses(&bench, &["other"]).await, [ProcedureStatus::Running]);
    assert_eq!(procedure(&bench, "p/c/e").await.reason, "procedure p was cancelled: late");
    let key = ItemKey::new(ItemKind::Task, TaskId::new("p/c-0").expect("valid id").to_shared());
    let ReadResult::Item(Some(Item::Task(ended))) = bench.read(ReadQuery::Item(key)).await else {
        panic!("not a task")
    };
    assert!(ended.status().has_ended());
    // Eve is notified of the procedure that she drives, although others cancelled it.
    assert_eq!(bench.claim("eve", 10).await.len(), 2, "the start and the cancellation");
    let again = bench.commit_ok(agent("alice"), vec![cancel("p")]).await;
    assert_eq!((again.seq, again.results), (None, cancelled.results));
}

pub async fn a_child_is_started_by_the_driver_of_a_procedure_that_has_not_ended(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.commit_ok(agent("alice"), vec![start("p", "alice", None)]).await;
    let child = start("c", "bob", Some("p"));
    bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![child.clone()]).await;
    bench.commit_refused_with(Code::NotFound, agent("alice"), vec![start("c", "bob", Some("x"))]).await;
    bench.commit_ok(agent("alice"), vec![child.clone()]).await;
    bench.commit_refused_with(Code::Duplicate, agent("alice"), vec![start("c", "bob", None)]).await;
    bench.commit_ok(agent("alice"), vec![cancel("p")]).await;
    bench.commit_ok(agent("alice"), vec![child]).await;
    bench.commit_refused_with(Code::Conflict, agent("alice"), vec![start("d", "bob", Some("p"))]).await;
}

pub async fn a_cancellation_of_many_items_is_continued_by_its_repetition(bench: TestBench) {
    bench.register_all(&["alice"]).await;
    bench.commit_ok(agent("alice"), vec![start("p", "alice", None), start("c", "alice", Some("p"))]).await;
    let step = |name: &str| Op::StepProcedure(StepProcedure::new(procedure_id(name), Version(1), "work"));
    bench.commit_ok(agent("alice"), vec![step("p"), step("c"), start("g", "alice", Some("c"))]).await;
    bench.commit_ok(agent("alice"), vec![tasks("g", limits::PROCEDURE_CANCEL_MAX - 1)]).await;
    let first = bench.commit_ok(agent("alice"), vec![cancel("p")]).await;
    assert_eq!(first.results, [OpResult::ProcedureChanged { version: Version(3), remaining: 1 }]);
    let left = [ProcedureStatus::Cancelled, ProcedureStatus::Running, ProcedureStatus::Cancelled];
    assert_eq!(statuses(&bench, &["p", "c", "g"]).await, left, "the innermost child first");
    let second = bench.commit_ok(agent("alice"), vec![cancel("p")]).await;
    assert_eq!(second.results, [OpResult::ProcedureChanged { version: Version(3), remaining: 0 }]);
    assert_eq!(statuses(&bench, &["c"]).await, [ProcedureStatus::Cancelled]);
}

/// Procedure p waits for bob and eve, a task that nobody can do, a decision, and a child; procedure q for eve.
async fn start_waiting(bench: &TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let eve = RegisterAgent { heartbeat_ms: 10_000, ..RegisterAgent::named(id("eve")) };
    bench.commit_ok(agent("eve"), vec![Op::RegisterAgent(eve)]).await;
    let approval = Op::RequestApproval(Box::new(RequestApproval {
        id: Some(ApprovalId::new("ok").expect("valid id")),
        agent: Some(id("alice")),
        action: "publish".into(),
        document: payload("{\"action\":\"publish\",\"payload\":1}"),
        rationale: None,
        confidence: None,
        priority: Priority::NORMAL,
        timeout_ms: 600_000,
        default: String::new(),
        session: Some("p".into()),
        follow_ups: Vec::new(),
    }));
    let sum = NewTask {
        id: Some(TaskId::new("t").expect("valid id")),
        session: Some("p".into()),
        ..NewTask::new("sum")
    };
    let work = vec![
        start("p", "alice", None),
        start("q", "alice", None),
        request("alice", "bob", "p"),
        request("alice", "eve", "p"),
        request("alice", "eve", "q"),
        approval,
        start("p/c", "alice", Some("p")),
        Op::CreateTasks(CreateTasks { tasks: vec![sum], inputs: None }),
    ];
    bench.commit_ok(agent("alice"), work).await;
}

async fn inspect(bench: &TestBench, query: Inspect) -> InspectResult {
    let receipt = bench.commit_ok(Principal::System, vec![Op::Inspect(query)]).await;
    match &receipt.results[..] {
        [OpResult::Inspected(result)] => (**result).clone(),
        other => panic!("not an inspection: {other:?}"),
    }
}

pub async fn n5_a_procedure_names_the_agents_that_it_waits_for(bench: TestBench) {
    start_waiting(&bench).await;
    // Eve is not seen any more; alice and bob are.
    bench.advance_secs(40);
    bench.commit_ok(agent("alice"), vec![Op::Put(super::builders::put_entry("k", "1"))]).await;
    bench.commit_ok(agent("bob"), vec![Op::Put(super::builders::put_entry("k", "2"))]).await;
    bench.commit_ok(Principal::System, vec![Op::Sweep]).await;
    let gone = || AbsentAgent { agent: id("eve"), absence: Absence::Offline };
    let wait = |subject, absent| ProcedureWait { subject, absent };
    let answer = |of: &str| ProcedureWaitSubject::Answer { of: of.into() };
    let sum = ProcedureWaitSubject::Task { task: TaskId::new("t").expect("valid id"), of: "can:sum".into() };
    let expected = ProcedureInspection {
        absent_driver: None,
        waits: vec![
            wait(answer("eve"), Some(vec![gone()])),
            wait(sum, Some(Vec::new())),
            wait(answer("bob"), None),
            wait(ProcedureWaitSubject::Decision(ApprovalId::new("ok").expect("valid id")), None),
            wait(ProcedureWaitSubject::Child(procedure_id("p/c"), ProcedureStatus::Running), None),
        ],
        more: 0,
    };
    let found = inspect(&bench, Inspect::Procedure(procedure_id("p"))).await;
    assert_eq!(found, InspectResult::Procedure(expected));
    let InspectResult::Stuck(stuck) = inspect(&bench, Inspect::Stuck { limit: 100 }).await else {
        panic!("not stuck")
    };
    let waits = |on: &str, waiting, absent| StuckWork {
        subject: StuckSubject::ProcedureWaits { on: on.into(), first: procedure_id("p") },
        waiting,
        since: None,
        absent,
    };
    let of_procedures = |work: &&StuckWork| matches!(work.subject, StuckSubject::ProcedureWaits { .. });
    let found: Vec<_> = stuck.iter().filter(of_procedures).cloned().collect();
    assert_eq!(found, [waits("can:sum", 1, Vec::new()), waits("eve", 2, vec![gone()])]);
}
