//! The data directory: whose it is, whether it is whole, and that nobody else uses it. Nothing here repairs or deletes
//! what it did not make itself.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::disk::Disk;
use crate::schema;

const DATABASE: &str = "quorate.db";
const CREATING: &str = "quorate.db-creating";
const LOCK: &str = "quorate.lock";
const PRIVATE: &str = "quorate.private";

/// Why a data directory was not opened. Nothing was changed in it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("the data directory {} is in use by process {holder}", .path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Who has it, as far as known.
        holder: String,
    },
    /// It is not ours.
    #[error("{} is not a data directory of Quorate: {why}", .path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// How that shows.
        why: String,
    },
    /// It was written by a newer release.
    #[error(
        "the data directory {} has format {found}, this release reads up to {known}: use a newer release",
        .path.display()
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: i32,
        /// The newest format that this release knows.
        known: i32,
    },
    /// It is not whole.
    #[error("the data in {} is damaged: {why}", .path.display())]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// How that shows.
        why: String,
    },
    /// There is nothing there.
    #[error("there is no data of Quorate in {}", .path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// The system does not let us.
    #[error("failed to {what} {}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// SQLite does not let us.
    #[error("failed to {what} in {}", .path.display())]
    Sqlite {
        /// What was tried.
        what: &'static str,
        /// In which directory.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// Whether the data itself is wrong, as opposed to the machine or the caller.
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

/// A data directory that this process holds until it drops it.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Takes hold of a directory and makes the database if there is none.
    pub(crate) fn hold(path: &Path, disk: &Disk) -> Result<Self, OpenError> {
        let io = |what| move |source| OpenError::Io { what, path: path.to_owned(), source };
        if !path.exists() {
            make_private(path).map_err(io("create the data directory"))?;
        }
        refuse_foreign(path)?;
        if !database_of(path).exists() {
            // Ours from now on: closed to others before the first byte is written.
            close(path).map_err(io("close to others"))?;
        }
        let lock = take_lock(path)?;
        let held = Self { path: path.to_owned(), _lock: lock };
        check_whole(path)?;
        close_files(path).map_err(io("close to others the files of"))?;
        if !held.database().exists() {
            held.create(disk)?;
        }
        Ok(held)
    }

    pub(crate) fn database(&self) -> PathBuf {
        database_of(&self.path)
    }

    /// Makes the database under another name first, so that a crash leaves either none or a whole one.
    fn create(&self, disk: &Disk) -> Result<(), OpenError> {
        let path = &self.path;
        let io = |what| move |source| OpenError::Io { what, path: path.clone(), source };
        let sqlite = |source| OpenError::Sqlite { what: "create the tables", path: path.clone(), source };
        let creating = path.join(CREATING);
        // Left over from a crash before anything was ever acknowledged here, and made by nobody but us.
        for leftover in [creating.clone(), path.join(format!("{CREATING}-journal"))] {
            match fs::remove_file(leftover) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io("remove a half-made database in")(error));
                }
                _ => {}
            }
        }
        private_file(&creating).map_err(io("create the database in"))?;
        let connection =
            Connection::open_with_flags_and_vfs(&creating, OpenFlags::default(), disk.vfs_name());
        let connection = connection.map_err(sqlite)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(sqlite)?;
        schema::migrate(&connection).map_err(sqlite)?;
        connection.close().map_err(|(_, source)| sqlite(source))?;
        fs::rename(&creating, self.database()).map_err(io("name the new database in"))?;
        sync_directory(path).map_err(io("sync"))
    }
}

/// Where the conduct flags of a data directory are kept: a data directory of its own, inside.
#[must_use]
pub fn private_of(directory: &Path) -> PathBuf {
    directory.join(PRIVATE)
}

/// How many bytes the database of a data directory has with its write-ahead log; `None` if there is none yet. What is
/// private has a directory of its own, and does not count here.
#[must_use]
pub fn data_bytes(directory: &Path) -> Option<u64> {
    let length = |path: PathBuf| fs::metadata(path).ok().map(|file| file.len());
    let wal = length(directory.join(format!("{DATABASE}-wal"))).unwrap_or(0);
    length(database_of(directory)).map(|database| database + wal)
}

pub(crate) fn database_of(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

/// Makes names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => close(path),
    }
}

/// Nobody else may look in.
fn close(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    let _ = path;
    Ok(())
}

