//! Presence: which agents are gone, and the work that waits for them or that they hold.

use quorate_core::{
    Absence, AbsentAgent, AcquireLocks, AgentFilter, AgentInspection, AgentNo, CancelTask, Code, ConsumerId,
    ControlProcedure, Dependency, HeldCount, Inspect, InspectResult, LastSeen, LockName, NewTask,
    OnDependencyFailure, Op, OpResult, Principal, Priority, ProcedureControl, ProcedureId,
    ProcedureInspection, RegisterAgent, StartProcedure, StuckSubject, StuckWork, TaskId, TaskInspection,
    Timestamp, WaitMode,
};

use super::builders::{agent, id, lease_ref, put_entry};
use super::tasks::task;
use super::test_bench::{START_MS, TestBench};

async fn inspect(bench: &TestBench, query: Inspect) -> InspectResult {
    let receipt = bench.commit_ok(Principal::System, vec![Op::Inspect(query)]).await;
    match receipt.results.into_iter().next() {
        Some(OpResult::Inspected(result)) => *result,
        other => panic!("not an inspection: {other:?}"),
    }
}

async fn stuck(bench: &TestBench) -> Vec<StuckWork> {
    match inspect(bench, Inspect::Stuck { limit: 100 }).await {
        InspectResult::Stuck(stuck) => stuck,
        other => panic!("not stuck work: {other:?}"),
    }
}

async fn inspect_task(bench: &TestBench, name: &str) -> TaskInspection {
    match inspect(bench, Inspect::Task(task_id(name))).await {
        InspectResult::Task(task) => task,
        other => panic!("not a task: {other:?}"),
    }
}

async fn inspect_agent(bench: &TestBench, name: &str) -> AgentInspection {
    let filter = AgentFilter { id: Some(id(name)), ..AgentFilter::default() };
    match inspect(bench, Inspect::Agents { filter, after: AgentNo(0), limit: 1 }).await {
        InspectResult::Agents(mut found) => found.remove(0),
        other => panic!("not an agent: {other:?}"),
    }
}

fn task_id(name: &str) -> TaskId {
    TaskId::new(name).expect("valid id")
}

fn lock_name(name: &str) -> LockName {
    LockName::new(name).expect("valid name")
}

fn after_secs(seconds: u64) -> Timestamp {
    Timestamp(START_MS + seconds * 1000)
}

fn gone(name: &str, absence: Absence) -> AbsentAgent {
    AbsentAgent { agent: id(name), absence }
}

/// Registers an agent that can do the tasks of the other cases, with a heartbeat of 10 s.
async fn register_worker(bench: &TestBench, name: &str) {
    let worker = RegisterAgent {
        capabilities: vec!["work".into()],
        heartbeat_ms: 10_000,
        ..RegisterAgent::named(id(name))
    };
    bench.commit_ok(agent(name), vec![Op::RegisterAgent(worker)]).await;
}

fn acquire(name: &str, ttl_ms: u64, wait: WaitMode) -> Op {
    Op::AcquireLocks(AcquireLocks {
        agent: id(name),
        names: vec![lock_name("x")],
        ttl_ms,
        priority: Priority::NORMAL,
        capacity: None,
        wait,
        within: None,
    })
}

