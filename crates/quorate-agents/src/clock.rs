//! The one place where this crate asks for the time: tokio's, which tests can hold and move.

use std::time::Duration;

pub(crate) use tokio::time::Instant;

/// Now.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// So many milliseconds, of a duration.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
