//! Lock on a data directory: exclusive for a hub, shared for tools that read the directory while no hub runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::directory::{
    LOCK, OpenError, create_private_directory, database_path, reject_foreign, restrict_directory,
};
use crate::symlinks::reject_symlinks;

/// Exclusive lock of this process on a data directory. Dropping it releases the lock.
///
/// A start takes it once, before it verifies anything, and holds it until the hub is closed. A lock that is released
/// between verification and opening could be lost to another process that is starting, which then fails the same way.
#[derive(Debug)]
pub struct DirectoryLock {
    path: PathBuf,
    _file: File,
}

impl DirectoryLock {
    /// Locks a data directory; creates the directory if it does not exist.
    ///
    /// # Errors
    /// Fails if the directory is in use, belongs to another program or cannot be written.
    pub fn acquire(path: &Path) -> Result<Self, OpenError> {
        let io = |action| move |source| OpenError::Io { action, path: path.to_owned(), source };
        if !path.exists() {
            create_private_directory(path).map_err(io("create the data directory"))?;
        }
        reject_foreign(path)?;
        reject_symlinks(path)?;
        if !database_path(path).exists() {
            // Restrict access before the first byte of data is written.
            restrict_directory(path).map_err(io("restrict the permissions of"))?;
        }
        Ok(Self { path: path.to_owned(), _file: take_lock(path)? })
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn take_lock(path: &Path) -> Result<File, OpenError> {
    let name = path.join(LOCK);
    let io = |action| move |source| OpenError::Io { action, path: path.to_owned(), source };
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

/// Takes a shared lock, which prevents a hub from starting but allows other readers. Nothing is written: without a lock
/// file (a backup has none) no lock is taken.
pub(crate) fn lock_shared(path: &Path) -> Result<Option<File>, OpenError> {
    let io = |action| move |source| OpenError::Io { action, path: path.to_owned(), source };
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

/// Returns the process id of the hub that has locked a data directory; `None` if it is not locked. Requires read access
/// to the lock file; changes nothing.
#[must_use]
pub fn lock_holder(path: &Path) -> Option<String> {
    match lock_shared(path) {
        Err(OpenError::InUse { holder, .. }) => Some(holder),
        _ => None,
    }
}

fn in_use(path: &Path, mut lock: File) -> OpenError {
    let mut holder = String::new();
    // Only for the error message: the directory is locked even if the lock file cannot be read.
    let _ = lock.read_to_string(&mut holder);
    let holder = if holder.trim().is_empty() { "unknown".into() } else { holder.trim().to_owned() };
    OpenError::InUse { path: path.to_owned(), holder }
}
