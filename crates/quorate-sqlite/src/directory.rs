//! Data directory: ownership and completeness. Nothing here repairs data, or deletes files that it did not
//! create itself.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::directory_lock::DirectoryLock;
use crate::disk::{self, Disk};
use crate::witness::{self, Location, Position, WITNESS};
use crate::{incomplete, schema};

const DATABASE: &str = "quorate.db";
const CREATING: &str = "quorate.db-creating";
pub(crate) const LOCK: &str = "quorate.lock";
const PRIVATE: &str = "quorate.private";

/// Error of opening a data directory. The directory was not changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has locked the directory.
    #[error("the data directory {} is in use by process {holder}", .path.display())]
    InUse {
        /// Path of the directory.
        path: PathBuf,
        /// Process id from the lock file, or `unknown`.
        holder: String,
    },
    /// The directory does not belong to Quorate.
    #[error("{} is not a Quorate data directory: {reason}", .path.display())]
    Foreign {
        /// Path of the directory.
        path: PathBuf,
        /// Description of the problem, for users.
        reason: String,
    },
    /// The directory was written by a newer release.
    #[error(
        "the data directory {} has format {found}, but this release supports formats up to {known}; use a newer release",
        .path.display()
    )]
    Newer {
        /// Path of the directory.
        path: PathBuf,
        /// Format of the directory.
        found: i32,
        /// Newest format that this release supports.
        known: i32,
    },
    /// The data is incomplete or inconsistent.
    #[error("the data in {} is damaged: {reason}", .path.display())]
    Damaged {
        /// Path of the directory.
        path: PathBuf,
        /// Description of the problem, for users.
        reason: String,
    },
    /// The directory does not exist or contains no database.
    #[error("there is no Quorate data in {}", .path.display())]
    Missing {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("failed to {action} {}", .path.display())]
    Io {
        /// Action that failed, as a verb phrase.
        action: &'static str,
        /// Path that the action was for.
        path: PathBuf,
        /// Underlying error.
        #[source]
        source: io::Error,
    },
    /// SQLite returned an error.
    #[error("failed to {action} in {}", .path.display())]
    Sqlite {
        /// Action that failed, as a verb phrase.
        action: &'static str,
        /// Path of the directory.
        path: PathBuf,
        /// Underlying error.
        #[source]
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// Whether the data itself is damaged or unusable, as opposed to a problem of the machine or the call.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::Foreign { .. } | Self::Newer { .. } => true,
            Self::Sqlite { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase)
            ),
            Self::InUse { .. } | Self::Missing { .. } | Self::Io { .. } => false,
        }
    }
}

/// Data directory that this process has locked and whose database exists.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    lock: DirectoryLock,
}

impl DataDirectory {
    /// Checks a locked directory; creates the database if it does not exist.
    pub(crate) fn prepare(lock: DirectoryLock, disk: &Disk) -> Result<Self, OpenError> {
        let path = lock.path();
        check_complete(path)?;
        restrict_files(path).map_err(|source| OpenError::Io {
            action: "restrict the permissions of the files in",
            path: path.to_owned(),
            source,
        })?;
        let directory = Self { lock };
        if !directory.database().exists() {
            directory.create(disk)?;
        }
        Ok(directory)
    }

    fn path(&self) -> &Path {
        self.lock.path()
    }

    pub(crate) fn database(&self) -> PathBuf {
        database_path(self.path())
    }

