//! Reader threads. SQLite calls block, so they must not run on the async threads of the callers.
//!
//! Reads are dispatched to lanes with their own threads, so that a short read never waits behind a long one. Each lane
//! has a bounded queue per space and serves the spaces round-robin, so that no space waits behind the backlog of another.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use quorate_core::SpaceNo;
use quorate_store::StoreError;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use crate::disk::Disk;
use crate::lookup::error_text;
use crate::sqlite_store::connect;

/// Maximum number of queued reads per space and lane.
const WAITING_MAX: usize = 4096;

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// Group of reader threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    /// Single rows and records, by key.
    Point,
    /// Lists, scans and ranges of records.
    Bulk,
    /// Backups, whose duration depends on the size of the database.
    Backup,
}

impl Lane {
    const ALL: [Self; 3] = [Self::Point, Self::Bulk, Self::Backup];

    const fn threads(self) -> usize {
        match self {
            Self::Point => 2,
            Self::Bulk | Self::Backup => 1,
        }
    }
}

/// Error of a read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Damaged(StoreError),
    #[error(transparent)]
    Unreadable(#[from] quorate_core::codec::DecodeError),
    #[error("{0}")]
    Other(String),
}

pub(crate) struct Readers {
    lanes: [Arc<LaneQueue>; Lane::ALL.len()],
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    pub(crate) fn start(database: &Path, disk: &Disk) -> rusqlite::Result<Self> {
        let lanes = Lane::ALL.map(|_| Arc::<LaneQueue>::default());
        let mut threads = Vec::new();
        for lane in Lane::ALL {
            for _ in 0..lane.threads() {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let connection = connect(database, disk, flags)?;
                let queue = Arc::clone(&lanes[lane as usize]);
                let run = move || serve(&connection, &queue);
                let thread = thread::Builder::new().name("quorate-reader".into()).spawn(run);
                threads.push(thread.expect("failed to spawn a reader thread"));
            }
        }
        Ok(Self { lanes, threads: Mutex::new(threads) })
    }

    /// Runs a read of a space on a thread of its lane.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        space: SpaceNo,
        read: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // Skip the read if the caller no longer waits.
            if sender.is_closed() {
                return;
            }
            let result = read(connection).map_err(|error| match error {
                ReadError::Damaged(error) => error,
                error => StoreError::Read(error_text(&error)),
            });
            let _ = sender.send(result);
        });
        let queued = self.lanes[lane as usize].push(space, job);
        async move {
            queued?;
            receiver.await.unwrap_or(Err(StoreError::Closed))
        }
    }

    /// Rejects further reads and waits until the queued ones are done.
    pub(crate) fn stop(&self) {
        self.lanes.iter().for_each(|lane| lane.close());
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The panic hook has already reported a panic of a reader.
            let _ = thread.join();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // The threads end on their own; they are not joined here.
        self.lanes.iter().for_each(|lane| lane.close());
    }
}

/// Queue of a lane.
#[derive(Default)]
struct LaneQueue {
    state: Mutex<LaneState>,
    filled: Condvar,
}

#[derive(Default)]
struct LaneState {
    spaces: BTreeMap<SpaceNo, VecDeque<Job>>,
    /// Round-robin position: the next read is of this space, or of the first one after it.
    next_space: SpaceNo,
    closed: bool,
}

impl LaneQueue {
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, space: SpaceNo, job: Job) -> Result<(), StoreError> {
        let mut state = self.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        let jobs = state.spaces.entry(space).or_default();
        if jobs.len() >= WAITING_MAX {
            return Err(StoreError::Busy);
        }
        jobs.push_back(job);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Takes the next read; blocks until there is one. `None` once the queue is closed and empty.
    fn take(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.next() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }
}

impl LaneState {
    /// Takes the oldest read of the next space.
    fn next(&mut self) -> Option<Job> {
        let next = self.spaces.range(self.next_space..).next().or_else(|| self.spaces.iter().next());
        let space = next.map(|(space, _)| *space)?;
        let jobs = self.spaces.get_mut(&space)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.spaces.remove(&space);
        }
        self.next_space = SpaceNo(space.0.wrapping_add(1));
        job
    }
}

fn serve(connection: &Connection, queue: &LaneQueue) {
    while let Some(job) = queue.take() {
        // A panic is a bug and was reported by the panic hook; it fails one read and keeps the thread.
        drop(catch_unwind(AssertUnwindSafe(|| job(connection))));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use quorate_core::SpaceNo;
    use tempfile::TempDir;

    use super::{Lane, ReadError, Readers, WAITING_MAX};
    use crate::disk::Disk;
    use crate::sqlite_store::connect;
    use quorate_store::StoreError;
    use rusqlite::OpenFlags;

    const BUSY: SpaceNo = SpaceNo(1);
    const OTHER: SpaceNo = SpaceNo(2);

    fn readers() -> (Readers, TempDir) {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, disk) = (directory.path().join("test.db"), Disk::new());
        let connection = connect(&path, &disk, OpenFlags::default()).expect("a database");
        connection.execute_batch("CREATE TABLE test (id INTEGER)").expect("a table");
        (Readers::start(&path, &disk).expect("readers"), directory)
    }

    /// Blocks a thread of a lane until the sender is dropped.
    fn block(readers: &Readers, lane: Lane) -> mpsc::Sender<()> {
        let (release, blocked) = mpsc::channel();
        let (started_sender, started) = mpsc::channel();
        let read = readers.run(lane, BUSY, move |_| {
            let _ = started_sender.send(());
            let _ = blocked.recv();
            Ok::<_, ReadError>(())
        });
        // The read is skipped if its caller no longer waits.
        tokio::spawn(read);
        started.recv().expect("it runs");
        release
    }

    #[tokio::test]
    async fn i16_a_lane_serves_spaces_round_robin() {
        let (readers, _directory) = readers();
        let release = block(&readers, Lane::Bulk);
        let (log, done) = mpsc::channel();
        let read = |space: SpaceNo| {
            let log = log.clone();
            readers.run(Lane::Bulk, space, move |_| {
                let _ = log.send(space);
                Ok::<_, ReadError>(())
            })
        };
        let busy: Vec<_> = (0..50).map(|_| read(BUSY)).collect();
        let other = read(OTHER);
        drop(release);
        other.await.expect("the read succeeds");
        for read in busy {
            read.await.expect("the read succeeds");
        }
        assert!(done.try_iter().take(2).any(|space| space == OTHER), "it waited for more than one read");
    }

    #[tokio::test]
    async fn i16_a_short_read_does_not_wait_behind_a_long_one() {
        let (readers, _directory) = readers();
        let _release = [block(&readers, Lane::Bulk), block(&readers, Lane::Backup)];
        let read = readers.run(Lane::Point, BUSY, |connection| {
            Ok(connection.query_row("SELECT count(*) FROM test", [], |row| row.get::<_, u64>(0))?)
        });
        assert_eq!(read.await.expect("the read succeeds"), 0);
    }

    #[tokio::test]
    async fn i21_the_backlog_of_a_space_is_bounded_and_does_not_affect_others() {
        let (readers, _directory) = readers();
        let release = block(&readers, Lane::Bulk);
        let read = |space| readers.run(Lane::Bulk, space, |_| Ok::<_, ReadError>(()));
        let waiting: Vec<_> = (0..WAITING_MAX).map(|_| read(BUSY)).collect();
        assert!(matches!(read(BUSY).await, Err(StoreError::Busy)));
        let other = read(OTHER);
        drop((release, waiting));
        other.await.expect("the queue of another space has capacity");
    }
}
