//! Measurements of a run: latencies, CPU time, memory and disk I/O.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use quorate_core::IdempotencyKey;
use quorate_sqlite::{Counters, SqliteStore};

/// Histogram of latencies in microseconds.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, 600_000_000, 3).expect("valid bounds"))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        // Both histograms have the same bounds, so no value is out of range.
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn quantile(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }
}

/// Generates an idempotency key. Keys increase over time, as recommended for clients.
pub(crate) fn next_key() -> IdempotencyKey {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    IdempotencyKey::new(format!("{number:032x}")).expect("hexadecimal digits are a valid key")
}

/// Counter values at the start of a run.
pub(crate) struct Meter {
    start: Instant,
    disk: Counters,
    cpu: f64,
}

/// Resource usage of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResourceUsage {
    pub(crate) seconds: f64,
    pub(crate) syncs: u64,
    pub(crate) wal_syncs: u64,
    /// Total time of the fsyncs that commits waited for.
    pub(crate) sync_seconds: f64,
    pub(crate) bytes_written: u64,
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_memory: u64,
}

impl Meter {
    pub(crate) fn start(store: &SqliteStore) -> Self {
        Self { start: Instant::now(), disk: store.disk_counters(), cpu: cpu_seconds() }
    }

    pub(crate) fn stop(&self, store: &SqliteStore) -> ResourceUsage {
        let seconds = self.start.elapsed().as_secs_f64();
        let (before, after) = (self.disk, store.disk_counters());
        ResourceUsage {
            seconds,
            syncs: syncs(&after) - syncs(&before),
            wal_syncs: after.wal.syncs - before.wal.syncs,
            sync_seconds: (after.wal.sync_ns_total - before.wal.sync_ns_total) as f64 / 1e9,
            bytes_written: bytes_written(&after) - bytes_written(&before),
            cpu_seconds: cpu_seconds() - self.cpu,
            peak_memory: peak_memory(),
        }
    }
}

pub(crate) fn syncs(disk: &Counters) -> u64 {
    disk.database.syncs + disk.wal.syncs + disk.other.syncs
}

pub(crate) fn bytes_written(disk: &Counters) -> u64 {
    disk.database.written_bytes
        + disk.wal.written_bytes
        + disk.wal.preallocated_bytes
        + disk.other.written_bytes
}

/// Returns the CPU time of this process, user and system, or 0 if the system does not report it.
pub(crate) fn cpu_seconds() -> f64 {
    cpu_seconds_of(std::process::id())
}

/// Returns the CPU time of a process, user and system, or 0 if the system does not report it.
pub(crate) fn cpu_seconds_of(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    // Fields 14 and 15 of the line (utime, stime), in ticks of 10 ms.
    let ticks: f64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// Returns the peak memory of this process in bytes, or 0 if the system does not report it.
pub(crate) fn peak_memory() -> u64 {
    peak_memory_of(std::process::id())
}

/// Returns the peak memory of a process in bytes, or 0 if the system does not report it.
pub(crate) fn peak_memory_of(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}
