//! SQLite VFS shim: a thin layer over SQLite's default VFS.
//!
//! In production it counts syncs, their duration and the bytes written, and preallocates the write-ahead log. With the
//! feature `faults` it can also simulate a full disk, I/O errors and power loss, so that tests can check what survives.
//! Everything else, including shared memory and memory-mapped reads, is forwarded unchanged.
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
#[cfg(test)]
mod tests;
mod vfs;

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use counters::AtomicCounters;
pub use counters::{Counters, FileCounters};
#[cfg(feature = "faults")]
use faults::{Faults, FileId};
#[cfg(not(feature = "faults"))]
use no_faults::{FileId, NoFaults as Faults};
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
