//! `tracing` events of background failures, for which no caller gets an error. Each test runs on a single thread,
//! because its subscriber is thread-local.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate::{ProcedureDraft, ProcedureStatus};
use quorate_core::{Code, Commit, Op, Refused, Timestamp};
use quorate_server::{Journal, JournalFormat, JournalLevel};
use quorate_sim::data_directory;
use quorate_sim::fault_store::InjectedFault;
use quorate_sqlite::{FileKind, Repeat};
use quorate_store::{ManualClock, StoreError};
use tracing::subscriber::DefaultGuard;

use crate::deliberation::fixture::{AgentSet, hub_with_faults, spec};
use crate::disk_faults::{hub_with_lease, message_call, open_hub, send_call, wait_until_unleased};

/// Upper bound on waits that normally end immediately. It only prevents a hanging test.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Journal lines captured on this thread while the guard is alive.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn capture() -> (Self, DefaultGuard) {
        let lines = Self::default();
        let out = lines.clone();
        let out = Arc::new(move |line: &str| out.0.lock().unwrap().push(line.to_owned()));
        let journal = Journal::new(JournalLevel::Debug, JournalFormat::Json, || Timestamp(0), out);
        (lines, tracing::subscriber::set_default(journal))
    }

    fn count(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }
}

// Fails under: a writer that stops without an event; one that uses the process-wide subscriber instead of the opener's.
#[tokio::test]
async fn i22_the_writer_reports_a_storage_failure() {
    let (lines, _guard) = Lines::capture();
    let hub = open_hub().await;
    assert_eq!(lines.count("storage failed: no commit is acknowledged"), 0);
    hub.disk.faults().fail_sync(Some(FileKind::Wal), 1, Repeat::Once);
    send_call(&hub.space, &message_call("one", 10)).await.expect_err("sync failed");
    assert_eq!(lines.count("storage failed: no commit is acknowledged"), 1, "{:?}", lines.0);
}

// Fails under: a sweep that fails silently; an event per retry.
#[tokio::test]
async fn i22_a_failing_sweep_is_reported_once() {
    let (lines, _guard) = Lines::capture();
    let clock = ManualClock::at(1_800_000_000_000);
    let hub = hub_with_lease(&clock).await;
    hub.disk.faults().limit_free_space(0);
    clock.advance(Duration::from_millis(1001));
    let reported = async {
        while lines.count("sweep failed, retrying") == 0 {
            clock.advance(Duration::from_millis(101));
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_MAX, reported).await.expect("failure is reported");
    hub.disk.faults().lift_space_limit();
    wait_until_unleased(&hub.space, &clock).await;
    assert_eq!(lines.count("sweep failed, retrying"), 1, "{:?}", lines.0);
}

// Fails under: a deliberation that is retried or abandoned silently; an event that contains the refused content.
#[tokio::test]
async fn i18_an_abandoned_deliberation_is_reported_with_its_code_only() {
    let (lines, _guard) = Lines::capture();
    let directory = data_directory();
    let steps = Mutex::new(0);
    let rule = move |commit: &Commit, _| {
        if !matches!(commit.ops.last(), Some(Op::StepProcedure(_))) {
            return None;
        }
        let mut steps = steps.lock().unwrap();
        *steps += 1;
        match *steps {
            1 => Some(InjectedFault::Failed(StoreError::Busy)),
            2 => Some(InjectedFault::Refused(Refused::new(Code::SecretDetected, "it holds hunter2"))),
            _ => None,
        }
    };
    let hub = hub_with_faults(&directory.path().join("hub"), Box::new(rule)).await;
    let driver = hub.drive_procedures().await.unwrap();
    hub.start_procedure(ProcedureDraft::deliberation(&spec(AgentSet::Three)).id("p")).await.unwrap();
    let mut published = hub.space().unwrap().follow();
    let failed = async {
        loop {
            published.borrow_and_update();
            if hub.procedure("p").await.unwrap().procedure().status == ProcedureStatus::Failed {
                return;
            }
            published.changed().await.unwrap();
        }
    };
    tokio::time::timeout(WAIT_MAX, failed).await.expect("deliberation fails");
    driver.stop().await;
    hub.close().await;
    assert_eq!(lines.count("step failed; retrying"), 1, "{:?}", lines.0);
    assert_eq!(lines.count("\"procedure\":\"p\",\"code\":\"SECRET_DETECTED\""), 1, "{:?}", lines.0);
    assert_eq!(lines.count("hunter2"), 0, "{:?}", lines.0);
}
