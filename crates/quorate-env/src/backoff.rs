//! Exponential backoff with jitter.

use std::time::Duration;

use crate::{Clock, Entropy};

/// Exponential backoff with jitter: the delay doubles up to a maximum, and each delay is chosen at random between half
/// of it and all of it, so that clients that failed together do not retry together.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// Creates a backoff whose delays start at `initial` and grow to at most `max`.
    #[must_use]
    pub const fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, failures: 0 }
    }

    /// Counts a failure and returns the delay before the next attempt.
    pub fn next(&mut self, entropy: &Entropy) -> Duration {
        let full = self.initial.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        let [high, low, ..] = entropy.bytes_16();
        let half = full / 2;
        half + half.mul_f64(f64::from(u16::from_be_bytes([high, low])) / f64::from(u16::MAX))
    }

    /// Counts a failure and waits for the next delay on this clock.
    pub async fn wait(&mut self, clock: &dyn Clock, entropy: &Entropy) {
        crate::sleep(clock, self.next(entropy)).await;
    }

    /// Number of failures since the last success.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Resets the failures after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;
    use crate::Entropy;

    const INITIAL: Duration = Duration::from_millis(50);
    const MAX: Duration = Duration::from_secs(5);

    // Fails under: delays that do not double; no maximum; no jitter; a reset without effect.
    #[test]
    fn delays_double_up_to_a_maximum_with_jitter() {
        let entropy = Entropy::seeded(7);
        let mut backoff = Backoff::new(INITIAL, MAX);
        let delays: Vec<_> = (0..40).map(|_| backoff.next(&entropy)).collect();
        for (failures, delay) in delays.iter().enumerate() {
            let full = INITIAL.saturating_mul(1 << failures.min(10)).min(MAX);
            assert!((full / 2..=full).contains(delay), "{failures}: {delay:?}");
        }
        assert_ne!(delays[38], delays[39], "equal delays would synchronise the retries");
        assert_eq!(backoff.failures(), 40);
        backoff.reset();
        assert!(backoff.next(&entropy) <= INITIAL);
    }

    // Fails under: an overflow after many failures or for long delays.
    #[test]
    fn the_maximum_holds_for_any_number_of_failures() {
        let mut backoff = Backoff { initial: Duration::MAX, max: MAX, failures: u32::MAX };
        assert!(backoff.next(&Entropy::seeded(1)) <= MAX);
        assert_eq!(backoff.failures(), u32::MAX);
    }
}
