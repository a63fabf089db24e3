//! Quorate on SQLite.

mod disk;

#[cfg(feature = "faults")]
pub use disk::faults::{Faults, How, Repeat};
pub use disk::{Counters, Disk, FileCounters, FileKind};
