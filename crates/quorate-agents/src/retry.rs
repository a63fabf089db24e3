//! Retries of retryable failures, with backoff or the delay requested by the server, up to the deadline.

use std::sync::Arc;
use std::time::Duration;

use quorate_env::{Backoff, Chance};

use crate::clock::{self, Instant};
use crate::limits;
use crate::question::Failure;

/// Retry policy of failed calls.
#[derive(Clone)]
pub struct Retry {
    /// Maximum number of retries.
    pub retries: u32,
    /// Delays between attempts, unless the server requests one.
    pub backoff: Backoff,
    /// Random source of the jitter.
    pub chance: Arc<Chance>,
}

impl Default for Retry {
    fn default() -> Self {
        let backoff = Backoff::new(limits::RETRY_FIRST, limits::RETRY_LONGEST);
        Self { retries: limits::RETRIES, backoff, chance: Chance::system() }
    }
}

/// Attempts of one call.
pub(crate) struct Tries<'a> {
    retry: &'a Retry,
    backoff: Backoff,
    until: Instant,
}

impl<'a> Tries<'a> {
    /// Starts without attempts.
    pub(crate) fn new(retry: &'a Retry, until: Instant) -> Self {
        Self { retry, backoff: retry.backoff, until }
    }

    /// Waits until the next attempt is due.
    ///
    /// # Errors
    /// The failure itself, if it is not retryable, the retries are used up, or the next attempt would miss the deadline.
    pub(crate) async fn again(&mut self, mut failure: Failure) -> Result<(), Failure> {
        let delay: Duration = self.backoff.next(&self.retry.chance);
        if !failure.retryable() {
            return Err(failure);
        }
        let made = self.backoff.failures();
        if made > self.retry.retries {
            failure.what = format!("{} (after {made} attempts)", failure.what);
            return Err(failure);
        }
        let pause = failure.retry_after.unwrap_or(delay);
        if clock::now() + pause >= self.until {
            let wait = pause.as_secs_f32();
            failure.what = format!("{}; a retry after {wait} s would be too late", failure.what);
            return Err(failure);
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
