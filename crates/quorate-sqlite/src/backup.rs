//! Backup while work goes on, and restore with a new generation.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use quorate_core::codec::fingerprint;
use quorate_core::{Generation, Now, Seq, SpaceName, Timestamp, restored};
use quorate_store::Position;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::carry::Carry;
use crate::directory::{
    OpenError, check_whole, database_of, make_private, private_file, private_of, sync_directory,
};
use crate::disk::Disk;
use crate::load::{self, LoadError};
use crate::lookup::Lookups;
use crate::offline::{Offline, copy_file};
use crate::open::connect;
use crate::readers::ReadError;
use crate::tail::{Tail, Tails};
use crate::write::Writes;

/// A database that is not all there yet.
const PARTIAL: &str = "quorate.db-partial";

/// Why a backup was not made.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The data cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is something already where the copy would be.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The copy cannot be written.
    #[error("{0}; nothing was changed in the data directory")]
    Copy(String),
}

/// Copies a data directory, whether a hub works in it or not. A hub that runs is not held up: this reads beside it, as of
/// one moment, which the positions name.
///
/// # Errors
/// When the data cannot be read, or the copy not written.
pub fn backup(from: &Path, to: &Path) -> Result<Vec<Position>, BackupError> {
    check_free(to)?;
    copy_both(from, to).inspect_err(|_| remove_what_was_begun(to))
}

/// The database is what makes a directory one of data, so it comes last: a copy that was cut short is none.
fn copy_both(from: &Path, to: &Path) -> Result<Vec<Position>, BackupError> {
    let (private, private_to) = (private_of(from), private_of(to));
    if private.exists() {
        // Where that stands is for moderators to know.
        read_beside(&private, |connection| write_into(connection, &private_to))?;
    }
    read_beside(from, |connection| write_into(connection, to))
}

/// Looks what a backup made now would hold, and whether it could be made. Writes nothing.
///
/// # Errors
/// As [`backup`].
pub fn backup_dry(from: &Path, to: &Path) -> Result<Vec<Position>, BackupError> {
    check_free(to)?;
    let private = private_of(from);
    if private.exists() {
        read_beside(&private, positions)?;
    }
    read_beside(from, positions)
}

fn check_free(to: &Path) -> Result<(), BackupError> {
    match is_taken(to) {
        Ok(false) => Ok(()),
        Ok(true) => Err(BackupError::NotEmpty(to.to_owned())),
        Err(error) => Err(BackupError::Copy(format!("cannot read {}: {error}", to.display()))),
    }
}

/// Takes away what was written into a directory that was empty before, so that it can be tried again. What cannot be
/// taken away is seen by whoever tries.
fn remove_what_was_begun(to: &Path) {
    let _ = fs::remove_dir_all(private_of(to));
    for end in ["", "-journal", "-wal", "-shm"] {
        let _ = fs::remove_file(to.join(format!("{PARTIAL}{end}")));
    }
}

fn read_beside(
    from: &Path,
    act: impl Fn(&Connection) -> Result<Vec<Position>, ReadError>,
) -> Result<Vec<Position>, BackupError> {
    let done = match Offline::open(from) {
        Ok(offline) => act(&offline.connection),
        Err(OpenError::InUse { .. }) => {
            let sqlite =
                |source| OpenError::Sqlite { what: "open the database", path: from.to_owned(), source };
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            act(&connect(&database_of(from), &Disk::new(), flags).map_err(sqlite)?)
        }
        Err(error) => return Err(error.into()),
    };
    done.map_err(|error| BackupError::Copy(error.to_string()))
}

/// Whether there is anything in a directory.
fn is_taken(directory: &Path) -> std::io::Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes a copy of the database into a directory, which is then itself a data directory, only not in use.
pub(crate) fn write(connection: &Connection, to: &Path) -> Result<Vec<Position>, ReadError> {
    let other =
        |what: &str, error: std::io::Error| ReadError::Other(format!("{what} {}: {error}", to.display()));
    if is_taken(to).map_err(|error| other("cannot read", error))? {
        return Err(ReadError::Other(format!("{} is not empty; give a new directory", to.display())));
    }
    write_into(connection, to)
}

fn write_into(connection: &Connection, to: &Path) -> Result<Vec<Position>, ReadError> {
    let other =
        |what: &str, error: std::io::Error| ReadError::Other(format!("{what} {}: {error}", to.display()));
    make_private(to).map_err(|error| other("cannot make", error))?;
    let database = database_of(to);
    let partial = to.join(PARTIAL);
    private_file(&partial).map_err(|error| other("cannot write to", error))?;
    {
        let mut copy = Connection::open(&partial)?;
        // All pages in one step: one snapshot, whatever is written meanwhile.
        match Backup::new(connection, &mut copy)?.step(-1)? {
            StepResult::Done => {}
            _ => return Err(ReadError::Other("the database was locked; try again".into())),
        }
        // The copy is one file: no log beside it that could be forgotten.
        copy.pragma_update(None, "journal_mode", "DELETE")?;
    }
    let positions = positions(&Connection::open_with_flags(&partial, OpenFlags::SQLITE_OPEN_READ_ONLY)?)?;
    File::open(&partial).and_then(|file| file.sync_all()).map_err(|error| other("cannot sync", error))?;
    fs::rename(&partial, &database).map_err(|error| other("cannot name", error))?;
    sync_directory(to).map_err(|error| other("cannot sync", error))?;
    Ok(positions)
}

