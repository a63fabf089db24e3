//! A histogram of milliseconds with fixed buckets.

/// Upper bounds of the buckets in milliseconds, from an in-memory delivery to one day.
pub(super) const BOUNDS_MS: [u64; 14] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000, 300_000, 86_400_000];

/// Distribution of durations.
#[derive(Clone, Default)]
pub(crate) struct Histogram {
    buckets: [u64; BOUNDS_MS.len()],
    pub(super) count: u64,
    pub(super) sum_ms: u64,
}

impl Histogram {
    pub(crate) fn observe(&mut self, ms: u64) {
        if let Some(bucket) = BOUNDS_MS.iter().position(|bound| ms <= *bound) {
            self.buckets[bucket] += 1;
        }
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
    }

    /// Returns the cumulative count of each bound.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        BOUNDS_MS.iter().zip(self.buckets).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((*bound, *sum))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn buckets_are_cumulative() {
        let mut histogram = Histogram::default();
        [0, 1, 2, 3, 100_000_000].into_iter().for_each(|ms| histogram.observe(ms));
        let buckets: Vec<_> = histogram.cumulative().take(3).collect();
        assert_eq!(buckets, [(1, 2), (2, 3), (5, 4)]);
        assert_eq!((histogram.cumulative().last(), histogram.count), (Some((86_400_000, 4)), 5));
    }
}
