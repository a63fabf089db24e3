//! The only source of time in this crate: tokio's clock, which tests can pause and advance.

use std::time::Duration;

pub(crate) use tokio::time::Instant;

/// Current time.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Converts a duration to milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
