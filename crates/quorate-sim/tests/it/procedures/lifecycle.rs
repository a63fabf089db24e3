//! Pausing, resuming, cancelling, signalling, and procedures that cannot continue.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quorate::machine::Machine;
use quorate::{Failure, Hub, ProcedureDraft, ProcedureHost, ProcedureStatus, Registry, Work};
use quorate_core::{
    AgentId, Code, Commit, Destination, Message, Op, Principal, RequestState, StepProcedure, TaskStatus,
    Timestamp, Version,
};
use quorate_sim::data_directory;
use serde_json::{Value, json};

use super::script_machine::{NewerScript, PANICS, Script, ScriptStep, UpgradedScript};
use super::{WAIT_MAX, close, hub_with_faults, log_of, open, start, wait, wait_for_phase};

/// Stops a host, so that the next one resumes.
async fn restart<M: Machine>(hub: &Hub, host: Arc<ProcedureHost>) -> Arc<ProcedureHost> {
    host.stop().await;
    hub.drive_procedures_with(Registry::empty().with::<M>()).await.expect("it drives")
}

fn signal(name: &str) -> ScriptStep {
    ScriptStep::Signal(name.into())
}

// Fails under: a paused procedure that takes a step; one that does not continue, or loses what it waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_procedure_continues_when_it_is_resumed() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    let _ada = hub.agent("ada").join().await.expect("it joins");
    start(&hub, "p", &[ScriptStep::Ask("ada".into())]).await;
    wait_for_phase(&hub, "p", "step 0").await;
    hub.pause_procedure("p", "until Monday").await.expect("paused");
    // The agent answers while the procedure is paused.
    let answer = |_: Work<Value>| async { Ok::<_, Failure>("yes") };
    let _ada = hub.agent("ada").on("work", answer).run().await.expect("it runs");
    loop {
        let counts = hub.counts().await.expect("counts");
        if counts.ready + counts.leased == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    let paused = wait(&hub, "p").await;
    let paused = paused.procedure();
    assert_eq!((paused.status, paused.reason.as_str()), (ProcedureStatus::Paused, "until Monday"));
    let host = restart::<Script>(&hub, host).await;
    assert_eq!(hub.procedure("p").await.expect("it exists").version(), paused.version);
    hub.resume_procedure("p").await.expect("resumed");
    assert_eq!(log_of(&wait(&hub, "p").await), json!([{"answer": "\"yes\""}]));
    let ended = hub.pause_procedure("p", "").await.expect_err("it has ended");
    assert_eq!(ended.code(), Code::Conflict);
    close(hub, host).await;
}

// Fails under: a cancelled procedure whose requests or tasks continue; a holder that keeps its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m4_cancelling_a_procedure_cancels_its_requests_and_tasks() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    let worker = hub.agent("worker").capability("sum").join().await.expect("it joins");
    let ada = hub.agent("ada").join().await.expect("it joins");
    let child = ScriptStep::Child(vec![ScriptStep::Ask("ada".into())]);
    start(&hub, "asks", &[ScriptStep::Ask("ada".into())]).await;
    start(&hub, "parent", &[child]).await;
    start(&hub, "p", &[ScriptStep::Tasks("sum".into(), 100)]).await;
    wait_for_phase(&hub, "asks", "step 0").await;
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(worker.claim_task(&["sum"], WAIT_MAX).await.expect("it claims").expect("a task"));
    }
    let requests = [
        ada.receive(WAIT_MAX).await.expect("it receives").expect("a request"),
        ada.receive(WAIT_MAX).await.expect("it receives").expect("a request"),
    ];
    let before = Instant::now();
    for id in ["p", "asks", "parent"] {
        hub.cancel_procedure(id, "not needed").await.expect("cancelled");
    }
    let lost = worker.complete_task(&held[0], json!(1)).await.expect_err("its lease has ended");
    assert_eq!(lost.code(), Code::Cancelled);
    for id in ["p", "asks", "parent", "parent:child-0"] {
        let cancelled = hub.wait_for_procedure(id, WAIT_MAX).await.expect("it exists");
        assert_eq!(cancelled.procedure().status, ProcedureStatus::Cancelled, "{id}");
    }
    let took = before.elapsed();
    println!("cancelled 100 leased tasks in {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    let counts = hub.task_counts().await.expect("counts");
    assert_eq!((counts.get(TaskStatus::Cancelled), counts.get(TaskStatus::Leased)), (100, 0));
    let space = hub.space().expect("embedded hub");
    for request in &requests {
        let quorate::MessageRef::Durable(id) = request.id() else { panic!("a durable request") };
        let request: quorate_core::Request = space.item(&id).await.expect("it exists");
        assert_eq!(request.state, RequestState::Cancelled);
    }
    let again = hub.signal_procedure("p", "go", 1).await.expect_err("it has ended");
    assert_eq!(again.code(), Code::Conflict);
    hub.cancel_procedure("p", "again").await.expect("cancelling is idempotent");
    close(hub, host).await;
}

