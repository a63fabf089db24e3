//! Retries with exponential backoff.

use std::sync::Arc;
use std::time::Duration;

use quorate::{Clock, Code, Entropy, Error};
use quorate_env::Backoff;

/// Delay after the first failure. It doubles with each further failure.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
/// Maximum delay.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Retries calls for a limited time while the hub is unavailable.
#[derive(Clone)]
pub(crate) struct Retrier {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<Entropy>,
    pub(crate) timeout: Duration,
}

impl Retrier {
    /// Repeats a call while the hub is unavailable and the retry timeout has not elapsed. The call must be
    /// idempotent.
    pub(crate) async fn retry<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let until = self.clock.now().plus(self.timeout).mono;
        let mut backoff = reconnect_backoff();
        // Whether an attempt without a response may have taken effect.
        let mut unknown = false;
        loop {
            let error = match call().await {
                Err(Error::Remote(remote)) if is_transient(remote.code) => remote,
                finished => return finished,
            };
            unknown |= !error.nothing_applied;
            if self.clock.now().mono >= until {
                return Err(quorate::RemoteError { nothing_applied: !unknown, ..error }.into());
            }
            backoff.wait(&*self.clock, &self.entropy).await;
        }
    }
}

/// Whether a retry can succeed. A hub with a failed storage may be restarted in the meantime.
fn is_transient(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Overloaded | Code::StorageFailed)
}

/// Returns the backoff between connection attempts.
pub(crate) const fn reconnect_backoff() -> Backoff {
    Backoff::new(BACKOFF_FIRST, BACKOFF_MAX)
}
