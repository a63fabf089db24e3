//! How long to keep trying, and how long to wait in between.

use std::sync::Arc;
use std::time::Duration;

use quorate::{Chance, Clock, Code, Error};
use quorate_env::Backoff;

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
        let mut backoff = backoff();
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
            backoff.wait(&*self.clock, &self.chance).await;
        }
    }
}

/// Whether the hub may be there the next time. One that lost its disk is when it was started again.
fn may_pass(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Overloaded | Code::StorageFailed)
}

/// Waits between attempts to reach a hub.
pub(crate) const fn backoff() -> Backoff {
    Backoff::new(FIRST, LONGEST)
}
