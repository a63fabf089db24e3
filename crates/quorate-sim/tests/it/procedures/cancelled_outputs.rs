//! Outputs that a machine cancels, and the events of outputs, which arrive once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quorate::{Clock, Hub, ProcedureDraft, ProcedureHost, ProcedureStatus, Registry, SystemClock};
use quorate_core::{Code, Commit, ControlProcedure, Op, Principal, ProcedureControl, RequestState};
use quorate_sim::data_directory;
use quorate_store::ManualClock;
use serde_json::{Value, json};

use super::recorder_machine::{Recorder, TIMER_MS};
use super::script_machine::Script;
use super::{WAIT_MAX, close, wait, wait_for_phase};
use crate::deliberation::fixture::hub_with_read_faults;

async fn open(
    data: &Path,
    clock: Arc<dyn Clock>,
    log_failures: &Arc<AtomicU32>,
) -> (Hub, Arc<ProcedureHost>) {
    let hub = hub_with_read_faults(data, clock, Box::new(|_, _| None), Arc::clone(log_failures)).await;
    let registry = Registry::empty().with::<Script>().with::<Recorder>();
    let host = hub.drive_procedures_with(registry).await.expect("it drives");
    (hub, host)
}

async fn start_recorder(hub: &Hub) {
    hub.start_procedure(ProcedureDraft::new("recorder", ()).id("p")).await.expect("started");
}

/// Ends the recorder, and returns its events.
async fn events(hub: &Hub) -> Value {
    hub.signal_procedure("p", "end", ()).await.expect("sent");
    let info = wait(hub, "p").await;
    assert_eq!(info.procedure().status, ProcedureStatus::Done, "{:?}", info.procedure());
    info.result().expect("JSON").expect("a result")
}

// Fails under: a cancellation that is not committed, or refused for an output that was never started; an event of a
// cancelled output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_cancels_what_it_started() {
    let directory = data_directory();
    let (data, clock) = (directory.path().join("hub"), ManualClock::at(1_800_000_000_000));
    let (hub, host) = open(&data, Arc::clone(&clock) as _, &Arc::default()).await;
    let ada = hub.agent("ada").join().await.expect("it joins");
    let worker = hub.agent("worker").capability("sum").join().await.expect("it joins");
    start_recorder(&hub).await;
    let task = worker.claim_task(&["sum"], WAIT_MAX).await.expect("it claims").expect("a task");
    let mut requests = Vec::new();
    for _ in 0..2 {
        let request = ada.receive(WAIT_MAX).await.expect("it receives").expect("a request");
        let quorate::MessageRef::Durable(id) = request.id() else { panic!("a durable request") };
        requests.push(id);
    }
    hub.signal_procedure("p", "stop", ()).await.expect("sent");
    wait_for_phase(&hub, "p", "stopped").await;
    let child = wait(&hub, "p:c").await;
    assert_eq!(child.procedure().status, ProcedureStatus::Cancelled);
    let lost = worker.complete_task(&task, json!(1)).await.expect_err("its lease has ended");
    assert_eq!(lost.code(), Code::Cancelled);
    let space = hub.space().expect("embedded hub");
    for id in &requests {
        let request: quorate_core::Request = space.item(id).await.expect("it exists");
        assert_eq!(request.state, RequestState::Cancelled, "one of the procedure, one of its child");
    }
    clock.advance(Duration::from_millis(TIMER_MS + 1));
    close(hub, host).await;
    let (hub, host) = open(&data, SystemClock::new(), &Arc::default()).await;
    assert_eq!(events(&hub).await, json!([]));
    close(hub, host).await;
}

// Fails under: an end that is reported by the run before a reload, and by the one after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_task_arrives_once_after_a_reload() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub"), SystemClock::new(), &Arc::default()).await;
    let worker = hub.agent("worker").capability("sum").join().await.expect("it joins");
    start_recorder(&hub).await;
    let task = worker.claim_task(&["sum"], WAIT_MAX).await.expect("it claims").expect("a task");
    // The run is loaded again: when it receives the notices, the procedure runs.
    let control = |control| {
        let (procedure, reason) = ("p".parse().expect("an id"), String::new());
        Op::ControlProcedure(ControlProcedure { procedure, control, reason })
    };
    let space = hub.space().expect("embedded hub");
    let controls = vec![control(ProcedureControl::Pause), control(ProcedureControl::Resume)];
    space.commit(Commit::new(Principal::System, controls)).await.expect("committed");
    let mut published = space.follow();
    let is_idle =
        |published: &quorate_store::PublishedState| published.counts.leased + published.counts.ready == 0;
    published.wait_for(|published| is_idle(published)).await.expect("the hub is open");
    worker.complete_task(&task, json!(1)).await.expect("completed");
    let mut info = hub.procedure("p").await.expect("it exists");
    let has_ended = |info: &quorate::ProcedureInfo| {
        let state: Option<Value> = info.state().expect("JSON");
        state.is_some_and(|state| state["ended"].to_string().contains("\"t\""))
    };
    while !has_ended(&info) {
        info = hub.wait_for_procedure_step("p", info.version(), WAIT_MAX).await.expect("it exists");
    }
    let events = events(&hub).await;
    let ends = events.as_array().expect("a list").iter().filter(|event| **event == "t done");
    assert_eq!(ends.count(), 1, "{events}");
    close(hub, host).await;
}

// Fails under: a reader of the log that ends at the first failed read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_task_arrives_although_the_log_could_not_be_read() {
    let (directory, failures) = (data_directory(), Arc::new(AtomicU32::new(0)));
    let (hub, host) = open(&directory.path().join("hub"), SystemClock::new(), &failures).await;
    let worker = hub.agent("worker").capability("sum").join().await.expect("it joins");
    start_recorder(&hub).await;
    let task = worker.claim_task(&["sum"], WAIT_MAX).await.expect("it claims").expect("a task");
    failures.store(3, Ordering::SeqCst);
    worker.complete_task(&task, json!(1)).await.expect("completed");
    let mut info = hub.procedure("p").await.expect("it exists");
    while !info
        .state::<Value>()
        .expect("JSON")
        .is_some_and(|state| state["ended"].to_string().contains("\"t\""))
    {
        info = hub.wait_for_procedure_step("p", info.version(), WAIT_MAX).await.expect("it exists");
    }
    assert_eq!(failures.load(Ordering::SeqCst), 0, "reads have failed");
    close(hub, host).await;
}
