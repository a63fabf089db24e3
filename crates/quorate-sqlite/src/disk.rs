//! SQLite VFS shim: a thin layer over SQLite's default VFS.
//!
//! In production it counts syncs, their duration and the bytes written, preallocates the write-ahead log, and adds
//! checksums to the pages of a database and verifies them on every read. With the
//! feature `faults` it can also simulate a full disk, I/O errors and power loss, so that tests can check what survives.
//! Everything else, including shared memory, is forwarded unchanged. Memory-mapped reads are not offered, because they
//! would not be verified.
//!
//! This is the only module of the workspace with unsafe code: a VFS is a table of C functions.
#![allow(unsafe_code)]

pub(crate) mod clock;
mod counters;
#[cfg(feature = "faults")]
pub(crate) mod faults;
mod file;
#[cfg(not(feature = "faults"))]
mod no_faults;
mod page_checksum;
mod plain_file;
#[cfg(test)]
mod tests;
mod vfs;

use std::ffi::CString;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OpenFlags};

use counters::AtomicCounters;
pub use counters::{Counters, FileCounters};
#[cfg(feature = "faults")]
use faults::{Faults, FileId};
#[cfg(not(feature = "faults"))]
use no_faults::{FileId, NoFaults as Faults};
pub(crate) use page_checksum::{CHECKSUM_BYTES, DamagedPage, RESERVED_AT, has_checksums, reserve_checksums};
pub(crate) use plain_file::PlainFile;
use vfs::RealVfs;

/// VFS that one or more connections are opened on.
///
/// Open connections on it with `Connection::open_with_flags_and_vfs` and [`Disk::vfs_name`]. Each disk has its
/// own counters and its own faults.
///
/// SQLite keeps a pointer to the VFS in every connection and does not report when the last one is closed. The few
/// hundred bytes behind a disk therefore stay registered until the process ends: create one disk per store, not one
/// per connection.
pub struct Disk {
    name: String,
    context: &'static VfsContext,
}

impl Disk {
    /// Registers a new disk over the default VFS, under a unique name.
    ///
    /// # Panics
    ///
    /// If SQLite cannot be initialised, which only happens when it is out of memory.
    pub fn new() -> Arc<Disk> {
        // SQLite has one list of VFS names per process, so the counter is per process too.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("quorate-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let context: &'static VfsContext = Box::leak(Box::new(VfsContext {
            name: CString::new(name.as_str()).expect("the name has no NUL byte"),
            real: RealVfs::find_default(),
            counters: AtomicCounters::default(),
            faults: Faults::default(),
            checksums_new_files: AtomicBool::new(false),
            damage: Mutex::default(),
        }));
        vfs::register(context);
        Arc::new(Disk { name, context })
    }

    /// Name under which the disk is registered as a VFS.
    pub fn vfs_name(&self) -> &str {
        &self.name
    }

    /// Snapshot of the I/O counters.
    pub fn counters(&self) -> Counters {
        self.context.counters.snapshot()
    }

    /// Opens a database on this disk.
    ///
    /// # Errors
    /// Fails if SQLite cannot open it.
    pub fn open(&self, database: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
        Connection::open_with_flags_and_vfs(database, flags, self.vfs_name())
    }

    /// Adds checksums to the pages of databases that are empty when they are opened from now on. They must reserve the
    /// bytes for it. An existing database has them if its header says so.
    pub(crate) fn add_checksums_to_new_files(&self) {
        self.context.checksums_new_files.store(true, Ordering::Relaxed);
    }

    /// Returns the first damaged page that a connection of this disk has read.
    pub(crate) fn damaged_page(&self) -> Option<DamagedPage> {
        self.context.lock_damage().first.clone()
    }

    /// Calls `report` for each damaged page, on the thread that reads it.
    pub(crate) fn on_damage(&self, report: impl Fn(&DamagedPage) + Send + 'static) {
        self.context.lock_damage().reporters.push(Box::new(report));
    }

    /// Fault injection for this disk.
    #[cfg(feature = "faults")]
    pub fn faults(&self) -> &faults::Faults {
        &self.context.faults
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("name", &self.name).field("counters", &self.counters()).finish()
    }
}

#[cfg(feature = "faults")]
impl Drop for Disk {
    fn drop(&mut self) {
        // The context is leaked; at least free the copies of file contents.
        self.context.faults.stop_tracking();
    }
}

/// Context that the C functions reach through the pointers that SQLite passes back to them.
struct VfsContext {
    name: CString,
    real: RealVfs,
    counters: AtomicCounters,
    faults: Faults,
    checksums_new_files: AtomicBool,
    damage: Mutex<DamageReports>,
}

/// Function that damage is reported to.
type DamageReporter = Box<dyn Fn(&DamagedPage) + Send>;

/// Damage that was found, and the functions that it is reported to.
#[derive(Default)]
struct DamageReports {
    first: Option<DamagedPage>,
    reporters: Vec<DamageReporter>,
}

impl VfsContext {
    fn lock_damage(&self) -> MutexGuard<'_, DamageReports> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report_damage(&self, page: DamagedPage) {
        let mut damage = self.lock_damage();
        damage.reporters.iter().for_each(|report| report(&page));
        damage.first.get_or_insert(page);
    }
}

/// Role of a file that SQLite opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// The database itself.
    Database,
    /// The write-ahead log.
    Wal,
    /// Rollback journals and temporary files.
    Other,
}
