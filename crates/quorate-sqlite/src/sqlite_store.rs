//! Opens a data directory and implements the [`Store`] handle.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quorate_core::{Commit, Record, Seq, SpaceName, SpaceNo};
use quorate_store::{
    BackupPosition, BoxFuture, CommitResult, PublishedState, ReadQuery, ReadResult, SpaceInfo, Store,
    StoreContext, StoreError, StoreStats,
};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::{oneshot, watch};

use crate::checkpoint::{CHECKPOINT_BYTES, Checkpointer, WalMonitor, checkpoint_leftover};
use crate::directory::{DataDirectory, OpenError};
use crate::directory_lock::DirectoryLock;
use crate::disk::{self, Counters, Disk};
use crate::flush::FLUSH_ROWS;
use crate::hold_histogram::HoldHistogram;
use crate::load::{self, LoadError, LoadedSpace};
use crate::memtable::Memtables;
use crate::queue::{Job, SpinWait, WriteQueue};
use crate::readers::{Lane, Readers};
use crate::rollback_planner::RollbackPlanner;
use crate::witness::{self, Location, Position, Statement, WitnessFile, WitnessSignal, WitnessThread};
use crate::writer::Writer;
use crate::{backup, read, schema};

/// Default delay of the witness behind the sync.
const WITNESS_DELAY: Duration = Duration::from_millis(30);

/// Options for opening a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Disk (VFS) to open the database on. By default a new one, with its own counters.
    pub disk: Option<Arc<Disk>>,
    /// Size of the write-ahead log, in bytes, that triggers a checkpoint. The log grows to at most four times this
    /// size, plus one batch.
    pub checkpoint_bytes: u64,
    /// Number of rows in a memtable that triggers a flush to the tables. After a crash the memtable is rebuilt from the
    /// log. `usize::MAX` disables flushing, including the flush on close.
    pub flush_rows: usize,
    /// Time between the sync of a batch and the write of the witness, which states that the batch is durable. The loss of
    /// a batch is detected from then on.
    pub witness_delay: Duration,
    /// Deliberate bug to inject, to check that the tests detect it.
    #[cfg(feature = "sabotage")]
    pub sabotage: Option<crate::Sabotage>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            disk: None,
            checkpoint_bytes: CHECKPOINT_BYTES,
            flush_rows: FLUSH_ROWS,
            witness_delay: WITNESS_DELAY,
            #[cfg(feature = "sabotage")]
            sabotage: None,
        }
    }
}

/// Published state of each space.
type Spaces = BTreeMap<SpaceNo, (SpaceInfo, watch::Sender<Arc<PublishedState>>)>;

/// State shared by the writer thread and the store handle.
pub(crate) struct Shared {
    pub(crate) queue: WriteQueue,
    pub(crate) memtables: Memtables,
    pub(crate) stats: WriterStats,
    pub(crate) witness: WitnessSignal,
    spaces: Mutex<Spaces>,
    failure: watch::Sender<Option<StoreError>>,
    #[cfg(feature = "sabotage")]
    pub(crate) sabotage: Option<crate::Sabotage>,
}

impl Shared {
    pub(crate) fn lock_spaces(&self) -> MutexGuard<'_, Spaces> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn published(&self, space: SpaceNo) -> Option<watch::Receiver<Arc<PublishedState>>> {
        self.lock_spaces().get(&space).map(|(_, sender)| sender.subscribe())
    }

    /// Marks the storage as failed: this and every later call fails with `error`.
    pub(crate) fn fail(&self, error: StoreError) {
        if self.failed().is_none() {
            tracing::error!(error = %error, "storage failed: no commit is acknowledged until the hub is restarted");
            self.failure.send_replace(Some(error.clone()));
        }
        self.queue.close();
        while let Some(jobs) = self.queue.take(&mut SpinWait::default()) {
            reject(jobs, &error);
        }
    }

    pub(crate) fn failed(&self) -> Option<StoreError> {
        self.failure.borrow().clone()
    }
}

