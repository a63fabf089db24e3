//! The leases that a running agent holds. Its handlers are dropped when the hub reports that a lease has ended.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_api::Error;
use tokio::sync::{oneshot, watch};

use crate::backend::{HeldWork, LeaseEvent, LeaseEventStream};

/// Maximum number of remembered leases that ended before their work was received.
const ENDED_MAX: usize = 1_024;

/// The leases under which an agent handles deliveries and tasks.
#[derive(Default)]
pub(crate) struct HeldLeases {
    state: Mutex<State>,
    /// Makes the handlers extend their leases now, to learn which have ended.
    checks: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    held: HashMap<HeldWork, (u64, oneshot::Sender<()>)>,
    /// Number of the last lease.
    last: u64,
    /// Leases that ended and are not held: the report can arrive before the work, over another connection.
    ended: VecDeque<HeldWork>,
}

/// A lease under which a handler runs, until this is dropped.
pub(crate) struct HeldLease {
    leases: Arc<HeldLeases>,
    work: HeldWork,
    number: u64,
    ended: oneshot::Receiver<()>,
    checks: watch::Receiver<()>,
}

impl HeldLeases {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a lease is held from now on.
    pub(crate) fn hold(self: &Arc<Self>, work: HeldWork) -> HeldLease {
        let (end, ended) = oneshot::channel();
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        // A closed channel means that the lease has ended.
        if !state.ended.contains(&work) {
            state.held.insert(work.clone(), (number, end));
        }
        drop(state);
        HeldLease { leases: Arc::clone(self), work, number, ended, checks: self.checks.subscribe() }
    }

    /// Drops the handler that runs under a lease.
    pub(crate) fn end(&self, work: HeldWork) {
        let mut state = self.state();
        if state.held.remove(&work).is_none() {
            state.ended.push_back(work);
            if state.ended.len() > ENDED_MAX {
                state.ended.pop_front();
            }
        }
    }

    /// Follows the events of the hub. Without them, a handler learns that its lease has ended when it extends it.
    pub(crate) async fn follow(&self, mut events: Box<dyn LeaseEventStream>) -> Result<(), Error> {
        while let Ok(Some(event)) = events.next().await {
            match event {
                LeaseEvent::Ended(work) => self.end(work),
                LeaseEvent::Interrupted => drop(self.checks.send(())),
            }
        }
        pending().await
    }
}

impl HeldLease {
    /// Resolves when the lease has ended.
    pub(crate) async fn ended(&mut self) {
        let _ = (&mut self.ended).await;
    }

    /// Returns a receiver that changes when the lease should be extended now.
    pub(crate) fn checks(&self) -> watch::Receiver<()> {
        self.checks.clone()
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        let mut state = self.leases.state();
        if state.held.get(&self.work).is_some_and(|(number, _)| *number == self.number) {
            state.held.remove(&self.work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use quorate_core::{DeliveryId, DeliveryNo, Generation};

    use super::*;

    fn delivery(number: u64) -> HeldWork {
        HeldWork::Delivery(DeliveryId { generation: Generation(0), number: DeliveryNo(number) })
    }

    fn has_ended(lease: &mut HeldLease) -> bool {
        pin!(lease.ended()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    // Fails under: an end that reaches another lease; an end that is lost because it precedes the work.
    #[test]
    fn m16_a_lease_ends_once_even_if_its_end_precedes_the_work() {
        let leases = Arc::new(HeldLeases::default());
        let (mut first, mut second) = (leases.hold(delivery(1)), leases.hold(delivery(2)));
        leases.end(delivery(1));
        leases.end(delivery(3));
        let mut third = leases.hold(delivery(3));
        assert!(has_ended(&mut first) && !has_ended(&mut second) && has_ended(&mut third));
        for number in 0..ENDED_MAX as u64 {
            leases.end(delivery(100 + number));
        }
        assert!(!has_ended(&mut leases.hold(delivery(3))), "only the newest ends are remembered");
    }

    // Fails under: the drop of an old handler that removes the lease of its successor.
    #[test]
    fn m16_a_new_lease_of_the_same_delivery_replaces_the_old_one() {
        let leases = Arc::new(HeldLeases::default());
        let mut old = leases.hold(delivery(1));
        let mut new = leases.hold(delivery(1));
        assert!(has_ended(&mut old) && !has_ended(&mut new), "a delivery has one lease at a time");
        drop(old);
        leases.end(delivery(1));
        assert!(has_ended(&mut new));
    }
}
