//! Keeping the write-ahead log short without making the writer wait.
//!
//! A thread of its own carries pages from the log into the database while the writer goes on. The log can start over
//! only when all of it was carried over, which under steady load never happens by itself; so when the thread is done,
//! the writer carries over the little that came meanwhile, between two batches, and its next commit starts the log anew.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, OpenFlags};

use crate::disk::Disk;
use crate::open::connect;

/// Bytes in the log from which on it is carried over, if nothing else is said. The last part of that makes the writer
/// wait for some milliseconds: more often would show in one answer of a hundred, and a longer log takes longer to read
/// after a crash.
pub(crate) const CARRY_OVER_BYTES: u64 = 64 * 1024 * 1024;
/// At so many times that length the writer waits until it is carried over: the bound, give or take a batch.
const WAIT_TIMES: u64 = 4;

/// How the writer and the checkpointer tell each other.
#[derive(Default)]
pub(crate) struct Bell {
    wanted: Mutex<Wanted>,
    rung: Condvar,
    /// The thread has carried over all that there was when it looked.
    done: AtomicBool,
}

#[derive(Default, PartialEq, Clone, Copy)]
enum Wanted {
    #[default]
    Nothing,
    Checkpoint,
    Stop,
}

impl Bell {
    fn ring(&self, wanted: Wanted) {
        let mut current = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != Wanted::Stop {
            *current = wanted;
        }
        self.rung.notify_all();
    }

    fn wait(&self) -> Wanted {
        let mut current = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        while *current == Wanted::Nothing {
            current = self.rung.wait(current).unwrap_or_else(PoisonError::into_inner);
        }
        let wanted = *current;
        if wanted == Wanted::Checkpoint {
            *current = Wanted::Nothing;
        }
        wanted
    }
}

/// The thread that carries pages over.
pub(crate) struct Checkpointer {
    bell: Arc<Bell>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    pub(crate) fn start(database: &Path, disk: &Disk) -> rusqlite::Result<Self> {
        let connection = connect(database, disk, OpenFlags::default())?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        let bell = Arc::new(Bell::default());
        let heard = Arc::clone(&bell);
        let run = move || {
            while heard.wait() == Wanted::Checkpoint {
                // A failure here is found by the writer: it tries the rest itself.
                let _ = carry_over(&connection);
                heard.done.store(true, Ordering::Release);
            }
        };
        let thread = thread::Builder::new().name("quorate-checkpoint".into()).spawn(run);
        Ok(Self { bell, thread: thread.expect("the system gives us a thread") })
    }

    pub(crate) fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }

    pub(crate) fn stop(self) {
        self.bell.ring(Wanted::Stop);
        // A panic of the thread was reported when it happened.
        let _ = self.thread.join();
    }
}

/// Carries over what it can without waiting for anybody; true if that was all.
fn carry_over(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
        let (busy, pages, carried): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(busy == 0 && pages == carried)
    })
}

/// The writer's side: how long the log is and what is being done about it.
pub(crate) struct Wal {
    disk: Arc<Disk>,
    bell: Arc<Bell>,
    /// Bytes from which on it is carried over.
    carry_over: u64,
    /// Bytes written to the log when it last started over.
    started_at: u64,
    running: bool,
}

impl Wal {
    pub(crate) fn new(disk: Arc<Disk>, bell: Arc<Bell>, carry_over: u64) -> Self {
        let started_at = disk.counters().wal.written_bytes;
        Self { disk, bell, carry_over, started_at, running: false }
    }

    /// Called between two batches.
    pub(crate) fn after_batch(&mut self, connection: &Connection) {
        let written = self.disk.counters().wal.written_bytes;
        let length = written - self.started_at;
        if !self.running && length >= self.carry_over {
            self.running = true;
            self.bell.done.store(false, Ordering::Release);
            self.bell.ring(Wanted::Checkpoint);
        }
        let finish = self.running && self.bell.done.load(Ordering::Acquire);
        if finish || length >= self.carry_over.saturating_mul(WAIT_TIMES) {
            // An error is not the end: the log is whole, only longer, and the next commit shows whether the disk works.
            match carry_over(connection) {
                Ok(true) => self.started_at = written,
                Ok(false) => {}
                Err(error) if finish => {
                    tracing::warn!(why = %error, "a checkpoint failed: the log grows until the next one")
                }
                Err(_) => {}
            }
            self.running = self.running && !finish;
        }
    }
}
