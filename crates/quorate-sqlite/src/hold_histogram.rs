//! Histogram of the time that batches occupy the writer, with exponential buckets (about 19 % wide). For metrics only.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets per doubling of the time.
const PER_DOUBLING: u32 = 4;
const BUCKETS: usize = 160;

/// Lock-free histogram: one thread adds, any thread may read.
pub(crate) struct HoldHistogram {
    counts: [AtomicU64; BUCKETS],
    max_ns: AtomicU64,
}

impl Default for HoldHistogram {
    fn default() -> Self {
        Self { counts: std::array::from_fn(|_| AtomicU64::new(0)), max_ns: AtomicU64::new(0) }
    }
}

impl HoldHistogram {
    pub(crate) fn record(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
        self.max_ns.fetch_max(ns, Ordering::Relaxed);
    }

    pub(crate) fn max_ns(&self) -> u64 {
        self.max_ns.load(Ordering::Relaxed)
    }

    /// Returns the quantile `share` (0.99 for p99) in nanoseconds; 0 if nothing was recorded.
    pub(crate) fn quantile_ns(&self, share: f64) -> u64 {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let rank = (counts.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let found = counts.iter().position(|count| {
            seen += count;
            seen >= rank && rank > 0
        });
        found.map_or(0, |bucket| upper_bound(bucket).min(self.max_ns()))
    }
}

fn bucket_of(ns: u64) -> usize {
    let bucket = (ns.max(1) as f64).log2() * f64::from(PER_DOUBLING);
    (bucket as usize).min(BUCKETS - 1)
}

fn upper_bound(bucket: usize) -> u64 {
    ((bucket + 1) as f64 / f64::from(PER_DOUBLING)).exp2() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a bucket index that is off by one, or a rank that is rounded down.
    #[test]
    fn quantiles_are_rounded_up_by_a_fifth_at_most() {
        let holds = HoldHistogram::default();
        assert_eq!((holds.quantile_ns(0.99), holds.max_ns()), (0, 0));
        (1..=1000).for_each(|micros| holds.record(Duration::from_micros(micros)));
        let p99 = holds.quantile_ns(0.99);
        assert!((990_000..=990_000 * 6 / 5).contains(&p99), "{p99}");
        assert!(holds.quantile_ns(0.5) < 620_000);
        assert_eq!((holds.quantile_ns(1.0), holds.max_ns()), (1_000_000, 1_000_000));
    }
}
