//! Asking again: after a failure that may pass, at the time the other side names, and never beyond the deadline.

use std::sync::Arc;
use std::time::Duration;

use quorate_env::{Backoff, Chance};

use crate::clock::{self, Instant};
use crate::limits;
use crate::question::Failure;

/// How often and after which waits a failed call is repeated.
#[derive(Clone)]
pub struct Retry {
    /// How many times it is repeated.
    pub retries: u32,
    /// The waits in between, where the other side names none.
    pub backoff: Backoff,
    /// Where the jitter of the waits comes from.
    pub chance: Arc<Chance>,
}

impl Default for Retry {
    fn default() -> Self {
        let backoff = Backoff::new(limits::RETRY_FIRST, limits::RETRY_LONGEST);
        Self { retries: limits::RETRIES, backoff, chance: Chance::system() }
    }
}

/// The tries of one call.
pub(crate) struct Tries<'a> {
    retry: &'a Retry,
    backoff: Backoff,
    until: Instant,
}

impl<'a> Tries<'a> {
    /// None yet.
    pub(crate) fn new(retry: &'a Retry, until: Instant) -> Self {
        Self { retry, backoff: retry.backoff, until }
    }

    /// Waits until it is time to ask again.
    ///
    /// # Errors
    /// The failure itself if asking again makes no sense: it will not pass, or not in time.
    pub(crate) async fn again(&mut self, mut failure: Failure) -> Result<(), Failure> {
        let usual: Duration = self.backoff.next(&self.retry.chance);
        if !failure.retryable() {
            return Err(failure);
        }
        let made = self.backoff.failures();
        if made > self.retry.retries {
            failure.what = format!("{} (asked {made} times)", failure.what);
            return Err(failure);
        }
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