/// A new file that nobody else may look into, whatever the umask. What SQLite writes beside a database is as open as that.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Files that were brought here, by hand or by an earlier release, may be open to others.
fn close_files(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    for name in [DATABASE.to_owned(), format!("{DATABASE}-wal"), format!("{DATABASE}-shm"), LOCK.to_owned()] {
        use std::os::unix::fs::PermissionsExt as _;
        let name = path.join(name);
        match fs::metadata(&name) {
            Ok(about) if about.permissions().mode() & 0o077 != 0 => {
                fs::set_permissions(&name, fs::Permissions::from_mode(0o600))?;
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let _ = path;
    Ok(())
}

/// A directory with files of others is not ours to write to.
pub(crate) fn refuse_foreign(path: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { what: "read", path: path.to_owned(), source };
    if !path.is_dir() {
        return Err(OpenError::Foreign { path: path.to_owned(), why: "it is not a directory".into() });
    }
    if database_of(path).exists() {
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("quorate.") {
            let why = format!("it has no {DATABASE}, but it has {name}; give an empty or a new directory");
            return Err(OpenError::Foreign { path: path.to_owned(), why });
        }
    }
    Ok(())
}

fn take_lock(path: &Path) -> Result<File, OpenError> {
    let name = path.join(LOCK);
    let io = |what| move |source| OpenError::Io { what, path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.create(true).read(true).write(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut lock = options.open(&name).map_err(io("write to"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use(path, lock)),
        Err(TryLockError::Error(source)) => return Err(io("lock")(source)),
    }
    lock.set_len(0)
        .and_then(|()| lock.write_all(format!("{}\n", std::process::id()).as_bytes()))
        .map_err(io("write to"))?;
    Ok(lock)
}

/// Keeps hubs out while somebody only reads; several may read. Nothing is written, and where no hub has ever been (a
/// backup has no lock file) there is nothing to hold.
pub(crate) fn share_lock(path: &Path) -> Result<Option<File>, OpenError> {
    let io = |what| move |source| OpenError::Io { what, path: path.to_owned(), source };
    let lock = match File::open(path.join(LOCK)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("read the lock of")(error)),
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Err(in_use(path, lock)),
        Err(TryLockError::Error(source)) => Err(io("lock")(source)),
    }
}

/// The process that holds a data directory, as a hub that runs there does: it takes the right to write there. Nothing
/// is changed.
#[must_use]
pub fn holder(path: &Path) -> Option<String> {
    match share_lock(path) {
        Err(OpenError::InUse { holder, .. }) => Some(holder),
        _ => None,
    }
}

fn in_use(path: &Path, mut lock: File) -> OpenError {
    let mut holder = String::new();
    // Only for the message: an unreadable lock file still means that somebody holds it.
    let _ = lock.read_to_string(&mut holder);
    let holder = if holder.trim().is_empty() { "unknown".into() } else { holder.trim().to_owned() };
    OpenError::InUse { path: path.to_owned(), holder }
}

/// Finds copies that lack a part before SQLite would take them for something else.
pub(crate) fn check_whole(path: &Path) -> Result<(), OpenError> {
    let damaged = |why: String| Err(OpenError::Damaged { path: path.to_owned(), why });
    let database = database_of(path);
    let mut file = match File::open(&database) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let wal = path.join(format!("{DATABASE}-wal"));
            if wal.exists() {
                return damaged(format!(
                    "{DATABASE} is missing, but its write-ahead log is there: half a copy"
                ));
            }
            return Ok(());
        }
        Err(source) => return Err(OpenError::Io { what: "read", path: database, source }),
    };
    let io = |source| OpenError::Io { what: "read", path: database.clone(), source };
    let length = file.metadata().map_err(io)?.len();
    let mut header = [0u8; 100];
    if length < 100 {
        return damaged(format!("{DATABASE} has only {length} bytes: half a copy"));
    }
    file.read_exact(&mut header).map_err(io)?;
    if &header[..16] != b"SQLite format 3\0" {
        let why = format!("{DATABASE} is not a SQLite database");
        return Err(OpenError::Foreign { path: path.to_owned(), why });
    }
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if word(68) as i32 != schema::APPLICATION_ID {
        let why = format!("{DATABASE} was made by another program (application id {:#x})", word(68));
        return Err(OpenError::Foreign { path: path.to_owned(), why });
    }
    let found = word(60) as i32;
    if found > schema::VERSION {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: schema::VERSION });
    }
    let page_size = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let wal_bytes = fs::metadata(path.join(format!("{DATABASE}-wal"))).map_or(0, |wal| wal.len());
    let expected = u64::from(word(28)) * page_size;
    // With a write-ahead log the missing pages may be in there; SQLite finds out when it reads them.
    if length < expected && wal_bytes == 0 {
        return damaged(format!("{DATABASE} has {length} bytes of {expected}: half a copy"));
    }
    Ok(())
}
