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
    OpenError, check_complete, create_private_directory, create_private_file, database_path, is_private_name,
    private_directory, sync_directory,
};
use crate::disk::{self, Disk};
use crate::flush::Flusher;
use crate::load::{self, LoadError};
use crate::lookup::SqliteLookup;
use crate::memtable::{Memtable, Memtables};
use crate::offline::{OfflineDatabase, copy_file};
use crate::readers::ReadError;
use crate::sqlite_store::connect;
use crate::witness::{self, WITNESS};
use crate::write_statements::WriteStatements;
use crate::{incomplete, schema};

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

/// Copies both stores. Until the copy is complete, a marker keeps it from being used.
fn copy_with_private(from: &Path, to: &Path) -> Result<Vec<BackupPosition>, BackupError> {
    let (private, private_to) = (private_directory(from), private_directory(to));
    let copy = |error: ReadError| BackupError::Copy(error.to_string());
    begin_copy(to).map_err(copy)?;
    if private.exists() {
        // The positions of the private data are only visible to moderators.
        with_source(&private, |connection, disk| write_into(connection, disk, &private_to))?;
    }
    let positions = with_source(from, |connection, disk| write_into(connection, disk, to))?;
    finish_copy(to).map_err(copy)?;
    Ok(positions)
}

fn begin_copy(to: &Path) -> Result<(), ReadError> {
    let other = |error: std::io::Error| ReadError::Other(format!("cannot create {}: {error}", to.display()));
    step();
    incomplete::begin(to).map_err(other)?;
    step();
    Ok(())
}

/// Completes a copy: the witness, which names the stores that it has, and then the removal of the marker.
fn finish_copy(to: &Path) -> Result<(), ReadError> {
    let other = |error: &dyn std::error::Error| {
        ReadError::Other(format!("cannot complete {}: {}", to.display(), quorate_core::error_chain(error)))
    };
    step();
    witness::write_for_copy(to).map_err(|error| other(&error))?;
    step();
    incomplete::finish(to).map_err(|error| other(&error))
}

/// Dry run of [`backup`]: returns the positions that a backup would contain now. Writes nothing.
///
/// # Errors
/// Like [`backup`].
pub fn backup_dry_run(from: &Path, to: &Path) -> Result<Vec<BackupPosition>, BackupError> {
    check_target(to)?;
    let private = private_directory(from);
    if private.exists() {
        with_source(&private, |connection, _| positions(connection))?;
    }
    with_source(from, |connection, _| positions(connection))
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
    let _ = fs::remove_file(database_path(to));
    let _ = fs::remove_file(to.join(WITNESS));
    // Last: the other files are of an incomplete copy until they are gone.
    let _ = fs::remove_file(incomplete::marker(to));
}

