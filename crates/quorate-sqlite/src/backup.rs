//! Online backup, and restore into a new generation.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use quorate_core::codec::fingerprint;
use quorate_core::{Generation, Now, Seq, SpaceName, Timestamp, decide_restore};
use quorate_store::BackupPosition;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::directory::{
    OpenError, check_complete, create_private_directory, create_private_file, database_path,
    private_directory, sync_directory,
};
use crate::disk::Disk;
use crate::flush::Flusher;
use crate::load::{self, LoadError};
use crate::lookup::SqliteLookup;
use crate::memtable::{Memtable, Memtables};
use crate::offline::{OfflineDatabase, copy_file};
use crate::readers::ReadError;
use crate::sqlite_store::connect;
use crate::write_statements::WriteStatements;

/// Name of a database that is still being written.
const PARTIAL: &str = "quorate.db-partial";

/// Error of a backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The data directory cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The target directory is not empty.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The copy cannot be written, or the source cannot be read.
    #[error("{0}; the data directory was not changed")]
    Copy(String),
}

/// Copies a data directory, even while a hub is using it. A running hub is not blocked: the copy is one snapshot, and the
/// returned positions are the heads of its spaces.
///
/// # Errors
/// Fails if the data cannot be read or the copy cannot be written.
pub fn backup(from: &Path, to: &Path) -> Result<Vec<BackupPosition>, BackupError> {
    check_target(to)?;
    copy_with_private(from, to).inspect_err(|_| remove_partial_copy(to))
}

/// Copies the nested private directory first: a directory without a database is not a data directory, so an interrupted
/// copy is not mistaken for a complete one.
fn copy_with_private(from: &Path, to: &Path) -> Result<Vec<BackupPosition>, BackupError> {
    let (private, private_to) = (private_directory(from), private_directory(to));
    if private.exists() {
        // The positions of the private data are only visible to moderators.
        with_source(&private, |connection| write_into(connection, &private_to))?;
    }
    with_source(from, |connection| write_into(connection, to))
}

/// Dry run of [`backup`]: returns the positions that a backup would contain now. Writes nothing.
///
/// # Errors
/// Like [`backup`].
pub fn backup_dry_run(from: &Path, to: &Path) -> Result<Vec<BackupPosition>, BackupError> {
    check_target(to)?;
    let private = private_directory(from);
    if private.exists() {
        with_source(&private, positions)?;
    }
    with_source(from, positions)
}

fn check_target(to: &Path) -> Result<(), BackupError> {
    match is_not_empty(to) {
        Ok(false) => Ok(()),
        Ok(true) => Err(BackupError::NotEmpty(to.to_owned())),
        Err(error) => Err(BackupError::Copy(format!("cannot read {}: {error}", to.display()))),
    }
}

/// Removes the files of a failed copy from a directory that was empty before, so that the command can be retried. Errors
/// are ignored: a retry would report that the directory is not empty.
fn remove_partial_copy(to: &Path) {
    let _ = fs::remove_dir_all(private_directory(to));
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let _ = fs::remove_file(to.join(format!("{PARTIAL}{suffix}")));
    }
}

fn with_source(
    from: &Path,
    operation: impl Fn(&Connection) -> Result<Vec<BackupPosition>, ReadError>,
) -> Result<Vec<BackupPosition>, BackupError> {
    let result = match OfflineDatabase::open(from) {
        Ok(offline) => operation(&offline.connection),
        Err(OpenError::InUse { .. }) => {
            let sqlite =
                |source| OpenError::Sqlite { action: "open the database", path: from.to_owned(), source };
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            operation(&connect(&database_path(from), &Disk::new(), flags).map_err(sqlite)?)
        }
        Err(error) => return Err(error.into()),
    };
    result.map_err(|error| BackupError::Copy(error.to_string()))
}

