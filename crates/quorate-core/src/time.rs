//! Points in time, as arguments. Nothing here asks what time it is.

use std::time::Duration;

/// A wall-clock instant: milliseconds since 1970, UTC. Within a space it never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The instant `delay_ms` later; saturates at the end of time.
    #[must_use]
    pub fn plus_ms(self, delay_ms: u64) -> Self {
        Self(self.0.saturating_add(delay_ms))
    }
}

/// A reading of the monotonic clock, in milliseconds since an arbitrary start. Leases are measured with it, so that a
/// jump of the wall clock neither ends nor prolongs one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Mono(pub u64);

impl Mono {
    /// The reading `delay_ms` later; saturates.
    #[must_use]
    pub fn plus_ms(self, delay_ms: u64) -> Self {
        Self(self.0.saturating_add(delay_ms))
    }
}

/// Both clocks, read together. Every decision is made at one `Now`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// For what people see and what is written down.
    pub wall: Timestamp,
    /// For how long a lease lasts.
    pub mono: Mono,
}

impl Now {
    /// The same moment on both clocks, `by` later.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        Self { wall: self.wall.plus_ms(ms), mono: self.mono.plus_ms(ms) }
    }
}
