//! When to look at a space again. Every batch moves that time, nearly always away: whoever sleeps until then is woken only
//! if it comes nearer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{SpaceNo, Wake};
use tokio::sync::Notify;

/// The alarms of all spaces of a hub.
#[derive(Default)]
pub(crate) struct Alarms(Mutex<HashMap<SpaceNo, Arc<Alarm>>>);

/// The alarm of one space.
#[derive(Default)]
pub(crate) struct Alarm {
    /// For when it is set. While nothing is awaited, whatever moves is told.
    set: Mutex<Option<Wake>>,
    nearer: Notify,
}

impl Alarms {
    /// The alarm of a space.
    pub(crate) fn of(&self, space: SpaceNo) -> Arc<Alarm> {
        Arc::clone(self.lock().entry(space).or_default())
    }

    /// The next thing in a space is due then. Called from the writer: it only looks and tells.
    pub(crate) fn moved(&self, space: SpaceNo, wake: Wake) {
        if let Some(alarm) = self.lock().get(&space) {
            alarm.moved(wake);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SpaceNo, Arc<Alarm>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Alarm {
    fn lock(&self) -> MutexGuard<'_, Option<Wake>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moved(&self, wake: Wake) {
        let mut set = self.lock();
        if set.is_none_or(|set| is_nearer(wake.wall, set.wall) || is_nearer(wake.mono, set.mono)) {
            *set = None;
            self.nearer.notify_one();
        }
    }

    /// Nothing is awaited: what moves from now on is told. To be called before the time is read.
    pub(crate) fn unset(&self) {
        *self.lock() = None;
    }

    /// It is waited for this time. If something moved since nothing was awaited, the wait is over at once.
    pub(crate) fn set(&self, wake: Wake) {
        *self.lock() = Some(wake);
    }

    /// Ends when the time has come nearer.
    pub(crate) async fn nearer(&self) {
        self.nearer.notified().await;
    }
}

fn is_nearer<T: Ord>(new: Option<T>, set: Option<T>) -> bool {
    match (new, set) {
        (Some(new), Some(set)) => new < set,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use quorate_core::{Mono, Timestamp, Wake};

    use super::Alarm;

    // Fails under: an alarm that rings for what is later, or is silent for what is nearer, or misses what moved before it
    // was set.
    #[test]
    fn it_rings_only_for_what_is_nearer() {
        let wake =
            |wall: Option<u64>, mono: Option<u64>| Wake { wall: wall.map(Timestamp), mono: mono.map(Mono) };
        let alarm = Alarm::default();
        let rings = || pin!(alarm.nearer()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        alarm.moved(wake(None, None));
        alarm.set(wake(Some(100), None));
        assert!(rings(), "it moved before it was set");
        alarm.moved(wake(Some(100), None));
        alarm.moved(wake(Some(101), None));
        alarm.moved(wake(None, None));
        assert!(!rings(), "it went away");
        alarm.moved(wake(Some(101), Some(7)));
        assert!(rings(), "the other clock");
        alarm.set(wake(Some(100), Some(7)));
        alarm.moved(wake(Some(99), Some(9)));
        assert!(rings() && !rings(), "once");
    }
}
