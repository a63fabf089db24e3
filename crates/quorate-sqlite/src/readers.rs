//! Threads that read. SQLite blocks, so it is kept off the callers' threads.
//!
//! Reads go through lanes with threads of their own, so that a short read never waits behind a long one. Each lane has a
//! bounded queue for every space and serves the spaces in turn, so that no space waits behind the backlog of another.

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
use crate::lookup::in_words;
use crate::open::connect;

/// Reads of one space that may wait in one lane.
const WAITING_MAX: usize = 4096;

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// Which threads serve a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    /// Rows and records by their keys.
    Point,
    /// Lists, scans, and records in order.
    Bulk,
    /// The copy that a backup makes, which takes as long as the database is large.
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
    lanes: [Arc<Queue>; Lane::ALL.len()],
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    pub(crate) fn start(database: &Path, disk: &Disk) -> rusqlite::Result<Self> {
        let lanes = Lane::ALL.map(|_| Arc::<Queue>::default());
        let mut threads = Vec::new();
        for lane in Lane::ALL {
            for _ in 0..lane.threads() {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let connection = connect(database, disk, flags)?;
                let queue = Arc::clone(&lanes[lane as usize]);
                let run = move || work(&connection, &queue);
                let thread = thread::Builder::new().name("quorate-reader".into()).spawn(run);
                threads.push(thread.expect("the system gives us a thread"));
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
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // The caller may have gone while the read waited, or while it ran.
            if answer.is_closed() {
                return;
            }
            let found = read(connection).map_err(|error| match error {
                ReadError::Damaged(error) => error,
                error => StoreError::Read(in_words(&error)),
            });
            let _ = answer.send(found);
        });
        let queued = self.lanes[lane as usize].push(space, job);
        async move {
            queued?;
            answered.await.unwrap_or(Err(StoreError::Closed))
        }
    }

    /// Lets nothing more in, and returns when what waits is read.
    pub(crate) fn stop(&self) {
        self.lanes.iter().for_each(|lane| lane.close());
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A panic of a reader was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // The threads end; nobody waits for them here.
        self.lanes.iter().for_each(|lane| lane.close());
    }
}

/// What waits in a lane.
#[derive(Default)]
struct Queue {
    state: Mutex<Waiting>,
    filled: Condvar,
}

#[derive(Default)]
struct Waiting {
    spaces: BTreeMap<SpaceNo, VecDeque<Job>>,
    /// The space that is served next, or the first one after it.
    turn: SpaceNo,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, space: SpaceNo, job: Job) -> Result<(), StoreError> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        let jobs = waiting.spaces.entry(space).or_default();
        if jobs.len() >= WAITING_MAX {
            return Err(StoreError::Busy);
        }
        jobs.push_back(job);
        drop(waiting);
        self.filled.notify_one();
        Ok(())
    }

    /// The next read; waits for it. `None` once closed and empty.
    fn take(&self) -> Option<Job> {
        let mut waiting = self.lock();
        loop {
            if let Some(job) = waiting.next() {
                return Some(job);
            }
            if waiting.closed {
                return None;
            }
            waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }
}

impl Waiting {
    /// The oldest read of the space whose turn it is.
    fn next(&mut self) -> Option<Job> {
        let next = self.spaces.range(self.turn..).next().or_else(|| self.spaces.iter().next());
        let space = next.map(|(space, _)| *space)?;
        let jobs = self.spaces.get_mut(&space)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.spaces.remove(&space);
        }
        self.turn = SpaceNo(space.0.wrapping_add(1));
        job
    }
}

fn work(connection: &Connection, queue: &Queue) {
    while let Some(job) = queue.take() {
        // A panic is a bug and was reported when it happened; it costs one answer, not the thread.
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
    use crate::open::connect;
    use quorate_store::StoreError;
    use rusqlite::OpenFlags;

    const BUSY: SpaceNo = SpaceNo(1);
    const OTHER: SpaceNo = SpaceNo(2);

    fn readers() -> (Readers, TempDir) {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, disk) = (directory.path().join("test.db"), Disk::new());
        let made = connect(&path, &disk, OpenFlags::default()).expect("a database");
        made.execute_batch("CREATE TABLE one (id INTEGER)").expect("a table");
        (Readers::start(&path, &disk).expect("readers"), directory)
    }

    /// Keeps the thread of a lane busy until the sender is dropped.
    fn block(readers: &Readers, lane: Lane) -> mpsc::Sender<()> {
        let (release, blocked) = mpsc::channel();
        let (started, begun) = mpsc::channel();
        let reading = readers.run(lane, BUSY, move |_| {
            let _ = started.send(());
            let _ = blocked.recv();
            Ok::<_, ReadError>(())
        });
        // A read whose caller has gone is not begun.
        tokio::spawn(reading);
        begun.recv().expect("it runs");
        release
    }

    #[tokio::test]
    async fn i16_a_lane_serves_spaces_in_turn() {
        let (readers, _directory) = readers();
        let release = block(&readers, Lane::Bulk);
        let (log, done) = mpsc::channel();
        let note = |space: SpaceNo| {
            let log = log.clone();
            readers.run(Lane::Bulk, space, move |_| {
                let _ = log.send(space);
                Ok::<_, ReadError>(())
            })
        };
        let busy: Vec<_> = (0..50).map(|_| note(BUSY)).collect();
        let other = note(OTHER);
        drop(release);
        other.await.expect("it is read");
        for reading in busy {
            reading.await.expect("it is read");
        }
        assert!(done.try_iter().take(2).any(|space| space == OTHER), "it waited for one read at most");
    }

    #[tokio::test]
    async fn i16_a_short_read_does_not_wait_behind_a_long_one() {
        let (readers, _directory) = readers();
        let _release = [block(&readers, Lane::Bulk), block(&readers, Lane::Backup)];
        let one = readers.run(Lane::Point, BUSY, |connection| {
            Ok(connection.query_row("SELECT count(*) FROM one", [], |row| row.get::<_, u64>(0))?)
        });
        assert_eq!(one.await.expect("it is read"), 0);
    }

    #[tokio::test]
    async fn i21_the_backlog_of_a_space_is_bounded_and_costs_no_other_space() {
        let (readers, _directory) = readers();
        let release = block(&readers, Lane::Bulk);
        let read = |space| readers.run(Lane::Bulk, space, |_| Ok::<_, ReadError>(()));
        let waiting: Vec<_> = (0..WAITING_MAX).map(|_| read(BUSY)).collect();
        assert!(matches!(read(BUSY).await, Err(StoreError::Busy)));
        let other = read(OTHER);
        drop((release, waiting));
        other.await.expect("there is room for another space");
    }
}