fn positions(connection: &Connection) -> Result<Vec<Position>, ReadError> {
    let mut statement = connection.prepare("SELECT name, seq, hash FROM spaces ORDER BY number")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)))?;
    let mut found = Vec::new();
    for row in rows {
        let (name, seq, hash) = row?;
        let space = SpaceName::new(name).map_err(|refused| ReadError::Other(refused.detail))?;
        found.push(Position { space, seq: Seq(seq), hash });
    }
    Ok(found)
}

/// Why a backup was not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is something already.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The backup cannot be used.
    #[error(transparent)]
    Backup(#[from] OpenError),
    /// The system does not let us.
    #[error("failed to {what} {}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// SQLite does not let us.
    #[error("failed to mark the restored data")]
    Sqlite(#[from] rusqlite::Error),
    /// What was held cannot be given back.
    #[error("failed to end what was held when the backup was made: {0}")]
    Decide(String),
}

/// Copies a backup into a new data directory and begins a new generation in every space, so that tokens, fences and
/// versions go up, never back. What was held when the backup was made is held by nobody any more.
///
/// # Errors
/// When the backup is damaged or the directory is not empty. The backup itself is never changed.
pub fn restore(from: &Path, to: &Path, now: Timestamp) -> Result<Vec<Position>, RestoreError> {
    check_restore(from, to)?;
    restore_both(from, to, now).inspect_err(|_| remove_what_was_begun(to))
}

/// As for a copy, the database comes last.
fn restore_both(from: &Path, to: &Path, now: Timestamp) -> Result<Vec<Position>, RestoreError> {
    let private = private_of(from);
    if private.exists() {
        restore_one(&private, &private_of(to), now)?;
    }
    restore_one(from, to, now)
}

fn restore_one(from: &Path, to: &Path, now: Timestamp) -> Result<Vec<Position>, RestoreError> {
    let io = io_error;
    make_private(to).map_err(io("make", to))?;
    let partial = to.join(PARTIAL);
    copy_file(&database_of(from), &partial).map_err(io("copy to", &partial))?;
    let positions = begin_generation(&partial, from, now)?;
    File::open(&partial).and_then(|file| file.sync_all()).map_err(io("sync", &partial))?;
    fs::rename(&partial, database_of(to)).map_err(io("name", to))?;
    sync_directory(to).map_err(io("sync", to))?;
    Ok(positions)
}

/// Looks what a backup holds, and whether it could be restored there. Writes nothing.
///
/// # Errors
/// As [`restore`].
pub fn restore_dry(from: &Path, to: &Path) -> Result<Vec<Position>, RestoreError> {
    check_restore(from, to)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let found = positions(&Connection::open_with_flags(database_of(from), flags)?);
    found.map_err(|why| OpenError::Damaged { path: from.to_owned(), why: why.to_string() }.into())
}

fn check_restore(from: &Path, to: &Path) -> Result<(), RestoreError> {
    if is_taken(to).map_err(io_error("read", to))? {
        return Err(RestoreError::NotEmpty(to.to_owned()));
    }
    let private = Some(private_of(from)).filter(|private| private.exists());
    for part in std::iter::once(from).chain(private.as_deref()) {
        if !database_of(part).exists() {
            return Err(OpenError::Missing { path: part.to_owned() }.into());
        }
        check_whole(part)?;
    }
    Ok(())
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RestoreError + use<> {
    let path = path.to_owned();
    move |source| RestoreError::Io { what, path, source }
}

/// Minutes since 2026 began: the lowest generation of a restore now, so that two restores of one backup differ.
fn minutes_since_2026(now: Timestamp) -> u64 {
    const START_MS: u64 = 1_767_225_600_000;
    now.0.saturating_sub(START_MS) / 60_000
}

fn begin_generation(database: &Path, from: &Path, now: Timestamp) -> Result<Vec<Position>, RestoreError> {
    let disk = Disk::new();
    let connection = connect(database, &disk, OpenFlags::default())?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let loaded = load::spaces(&connection, Now { wall: now, ..Now::default() });
    let mut spaces = loaded.map_err(|error| match error {
        LoadError::Sqlite(source) => RestoreError::Sqlite(source),
        LoadError::Damaged(why) => OpenError::Damaged { path: from.to_owned(), why }.into(),
    })?;
    let mut positions = Vec::new();
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut writes = Writes::prepare(&connection)?;
    let mut carry = Carry::prepare(&connection)?;
    let lookups = Lookups::prepare(&connection, Tails::new(BTreeMap::new()))?;
    for (number, space) in &mut spaces {
        let working = &mut space.working;
        // The tables first reach the end of the backup: what the new record does is looked up in them.
        carry.over(*number, working, &space.tail, space.first_new)?;
        let first_new = working.kept().next_delivery;
        let generation = Generation((working.head.generation.0 + 1).max(minutes_since_2026(now)));
        lookups.space.set(*number);
        let decided = restored(working, &lookups, generation, now);
        let decided = decided.map_err(|no| RestoreError::Decide(no.to_string()))?;
        let mut tail = Tail::default();
        if let Some(record) = &decided.record {
            writes.record(*number, record)?;
            let what = (&decided.effects[..], &decided.ended[..]);
            tail.take_in(working, record, what, |sent, n| fingerprint::of_logged(sent, n, &decided.effects));
        }
        writes.new_era(*number, working)?;
        writes.head(*number, working)?;
        carry.over(*number, working, &tail, first_new)?;
        let head = working.head;
        positions.push(Position { space: space.name.clone(), seq: head.seq, hash: head.hash });
    }
    drop((writes, carry, lookups));
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(positions)
}