    /// Creates the database under a temporary name and renames it, so that a crash leaves either no database or a
    /// complete one.
    fn create(&self, disk: &Disk) -> Result<(), OpenError> {
        let path = self.path();
        let io = |action| move |source| OpenError::Io { action, path: path.to_owned(), source };
        let sqlite =
            |source| OpenError::Sqlite { action: "create the tables", path: path.to_owned(), source };
        let creating = self.begin_database(disk)?;
        let connection = disk.open(&creating, OpenFlags::default()).map_err(sqlite)?;
        disk::reserve_checksums(&connection).map_err(sqlite)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(sqlite)?;
        schema::migrate(&connection).map_err(sqlite)?;
        let position = Position::stored(&connection).map_err(sqlite)?;
        connection.close().map_err(|(_, source)| sqlite(source))?;
        // Before the database gets its name: without a witness it counts as damaged.
        Location::of(path).create(disk, &position)?;
        fs::rename(&creating, self.database()).map_err(io("rename the new database in"))?;
        sync_directory(path).map_err(io("sync"))
    }

    /// Creates an empty file under the temporary name of a database.
    fn begin_database(&self, disk: &Disk) -> Result<PathBuf, OpenError> {
        let path = self.path();
        let io = |action| move |source| OpenError::Io { action, path: path.to_owned(), source };
        let creating = path.join(CREATING);
        // Left behind by a crash during an earlier creation. Nothing was acknowledged from it, so it can be deleted.
        for leftover in [creating.clone(), path.join(format!("{CREATING}-journal"))] {
            match fs::remove_file(leftover) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io("remove an incomplete database in")(error));
                }
                _ => {}
            }
        }
        create_private_file(&creating).map_err(io("create the database in"))?;
        disk.add_checksums_to_new_files();
        Ok(creating)
    }

    /// Rewrites a database without page checksums, which an earlier release wrote: every page has to become shorter. A
    /// crash leaves the old database or the new one. The schema must be the newest without checksums: its version shows
    /// that the database has a witness.
    pub(crate) fn add_checksums(&self, connection: Connection, disk: &Disk) -> Result<(), OpenError> {
        let path = self.path();
        let io = |action| move |source| OpenError::Io { action, path: path.to_owned(), source };
        let sqlite = |source| OpenError::Sqlite {
            action: "add checksums to the database",
            path: path.to_owned(),
            source,
        };
        // A write-ahead log of the old file would be applied to the new one.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(sqlite)?;
        connection.pragma_update(None, "journal_mode", "DELETE").map_err(sqlite)?;
        let creating = self.begin_database(disk)?;
        disk::reserve_checksums(&connection).map_err(sqlite)?;
        let target = creating.to_string_lossy();
        connection.execute("VACUUM INTO ?1", [&*target]).map_err(sqlite)?;
        connection.close().map_err(|(_, source)| sqlite(source))?;
        let rewritten = disk.open(&creating, OpenFlags::default()).map_err(sqlite)?;
        schema::migrate(&rewritten).map_err(sqlite)?;
        rewritten.close().map_err(|(_, source)| sqlite(source))?;
        File::open(&creating).and_then(|file| file.sync_all()).map_err(io("sync the new database in"))?;
        fs::rename(&creating, self.database()).map_err(io("rename the new database in"))?;
        sync_directory(path).map_err(io("sync"))
    }
}

/// Whether a directory is named like the nested one that stores conduct flags.
pub(crate) fn is_private_name(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name == PRIVATE)
}

/// Returns the path of the nested data directory that stores conduct flags.
#[must_use]
pub fn private_directory(directory: &Path) -> PathBuf {
    directory.join(PRIVATE)
}

/// Returns the size of the database and its write-ahead log in bytes; `None` if there is no database. The nested private
/// directory is not included.
#[must_use]
pub fn database_bytes(directory: &Path) -> Option<u64> {
    let length = |path: PathBuf| fs::metadata(path).ok().map(|file| file.len());
    let wal = length(directory.join(format!("{DATABASE}-wal"))).unwrap_or(0);
    length(database_path(directory)).map(|database| database + wal)
}

pub(crate) fn database_path(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

/// Syncs a directory, which makes created and renamed files durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => restrict_directory(path),
    }
}

/// Restricts a directory to its owner.
pub(crate) fn restrict_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    let _ = path;
    Ok(())
}

