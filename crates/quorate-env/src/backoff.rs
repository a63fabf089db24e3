//! How long to wait before the next attempt: exponential backoff with jitter.

use std::time::Duration;

use crate::{Chance, Clock};

/// Waits that double up to a longest one. Each is drawn between half and all of it, so that many that failed together do
/// not come back together.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Starts with a wait of `first`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// The wait after one more failure.
    pub fn next(&mut self, chance: &Chance) -> Duration {
        let whole = self.first.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        let [high, low, ..] = chance.sixteen();
        let half = whole / 2;
        half + half.mul_f64(f64::from(u16::from_be_bytes([high, low])) / f64::from(u16::MAX))
    }

    /// Waits on this clock after one more failure.
    pub async fn wait(&mut self, clock: &dyn Clock, chance: &Chance) {
        crate::sleep(clock, self.next(chance)).await;
    }

    /// How many attempts have failed since the last success.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// An attempt succeeded.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;
    use crate::Chance;

    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(5);

    // Fails under: waits that do not double; no longest wait; no jitter; a reset that forgets nothing.
    #[test]
    fn waits_double_up_to_a_bound_with_jitter() {
        let chance = Chance::seeded(7);
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let waits: Vec<_> = (0..40).map(|_| backoff.next(&chance)).collect();
        for (failures, wait) in waits.iter().enumerate() {
            let whole = FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST);
            assert!((whole / 2..=whole).contains(wait), "{failures}: {wait:?}");
        }
        assert_ne!(waits[38], waits[39], "the same waits would bring all of them back at the same moment");
        assert_eq!(backoff.failures(), 40);
        backoff.reset();
        assert!(backoff.next(&chance) <= FIRST);
    }

    // Fails under: an overflow after many failures, or for long waits.
    #[test]
    fn the_longest_wait_holds_for_any_number_of_failures() {
        let mut backoff = Backoff { first: Duration::MAX, longest: LONGEST, failures: u32::MAX };
        assert!(backoff.next(&Chance::seeded(1)) <= LONGEST);
        assert_eq!(backoff.failures(), u32::MAX);
    }
}