/// Responds to jobs that are not executed.
pub(crate) fn reject(jobs: Vec<Job>, error: &StoreError) {
    for job in jobs {
        match job {
            Job::Transact { sender, .. } => drop(sender.send(Err(error.clone()))),
            Job::OpenSpace { sender, .. } => drop(sender.send(Err(error.clone()))),
        }
    }
}

/// Counters of the writer thread.
#[derive(Default)]
pub(crate) struct WriterStats {
    commits: AtomicU64,
    batches: AtomicU64,
    hold_times: HoldHistogram,
    work_max: AtomicU64,
}

impl WriterStats {
    /// Adds the commits of a batch and the work units that they cost.
    pub(crate) fn add_work(&self, commits: u64, units: u64) {
        self.commits.fetch_add(commits, Ordering::Relaxed);
        self.work_max.fetch_max(units, Ordering::Relaxed);
    }

    /// Adds a flush that had a transaction of its own: its rows, and the time for which it occupied the writer.
    pub(crate) fn add_flush(&self, rows: u64, time: Duration) {
        self.work_max.fetch_max(rows, Ordering::Relaxed);
        self.hold_times.record(time);
    }

    /// Adds the time for which a batch occupied the writer.
    pub(crate) fn add_batch(&self, time: Duration) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.hold_times.record(time);
    }
}

/// Store backed by SQLite. Dropping it waits until the writer has processed all queued commits.
pub struct SqliteStore {
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    disk: Arc<Disk>,
    /// Path of the write-ahead log.
    wal: PathBuf,
    threads: Mutex<Option<Threads>>,
}

struct Threads {
    writer: JoinHandle<()>,
    checkpointer: Checkpointer,
}

impl SqliteStore {
    /// Opens a data directory; creates it if it does not exist.
    ///
    /// # Errors
    /// Fails if the directory is in use, belongs to another program, has a newer format, is damaged or cannot be
    /// written. In that case nothing is changed.
    pub fn open(path: &Path, options: Options, context: StoreContext) -> Result<Arc<Self>, OpenError> {
        Self::open_locked(DirectoryLock::acquire(path)?, options, context)
    }

    /// Like [`SqliteStore::open`], for a directory that this process has already locked.
    ///
    /// # Errors
    /// Like [`SqliteStore::open`].
    pub fn open_locked(
        lock: DirectoryLock,
        options: Options,
        context: StoreContext,
    ) -> Result<Arc<Self>, OpenError> {
        let disk = options.disk.clone().unwrap_or_else(Disk::new);
        let path = lock.path().to_owned();
        Self::open_on(&disk, lock, options, context).map_err(|error| match disk.damaged_page() {
            Some(page) if error.is_damage() => OpenError::Damaged { path, reason: page.to_string() },
            _ => error,
        })
    }

    fn open_on(
        disk: &Arc<Disk>,
        lock: DirectoryLock,
        options: Options,
        context: StoreContext,
    ) -> Result<Arc<Self>, OpenError> {
        let path = &lock.path().to_owned();
        let directory = DataDirectory::prepare(lock, disk)?;
        let sqlite = |action| move |source| OpenError::Sqlite { action, path: path.to_owned(), source };
        let (connection, mut spaces, last) = open_intact(&directory, path, disk, &context)?;
        #[cfg(feature = "sabotage")]
        if options.sabotage == Some(crate::Sabotage::SyncNormal) {
            connection.pragma_update(None, "synchronous", "NORMAL").map_err(sqlite("set up the database"))?;
        }
        let witness = WitnessFile::open(disk, &Location::of(path))?;
        let mut wal_file = directory.database().into_os_string();
        wal_file.push("-wal");
        let wal_file = PathBuf::from(wal_file);
        if last.batch > witness.stated {
            // What a killed process left may be in the page cache only. The witness must not state it before it is durable.
            sync_file(&wal_file)?;
        }
        let leftover = checkpoint_leftover(&connection, &wal_file, options.checkpoint_bytes)
            .map_err(sqlite("checkpoint the write-ahead log"))?;
        let readers = Arc::new(Readers::start(&directory.database(), disk).map_err(sqlite("open readers"))?);
        let checkpointer =
            Checkpointer::start(&directory.database(), disk).map_err(sqlite("open the checkpointer"))?;
        let memtables = { &mut spaces }
            .iter_mut()
            .map(|(number, loaded)| (*number, std::mem::take(&mut loaded.memtable)));
        let shared = Arc::new(Shared {
            queue: WriteQueue::default(),
            memtables: Memtables::new(memtables.collect()),
            stats: WriterStats::default(),
            witness: WitnessSignal::starting_at(last, &witness),
            spaces: Mutex::default(),
            failure: watch::Sender::new(None),
            #[cfg(feature = "sabotage")]
            sabotage: options.sabotage,
        });
        shared.publish_all(&spaces);
        fail_on_damage(disk, &shared);
        let wal =
            WalMonitor::new(Arc::clone(disk), checkpointer.signal(), options.checkpoint_bytes, leftover);
        let witness = WitnessThread::start(Arc::clone(&shared), witness, options.witness_delay);
        let writer = start_writer(
            connection,
            spaces,
            context,
            Arc::clone(&shared),
            (wal, options.flush_rows, last),
            (directory, witness),
        );
        let threads = Mutex::new(Some(Threads { writer, checkpointer }));
        Ok(Arc::new(Self { shared, readers, disk: Arc::clone(disk), wal: wal_file, threads }))
    }

