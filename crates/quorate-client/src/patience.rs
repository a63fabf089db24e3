//! How long to keep trying, and how long to wait in between.

use std::sync::Arc;
use std::time::Duration;

use quorate::{Chance, Clock, Code, Error};

use crate::dial::passed;

/// The first wait after a failure; twice as long after each further one.
const FIRST: Duration = Duration::from_millis(50);
/// The longest.
const LONGEST: Duration = Duration::from_secs(5);

/// How long to keep trying.
#[derive(Clone)]
pub(crate) struct Patience {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chance: Arc<Chance>,
    pub(crate) keep_trying: Duration,
}

impl Patience {
    /// Makes a call again, for as long as the hub is out of reach and there is time left. Only for calls of which a second
    /// one does no harm.
    pub(crate) async fn persist<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let until = self.clock.now().plus(self.keep_trying).mono;
        let mut backoff = Backoff::default();
        // Whether one of the calls may have had an effect of which we did not hear.
        let mut unknown = false;
        loop {
            let error = match call().await {
                Err(Error::Remote(remote)) if may_pass(remote.code) => remote,
                answered => return answered,
            };
            unknown |= !error.nothing_applied;
            if self.clock.now().mono >= until {
                return Err(quorate::Remote { nothing_applied: !unknown, ..error }.into());
            }
            passed(&*self.clock, backoff.next(&self.chance)).await;
        }
    }
}

/// Whether the hub may be there the next time. One that lost its disk is when it was started again.
fn may_pass(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Overloaded | Code::StorageFailed)
}

/// Waits that get longer, each with some chance in it: many clients of one hub do not all come back at the same moment.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(crate) fn next(&mut self, chance: &Chance) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures += 1;
        let drawn = u64::from(u16::from_be_bytes([chance.sixteen()[0], chance.sixteen()[1]]));
        let half_ms = whole.as_millis() as u64 / 2;
        Duration::from_millis(half_ms + half_ms * drawn / u64::from(u16::MAX))
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorate::Chance;

    use super::Backoff;

    #[test]
    fn waits_get_longer_up_to_a_bound_and_are_spread_by_chance() {
        let chance = Chance::seeded(7);
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..20).map(|_| backoff.next(&chance)).collect();
        assert!(waits[0] >= Duration::from_millis(25) && waits[0] <= Duration::from_millis(50), "{waits:?}");
        assert!(
            waits[19] >= Duration::from_millis(2_500) && waits[19] <= Duration::from_secs(5),
            "{waits:?}"
        );
        assert_ne!(waits[18], waits[19], "the same waits would bring all clients back at the same moment");
        backoff.reset();
        assert!(backoff.next(&chance) <= Duration::from_millis(50));
    }
}
