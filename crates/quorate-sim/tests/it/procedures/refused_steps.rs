//! Steps that the hub refuses, delays or has to split, and machines that loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorate::{Hub, ProcedureStatus, Registry};
use quorate_core::limits::ID_BYTES_MAX;
use quorate_core::{Code, Commit, Op, Refused, Seq};
use quorate_sim::data_directory;
use quorate_sim::fault_store::InjectedFault;
use quorate_store::ManualClock;

use super::script_machine::{Script, ScriptStep};
use super::{close, hub_with_faults, open, start, wait, wait_for_phase};
use crate::deliberation::fixture::hub_with_read_faults;

async fn reason_of_stuck(hub: &Hub, id: &str) -> String {
    let info = wait(hub, id).await;
    assert_eq!(info.procedure().status, ProcedureStatus::Stuck, "{:?}", info.procedure());
    info.procedure().reason.clone()
}

// Fails under: an output with an invalid key or id that leaves the procedure running without a run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_cannot_be_built_parks_the_procedure() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    start(&hub, "key", &[ScriptStep::Write("k".repeat(2_000), 1)]).await;
    let reason = reason_of_stuck(&hub, "key").await;
    assert!(reason.starts_with("a step failed 3 times: "), "{reason}");
    // The id of the request consists of this id and its own.
    let longest = "p".repeat(ID_BYTES_MAX - 2);
    let _ada = hub.agent("ada").join().await.expect("it joins");
    start(&hub, &longest, &[ScriptStep::Ask("ada".into())]).await;
    let reason = reason_of_stuck(&hub, &longest).await;
    assert!(reason.starts_with("a step failed 3 times: "), "{reason}");
    close(hub, host).await;
}

// Fails under: deliveries of a paused procedure that are dead-lettered, lost, or processed twice or out of order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_to_a_paused_procedure_are_processed_when_it_is_resumed() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    let names = ["a", "b", "c", "d", "e"];
    start(&hub, "p", &names.map(|name| ScriptStep::Signal(name.into()))).await;
    wait_for_phase(&hub, "p", "step 0").await;
    for (n, name) in names.into_iter().enumerate() {
        // More pauses than a delivery has attempts.
        hub.pause_procedure("p", "").await.expect("paused");
        hub.signal_procedure("p", name, n).await.expect("sent");
        let counts = hub.counts().await.expect("counts");
        assert_eq!((counts.scheduled, counts.dead), (1, 0), "held");
        hub.resume_procedure("p").await.expect("resumed");
        hub.pause_procedure("p", "").await.expect("paused");
        hub.resume_procedure("p").await.expect("resumed");
        if n + 1 < names.len() {
            wait_for_phase(&hub, "p", &format!("step {}", n + 1)).await;
        }
    }
    let log = super::log_of(&wait(&hub, "p").await);
    let signals: Vec<_> =
        log.as_array().expect("a list").iter().map(|entry| entry["signal"].clone()).collect();
    assert_eq!(signals, names);
    assert_eq!(hub.counts().await.expect("counts").dead, 0);
    close(hub, host).await;
}

// Fails under: a commit that is retried forever; one that is never retried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_is_refused_for_a_long_time_parks_the_procedure() {
    let directory = data_directory();
    let rule = |commit: &Commit, _: Seq| {
        let is_full = commit.ops.iter().position(|op| matches!(op, Op::CreateTasks(_)));
        let refused = Refused::new(Code::LimitExceeded, "too many open tasks").retryable();
        is_full.map(|op| InjectedFault::Refused(refused.at_op(op)))
    };
    let clock = ManualClock::at(1_800_000_000_000);
    let data = directory.path().join("hub");
    let hub = hub_with_read_faults(&data, Arc::clone(&clock) as _, Box::new(rule), Arc::default()).await;
    let host = hub.drive_procedures_with(Registry::empty().with::<Script>()).await.expect("it drives");
    start(&hub, "p", &[ScriptStep::Tasks("sum".into(), 1)]).await;
    let (mut seconds, mut info) = (0, hub.procedure("p").await.expect("it exists"));
    while info.procedure().status == ProcedureStatus::Running {
        clock.advance(Duration::from_secs(1));
        seconds += 1;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        info = hub.procedure("p").await.expect("it exists");
        assert!(seconds < 100_000, "it is parked");
    }
    assert!(seconds > 150, "three times for a minute: {seconds} s");
    let reason = &info.procedure().reason;
    assert!(reason.contains("LIMIT_EXCEEDED: too many open tasks"), "{reason}");
    close(hub, host).await;
}

// Fails under: two operations per delivery, which exceed the operations of a commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_with_the_most_deliveries_and_writes_is_one_commit() {
    let (directory, busy) = (data_directory(), Arc::new(AtomicBool::new(false)));
    let is_busy = Arc::clone(&busy);
    let rule = move |commit: &Commit, _: Seq| {
        let is_step = commit.ops.iter().any(|op| matches!(op, Op::StepProcedure(_)));
        let refused = Refused::new(Code::Overloaded, "busy");
        (is_step && is_busy.load(Ordering::SeqCst)).then_some(InjectedFault::Refused(refused))
    };
    let hub = hub_with_faults(&directory.path().join("hub"), Box::new(rule)).await;
    let host = hub.drive_procedures_with(Registry::empty().with::<Script>()).await.expect("it drives");
    let signal = |name: &str| ScriptStep::Signal(name.into());
    start(&hub, "p", &[signal("first"), signal("go"), ScriptStep::Write("w/".into(), 200)]).await;
    wait_for_phase(&hub, "p", "step 0").await;
    busy.store(true, Ordering::SeqCst);
    hub.signal_procedure("p", "first", ()).await.expect("sent");
    for _ in 0..39 {
        hub.signal_procedure("p", "noise", ()).await.expect("sent");
    }
    hub.signal_procedure("p", "go", ()).await.expect("sent");
    let mut published = hub.space().expect("embedded hub").follow();
    published.wait_for(|published| published.counts.leased == 41).await.expect("the hub is open");
    busy.store(false, Ordering::SeqCst);
    let log = super::log_of(&wait(&hub, "p").await);
    assert_eq!(log[1]["signal"], "go");
    assert_eq!(hub.memory().list("w/", None, 500).await.expect("a list").len(), 200);
    close(hub, host).await;
}

// Fails under: a guard that counts messages and writes of the procedure itself as progress.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i21_a_machine_that_only_receives_its_own_outputs_is_parked() {
    let directory = data_directory();
    let (hub, host) = open(&directory.path().join("hub")).await;
    for (id, step) in [("echo", ScriptStep::Echo), ("watch", ScriptStep::WatchOwn)] {
        start(&hub, id, &[step]).await;
        let reason = reason_of_stuck(&hub, id).await;
        assert!(reason.contains("no progress"), "{reason}");
    }
    close(hub, host).await;
}