    /// I/O counters of the disk.
    #[must_use]
    pub fn disk_counters(&self) -> Counters {
        self.disk.counters()
    }

    /// Waits until the witness states everything that was acknowledged. For tests, which then damage the data.
    #[cfg(feature = "faults")]
    pub fn flush_witness(&self) {
        self.shared.witness.flush();
    }

    fn planner(&self) -> RollbackPlanner {
        RollbackPlanner { readers: Arc::clone(&self.readers), memtables: self.shared.memtables.clone() }
    }

    fn stop(&self) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Threads { writer, checkpointer }) = threads {
            // Readers and checkpointer first: the writer's connection is then the last one, and closing the last
            // connection checkpoints and deletes the write-ahead log.
            checkpointer.stop();
            self.readers.stop();
            self.shared.queue.close();
            // The panic hook has already reported a panic of the writer.
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
    let connection = disk.open(database, flags)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    // 2 MiB of page cache for readers and the checkpointer; `configure_writer` gives the writer more.
    connection.pragma_update(None, "cache_size", -2_048)?;
    Ok(connection)
}

/// Configures the writer's connection. `synchronous=FULL` syncs the WAL on every commit, before it is acknowledged;
/// `NORMAL` could lose acknowledged commits on power loss.
pub(crate) fn configure_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -16_384)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    schema::migrate(connection)
}

/// Opens and loads the database of a directory. A database without page checksums is rewritten first.
fn open_intact(
    directory: &DataDirectory,
    path: &Path,
    disk: &Disk,
    context: &StoreContext,
) -> Result<(Connection, BTreeMap<SpaceNo, LoadedSpace>, Position), OpenError> {
    let sqlite = |action| move |source| OpenError::Sqlite { action, path: path.to_owned(), source };
    // Until the data is known to be intact, closing it must not checkpoint the write-ahead log: that would discard what
    // follows a damaged frame.
    let open = || {
        let connection = connect(&directory.database(), disk, OpenFlags::default())?;
        keep_wal_on_close(&connection, true)?;
        let has_checksums = disk::has_checksums(&connection)?;
        Ok((connection, has_checksums))
    };
    let (mut connection, has_checksums) = open().map_err(sqlite("open the database"))?;
    if !has_checksums {
        load_intact(&connection, path, disk, context)?;
        directory.add_checksums(connection, disk)?;
        (connection, _) = open().map_err(sqlite("open the database"))?;
    }
    disk.add_checksums_to_new_files();
    let (spaces, last) = load_intact(&connection, path, disk, context)?;
    keep_wal_on_close(&connection, false).map_err(sqlite("set up the database"))?;
    Ok((connection, spaces, last))
}

fn keep_wal_on_close(connection: &Connection, keep: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}

