//! Opening a data directory, and the handle that callers hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quorate_core::{Commit, Record, Seq, SpaceName, SpaceNo};
use quorate_store::{
    BoxFuture, Figures, Outcome, Position, Published, Read, Rows, SpaceInfo, Store, StoreError, Wiring,
};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{oneshot, watch};

use crate::carry::TAIL_ROWS;
use crate::checkpoint::{CARRY_OVER_BYTES, Checkpointer, Wal};
use crate::directory::{Directory, OpenError};
use crate::disk::{Counters, Disk};
use crate::holds::Holds;
use crate::load::{self, LoadError, Loaded};
use crate::plan::Planner;
use crate::queue::{Job, Patience, Queue};
use crate::readers::{Lane, Readers};
use crate::tail::Tails;
use crate::writer::Writer;
use crate::{backup, read, schema};

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The disk to use; a new one counts for this store alone.
    pub disk: Option<Arc<Disk>>,
    /// The length of the write-ahead log from which on it is carried over into the database. It gets four times as
    /// long at most, give or take a batch.
    pub carry_over_bytes: u64,
    /// Rows that wait in memory before they are written to their tables: after a crash they are folded from the log. With
    /// the highest number there is they are never written, not even on closing.
    pub tail_rows: usize,
    /// A deliberate bug, to see that a test finds it.
    #[cfg(feature = "sabotage")]
    pub sabotage: Option<crate::Sabotage>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            disk: None,
            carry_over_bytes: CARRY_OVER_BYTES,
            tail_rows: TAIL_ROWS,
            #[cfg(feature = "sabotage")]
            sabotage: None,
        }
    }
}

/// What is published of each space.
type Spaces = BTreeMap<SpaceNo, (SpaceInfo, watch::Sender<Arc<Published>>)>;

/// What the writer and the callers share.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) tails: Tails,
    pub(crate) done: Done,
    spaces: Mutex<Spaces>,
    failure: watch::Sender<Option<StoreError>>,
    #[cfg(feature = "sabotage")]
    pub(crate) sabotage: Option<crate::Sabotage>,
}

impl Shared {
    pub(crate) fn lock_spaces(&self) -> MutexGuard<'_, Spaces> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn published(&self, space: SpaceNo) -> Option<watch::Receiver<Arc<Published>>> {
        self.lock_spaces().get(&space).map(|(_, sender)| sender.subscribe())
    }

    /// The storage failed: from here on everything is answered with that.
    pub(crate) fn fail(&self, error: StoreError) {
        tracing::error!(why = %error, "the storage failed: nothing is acknowledged until a restart");
        self.failure.send_replace(Some(error.clone()));
        self.queue.close();
        while let Some(jobs) = self.queue.take(&mut Patience::default()) {
            for job in jobs {
                match job {
                    Job::Transact { answer, .. } => drop(answer.send(Err(error.clone()))),
                    Job::Space { answer, .. } => drop(answer.send(Err(error.clone()))),
                }
            }
        }
    }

    fn failed(&self) -> Option<StoreError> {
        self.failure.borrow().clone()
    }
}

/// What the writer has done so far: two additions a batch.
#[derive(Default)]
pub(crate) struct Done {
    commits: AtomicU64,
    batches: AtomicU64,
    holds: Holds,
    work_max: AtomicU64,
}

impl Done {
    /// A batch carried so many commits, which cost so many units.
    pub(crate) fn worked(&self, commits: u64, units: u64) {
        self.commits.fetch_add(commits, Ordering::Relaxed);
        self.work_max.fetch_max(units, Ordering::Relaxed);
    }

    /// A batch held the writer for so long.
    pub(crate) fn held(&self, time: Duration) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.holds.add(time);
    }
}

/// The store on SQLite. Dropping it waits until the writer has written what is queued.
pub struct SqliteStore {
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    disk: Arc<Disk>,
    /// The write-ahead log.
    wal: PathBuf,
    threads: Mutex<Option<Threads>>,
}

struct Threads {
    writer: JoinHandle<()>,
    checkpointer: Checkpointer,
}

