//! Keeps the write-ahead log short without blocking the writer for long.
//!
//! A background thread checkpoints the log into the database while the writer continues. SQLite can restart the log only
//! when all of it is checkpointed, which never happens under steady load. So when the thread is done, the writer
//! checkpoints the few remaining frames between two batches, and its next commit restarts the log.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, OpenFlags};

use crate::disk::Disk;
use crate::sqlite_store::connect;

/// Default size of the log that triggers a checkpoint. Its last step blocks the writer for some milliseconds: smaller
/// values would show in the p99 latency, larger ones make recovery after a crash slower.
pub(crate) const CHECKPOINT_BYTES: u64 = 64 * 1024 * 1024;
/// At this multiple of the size, the writer checkpoints the log itself, which bounds its size (plus one batch).
const BLOCKING_MULTIPLE: u64 = 4;

/// Signals between the writer and the checkpoint thread.
#[derive(Default)]
pub(crate) struct CheckpointSignal {
    request: Mutex<CheckpointRequest>,
    sent: Condvar,
    /// Whether the thread has finished the requested checkpoint.
    done: AtomicBool,
}

#[derive(Default, PartialEq, Clone, Copy)]
enum CheckpointRequest {
    #[default]
    Nothing,
    Checkpoint,
    Stop,
}

impl CheckpointSignal {
    fn send(&self, request: CheckpointRequest) {
        let mut current = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != CheckpointRequest::Stop {
            *current = request;
        }
        self.sent.notify_all();
    }

    fn wait(&self) -> CheckpointRequest {
        let mut current = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        while *current == CheckpointRequest::Nothing {
            current = self.sent.wait(current).unwrap_or_else(PoisonError::into_inner);
        }
        let request = *current;
        if request == CheckpointRequest::Checkpoint {
            *current = CheckpointRequest::Nothing;
        }
        request
    }
}

/// Checkpoint thread.
pub(crate) struct Checkpointer {
    signal: Arc<CheckpointSignal>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    pub(crate) fn start(database: &Path, disk: &Disk) -> rusqlite::Result<Self> {
        let connection = connect(database, disk, OpenFlags::default())?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        let signal = Arc::new(CheckpointSignal::default());
        let thread_signal = Arc::clone(&signal);
        let run = move || {
            while thread_signal.wait() == CheckpointRequest::Checkpoint {
                // An error is ignored: the writer checkpoints the rest itself and reports a failure.
                let _ = checkpoint_passive(&connection);
                thread_signal.done.store(true, Ordering::Release);
            }
        };
        let thread = thread::Builder::new().name("quorate-checkpoint".into()).spawn(run);
        Ok(Self { signal, thread: thread.expect("failed to spawn the checkpoint thread") })
    }

    pub(crate) fn signal(&self) -> Arc<CheckpointSignal> {
        Arc::clone(&self.signal)
    }

    pub(crate) fn stop(self) {
        self.signal.send(CheckpointRequest::Stop);
        // The panic hook has already reported a panic of the thread.
        let _ = self.thread.join();
    }
}

/// Checkpoints as many frames as possible without waiting for readers or the writer. Returns whether that was all.
fn checkpoint_passive(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let (busy, pages, checkpointed): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(busy == 0 && pages == checkpointed)
    })
}

/// Checkpoints and truncates a log that a crash left behind, if it has reached the size that triggers a checkpoint.
/// Called before the hub is ready: on the writer it would delay the first commits. Returns the bytes that remain.
pub(crate) fn checkpoint_leftover(
    connection: &Connection,
    wal: &Path,
    checkpoint_bytes: u64,
) -> rusqlite::Result<u64> {
    let length = || fs::metadata(wal).map_or(0, |file| file.len());
    if length() >= checkpoint_bytes {
        // No other connection is open, so this cannot be blocked by a reader.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    Ok(length())
}

/// Writer's view of the write-ahead log: tracks its size and requests checkpoints.
pub(crate) struct WalMonitor {
    disk: Arc<Disk>,
    signal: Arc<CheckpointSignal>,
    /// Size of the log that triggers a checkpoint, in bytes.
    checkpoint_bytes: u64,
    /// Total bytes written to the log when it was last restarted.
    started_at: u64,
    /// Size of the log at start. It counts until the first complete checkpoint: otherwise the log would grow with every
    /// crash.
    leftover: u64,
    running: bool,
}

impl WalMonitor {
    pub(crate) fn new(
        disk: Arc<Disk>,
        signal: Arc<CheckpointSignal>,
        checkpoint_bytes: u64,
        leftover: u64,
    ) -> Self {
        let started_at = disk.counters().wal.written_bytes;
        Self { disk, signal, checkpoint_bytes, started_at, leftover, running: false }
    }

    /// Requests or finishes a checkpoint if needed. Called between two batches.
    pub(crate) fn after_batch(&mut self, connection: &Connection) {
        let written = self.disk.counters().wal.written_bytes;
        let length = self.leftover + written - self.started_at;
        if !self.running && length >= self.checkpoint_bytes {
            self.running = true;
            self.signal.done.store(false, Ordering::Release);
            self.signal.send(CheckpointRequest::Checkpoint);
        }
        let finish = self.running && self.signal.done.load(Ordering::Acquire);
        if finish || length >= self.checkpoint_bytes.saturating_mul(BLOCKING_MULTIPLE) {
            // An error is not fatal: the log is intact, only longer. If the disk fails, the next commit fails too.
            match checkpoint_passive(connection) {
                Ok(true) => (self.started_at, self.leftover) = (written, 0),
                Ok(false) => {}
                Err(error) if finish => {
                    tracing::warn!(error = %error, "checkpoint failed: the WAL grows until the next one succeeds")
                }
                Err(_) => {}
            }
            self.running = self.running && !finish;
        }
    }
}