/// Whether a directory exists and is not empty.
fn is_not_empty(directory: &Path) -> std::io::Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes a copy of the database to a directory, which is a complete data directory afterwards.
pub(crate) fn write_backup(connection: &Connection, to: &Path) -> Result<Vec<BackupPosition>, ReadError> {
    let other =
        |action: &str, error: std::io::Error| ReadError::Other(format!("{action} {}: {error}", to.display()));
    if is_not_empty(to).map_err(|error| other("cannot read", error))? {
        return Err(ReadError::Other(format!("{} is not empty; choose a new directory", to.display())));
    }
    write_into(connection, to)
}

fn write_into(connection: &Connection, to: &Path) -> Result<Vec<BackupPosition>, ReadError> {
    let other =
        |action: &str, error: std::io::Error| ReadError::Other(format!("{action} {}: {error}", to.display()));
    create_private_directory(to).map_err(|error| other("cannot create", error))?;
    let database = database_path(to);
    let partial = to.join(PARTIAL);
    create_private_file(&partial).map_err(|error| other("cannot write to", error))?;
    {
        let mut copy = Connection::open(&partial)?;
        // All pages in one step: one snapshot, even with concurrent writes.
        match Backup::new(connection, &mut copy)?.step(-1)? {
            StepResult::Done => {}
            _ => return Err(ReadError::Other("the database is locked; try again".into())),
        }
        // The copy is a single file, without a write-ahead log that could be left behind when it is moved.
        copy.pragma_update(None, "journal_mode", "DELETE")?;
    }
    let positions = positions(&Connection::open_with_flags(&partial, OpenFlags::SQLITE_OPEN_READ_ONLY)?)?;
    File::open(&partial).and_then(|file| file.sync_all()).map_err(|error| other("cannot sync", error))?;
    fs::rename(&partial, &database).map_err(|error| other("cannot rename the database in", error))?;
    sync_directory(to).map_err(|error| other("cannot sync", error))?;
    Ok(positions)
}

fn positions(connection: &Connection) -> Result<Vec<BackupPosition>, ReadError> {
    let mut statement = connection.prepare("SELECT name, seq, hash FROM spaces ORDER BY number")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)))?;
    let mut found = Vec::new();
    for row in rows {
        let (name, seq, hash) = row?;
        let space = SpaceName::new(name).map_err(|refused| ReadError::Other(refused.detail))?;
        found.push(BackupPosition { space, seq: Seq(seq), hash });
    }
    Ok(found)
}

