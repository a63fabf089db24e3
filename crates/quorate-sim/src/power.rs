//! Power cuts: a hub runs a workload, the power fails during one disk operation, and the data that the disk could hold
//! at that moment is written to a new directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use quorate_sqlite::{Disk, Options, Sabotage, UnsyncedData};

use crate::check::{CheckStats, InvariantViolation};
use crate::history::{Event, unresolved_calls};
use crate::load::{self, Load};
use crate::recovery::{self, opened_event, recorder, take_events};

/// Parameters of one power cut.
#[derive(Clone, Copy, Debug)]
pub struct PowerCut {
    /// Disk operation during which the power fails.
    pub at_op: u64,
    /// What happens to the unsynced data.
    pub unsynced: UnsyncedData,
    /// Seed that selects which unsynced data survives.
    pub seed: u64,
    /// Number of times the hub is started, loaded and closed cleanly.
    pub starts: u64,
    /// Workload of each start.
    pub load: Load,
    /// Deliberate bug that the checks must find.
    pub sabotage: Option<Sabotage>,
    /// Size of the write-ahead log that triggers a checkpoint.
    pub checkpoint_bytes: u64,
}

/// Larger than any write-ahead log in these tests: the only checkpoint is the one at close.
pub const NO_CHECKPOINT: u64 = 1 << 30;

/// Outcome of a power cut.
#[derive(Debug)]
pub struct PowerCutOutcome {
    /// Whether the power failed before the workload finished.
    pub interrupted: bool,
    /// Total number of disk operations.
    pub ops: u64,
    /// Bytes written to the database file; a large number means that a checkpoint ran.
    pub checkpointed_bytes: u64,
    /// Result of the checks.
    pub result: Result<CheckStats, Vec<InvariantViolation>>,
}

impl PowerCut {
    /// Runs the workload, cuts the power, and checks the remaining data.
    ///
    /// # Panics
    /// If the disk image cannot be written.
    pub async fn run(&self, directory: &Path) -> PowerCutOutcome {
        let disk = Disk::new();
        disk.faults().track();
        disk.faults().cut_power_at(self.at_op);
        let history = self.work(&disk, &directory.join("data")).await;
        let interrupted = disk.faults().is_power_cut();
        // If the workload finished first, the power fails while the disk is idle.
        disk.faults().cut_power();
        let image: PathBuf = directory.join("image");
        disk.faults().image(self.seed, &image, self.unsynced).expect("image is written");
        let ops = disk.faults().ops();
        let checkpointed_bytes = disk.counters().database.written_bytes;
        drop(disk);
        PowerCutOutcome {
            interrupted,
            ops,
            checkpointed_bytes,
            result: recovery::check(&image, history).await,
        }
    }

    /// Runs the workload until the power fails or all starts are done.
    async fn work(&self, disk: &Arc<Disk>, directory: &Path) -> Vec<Event> {
        let mut history = Vec::new();
        if self.sabotage.is_some()
            && let Ok(space) =
                recovery::open(directory, Options { disk: Some(Arc::clone(disk)), ..Options::default() })
                    .await
        {
            // Create the space without the bug, which could already break this step; the test is about the workload.
            space.engine().close().await;
        }
        for start in 0..self.starts {
            let options = Options {
                disk: Some(Arc::clone(disk)),
                sabotage: self.sabotage,
                checkpoint_bytes: self.checkpoint_bytes,
                // Small, so that the power also fails during a flush of the memtable, but large enough to leave rows
                // in it.
                flush_rows: 50,
                // Short, so that the witness is written many times, and always states nearly everything.
                witness_delay: Duration::from_millis(1),
            };
            // Without power the hub does not open, and that start has acknowledged nothing.
            let Ok(space) = recovery::open(directory, options).await else { break };
            let (record, events) = recorder();
            record(opened_event(&space));
            load::repeat_calls(&space, unresolved_calls(&history), &record).await;
            load::run(&space, Load { run: start, ..self.load }, &record).await;
            space.engine().close().await;
            history.extend(take_events(&events));
        }
        history
    }
}
