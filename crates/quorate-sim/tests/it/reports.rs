//! What is reported by `tracing` when something fails in the background, where no caller gets an error. Each test has a
//! subscriber for its own thread, so it runs on one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate::{ProcedureDraft, ProcedureStatus};
use quorate_core::{Code, Commit, Op, Refused, Timestamp};
use quorate_server::{Journal, Level, Style};
use quorate_sim::data_directory;
use quorate_sim::gate::TurnedAway;
use quorate_sqlite::{FileKind, Repeat};
use quorate_store::{SetClock, StoreError};
use tracing::subscriber::DefaultGuard;

use crate::deliberation::stage::{Cast, gated, spec};
use crate::disk::{hub, hub_with_a_lease, make, send, until_returned};

/// How long to wait for what is due at once: a guard against hanging, nothing depends on it.
const GUARD: Duration = Duration::from_secs(60);

/// The lines that are reported on this thread while the guard is held.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn capture() -> (Self, DefaultGuard) {
        let lines = Self::default();
        let out = lines.clone();
        let out = Arc::new(move |line: &str| out.0.lock().unwrap().push(line.to_owned()));
        let journal = Journal::new(Level::Debug, Style::Json, || Timestamp(0), out);
        (lines, tracing::subscriber::set_default(journal))
    }

    fn count(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }
}

// Fails under: a writer that stops without an event; one that reports to the process instead of to whoever opened it.
#[tokio::test]
async fn i22_a_failure_of_the_storage_is_reported_by_the_writer() {
    let (lines, _guard) = Lines::capture();
    let hub = hub().await;
    assert_eq!(lines.count("the storage failed"), 0);
    hub.disk.faults().fail_sync(Some(FileKind::Wal), 1, Repeat::Once);
    make(&hub.space, &send("one", 10)).await.expect_err("it failed");
    assert_eq!(lines.count("the storage failed"), 1, "{:?}", lines.0);
}

// Fails under: a sweep that fails in silence; a line for each of its tries.
#[tokio::test]
async fn i22_a_sweep_that_fails_is_reported_once() {
    let (lines, _guard) = Lines::capture();
    let clock = SetClock::at(1_800_000_000_000);
    let hub = hub_with_a_lease(&clock).await;
    hub.disk.faults().fail_writes_full(0);
    clock.advance(Duration::from_millis(1001));
    let tried = async {
        while lines.count("sweep failed, retrying") == 0 {
            clock.advance(Duration::from_millis(101));
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(GUARD, tried).await.expect("it is reported");
    hub.disk.faults().free_space();
    until_returned(&hub.space, &clock).await;
    assert_eq!(lines.count("sweep failed, retrying"), 1, "{:?}", lines.0);
}

// Fails under: a deliberation that is retried or given up in silence; an event that quotes what was refused.
#[tokio::test]
async fn i18_a_deliberation_that_is_given_up_is_reported_by_its_code_alone() {
    let (lines, _guard) = Lines::capture();
    let directory = data_directory();
    let steps = Mutex::new(0);
    let judge = move |commit: &Commit, _| {
        if !matches!(commit.ops.last(), Some(Op::StepProcedure(_))) {
            return None;
        }
        let mut steps = steps.lock().unwrap();
        *steps += 1;
        match *steps {
            1 => Some(TurnedAway::Failed(StoreError::Busy)),
            2 => Some(TurnedAway::Refused(Refused::new(Code::SecretDetected, "it holds hunter2"))),
            _ => None,
        }
    };
    let hub = gated(&directory.path().join("hub"), Box::new(judge)).await;
    let driver = hub.drive_deliberations().await.unwrap();
    hub.start_procedure(ProcedureDraft::deliberation(&spec(Cast::Three)).id("p")).await.unwrap();
    let mut follow = hub.space().unwrap().follow();
    let failed = async {
        loop {
            follow.borrow_and_update();
            if hub.procedure("p").await.unwrap().procedure().status == ProcedureStatus::Failed {
                return;
            }
            follow.changed().await.unwrap();
        }
    };
    tokio::time::timeout(GUARD, failed).await.expect("it is given up");
    driver.stop().await;
    hub.close().await;
    assert_eq!(lines.count("failed and is retried"), 1, "{:?}", lines.0);
    assert_eq!(lines.count("\"procedure\":\"p\",\"code\":\"SECRET_DETECTED\""), 1, "{:?}", lines.0);
    assert_eq!(lines.count("hunter2"), 0, "{:?}", lines.0);
}