impl SqliteStore {
    /// Opens a data directory; makes it if there is none.
    ///
    /// # Errors
    /// When it is in use, not ours, newer, damaged, or cannot be written. Nothing is changed then.
    pub fn open(path: &Path, options: Options, wiring: Wiring) -> Result<Arc<Self>, OpenError> {
        let disk = options.disk.clone().unwrap_or_else(Disk::new);
        let directory = Directory::hold(path, &disk)?;
        let sqlite = |what| move |source| OpenError::Sqlite { what, path: path.to_owned(), source };
        let connection = connect(&directory.database(), &disk, OpenFlags::default())
            .map_err(sqlite("open the database"))?;
        set_up_writer(&connection).map_err(sqlite("set up the database"))?;
        #[cfg(feature = "sabotage")]
        if options.sabotage == Some(crate::Sabotage::SyncNormal) {
            connection.pragma_update(None, "synchronous", "NORMAL").map_err(sqlite("set up the database"))?;
        }
        let mut spaces = load::spaces(&connection, wiring.clock.now()).map_err(|error| match error {
            LoadError::Sqlite(source) => sqlite("load the state")(source),
            LoadError::Damaged(why) => OpenError::Damaged { path: path.to_owned(), why },
        })?;
        let readers = Arc::new(Readers::start(&directory.database(), &disk).map_err(sqlite("open readers"))?);
        let checkpointer =
            Checkpointer::start(&directory.database(), &disk).map_err(sqlite("open the checkpointer"))?;
        let tails =
            { &mut spaces }.iter_mut().map(|(number, loaded)| (*number, std::mem::take(&mut loaded.tail)));
        let shared = Arc::new(Shared {
            queue: Queue::default(),
            tails: Tails::new(tails.collect()),
            done: Done::default(),
            spaces: Mutex::default(),
            failure: watch::Sender::new(None),
            #[cfg(feature = "sabotage")]
            sabotage: options.sabotage,
        });
        shared.publish_all(&spaces);
        let mut wal_file = directory.database().into_os_string();
        wal_file.push("-wal");
        let wal_file = PathBuf::from(wal_file);
        let wal = Wal::new(Arc::clone(&disk), checkpointer.bell(), options.carry_over_bytes);
        let writer = start_writer(
            connection,
            spaces,
            wiring,
            Arc::clone(&shared),
            (wal, options.tail_rows),
            directory,
        );
        let threads = Mutex::new(Some(Threads { writer, checkpointer }));
        Ok(Arc::new(Self { shared, readers, disk, wal: wal_file, threads }))
    }

    /// What the disk was asked to do so far.
    #[must_use]
    pub fn disk_counters(&self) -> Counters {
        self.disk.counters()
    }

    fn planner(&self) -> Planner {
        Planner { readers: Arc::clone(&self.readers), tails: self.shared.tails.clone() }
    }

    fn stop(&self) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Threads { writer, checkpointer }) = threads {
            // Readers and checkpointer first: the writer's connection is then the last one, and as such carries the
            // write-ahead log over and removes it.
            checkpointer.stop();
            self.readers.stop();
            self.shared.queue.close();
            // A panic of the writer was reported when it happened.
            let _ = writer.join();
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn connect(database: &Path, disk: &Disk, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags_and_vfs(database, flags, disk.vfs_name())?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    // Readers come and go; the pages that the writer needs again and again stay in memory.
    connection.pragma_update(None, "cache_size", -2_048)?;
    Ok(connection)
}

/// `FULL`: a commit is on disk before it is answered. `NORMAL` would lose acknowledged commits when the power fails.
pub(crate) fn set_up_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    schema::migrate(connection)
}

fn start_writer(
    connection: Connection,
    spaces: BTreeMap<SpaceNo, Loaded>,
    wiring: Wiring,
    shared: Arc<Shared>,
    (wal, tail_rows): (Wal, usize),
    directory: Directory,
) -> JoinHandle<()> {
    // The writer reports to the subscriber of whoever opened the store.
    let dispatch = tracing::dispatcher::get_default(Clone::clone);
    let run = move || {
        let _subscriber = tracing::dispatcher::set_default(&dispatch);
        let watched = Arc::clone(&shared);
        let _if_it_panics = FailOnPanic(watched);
        match Writer::new(&connection, spaces, wiring, Arc::clone(&shared), wal, tail_rows) {
            Ok(writer) => writer.run(),
            Err(error) => shared.fail(StoreError::Failed(crate::lookup::in_words(&error))),
        }
        drop(connection);
        // Others may have the directory only after the last connection is closed.
        drop(directory);
    };
    thread::Builder::new().name("quorate-writer".into()).spawn(run).expect("the system gives us a thread")
}

/// If the writer panics, nobody knows what was written: that is a failure of the storage like any other.
struct FailOnPanic(Arc<Shared>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(StoreError::Failed("the writer panicked; this is a bug".into()));
        }
    }
}