pub async fn n5_work_held_by_an_absent_agent_is_stuck_until_its_lease_ends(bench: TestBench) {
    bench.register("alice").await;
    register_worker(&bench, "bob").await;
    bench.create_tasks(vec![NewTask { lease_ms: 70_000, ..task("t1") }, task("t2")]).await;
    bench.claim_tasks("bob", 1).await;
    bench.send("alice", "bob").await;
    let claim = Op::Claim { agent: id("bob"), max: 1, lease_ms: 90_000, wait: WaitMode::NoWait };
    bench.commit_ok(agent("bob"), vec![claim]).await;
    bench.commit_ok(agent("bob"), vec![acquire("bob", 50_000, WaitMode::NoWait)]).await;
    assert_eq!(stuck(&bench).await, vec![], "the holder is present");
    bench.advance_secs(30);
    bench.sweep().await;
    let until = |seconds| Some(after_secs(seconds));
    let held = |locks, first_lock, end| StuckWork {
        subject: StuckSubject::Held {
            agent: id("bob"),
            count: HeldCount { tasks: 1, messages: 1, locks },
            first_task: Some(task_id("t1")),
            first_lock,
            until: until(end),
        },
        waiting: 2 + locks,
        since: None,
        absent: vec![gone("bob", Absence::Offline)],
    };
    let found = stuck(&bench).await;
    assert_eq!(found[1..], [held(1, Some(lock_name("x")), 50)], "after the ready task t2: {found:?}");
    let holder = TaskInspection { lease_until: until(70), absent: Some(vec![gone("bob", Absence::Offline)]) };
    assert_eq!(inspect_task(&bench, "t1").await, holder);
    // A lock with a queue is listed once.
    bench.commit_ok(agent("alice"), vec![acquire("alice", 50_000, WaitMode::Once(ConsumerId(1)))]).await;
    let queue = StuckWork {
        subject: StuckSubject::Lock { name: lock_name("x"), until: until(50) },
        waiting: 1,
        since: until(30),
        absent: vec![gone("bob", Absence::Offline)],
    };
    assert_eq!(stuck(&bench).await[1..], [queue, held(0, None, 70)]);
    bench.commit_ok(agent("bob"), vec![Op::Put(put_entry("k", "1"))]).await;
    assert_eq!(stuck(&bench).await, vec![], "the holder is back");
    assert_eq!(inspect_task(&bench, "t1").await.absent, None);
}

pub async fn n5_tasks_behind_a_dependency_that_did_not_succeed_are_stuck(mut bench: TestBench) {
    bench.register("alice").await;
    register_worker(&bench, "bob").await;
    let after = |name: &str, dependencies: &[&str]| NewTask {
        depends_on: dependencies.iter().map(|name| Dependency::Task(task_id(name))).collect(),
        on_dependency_failure: OnDependencyFailure::Wait,
        ..task(name)
    };
    let tasks = vec![task("t1"), task("t2"), after("t3", &["t2", "t1"]), after("t4", &["t1"])];
    bench.create_tasks(tasks).await;
    let cancel = |name: &str| Op::CancelTask(CancelTask { task: task_id(name), reason: String::new() });
    bench.commit_ok(agent("alice"), vec![cancel("t1")]).await;
    let blocked = |dependency: &str, first: &str| StuckWork {
        subject: StuckSubject::Dependency { task: task_id(dependency), first: task_id(first) },
        waiting: 1,
        since: None,
        absent: vec![],
    };
    assert_eq!(stuck(&bench).await, [blocked("t1", "t4")], "t3 still waits for t2");
    bench.commit_ok(agent("alice"), vec![cancel("t2")]).await;
    bench.reopen().await;
    bench.commit_ok(agent("bob"), vec![Op::Put(put_entry("k", "1"))]).await;
    let found = stuck(&bench).await;
    assert_eq!(found.iter().map(|work| work.waiting).sum::<usize>(), 2, "{found:?}");
    bench.commit_ok(agent("alice"), vec![cancel("t3"), cancel("t4")]).await;
    assert_eq!(stuck(&bench).await, vec![]);
}

pub async fn n5_running_procedures_of_an_absent_driver_are_stuck(bench: TestBench) {
    bench.register("alice").await;
    register_worker(&bench, "bob").await;
    let procedure_id = |name: &str| ProcedureId::new(name).expect("valid id");
    let start = |name: &str, driver: &str| {
        let driver = Some(id(driver));
        Op::StartProcedure(StartProcedure {
            id: Some(procedure_id(name)),
            kind: "custom".into(),
            driver,
            spec: None,
            parent: None,
        })
    };
    let ops = vec![start("p2", "bob"), start("p1", "bob"), start("p3", "alice")];
    bench.commit_ok(Principal::System, ops).await;
    // The driver is notified of each of them.
    bench.claim("bob", 9).await;
    assert_eq!(stuck(&bench).await.iter().filter(|work| is_of_procedures(work)).count(), 0);
    bench.advance_secs(30);
    bench.sweep().await;
    let found = stuck(&bench).await;
    let found: Vec<_> = found.iter().filter(|work| is_of_procedures(work)).collect();
    let expected = StuckWork {
        subject: StuckSubject::Procedures { driver: id("bob"), first: procedure_id("p1") },
        waiting: 2,
        since: Some(after_secs(0)),
        absent: vec![gone("bob", Absence::Offline)],
    };
    assert_eq!(found, [&expected]);
    let driver_of = |name: &str| Inspect::Procedure(procedure_id(name));
    let of_driver = |absent_driver| {
        InspectResult::Procedure(ProcedureInspection { absent_driver, ..ProcedureInspection::default() })
    };
    let absent = of_driver(Some(gone("bob", Absence::Offline)));
    assert_eq!(inspect(&bench, driver_of("p1")).await, absent);
    assert_eq!(inspect(&bench, driver_of("p3")).await, of_driver(None));
    let pause = |name: &str| ControlProcedure {
        procedure: procedure_id(name),
        control: ProcedureControl::Pause,
        reason: String::new(),
    };
    let pauses = ["p1", "p2"].map(|name| Op::ControlProcedure(pause(name)));
    bench.commit_ok(Principal::System, pauses.to_vec()).await;
    assert_eq!(
        stuck(&bench).await.iter().filter(|work| is_of_procedures(work)).count(),
        0,
        "an operator resumes them"
    );
}

