//! Clocks. The only module that reads the system's time; all other code gets it from a [`Clock`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quorate_core::{Mono, Now, Timestamp};
use tokio::sync::watch;

use crate::BoxFuture;

/// A source of time. Leases and timeouts use the monotonic time, everything else the wall clock.
pub trait Clock: Send + Sync {
    /// Reads both clocks.
    fn now(&self) -> Now;
    /// Completes after `duration` on this clock, or spuriously earlier: callers have to check the time again.
    fn wait(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Waits for a duration on a clock.
pub async fn sleep(clock: &dyn Clock, duration: Duration) {
    let mut now = clock.now();
    let until = now.plus(duration).mono;
    while now.mono < until {
        clock.wait(Duration::from_millis(until.0 - now.mono.0)).await;
        now = clock.now();
    }
}

/// The system's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts at zero.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now() })
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { wall: Timestamp(whole_ms(wall)), mono: Mono(whole_ms(self.start.elapsed())) }
    }

    fn wait(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A clock that is advanced manually, for tests.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<Now>,
    changes: watch::Sender<u64>,
}

impl ManualClock {
    /// Creates a clock at a time in milliseconds since 1970.
    #[must_use]
    pub fn at(ms: u64) -> Arc<Self> {
        let now = Now { wall: Timestamp(ms), mono: Mono(0) };
        Arc::new(Self { now: Mutex::new(now), changes: watch::Sender::new(0) })
    }

    /// Advances both clocks and wakes all waiters.
    pub fn advance(&self, by: Duration) {
        self.change(|now| *now = now.plus(by));
    }

    /// Sets the wall clock, forward or back, without affecting the monotonic clock, like an operator or NTP may do.
    pub fn jump_wall_to(&self, ms: u64) {
        self.change(|now| now.wall = Timestamp(ms));
    }

    fn change(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let until = self.now().plus(duration).mono;
        let mut changes = self.changes.subscribe();
        // Checked after subscribing, so that no change in between is missed.
        let elapsed = self.now().mono >= until;
        Box::pin(async move {
            if !elapsed {
                // An error means that the clock was dropped: it will never advance again, so the wait ends.
                let _ = changes.changed().await;
            }
        })
    }
}
