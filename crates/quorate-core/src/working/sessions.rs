//! Open sessions, their open deliveries, and the deliveries that paused sessions hold.
//!
//! Whether a delivery is held is not stored in its row: it follows from a paused session and a delivery that would be
//! ready otherwise. So pausing writes one item, however many deliveries wait.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::ids::{AgentId, DeliveryNo, SessionNo};
use crate::message::Message;
use crate::session::{Session, SessionStatus};
use crate::time::Timestamp;
use crate::working::{Map, OpenDelivery, OpenDeliveryState, WorkingState, decrement};

type Set<K> = HashSet<K, foldhash::fast::RandomState>;

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Map<Arc<str>, Session>,
    /// Number of open sessions of each coordinator.
    of_coordinator: Map<AgentId, usize>,
    paused: Set<SessionNo>,
    /// The open deliveries of each session, including closed ones.
    deliveries: Map<SessionNo, BTreeSet<DeliveryNo>>,
}

impl Sessions {
    pub(super) fn replace(&mut self, id: &Arc<str>, new: Option<Session>) -> Option<Session> {
        let is_paused = |session: &Session| session.status == SessionStatus::Paused;
        let paused = new.as_ref().filter(|session| is_paused(session)).map(|session| session.number);
        if let Some(coordinator) = new.as_ref().and_then(|session| session.coordinator.clone()) {
            *self.of_coordinator.entry(coordinator).or_default() += 1;
        }
        let old = match new {
            Some(session) => self.open.insert(Arc::clone(id), session),
            None => self.open.remove(id),
        };
        if let Some(old) = old.as_ref().filter(|old| is_paused(old)) {
            self.paused.remove(&old.number);
        }
        self.paused.extend(paused);
        if let Some(coordinator) = old.as_ref().and_then(|old| old.coordinator.as_ref()) {
            decrement(&mut self.of_coordinator, coordinator);
        }
        old
    }

    /// Returns an open session.
    pub(crate) fn get(&self, id: &str) -> Option<&Session> {
        self.open.get(id)
    }

    /// Returns the number of open sessions.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns the number of open sessions that an agent coordinates.
    pub(crate) fn count_of(&self, coordinator: &AgentId) -> usize {
        self.of_coordinator.get(coordinator).copied().unwrap_or(0)
    }

    pub(super) fn enter(&mut self, session: SessionNo, delivery: DeliveryNo) {
        self.deliveries.entry(session).or_default().insert(delivery);
    }

    pub(super) fn exit(&mut self, session: SessionNo, delivery: DeliveryNo) {
        if let Some(deliveries) = self.deliveries.get_mut(&session) {
            deliveries.remove(&delivery);
            if deliveries.is_empty() {
                self.deliveries.remove(&session);
            }
        }
    }

    fn deliveries_of(&self, session: SessionNo) -> impl Iterator<Item = DeliveryNo> {
        self.deliveries.get(&session).into_iter().flatten().copied()
    }
}

impl WorkingState {
    /// Returns the session that a message names, if it is open.
    pub(crate) fn session_of(&self, message: &Message) -> Option<SessionNo> {
        let id = message.session_id.as_deref()?;
        self.items().sessions.get(id).map(|session| session.number)
    }

    /// Whether the session is paused, so that its deliveries are held.
    pub(crate) fn is_session_paused(&self, session: Option<SessionNo>) -> bool {
        session.is_some_and(|session| self.items().sessions.paused.contains(&session))
    }

    /// Returns the state of a waiting delivery: ready, or held if its session is paused.
    pub(crate) fn waiting_state(&self, session: Option<SessionNo>, since: Timestamp) -> OpenDeliveryState {
        if self.is_session_paused(session) {
            OpenDeliveryState::Held { since }
        } else {
            OpenDeliveryState::Ready { since }
        }
    }

    /// Updates the index of deliveries by session. Most deliveries belong to no session.
    pub(super) fn update_session_index(
        &mut self,
        number: DeliveryNo,
        old: Option<SessionNo>,
        new: Option<SessionNo>,
    ) {
        if old != new {
            old.into_iter().for_each(|session| self.items.sessions.exit(session, number));
            new.into_iter().for_each(|session| self.items.sessions.enter(session, number));
        }
    }

    /// Holds or releases the waiting deliveries of a session according to its status.
    pub(super) fn apply_session_pause(&mut self, session: SessionNo) {
        let hold = self.is_session_paused(Some(session));
        for number in self.items().sessions.deliveries_of(session).collect::<Vec<_>>() {
            let Some(open) = self.open(number).copied() else { continue };
            let state = match open.state {
                OpenDeliveryState::Ready { since } if hold => OpenDeliveryState::Held { since },
                OpenDeliveryState::Held { since } if !hold => OpenDeliveryState::Ready { since },
                OpenDeliveryState::Ready { .. }
                | OpenDeliveryState::Held { .. }
                | OpenDeliveryState::Scheduled { .. }
                | OpenDeliveryState::Leased { .. } => continue,
            };
            self.set_delivery(number, Some((OpenDelivery { state, ..open }, None)));
            if !hold {
                self.schedule_dispatch(open.to.queue());
            }
        }
    }

    /// Returns the deliveries that paused sessions hold, sorted by number. Not for hot paths.
    pub(crate) fn held_deliveries(&self) -> Vec<DeliveryNo> {
        let sessions = &self.items().sessions;
        let all = sessions.paused.iter().flat_map(|session| sessions.deliveries_of(*session));
        let is_held = |number: &DeliveryNo| {
            matches!(self.open(*number).map(|open| open.state), Some(OpenDeliveryState::Held { .. }))
        };
        let mut held: Vec<_> = all.filter(is_held).collect();
        held.sort_unstable();
        held
    }
}

#[cfg(test)]
mod tests {
    // There may be a million open deliveries, so every additional byte counts.
    #[test]
    fn an_open_delivery_stays_small() {
        assert!(size_of::<super::OpenDelivery>() <= 56);
    }
}