fn with_source(
    from: &Path,
    operation: impl Fn(&Connection, &Disk) -> Result<Vec<BackupPosition>, ReadError>,
) -> Result<Vec<BackupPosition>, BackupError> {
    let result = match OfflineDatabase::open_complete(from) {
        Ok(offline) => operation(&offline.connection, &offline.disk),
        Err(OpenError::InUse { .. }) => {
            let sqlite =
                |source| OpenError::Sqlite { action: "open the database", path: from.to_owned(), source };
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let disk = Disk::new();
            operation(&connect(&database_path(from), &disk, flags).map_err(sqlite)?, &disk)
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

/// Writes a copy of the database of a running hub to a directory. The private store is written first, and leaves the outer
/// directory marked as incomplete; the main store completes it.
pub(crate) fn write_backup(
    connection: &Connection,
    disk: &Disk,
    to: &Path,
) -> Result<Vec<BackupPosition>, ReadError> {
    let outer = to.parent().filter(|_| is_private_name(to));
    // What the private store has left there is not a reason to refuse.
    let continues = outer.is_none() && incomplete::marker(to).exists() && !database_path(to).exists();
    let target = outer.unwrap_or(to);
    if !continues {
        let is_used = is_not_empty(target)
            .map_err(|error| ReadError::Other(format!("cannot read {}: {error}", target.display())))?;
        if is_used {
            return Err(ReadError::Other(format!(
                "{} is not empty; choose a new directory",
                target.display()
            )));
        }
        begin_copy(target)?;
    }
    let positions = write_into(connection, disk, to)?;
    if outer.is_none() {
        finish_copy(to)?;
    }
    Ok(positions)
}

/// Copies the database of a connection of `disk`.
fn write_into(connection: &Connection, disk: &Disk, to: &Path) -> Result<Vec<BackupPosition>, ReadError> {
    let other =
        |action: &str, error: std::io::Error| ReadError::Other(format!("{action} {}: {error}", to.display()));
    create_private_directory(to).map_err(|error| other("cannot create", error))?;
    let database = database_path(to);
    let partial = to.join(PARTIAL);
    create_private_file(&partial).map_err(|error| other("cannot write to", error))?;
    step();
    {
        // Pages are copied as they are, and a page in the write-ahead log has no checksum: the copy adds its own, if the
        // database reserves the bytes for it.
        if disk::has_checksums(connection)? {
            disk.add_checksums_to_new_files();
        }
        let mut copy = disk.open(&partial, OpenFlags::default())?;
        // All pages in one step: one snapshot, even with concurrent writes.
        match Backup::new(connection, &mut copy)?.step(-1)? {
            StepResult::Done => {}
            _ => return Err(ReadError::Other("the database is locked; try again".into())),
        }
        // The copy is a single file, without a write-ahead log that could be left behind when it is moved.
        copy.pragma_update(None, "journal_mode", "DELETE")?;
    }
    let positions = positions(&disk.open(&partial, OpenFlags::SQLITE_OPEN_READ_ONLY)?)?;
    File::open(&partial).and_then(|file| file.sync_all()).map_err(|error| other("cannot sync", error))?;
    step();
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
    /// The target directory cannot be marked as incomplete or as complete.
    #[error("{0}")]
    Complete(String),
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

/// Restores both stores. Until the directory is complete, a marker keeps it from being used.
fn restore_with_private(from: &Path, to: &Path, now: Timestamp) -> Result<Vec<BackupPosition>, RestoreError> {
    let failed = |error: ReadError| RestoreError::Complete(error.to_string());
    begin_copy(to).map_err(failed)?;
    let private = private_directory(from);
    if private.exists() {
        restore_directory(&private, &private_directory(to), now)?;
    }
    let positions = restore_directory(from, to, now)?;
    finish_copy(to).map_err(failed)?;
    Ok(positions)
}

fn restore_directory(from: &Path, to: &Path, now: Timestamp) -> Result<Vec<BackupPosition>, RestoreError> {
    let io = io_error;
    create_private_directory(to).map_err(io("create", to))?;
    let partial = to.join(PARTIAL);
    copy_file(&database_path(from), &partial).map_err(io("copy to", &partial))?;
    step();
    let positions = begin_generation(&partial, from, now)?;
    step();
    File::open(&partial).and_then(|file| file.sync_all()).map_err(io("sync", &partial))?;
    fs::rename(&partial, database_path(to)).map_err(io("rename the database in", to))?;
    step();
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
    let connection = Disk::new().open(&database_path(from), flags)?;
    if let Some(defect) = witness::check(from, &connection)? {
        return Err(OpenError::Damaged { path: from.to_owned(), reason: defect.detail }.into());
    }
    let found = positions(&connection);
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

/// Point at which a test kills the process. See the tests of this file.
fn step() {
    #[cfg(test)]
    tests::step();
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
    // Before a migration, so that an older backup is compared as what it is.
    if let Some(defect) = witness::check(from, &connection)? {
        return Err(OpenError::Damaged { path: from.to_owned(), reason: defect.detail }.into());
    }
    schema::migrate(&connection)?;
    let batch = witness::Position::stored(&connection)?.batch + 1;
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
        writes.write_head(*number, working, batch)?;
        flusher.flush(*number, working, &memtable, first_unflushed)?;
        let head = working.head;
        positions.push(BackupPosition { space: space.name.clone(), seq: head.seq, hash: head.hash });
    }
    drop((writes, flusher, lookups));
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(positions)
}

#[cfg(test)]
mod tests;
