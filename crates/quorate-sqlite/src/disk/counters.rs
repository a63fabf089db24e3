//! I/O counters of a disk. Each update costs one atomic addition.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::FileKind;

/// I/O counters of a disk since its creation, by kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Database file, which is written by checkpoints.
    pub database: FileCounters,
    /// Write-ahead log. Commits wait for its syncs.
    pub wal: FileCounters,
    /// Rollback journals and temporary files.
    pub other: FileCounters,
}

/// I/O counters of the files of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounters {
    /// Number of syncs, including failed ones.
    pub syncs: u64,
    /// Total duration of all syncs, in nanoseconds.
    pub sync_ns_total: u64,
    /// Duration of the longest sync, in nanoseconds.
    pub sync_ns_max: u64,
    /// Bytes that SQLite wrote successfully.
    pub written_bytes: u64,
    /// Zero bytes written to preallocate the file.
    pub preallocated_bytes: u64,
}

/// Live counters.
#[derive(Default)]
pub(super) struct AtomicCounters {
    database: AtomicFileCounters,
    wal: AtomicFileCounters,
    other: AtomicFileCounters,
}

impl AtomicCounters {
    pub(super) fn for_kind(&self, kind: FileKind) -> &AtomicFileCounters {
        match kind {
            FileKind::Database => &self.database,
            FileKind::Wal => &self.wal,
            FileKind::Other => &self.other,
        }
    }

    pub(super) fn snapshot(&self) -> Counters {
        Counters {
            database: self.database.snapshot(),
            wal: self.wal.snapshot(),
            other: self.other.snapshot(),
        }
    }
}

// The counters synchronize nothing, so relaxed ordering is sufficient.
#[derive(Default)]
pub(super) struct AtomicFileCounters {
    syncs: AtomicU64,
    sync_ns_total: AtomicU64,
    sync_ns_max: AtomicU64,
    written_bytes: AtomicU64,
    preallocated_bytes: AtomicU64,
}

impl AtomicFileCounters {
    pub(super) fn add_written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_preallocated(&self, bytes: u64) {
        self.preallocated_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_sync(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_ns_total.fetch_add(ns, Ordering::Relaxed);
        self.sync_ns_max.fetch_max(ns, Ordering::Relaxed);
    }

    fn snapshot(&self) -> FileCounters {
        FileCounters {
            syncs: self.syncs.load(Ordering::Relaxed),
            sync_ns_total: self.sync_ns_total.load(Ordering::Relaxed),
            sync_ns_max: self.sync_ns_max.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            preallocated_bytes: self.preallocated_bytes.load(Ordering::Relaxed),
        }
    }
}