/// Creates a file that only its owner can access, whatever the umask. SQLite creates its WAL and journal files with the
/// permissions of the database.
pub(crate) fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Restricts the files of a directory to their owner: files that were copied here, or created by an earlier release, may
/// be readable by others.
fn restrict_files(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    for name in [DATABASE, &format!("{DATABASE}-wal"), &format!("{DATABASE}-shm"), LOCK, WITNESS] {
        use std::os::unix::fs::PermissionsExt as _;
        let name = path.join(name);
        match fs::metadata(&name) {
            Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => {
                fs::set_permissions(&name, fs::Permissions::from_mode(0o600))?;
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let _ = path;
    Ok(())
}

/// Rejects a path that is not a directory, or that contains files of other programs but no database.
pub(crate) fn reject_foreign(path: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { action: "read", path: path.to_owned(), source };
    if !path.is_dir() {
        return Err(OpenError::Foreign { path: path.to_owned(), reason: "it is not a directory".into() });
    }
    if database_path(path).exists() {
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("quorate.") {
            let reason = format!("it contains {name}, but no {DATABASE}; choose an empty or a new directory");
            return Err(OpenError::Foreign { path: path.to_owned(), reason });
        }
    }
    Ok(())
}

/// Detects incomplete copies before SQLite opens them and misinterprets them.
pub(crate) fn check_complete(path: &Path) -> Result<(), OpenError> {
    let damaged = |reason: String| Err(OpenError::Damaged { path: path.to_owned(), reason });
    if incomplete::marker(path).exists() {
        let marker = incomplete::INCOMPLETE;
        return damaged(format!(
            "a backup or a restore into it was interrupted ({marker}); delete the directory and repeat the command"
        ));
    }
    let database = database_path(path);
    let mut file = match File::open(&database) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let wal = path.join(format!("{DATABASE}-wal"));
            if wal.exists() {
                return damaged(format!(
                    "{DATABASE} is missing, but its write-ahead log exists: the copy is incomplete"
                ));
            }
            let defect = witness::check_missing_database(path)?;
            return defect.map_or(Ok(()), |defect| damaged(defect.detail));
        }
        Err(source) => return Err(OpenError::Io { action: "read", path: database, source }),
    };
    let io = |source| OpenError::Io { action: "read", path: database.clone(), source };
    let length = file.metadata().map_err(io)?.len();
    let mut header = [0u8; 100];
    if length < 100 {
        return damaged(format!("{DATABASE} has only {length} bytes: the copy is incomplete"));
    }
    file.read_exact(&mut header).map_err(io)?;
    if &header[..16] != b"SQLite format 3\0" {
        let reason = format!("{DATABASE} is not a SQLite database");
        return Err(OpenError::Foreign { path: path.to_owned(), reason });
    }
    let header_u32 =
        |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if header_u32(68) as i32 != schema::APPLICATION_ID {
        let reason =
            format!("{DATABASE} was created by another program (application id {:#x})", header_u32(68));
        return Err(OpenError::Foreign { path: path.to_owned(), reason });
    }
    let found = header_u32(60) as i32;
    if found > schema::VERSION {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: schema::VERSION });
    }
    let reserved = usize::from(header[disk::RESERVED_AT]);
    if found >= schema::VERSION_WITH_CHECKSUMS && reserved != disk::CHECKSUM_BYTES {
        return damaged(format!(
            "the header of {DATABASE} reserves {reserved} bytes a page, not the {} of a checksum",
            disk::CHECKSUM_BYTES
        ));
    }
    let page_size = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let wal_bytes = fs::metadata(path.join(format!("{DATABASE}-wal"))).map_or(0, |wal| wal.len());
    let expected = u64::from(header_u32(28)) * page_size;
    // With a write-ahead log, the missing pages may be in it; SQLite reports an error if they are not.
    if length < expected && wal_bytes == 0 {
        return damaged(format!("{DATABASE} has {length} of {expected} bytes: the copy is incomplete"));
    }
    Ok(())
}
