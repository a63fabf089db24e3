//! Quorate on SQLite.

mod disk;

pub use disk::{Counters, Disk, FileCounters};