/// Queues commits at once; the future is their answer.
fn queued(
    shared: Arc<Shared>,
    space: SpaceNo,
    commits: Vec<Commit>,
) -> impl Future<Output = Result<Vec<Outcome>, StoreError>> + Send + 'static {
    let (answer, told) = oneshot::channel();
    let pushed = shared.queue.push(Job::Transact { space, commits, answer });
    async move {
        if let Err((_, error)) = pushed {
            return Err(shared.failed().unwrap_or(error));
        }
        told.await.unwrap_or_else(|_| Err(shared.failed().unwrap_or(StoreError::Closed)))
    }
}

impl Store for SqliteStore {
    fn space(&self, name: SpaceName) -> BoxFuture<'_, Result<SpaceNo, StoreError>> {
        let known = self
            .shared
            .lock_spaces()
            .values()
            .find(|(info, _)| info.name == name)
            .map(|(info, _)| info.number);
        let (answer, told) = oneshot::channel();
        let pushed = match known {
            Some(number) => {
                drop(answer.send(Ok(number)));
                Ok(())
            }
            None => self.shared.queue.push(Job::Space { name, answer }).map_err(|(_, error)| error),
        };
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            pushed.map_err(|error| shared.failed().unwrap_or(error))?;
            told.await.unwrap_or_else(|_| Err(shared.failed().unwrap_or(StoreError::Closed)))
        })
    }

    fn spaces(&self) -> Vec<SpaceInfo> {
        self.shared.lock_spaces().values().map(|(info, _)| info.clone()).collect()
    }

    fn transact(
        &self,
        space: SpaceNo,
        commits: Vec<Commit>,
    ) -> BoxFuture<'static, Result<Vec<Outcome>, StoreError>> {
        let shared = Arc::clone(&self.shared);
        if commits.iter().any(|commit| commit.unplanned().next().is_some()) {
            let (planner, mut commits) = (self.planner(), commits);
            return Box::pin(async move {
                planner.plan(space, &mut commits).await?;
                queued(shared, space, commits).await
            });
        }
        Box::pin(queued(shared, space, commits))
    }

    fn prepare(&self, space: SpaceNo, commit: Commit) -> BoxFuture<'static, Result<Commit, StoreError>> {
        let planner = self.planner();
        Box::pin(async move {
            let mut commits = [commit];
            planner.plan(space, &mut commits).await?;
            let [commit] = commits;
            Ok(commit)
        })
    }

    fn read(&self, space: SpaceNo, what: Vec<Read>) -> BoxFuture<'_, Result<Vec<Rows>, StoreError>> {
        let tails = self.shared.tails.clone();
        let lane = read::lane_of(&what);
        let read = move |connection: &_| read::rows(connection, &tails, space, &what);
        Box::pin(self.readers.run(lane, space, read))
    }

    fn log(&self, space: SpaceNo, from: Seq, max: usize) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        let read = move |connection: &_| read::log(connection, space, from, max);
        Box::pin(self.readers.run(read::lane_of_records(max), space, read))
    }

    fn bodies(
        &self,
        space: SpaceNo,
        from: Seq,
        max: usize,
    ) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        let read = move |connection: &_| read::bodies(connection, space, from, max);
        Box::pin(self.readers.run(read::lane_of_records(max), space, read))
    }

    fn figures(&self) -> Figures {
        let wal = self.disk.counters().wal;
        Figures {
            commits: self.shared.done.commits.load(Ordering::Relaxed),
            batches: self.shared.done.batches.load(Ordering::Relaxed),
            work_max: self.shared.done.work_max.load(Ordering::Relaxed),
            hold_ns_max: self.shared.done.holds.max_ns(),
            hold_ns_p99: self.shared.done.holds.quantile_ns(0.99),
            syncs: wal.syncs,
            sync_ns_total: wal.sync_ns_total,
            sync_ns_max: wal.sync_ns_max,
            wal_written_bytes: wal.written_bytes,
            wal_bytes: std::fs::metadata(&self.wal).map_or(0, |file| file.len()),
            waiting_ops: self.shared.queue.waiting_ops() as u64,
        }
    }

    fn published(&self, space: SpaceNo) -> Option<watch::Receiver<Arc<Published>>> {
        self.shared.published(space)
    }

    fn backup<'a>(&'a self, to: &'a Path) -> BoxFuture<'a, Result<Vec<Position>, StoreError>> {
        let to = to.to_owned();
        let write = move |connection: &_| backup::write(connection, &to);
        // It copies every space.
        Box::pin(self.readers.run(Lane::Backup, SpaceNo(0), write))
    }

    fn failure(&self) -> BoxFuture<'static, StoreError> {
        let mut failure = self.shared.failure.subscribe();
        Box::pin(async move {
            match failure.wait_for(Option::is_some).await {
                Ok(found) => found.clone().unwrap_or(StoreError::Closed),
                Err(_) => StoreError::Closed,
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.stop() })
    }
}
