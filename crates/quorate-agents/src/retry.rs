//! Retries of retryable failures, with backoff or the delay requested by the server, up to the deadline.

use std::sync::Arc;
use std::time::Duration;

use quorate_env::{Backoff, Entropy};

use crate::clock::{self, Instant};
use crate::limits;
use crate::question::AgentFailure;

/// Retry policy of failed calls.
#[derive(Clone)]
pub struct CallRetryPolicy {
    /// Maximum number of retries.
    pub retries: u32,
    /// Delays between attempts, unless the server requests one.
    pub backoff: Backoff,
    /// Random source of the jitter.
    pub entropy: Arc<Entropy>,
}

impl Default for CallRetryPolicy {
    fn default() -> Self {
        let backoff = Backoff::new(limits::RETRY_DELAY_FIRST, limits::RETRY_DELAY_MAX);
        Self { retries: limits::RETRIES_MAX, backoff, entropy: Entropy::system() }
    }
}

/// Attempts of one call.
pub(crate) struct Attempts<'a> {
    retry: &'a CallRetryPolicy,
    backoff: Backoff,
    deadline: Instant,
}

impl<'a> Attempts<'a> {
    /// Starts without attempts.
    pub(crate) fn new(retry: &'a CallRetryPolicy, deadline: Instant) -> Self {
        Self { retry, backoff: retry.backoff, deadline }
    }

    /// Waits until the next attempt is due.
    ///
    /// # Errors
    /// The failure itself, if it is not retryable, the retries are used up, or the next attempt would miss the deadline.
    pub(crate) async fn wait_before_retry(&mut self, mut failure: AgentFailure) -> Result<(), AgentFailure> {
        let delay: Duration = self.backoff.next(&self.retry.entropy);
        if !failure.retryable() {
            return Err(failure);
        }
        let attempts = self.backoff.failures();
        if attempts > self.retry.retries {
            failure.message = format!("{} (after {attempts} attempts)", failure.message);
            return Err(failure);
        }
        let wait = failure.retry_after.unwrap_or(delay);
        if clock::now() + wait >= self.deadline {
            let seconds = wait.as_secs_f32();
            failure.message = format!("{}; a retry after {seconds} s would be too late", failure.message);
            return Err(failure);
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }
}
