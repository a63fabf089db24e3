//! Asking again: after a failure that may pass, at the time the other side names, and never beyond the deadline.

use std::time::Duration;

use crate::clock::{self, Instant};
use crate::question::Failure;

/// The tries of one call.
pub(crate) struct Tries<'a> {
    pauses: &'a [Duration],
    until: Instant,
    /// How many there have been.
    pub(crate) made: u32,
}

impl<'a> Tries<'a> {
    /// None yet. There may be one more than there are pauses.
    pub(crate) fn new(pauses: &'a [Duration], until: Instant) -> Self {
        Self { pauses, until, made: 0 }
    }

    /// Waits until it is time to ask again.
    ///
    /// # Errors
    /// The failure itself if asking again makes no sense: it will not pass, or not in time.
    pub(crate) async fn again(&mut self, mut failure: Failure) -> Result<(), Failure> {
        let usual = self.pauses.get(self.made as usize).copied();
        self.made += 1;
        let Some(usual) = usual.filter(|_| failure.retryable()) else {
            if failure.retryable() {
                failure.what = format!("{} (asked {} times)", failure.what, self.made);
            }
            return Err(failure);
        };
        let pause = failure.retry_after.unwrap_or(usual);
        if clock::now() + pause >= self.until {
            let wait = pause.as_secs_f32();
            failure.what = format!("{}; asking again after {wait} s would be too late", failure.what);
            return Err(failure);
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
