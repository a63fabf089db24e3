//! Measures durations, for metrics only: no decision depends on them.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let outcome = work();
    (outcome, start.elapsed())
}
