//! The disk as SQLite sees it: a thin layer (a VFS) over the one of the operating system.
//!
//! In production it only counts: syncs, how long they took, and bytes written, where they happen. With the
//! feature `faults` the same layer can run out of space, fail, or lose its power, so that tests can prove what
//! survives. Everything else, shared memory and mapped reads included, goes through untouched.
//!
//! This is the one module of the workspace with unsafe code: a VFS is a table of C functions.
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

use counters::Tally;
pub use counters::{Counters, FileCounters};
#[cfg(feature = "faults")]
use faults::{Faults as Gate, FileId};
#[cfg(not(feature = "faults"))]
use no_faults::{FileId, NoFaults as Gate};
use vfs::RealVfs;

/// One disk under one or more connections.
///
/// Open connections on it with `Connection::open_with_flags_and_vfs` and [`Disk::vfs_name`]. Each disk has its
/// own counters and its own faults.
///
/// SQLite keeps a pointer to the VFS in every connection, and does not tell when the last one has gone. So the
/// few hundred bytes behind a disk stay registered until the process ends; make one disk per store, not one
/// per connection.
pub struct Disk {
    name: String,
    core: &'static Core,
}

impl Disk {
    /// Registers a new disk over the default VFS, under a name of its own.
    ///
    /// # Panics
    ///
    /// If SQLite itself cannot start, which only happens without memory.
    pub fn new() -> Arc<Disk> {
        // SQLite finds a VFS by its name in one list for the whole process, so the names are counted there too.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("quorate-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let core: &'static Core = Box::leak(Box::new(Core {
            name: CString::new(name.as_str()).expect("a number holds no zero byte"),
            real: RealVfs::find_default(),
            tally: Tally::default(),
            gate: Gate::default(),
        }));
        vfs::register(core);
        Arc::new(Disk { name, core })
    }

    /// The name under which SQLite knows this disk.
    pub fn vfs_name(&self) -> &str {
        &self.name
    }

    /// What has been written and synced so far.
    pub fn counters(&self) -> Counters {
        self.core.tally.read()
    }

    /// The faults of this disk, for tests.
    #[cfg(feature = "faults")]
    pub fn faults(&self) -> &faults::Faults {
        &self.core.gate
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
        // The core stays for ever; the copies of file contents need not.
        self.core.gate.forget();
    }
}

/// What the C functions reach through the pointers that SQLite hands back to them.
struct Core {
    name: CString,
    real: RealVfs,
    tally: Tally,
    gate: Gate,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// The database itself.
    Database,
    /// The write-ahead log.
    Wal,
    /// Rollback journals and temporary files.
    Other,
}