// Fails under: a signal that is lost by a restart, or applied to a procedure that is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_reaches_a_procedure_once_even_after_a_restart() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    start(&hub, "p", &[signal("go"), signal("stop")]).await;
    wait_for_phase(&hub, "p", "step 0").await;
    host.stop().await;
    hub.signal_procedure("p", "go", json!({"n": 1})).await.expect("sent");
    let host = restart::<Script>(&hub, host).await;
    wait_for_phase(&hub, "p", "step 1").await;
    hub.signal_procedure("p", "stop", ()).await.expect("sent");
    let log = log_of(&wait(&hub, "p").await);
    let entry = |name: &str, payload: Value| json!({"signal": name, "by": "system", "payload": payload});
    assert_eq!(log, json!([entry("go", json!({"n": 1})), entry("stop", Value::Null)]));
    let refused = hub.signal_procedure("p", "go", 1).await.expect_err("it has ended");
    assert_eq!(refused.code(), Code::Conflict);
    close(hub, host).await;
}

// Fails under: a machine that panics and ends the runtime, or is repeated forever; one that cannot be resumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_fails_three_times_is_parked() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    PANICS.store(3, Ordering::SeqCst);
    start(&hub, "p", &[ScriptStep::Panic]).await;
    wait_for_phase(&hub, "p", "step 0").await;
    hub.signal_procedure("p", "go", 1).await.expect("sent");
    let stuck = wait(&hub, "p").await;
    assert_eq!(stuck.procedure().status, ProcedureStatus::Stuck);
    assert_eq!(stuck.procedure().reason, "a step failed 3 times: the machine panicked");
    hub.resume_procedure("p").await.expect("resumed");
    assert_eq!(log_of(&wait(&hub, "p").await), json!(["calm"]));
    start(&hub, "refused", &[signal("go"), ScriptStep::Refused]).await;
    wait_for_phase(&hub, "refused", "step 0").await;
    hub.signal_procedure("refused", "go", 1).await.expect("sent");
    let stuck = wait(&hub, "refused").await;
    assert!(stuck.procedure().reason.contains("SECRET_DETECTED"), "{:?}", stuck.procedure());
    hub.cancel_procedure("refused", "").await.expect("cancelled");
    close(hub, host).await;
}

// Fails under: a machine that occupies the hub without an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i21_a_machine_that_loops_without_progress_is_parked() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    start(&hub, "p", &[ScriptStep::TimerInThePast, ScriptStep::Loop]).await;
    let stuck = wait(&hub, "p").await;
    assert_eq!(stuck.procedure().status, ProcedureStatus::Stuck);
    assert!(stuck.procedure().reason.contains("no progress"), "{:?}", stuck.procedure());
    close(hub, host).await;
}

// Fails under: a state of another version that is read as if it were of this one, or fails the procedure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_needs_an_upgrade_is_parked() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    start(&hub, "p", &[signal("go")]).await;
    wait_for_phase(&hub, "p", "step 0").await;
    let host = restart::<NewerScript>(&hub, host).await;
    let stuck = wait(&hub, "p").await;
    assert_eq!(stuck.procedure().status, ProcedureStatus::Stuck);
    assert!(stuck.procedure().reason.starts_with("needs_upgrade: "), "{:?}", stuck.procedure());
    let host = restart::<UpgradedScript>(&hub, host).await;
    hub.resume_procedure("p").await.expect("resumed");
    hub.signal_procedure("p", "go", 1).await.expect("sent");
    assert_eq!(log_of(&wait(&hub, "p").await)[0]["signal"], "go");
    close(hub, host).await;
}

