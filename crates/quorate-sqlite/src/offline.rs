//! Read-only access to a data directory that no hub uses. Nothing in it is created, changed or deleted.
//!
//! Opening fails if a hub is running, because the hub holds the lock exclusively. The lock is held shared meanwhile, so
//! that no hub can start. The database is opened in place with `immutable=1`, so that SQLite creates no files next to it.
//! That is not possible if a crash left a write-ahead log or a rollback journal behind, or if the schema is older: then
//! the files are copied to a temporary directory, where SQLite can recover or migrate them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::directory::{OpenError, check_complete, create_private_file, database_path, reject_foreign};
use crate::directory_lock::{DirectoryLock, lock_shared};
use crate::disk::Disk;
use crate::verify::Defect;
use crate::{schema, witness};

/// Read-only database. The order of the fields is the drop order: the connection, then the copy, then the lock.
pub(crate) struct OfflineDatabase {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) disk: Arc<Disk>,
    /// Whether the database was migrated in a copy. Then nothing in it corresponds to the witness.
    is_older: bool,
    _copy: Option<TempDir>,
    _lock: Option<File>,
}

impl OfflineDatabase {
    /// Opens a directory under a shared lock.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        if !path.exists() {
            return Err(OpenError::Missing { path: path.to_owned() });
        }
        reject_foreign(path)?;
        let lock = lock_shared(path)?;
        Self::open_under(lock, path)
    }

    /// Opens a directory that this process has locked exclusively.
    pub(crate) fn open_locked(lock: &DirectoryLock) -> Result<Self, OpenError> {
        Self::open_under(None, lock.path())
    }

    fn open_under(lock: Option<File>, path: &Path) -> Result<Self, OpenError> {
        check_complete(path)?;
        if !database_path(path).exists() {
            return Err(OpenError::Missing { path: path.to_owned() });
        }
        let disk = Disk::new();
        let opened =
            if has_leftovers(path) { open_copy(path, &disk) } else { open_or_copy_older(path, &disk) };
        let Opened { connection, is_older, copy } = opened?;
        check_version(&connection, path)?;
        let path = path.to_owned();
        let offline = Self { connection, path, disk, is_older, _copy: copy, _lock: lock };
        offline
            .connection
            .execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384")
            .map_err(|source| offline.sqlite_error("read the database", source))?;
        Ok(offline)
    }

    /// Opens a directory like [`OfflineDatabase::open`], and fails if data is missing that its witness states.
    pub(crate) fn open_complete(path: &Path) -> Result<Self, OpenError> {
        let offline = Self::open(path)?;
        match offline.lost_data()? {
            None => Ok(offline),
            Some(defect) => Err(OpenError::Damaged { path: path.to_owned(), reason: defect.detail }),
        }
    }

    /// Compares the database with its witness.
    pub(crate) fn lost_data(&self) -> Result<Option<Defect>, OpenError> {
        if self.is_older { Ok(None) } else { witness::check(&self.path, &self.connection) }
    }

    pub(crate) fn sqlite_error(&self, action: &'static str, source: rusqlite::Error) -> OpenError {
        let error = OpenError::Sqlite { action, path: self.path.clone(), source };
        match self.disk.damaged_page() {
            Some(page) if error.is_damage() => {
                OpenError::Damaged { path: self.path.clone(), reason: page.to_string() }
            }
            _ => error,
        }
    }
}

/// Opened database, or a copy of it.
struct Opened {
    connection: Connection,
    is_older: bool,
    copy: Option<TempDir>,
}

/// Suffixes of files next to the database that may contain a part of the data.
const SIDECAR_SUFFIXES: [&str; 2] = ["-wal", "-journal"];

fn sidecar(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn has_leftovers(path: &Path) -> bool {
    let length = |suffix| fs::metadata(sidecar(&database_path(path), suffix)).map_or(0, |found| found.len());
    SIDECAR_SUFFIXES.into_iter().any(|suffix| length(suffix) > 0)
}

fn open_or_copy_older(path: &Path, disk: &Disk) -> Result<Opened, OpenError> {
    let sqlite = |source| OpenError::Sqlite { action: "open the database", path: path.to_owned(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = disk.open(Path::new(&immutable_uri(&database_path(path))), flags).map_err(sqlite)?;
    let version: i32 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sqlite)?;
    if (1..schema::VERSION).contains(&version) {
        return open_copy(path, disk);
    }
    Ok(Opened { connection, is_older: false, copy: None })
}

fn open_copy(path: &Path, disk: &Disk) -> Result<Opened, OpenError> {
    let database = database_path(path);
    let io = |action| move |source| OpenError::Io { action, path: path.to_owned(), source };
    let sqlite =
        |source| OpenError::Sqlite { action: "open a copy of the database", path: path.to_owned(), source };
    let copy = tempfile::Builder::new().prefix("quorate-").tempdir();
    let copy = copy.map_err(io("create a temporary directory for a copy of"))?;
    let copied = database_path(copy.path());
    copy_file(&database, &copied).map_err(io("copy the database in"))?;
    for suffix in SIDECAR_SUFFIXES {
        if sidecar(&database, suffix).exists() {
            copy_file(&sidecar(&database, suffix), &sidecar(&copied, suffix))
                .map_err(io("copy the write-ahead log in"))?;
        }
    }
    let connection = disk.open(&copied, OpenFlags::default()).map_err(sqlite)?;
    let version: i32 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sqlite)?;
    let is_older = (1..schema::VERSION).contains(&version);
    if is_older {
        if let Some(defect) = witness::check(path, &connection)? {
            return Err(OpenError::Damaged { path: path.to_owned(), reason: defect.detail });
        }
        schema::migrate(&connection).map_err(sqlite)?;
    }
    Ok(Opened { connection, is_older, copy: Some(copy) })
}

/// Copies the content of a file but not its permissions: the copy must be writable, and accessible to its owner only.
pub(crate) fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, create_private_file(to)?);
    std::io::copy(&mut from, &mut to).map(drop)
}

/// Checks the schema version through SQLite: with a write-ahead log, the file header may be outdated.
fn check_version(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let sqlite = |source| OpenError::Sqlite { action: "read the format", path: path.to_owned(), source };
    let found: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sqlite)?;
    let newest = schema::newest(connection).map_err(sqlite)?;
    match found {
        _ if found == newest => Ok(()),
        _ if found > schema::VERSION => {
            Err(OpenError::Newer { path: path.to_owned(), found, known: schema::VERSION })
        }
        _ => Err(OpenError::Damaged { path: path.to_owned(), reason: format!("unknown format {found}") }),
    }
}

/// Returns a URI that opens a database as immutable: SQLite then neither locks it nor creates files next to it.
fn immutable_uri(database: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in database.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte))
            }
            b'\\' if cfg!(windows) => uri.push('/'),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?immutable=1"
}