/// Migrates and loads a database, and compares it with its witness.
fn load_intact(
    connection: &Connection,
    path: &Path,
    disk: &Disk,
    context: &StoreContext,
) -> Result<(BTreeMap<SpaceNo, LoadedSpace>, Position), OpenError> {
    let sqlite = |action| move |source| OpenError::Sqlite { action, path: path.to_owned(), source };
    let damaged = |reason| OpenError::Damaged { path: path.to_owned(), reason };
    if !schema::has_witness(connection).map_err(sqlite("read the format"))? {
        begin_witness(connection, path, disk)?;
    }
    configure_writer(connection).map_err(sqlite("set up the database"))?;
    let spaces = load::spaces(connection, context.clock.now()).map_err(|error| match error {
        LoadError::Sqlite(source) => sqlite("load the state")(source),
        LoadError::Damaged(reason) => damaged(reason),
    })?;
    if let Some(defect) = witness::check(path, connection)? {
        return Err(damaged(defect.detail));
    }
    let last = Position::stored(connection).map_err(sqlite("load the state"))?;
    Ok((spaces, last))
}

fn sync_file(path: &Path) -> Result<(), OpenError> {
    match File::open(path).and_then(|file| file.sync_all()) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(OpenError::Io { action: "sync", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Creates the witness of a database that an earlier release wrote, before the database is migrated: from then on it
/// needs one. It states no position yet.
fn begin_witness(connection: &Connection, path: &Path, disk: &Disk) -> Result<(), OpenError> {
    if let Some(defect) = witness::check(path, connection)? {
        return Err(OpenError::Damaged { path: path.to_owned(), reason: defect.detail });
    }
    let location = Location::of(path);
    match location.read() {
        Ok(Some(Statement::Durable(_))) => Ok(()),
        Ok(_) => location.create(disk, &Position::default()),
        Err(source) => Err(OpenError::Io { action: "read", path: location.file, source }),
    }
}

fn start_writer(
    connection: Connection,
    spaces: BTreeMap<SpaceNo, LoadedSpace>,
    context: StoreContext,
    shared: Arc<Shared>,
    (wal, flush_rows, last): (WalMonitor, usize, Position),
    (directory, witness): (DataDirectory, WitnessThread),
) -> JoinHandle<()> {
    // Log events of the writer go to the tracing subscriber of the thread that opened the store.
    let dispatch = tracing::dispatcher::get_default(Clone::clone);
    let run = move || {
        let _subscriber = tracing::dispatcher::set_default(&dispatch);
        // Dropped in reverse order, also by a panic: the lock on the directory is released after the witness is written
        // and the last connection is closed.
        let _directory = directory;
        let connection = connection;
        let _witness = witness;
        let _fail_on_panic = FailOnPanic(Arc::clone(&shared));
        match Writer::new(&connection, spaces, context, Arc::clone(&shared), wal, (flush_rows, last)) {
            Ok(writer) => writer.run(),
            Err(error) => shared.fail(StoreError::Failed(crate::lookup::error_text(&error))),
        }
    };
    thread::Builder::new()
        .name("quorate-writer".into())
        .spawn(run)
        .expect("failed to spawn the writer thread")
}

/// Marks the storage as failed when a connection reads a damaged page, on whatever thread: more writes would be lost with
/// the data.
fn fail_on_damage(disk: &Disk, shared: &Arc<Shared>) {
    let dispatch = tracing::dispatcher::get_default(Clone::clone);
    let shared = Arc::downgrade(shared);
    disk.on_damage(move |page| {
        if let Some(shared) = shared.upgrade() {
            let error = StoreError::Corrupt(page.to_string().into());
            tracing::dispatcher::with_default(&dispatch, || shared.fail(error));
        }
    });
}

/// Marks the storage as failed if the writer thread panics, because the state on disk is then uncertain.
struct FailOnPanic(Arc<Shared>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(StoreError::Failed("the writer thread panicked; this is a bug".into()));
        }
    }
}

/// Queues commits immediately; the returned future resolves to their outcomes.
fn enqueue(
    shared: Arc<Shared>,
    space: SpaceNo,
    commits: Vec<Commit>,
) -> impl Future<Output = Result<Vec<CommitResult>, StoreError>> + Send + 'static {
    let (sender, outcome) = oneshot::channel();
    let enqueued = shared.queue.push(Job::Transact { space, commits, sender });
    async move {
        if let Err((_, error)) = enqueued {
            return Err(shared.failed().unwrap_or(error));
        }
        outcome.await.unwrap_or_else(|_| Err(shared.failed().unwrap_or(StoreError::Closed)))
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
        let (sender, outcome) = oneshot::channel();
        let enqueued = match known {
            Some(number) => {
                drop(sender.send(Ok(number)));
                Ok(())
            }
            None => self.shared.queue.push(Job::OpenSpace { name, sender }).map_err(|(_, error)| error),
        };
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            enqueued.map_err(|error| shared.failed().unwrap_or(error))?;
            outcome.await.unwrap_or_else(|_| Err(shared.failed().unwrap_or(StoreError::Closed)))
        })
    }

    fn spaces(&self) -> Vec<SpaceInfo> {
        self.shared.lock_spaces().values().map(|(info, _)| info.clone()).collect()
    }

    fn transact(
        &self,
        space: SpaceNo,
        commits: Vec<Commit>,
    ) -> BoxFuture<'static, Result<Vec<CommitResult>, StoreError>> {
        let shared = Arc::clone(&self.shared);
        if commits.iter().any(|commit| commit.unplanned_rollbacks().next().is_some()) {
            let (planner, mut commits) = (self.planner(), commits);
            return Box::pin(async move {
                planner.plan(space, &mut commits).await?;
                enqueue(shared, space, commits).await
            });
        }
        Box::pin(enqueue(shared, space, commits))
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

    fn read(
        &self,
        space: SpaceNo,
        queries: Vec<ReadQuery>,
    ) -> BoxFuture<'_, Result<Vec<ReadResult>, StoreError>> {
        let memtables = self.shared.memtables.clone();
        let lane = read::lane_for_reads(&queries);
        let read = move |connection: &_| read::execute(connection, &memtables, space, &queries);
        Box::pin(self.readers.run(lane, space, read))
    }

    fn log(&self, space: SpaceNo, from: Seq, max: usize) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        let read = move |connection: &_| read::log(connection, space, from, max);
        Box::pin(self.readers.run(read::lane_for_records(max), space, read))
    }

    fn log_bodies(
        &self,
        space: SpaceNo,
        from: Seq,
        max: usize,
    ) -> BoxFuture<'_, Result<Vec<Record>, StoreError>> {
        let read = move |connection: &_| read::bodies(connection, space, from, max);
        Box::pin(self.readers.run(read::lane_for_records(max), space, read))
    }

    fn stats(&self) -> StoreStats {
        let wal = self.disk.counters().wal;
        StoreStats {
            commits: self.shared.stats.commits.load(Ordering::Relaxed),
            batches: self.shared.stats.batches.load(Ordering::Relaxed),
            work_max: self.shared.stats.work_max.load(Ordering::Relaxed),
            hold_ns_max: self.shared.stats.hold_times.max_ns(),
            hold_ns_p99: self.shared.stats.hold_times.quantile_ns(0.99),
            syncs: wal.syncs,
            sync_ns_total: wal.sync_ns_total,
            sync_ns_max: wal.sync_ns_max,
            wal_written_bytes: wal.written_bytes,
            wal_bytes: std::fs::metadata(&self.wal).map_or(0, |file| file.len()),
            queued_ops: self.shared.queue.queued_ops() as u64,
        }
    }

    fn published(&self, space: SpaceNo) -> Option<watch::Receiver<Arc<PublishedState>>> {
        self.shared.published(space)
    }

    fn backup<'a>(&'a self, to: &'a Path) -> BoxFuture<'a, Result<Vec<BackupPosition>, StoreError>> {
        let to = to.to_owned();
        let disk = Arc::clone(&self.disk);
        let write = move |connection: &_| backup::write_backup(connection, &disk, &to);
        // A backup copies all spaces, so it is queued under none of them.
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