/// Error of a restore.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The target directory is not empty.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The backup cannot be read.
    #[error(transparent)]
    Backup(#[from] OpenError),
    /// A file operation failed.
    #[error("failed to {action} {}", .path.display())]
    Io {
        /// Action that failed, as a verb phrase.
        action: &'static str,
        /// Path that the action was for.
        path: PathBuf,
        /// Underlying error.
        #[source]
        source: std::io::Error,
    },
    /// SQLite returned an error.
    #[error("failed to start a new generation in the restored data")]
    Sqlite(#[from] rusqlite::Error),
    /// Leases and locks of the backup could not be released.
    #[error("failed to release the leases and locks of the backup: {0}")]
    Decide(String),
}

/// Copies a backup into a new data directory and starts a new generation in every space, so that lease tokens, fencing
/// tokens and versions only increase. Leases and locks that were held at the time of the backup are released.
///
/// # Errors
/// Fails if the backup is damaged or the target directory is not empty. The backup is never changed.
pub fn restore(from: &Path, to: &Path, now: Timestamp) -> Result<Vec<BackupPosition>, RestoreError> {
    check_restore(from, to)?;
    restore_with_private(from, to, now).inspect_err(|_| remove_partial_copy(to))
}

/// Restores the nested private directory first, like a backup.
fn restore_with_private(from: &Path, to: &Path, now: Timestamp) -> Result<Vec<BackupPosition>, RestoreError> {
    let private = private_directory(from);
    if private.exists() {
        restore_directory(&private, &private_directory(to), now)?;
    }
    restore_directory(from, to, now)
}

fn restore_directory(from: &Path, to: &Path, now: Timestamp) -> Result<Vec<BackupPosition>, RestoreError> {
    let io = io_error;
    create_private_directory(to).map_err(io("create", to))?;
    let partial = to.join(PARTIAL);
    copy_file(&database_path(from), &partial).map_err(io("copy to", &partial))?;
    let positions = begin_generation(&partial, from, now)?;
    File::open(&partial).and_then(|file| file.sync_all()).map_err(io("sync", &partial))?;
    fs::rename(&partial, database_path(to)).map_err(io("rename the database in", to))?;
    sync_directory(to).map_err(io("sync", to))?;
    Ok(positions)
}

/// Dry run of [`restore`]: returns the positions of the backup. Writes nothing.
///
/// # Errors
/// Like [`restore`].
pub fn restore_dry_run(from: &Path, to: &Path) -> Result<Vec<BackupPosition>, RestoreError> {
    check_restore(from, to)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let found = positions(&Connection::open_with_flags(database_path(from), flags)?);
    found.map_err(|error| OpenError::Damaged { path: from.to_owned(), reason: error.to_string() }.into())
}

fn check_restore(from: &Path, to: &Path) -> Result<(), RestoreError> {
    if is_not_empty(to).map_err(io_error("read", to))? {
        return Err(RestoreError::NotEmpty(to.to_owned()));
    }
    let private = Some(private_directory(from)).filter(|private| private.exists());
    for directory in std::iter::once(from).chain(private.as_deref()) {
        if !database_path(directory).exists() {
            return Err(OpenError::Missing { path: directory.to_owned() }.into());
        }
        check_complete(directory)?;
    }
    Ok(())
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RestoreError + use<> {
    let path = path.to_owned();
    move |source| RestoreError::Io { action, path, source }
}

/// Minutes since the start of 2026: lower bound for the generation of a restore, so that two restores of the same backup
/// get different generations.
fn minutes_since_2026(now: Timestamp) -> u64 {
    const START_MS: u64 = 1_767_225_600_000;
    now.0.saturating_sub(START_MS) / 60_000
}

fn begin_generation(
    database: &Path,
    from: &Path,
    now: Timestamp,
) -> Result<Vec<BackupPosition>, RestoreError> {
    let disk = Disk::new();
    let connection = connect(database, &disk, OpenFlags::default())?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let loaded = load::spaces(&connection, Now { wall: now, ..Now::default() });
    let mut spaces = loaded.map_err(|error| match error {
        LoadError::Sqlite(source) => RestoreError::Sqlite(source),
        LoadError::Damaged(reason) => OpenError::Damaged { path: from.to_owned(), reason }.into(),
    })?;
    let mut positions = Vec::new();
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut writes = WriteStatements::prepare(&connection)?;
    let mut flusher = Flusher::prepare(&connection)?;
    let lookups = SqliteLookup::prepare(&connection, Memtables::new(BTreeMap::new()))?;
    for (number, space) in &mut spaces {
        let working = &mut space.working;
        // Flush first: the decision below looks up rows in the tables.
        flusher.flush(*number, working, &space.memtable, space.first_unflushed)?;
        let first_unflushed = working.stored_counters().next_delivery;
        let generation = Generation((working.head.generation.0 + 1).max(minutes_since_2026(now)));
        lookups.space.set(*number);
        let decided = decide_restore(working, &lookups, generation, now);
        let decided = decided.map_err(|error| RestoreError::Decide(error.to_string()))?;
        let mut memtable = Memtable::default();
        if let Some(record) = &decided.record {
            writes.append_record(*number, record)?;
            let changes = (&decided.effects[..], &decided.ended[..]);
            memtable
                .apply(working, record, changes, |sent, n| fingerprint::of_logged(sent, n, &decided.effects));
        }
        writes.write_generation(*number, working)?;
        writes.write_head(*number, working)?;
        flusher.flush(*number, working, &memtable, first_unflushed)?;
        let head = working.head;
        positions.push(BackupPosition { space: space.name.clone(), seq: head.seq, hash: head.hash });
    }
    drop((writes, flusher, lookups));
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(positions)
}
