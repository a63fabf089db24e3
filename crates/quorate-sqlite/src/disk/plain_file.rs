//! File that SQLite does not know, written through the VFS of a disk: the counters, the injected faults and the images
//! after a power loss cover it like SQLite's own files.

use std::ffi::c_int;
use std::path::Path;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64};

use super::Disk;

/// Open file. It exists already: SQLite would create it with the permissions of the umask.
pub(crate) struct PlainFile {
    /// Memory of the file of the VFS, aligned to eight bytes; owned. A raw pointer, because the file refers to itself.
    memory: *mut [u64],
    /// Path, followed by zero bytes. The VFS keeps a pointer to it.
    name: Box<[u8]>,
}

// SAFETY: the methods of a file may be called from any thread, one at a time, and all methods here take `&mut self`.
unsafe impl Send for PlainFile {}

impl PlainFile {
    /// Opens an existing file for writing. `path` is absolute.
    pub(crate) fn open(disk: &Disk, path: &Path) -> rusqlite::Result<Self> {
        let mut name = path.as_os_str().as_encoded_bytes().to_vec();
        name.extend([0; 4]);
        // SAFETY: the name is a C string. The disk was registered under it, and stays registered.
        let vfs = unsafe { ffi::sqlite3_vfs_find(disk.context.name.as_ptr()) };
        assert!(!vfs.is_null(), "a disk stays registered");
        // SAFETY: a registered VFS is never freed.
        let (size, open) = unsafe { ((*vfs).szOsFile, (*vfs).xOpen) };
        let memory = vec![0; usize::try_from(size).unwrap_or(0).div_ceil(8)];
        let opened = Self { memory: Box::into_raw(memory.into_boxed_slice()), name: name.into_boxed_slice() };
        // A journal: SQLite takes no locks on it. The caller that creates the file syncs its directory.
        let (flags, mut flags_out) = (ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_MAIN_JOURNAL, 0);
        // SAFETY: the file has `szOsFile` writable bytes and the name is a C string; both live until it is closed.
        let code = unsafe {
            open.map_or(ffi::SQLITE_CANTOPEN, |open| {
                open(vfs, opened.name.as_ptr().cast(), opened.file(), flags, &raw mut flags_out)
            })
        };
        checked(code)?;
        Ok(opened)
    }

    /// Writes bytes at an offset.
    pub(crate) fn write_at(&mut self, bytes: &[u8], offset: u64) -> rusqlite::Result<()> {
        let amount = c_int::try_from(bytes.len()).expect("a few kilobytes");
        let offset = sqlite3_int64::try_from(offset).expect("a small file");
        let file = self.file();
        // SAFETY: the file is open, so it has methods, and the buffer has `amount` bytes.
        let code = unsafe {
            (*(*file).pMethods)
                .xWrite
                .map_or(ffi::SQLITE_IOERR_WRITE, |write| write(file, bytes.as_ptr().cast(), amount, offset))
        };
        checked(code)
    }

    /// Makes all writes durable, but not the time of the change.
    pub(crate) fn sync(&mut self) -> rusqlite::Result<()> {
        let file = self.file();
        // SAFETY: the file is open, so it has methods.
        let code = unsafe {
            (*(*file).pMethods).xSync.map_or(ffi::SQLITE_IOERR_FSYNC, |sync| {
                sync(file, ffi::SQLITE_SYNC_NORMAL | ffi::SQLITE_SYNC_DATAONLY)
            })
        };
        checked(code)
    }

    fn file(&self) -> *mut sqlite3_file {
        self.memory.cast()
    }
}

impl Drop for PlainFile {
    fn drop(&mut self) {
        let file = self.file();
        // SAFETY: a file without methods is not open; otherwise it is closed once, here. Then nothing refers to the
        // memory any more, which was allocated as a box.
        unsafe {
            if let Some(close) = (*file).pMethods.as_ref().and_then(|methods| methods.xClose) {
                close(file);
            }
            drop(Box::from_raw(self.memory));
        }
    }
}

fn checked(code: c_int) -> rusqlite::Result<()> {
    match code {
        ffi::SQLITE_OK => Ok(()),
        _ => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)),
    }
}