// Fails under: an error that does not name the procedure and its state, or the current version; a timer in the past that
// never fires.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i21_bad_input_of_a_procedure_is_refused_clearly() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    start(&hub, "p", &[ScriptStep::TimerInThePast]).await;
    assert_eq!(log_of(&wait(&hub, "p").await), json!(["timer"]));
    let over = hub.signal_procedure("p", "go", 1).await.expect_err("it has ended");
    assert_eq!(over.code(), Code::Conflict);
    assert!(over.to_string().contains("procedure p is done and can no longer change"), "{over}");
    // A driver of its own: a message to itself in the past is due at once, and a step from an old version is refused.
    let driver = hub.agent("driver").join().await.expect("it joins");
    driver.start_procedure(ProcedureDraft::new("own", 1).id("q")).await.expect("started");
    let space = hub.space().expect("embedded hub");
    let id: AgentId = "driver".parse().expect("an id");
    let timer = Message {
        from: Some(id.clone()),
        deliver_at: Some(Timestamp(1)),
        correlation_id: Some("q".into()),
        ..Message::new(Destination::Agent(id.clone()), "timer", space.seal("1"))
    };
    let step =
        |expect| Op::StepProcedure(StepProcedure::new("q".parse().expect("an id"), Version(expect), "work"));
    let principal = Principal::Agent(id);
    space.commit(Commit::new(principal.clone(), vec![Op::send(timer), step(1)])).await.expect("committed");
    assert!(driver.receive(WAIT_MAX).await.expect("it receives").is_some(), "the timer");
    let old = space.commit(Commit::new(principal, vec![step(1)])).await.expect_err("an old version");
    assert_eq!(old.code(), Code::VersionConflict);
    assert!(old.to_string().contains("procedure q is at version 2, not at version 1"), "{old}");
    close(hub, host).await;
}

// Fails under: a specification that is checked by the driver only, or parsed although it is too large.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i21_an_invalid_or_huge_specification_is_refused_at_the_start() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    let invalid = hub.start_procedure(ProcedureDraft::new("script", json!({}))).await.expect_err("invalid");
    assert!(invalid.to_string().contains("spec.steps: "), "{invalid}");
    let huge = "a".repeat(10 * 1024 * 1024);
    let refused = hub.start_procedure(ProcedureDraft::new("script", huge)).await.expect_err("too large");
    assert_eq!(refused.code(), Code::TooLarge);
    let unknown = hub.start_procedure(ProcedureDraft::new("unknown", 1)).await.expect_err("no driver");
    assert_eq!(unknown.code(), Code::Invalid);
    let own = ProcedureDraft::new("unknown", 1).driver("procedures");
    assert_eq!(hub.start_procedure(own).await.expect_err("not driven").code(), Code::Invalid);
    close(hub, host).await;
}

// Fails under: a timer that is lost by a restart, or fires early.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_survives_a_restart() {
    let directory = data_directory();
    let data = directory.path().join("hub");
    let (hub, host) = open(&data).await;
    start(&hub, "p", &[ScriptStep::Timer(500)]).await;
    let started = Instant::now();
    wait_for_phase(&hub, "p", "step 0").await;
    close(hub, host).await;
    let hub = hub_with_faults(&data, Box::new(|_, _| None)).await;
    let host = hub.drive_procedures_with(Registry::empty().with::<Script>()).await.expect("it drives");
    assert_eq!(log_of(&wait(&hub, "p").await), json!(["timer"]));
    assert!(started.elapsed() >= Duration::from_millis(490), "{:?}", started.elapsed());
    close(hub, host).await;
}

// Fails under: a machine that receives no id, the id of another procedure, or another starter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_knows_its_procedure_and_its_starter() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    let steps = [ScriptStep::Write("ID/note/".into(), 1)];
    for id in ["p", "q"] {
        start(&hub, id, &steps).await;
        log_of(&wait(&hub, id).await);
    }
    for id in ["p", "q"] {
        let entry = hub.memory().get(&format!("{id}/note/0")).await.expect("a read").expect("an entry");
        assert_eq!(entry.content::<String>().expect("JSON"), "system");
    }
    close(hub, host).await;
}
