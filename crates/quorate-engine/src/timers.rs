//! Timers of spaces: when the next sweep is due. Every batch updates the due time, almost always to a later one, so a
//! sleeping sweep is woken only if it becomes earlier.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{NextWake, SpaceNo};
use tokio::sync::Notify;

/// Timers of all spaces of a hub.
#[derive(Default)]
pub(crate) struct Timers(Mutex<HashMap<SpaceNo, Arc<Timer>>>);

/// Timer of one space.
#[derive(Default)]
pub(crate) struct Timer {
    /// Time for which the timer is armed. While it is disarmed, every update notifies.
    armed: Mutex<Option<NextWake>>,
    earlier: Notify,
}

impl Timers {
    /// Returns the timer of a space.
    pub(crate) fn of_space(&self, space: SpaceNo) -> Arc<Timer> {
        Arc::clone(self.lock().entry(space).or_default())
    }

    /// Updates the due time of a space. Called from the writer thread: only compares and notifies.
    pub(crate) fn update(&self, space: SpaceNo, wake: NextWake) {
        if let Some(timer) = self.lock().get(&space) {
            timer.update(wake);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SpaceNo, Arc<Timer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timer {
    fn lock(&self) -> MutexGuard<'_, Option<NextWake>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, wake: NextWake) {
        let mut armed = self.lock();
        if armed.is_none_or(|armed| is_earlier(wake.wall, armed.wall) || is_earlier(wake.mono, armed.mono)) {
            *armed = None;
            self.earlier.notify_one();
        }
    }

    /// Disarms the timer: every update from now on notifies. Call this before reading the due time.
    pub(crate) fn disarm(&self) {
        *self.lock() = None;
    }

    /// Arms the timer. If there was an update since it was disarmed, the wait ends immediately.
    pub(crate) fn arm(&self, wake: NextWake) {
        *self.lock() = Some(wake);
    }

    /// Resolves when the due time has become earlier.
    pub(crate) async fn became_earlier(&self) {
        self.earlier.notified().await;
    }
}

fn is_earlier<T: Ord>(new: Option<T>, armed: Option<T>) -> bool {
    match (new, armed) {
        (Some(new), Some(armed)) => new < armed,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use quorate_core::{Mono, NextWake, Timestamp};

    use super::Timer;

    // Fails under: a timer that fires for a later time, does not fire for an earlier one, or misses an update before it
    // was armed.
    #[test]
    fn fires_only_for_an_earlier_time() {
        let wake = |wall: Option<u64>, mono: Option<u64>| NextWake {
            wall: wall.map(Timestamp),
            mono: mono.map(Mono),
        };
        let timer = Timer::default();
        let fired = || pin!(timer.became_earlier()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        timer.update(wake(None, None));
        timer.arm(wake(Some(100), None));
        assert!(fired(), "updated before it was armed");
        timer.update(wake(Some(100), None));
        timer.update(wake(Some(101), None));
        timer.update(wake(None, None));
        assert!(!fired(), "later or unset");
        timer.update(wake(Some(101), Some(7)));
        assert!(fired(), "the monotonic clock");
        timer.arm(wake(Some(100), Some(7)));
        timer.update(wake(Some(99), Some(9)));
        assert!(fired() && !fired(), "once");
    }
}
