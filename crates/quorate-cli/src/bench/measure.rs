//! What a run measures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use quorate_core::IdempotencyKey;

/// Latencies in microseconds.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, 600_000_000, 3).expect("the bounds are in order"))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let _ = self.0.add(&other.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn at(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }
}

/// The next key of this process: ordered by time, as clients should make them.
pub(crate) fn next_key() -> IdempotencyKey {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    IdempotencyKey::new(format!("{number:032x}")).expect("hexadecimal digits are a key")
}
