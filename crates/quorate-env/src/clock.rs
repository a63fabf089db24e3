//! What time it is. The only place that asks the system; everything else is told.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quorate_core::{Mono, Now, Timestamp};
use tokio::sync::watch;

use crate::BoxFuture;

/// A source of time. Leases are measured with the monotonic reading, all else with the wall clock.
pub trait Clock: Send + Sync {
    /// Both clocks, read together.
    fn now(&self) -> Now;
    /// Ends when `wait` has passed on this clock, or earlier. Whoever waits looks at the clock again.
    fn pass(&self, wait: Duration) -> BoxFuture<'static, ()>;
}

/// Waits until that much time has passed on a clock.
pub async fn sleep(clock: &dyn Clock, wait: Duration) {
    let mut now = clock.now();
    let until = now.plus(wait).mono;
    while now.mono < until {
        clock.pass(Duration::from_millis(until.0 - now.mono.0)).await;
        now = clock.now();
    }
}

/// The clock of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic reading starts now.
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

    fn pass(&self, wait: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(wait))
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A clock that stands still until it is told to move: for tests, ours and our users'.
#[derive(Debug)]
pub struct SetClock {
    now: Mutex<Now>,
    moved: watch::Sender<u64>,
}

impl SetClock {
    /// A clock that stands at a time: milliseconds since 1970.
    #[must_use]
    pub fn at(ms: u64) -> Arc<Self> {
        let now = Now { wall: Timestamp(ms), mono: Mono(0) };
        Arc::new(Self { now: Mutex::new(now), moved: watch::Sender::new(0) })
    }

    /// Moves both clocks forward, and wakes whoever waits.
    pub fn advance(&self, by: Duration) {
        self.change(|now| *now = now.plus(by));
    }

    /// Lets the wall clock jump, forward or back, while the monotonic clock goes on: what an operator or a time server
    /// may do to a machine.
    pub fn jump_wall_to(&self, ms: u64) {
        self.change(|now| now.wall = Timestamp(ms));
    }

    fn change(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner));
        self.moved.send_modify(|count| *count += 1);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Now {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, wait: Duration) -> BoxFuture<'static, ()> {
        let until = self.now().plus(wait).mono;
        let mut moved = self.moved.subscribe();
        // Looked at after subscribing: a move between the two is not missed.
        let already = self.now().mono >= until;
        Box::pin(async move {
            if !already {
                // The clock is gone: nothing will ever move again, so the wait is over.
                let _ = moved.changed().await;
            }
        })
    }
}
