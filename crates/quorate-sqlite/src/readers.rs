//! Threads that read. SQLite blocks, so it is kept off the callers' threads; the queue is bounded.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use quorate_store::StoreError;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use crate::disk::Disk;
use crate::lookup::in_words;
use crate::open::connect;

const THREADS: usize = 2;
const WAITING_MAX: usize = 4096;

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// A read that could not be answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Damaged(StoreError),
    #[error(transparent)]
    Unreadable(#[from] quorate_core::codec::Unreadable),
    #[error("{0}")]
    Other(String),
}

pub(crate) struct Readers {
    jobs: Mutex<Option<SyncSender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    pub(crate) fn start(database: &Path, disk: &Disk) -> rusqlite::Result<Self> {
        let (sender, receiver) = sync_channel::<Job>(WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = connect(database, disk, flags)?;
            let receiver = Arc::clone(&receiver);
            let run = move || work(&connection, &receiver);
            let thread = thread::Builder::new().name("quorate-reader".into()).spawn(run);
            threads.push(thread.expect("the system gives us a thread"));
        }
        Ok(Self { jobs: Mutex::new(Some(sender)), threads: Mutex::new(threads) })
    }

    /// Runs a read on one of the threads.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let (answer, told) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let found = read(connection).map_err(|error| match error {
                ReadError::Damaged(error) => error,
                error => StoreError::Read(in_words(&error)),
            });
            // Whoever asked may have gone.
            let _ = answer.send(found);
        });
        let sent = match &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(jobs) => jobs.try_send(job).map_err(|error| match error {
                TrySendError::Full(_) => StoreError::Busy,
                TrySendError::Disconnected(_) => StoreError::Closed,
            }),
            None => Err(StoreError::Closed),
        };
        async move {
            sent?;
            told.await.unwrap_or(Err(StoreError::Closed))
        }
    }

    pub(crate) fn stop(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A panic of a reader was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn work(connection: &Connection, jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            // A panic is a bug and was reported when it happened; it costs one answer, not the thread.
            Ok(job) => drop(catch_unwind(AssertUnwindSafe(|| job(connection)))),
            Err(_) => return,
        }
    }
}