fn is_of_procedures(work: &StuckWork) -> bool {
    matches!(work.subject, StuckSubject::Procedures { .. })
}

pub async fn n5_a_closed_connection_marks_an_agent_that_does_not_wait_elsewhere(bench: TestBench) {
    bench.register("alice").await;
    register_worker(&bench, "bob").await;
    let closed = |number| Op::ConnectionClosed { agent: AgentNo(number) };
    let disconnected_at = || async { inspect_agent(&bench, "bob").await.disconnected_at };
    bench.claim_waiting("bob", 1, WaitMode::Once(ConsumerId(1))).await;
    bench.advance_secs(20);
    bench.commit_ok(Principal::System, vec![closed(2)]).await;
    assert_eq!(disconnected_at().await, None, "it waits in another call");
    bench.commit_ok(Principal::System, vec![Op::CloseConsumer { consumer: ConsumerId(1) }]).await;
    assert_eq!(disconnected_at().await, None, "its call has ended, but not its connection");
    bench.advance_secs(5);
    let receipt = bench.commit_ok(Principal::System, vec![closed(2), closed(9)]).await;
    assert_eq!(receipt.seq, None, "it writes no record");
    let found = inspect_agent(&bench, "bob").await;
    let (seen, offline_at) = (after_secs(25), Some(after_secs(55)));
    assert_eq!((found.disconnected_at, found.last_seen), (Some(seen), LastSeen::At(seen)));
    assert_eq!(found.offline_at, offline_at, "the connection counted as activity until then");
    bench.commit_refused_with(Code::Forbidden, agent("bob"), vec![closed(2)]).await;
    bench.commit_ok(agent("bob"), vec![Op::Put(put_entry("k", "1"))]).await;
    assert_eq!(disconnected_at().await, None);
}

pub async fn n21_an_agent_is_not_seen_after_a_restart_until_it_acts(mut bench: TestBench) {
    bench.register("alice").await;
    register_worker(&bench, "bob").await;
    bench.send("alice", "bob").await;
    bench.create_tasks(vec![task("t1")]).await;
    assert_eq!(inspect_agent(&bench, "bob").await.last_seen, LastSeen::At(after_secs(0)));
    bench.advance_secs(5);
    bench.reopen().await;
    bench.advance_secs(2);
    let found = inspect_agent(&bench, "bob").await;
    assert_eq!((found.last_seen, found.disconnected_at), (LastSeen::BeforeRestart(after_secs(5)), None));
    assert_eq!(found.offline_at, Some(after_secs(35)), "the silence counts from the restart");
    let absent = vec![gone("bob", Absence::BeforeRestart(after_secs(5)))];
    let found = stuck(&bench).await;
    assert!(found.iter().all(|work| work.absent == absent) && found.len() == 2, "{found:?}");
    bench.commit_refused(agent("bob"), vec![Op::Ack(lease_ref(9, 9))]).await;
    let found = inspect_agent(&bench, "bob").await;
    assert_eq!(found.last_seen, LastSeen::BeforeRestart(after_secs(5)), "a refused commit changes nothing");
    bench.commit_ok(agent("bob"), vec![Op::Put(put_entry("k", "1"))]).await;
    assert_eq!(inspect_agent(&bench, "bob").await.last_seen, LastSeen::At(after_secs(7)));
    assert_eq!(stuck(&bench).await, vec![]);
}
