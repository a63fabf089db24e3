//! The deliveries of each pause scope, and those that paused scopes hold.
//!
//! Whether a delivery is held is not stored in its row: it follows from a paused scope and a delivery that would be ready
//! otherwise. So pausing writes one item, however many deliveries wait.

use std::collections::BTreeSet;

use crate::ids::{AgentNo, DeliveryNo, ScopeNo};
use crate::item::{Item, ItemKey};
use crate::message::Message;
use crate::recipient::{QueueId, Recipient};
use crate::subscription::EarlierMessage;
use crate::time::Timestamp;
use crate::working::{Map, OpenDelivery, OpenDeliveryState, WorkingState};

#[derive(Debug, Default)]
pub(crate) struct PauseScopes {
    /// Keys of the paused sessions and procedures.
    paused: Map<ScopeNo, ItemKey>,
    /// The open deliveries of each scope, including closed ones.
    deliveries: Map<ScopeNo, BTreeSet<DeliveryNo>>,
}

impl PauseScopes {
    /// Replaces an item, whose previous version was `old`.
    pub(super) fn replace(&mut self, key: &ItemKey, old: Option<&Item>, new: Option<(ScopeNo, bool)>) {
        if let Some((number, true)) = old.and_then(Item::pause_scope) {
            self.paused.remove(&number);
        }
        if let Some((number, true)) = new {
            self.paused.insert(number, key.clone());
        }
    }

    /// Updates the scope of a delivery. Most deliveries belong to none.
    pub(super) fn update(&mut self, delivery: DeliveryNo, old: Option<ScopeNo>, new: Option<ScopeNo>) {
        if old == new {
            return;
        }
        if let Some(old) = old
            && let Some(deliveries) = self.deliveries.get_mut(&old)
        {
            deliveries.remove(&delivery);
            if deliveries.is_empty() {
                self.deliveries.remove(&old);
            }
        }
        if let Some(new) = new {
            self.deliveries.entry(new).or_default().insert(delivery);
        }
    }

    fn deliveries_of(&self, scope: ScopeNo) -> impl Iterator<Item = DeliveryNo> {
        self.deliveries.get(&scope).into_iter().flatten().copied()
    }
}

/// The scopes that the deliveries of a message can belong to.
#[derive(Clone, Copy)]
pub(crate) struct MessageScopes {
    session: Option<ScopeNo>,
    /// The driver of the procedure that the message belongs to, and the procedure.
    procedure: Option<(AgentNo, ScopeNo)>,
}

impl MessageScopes {
    /// Returns the scope of the delivery to a recipient.
    pub(crate) fn of(self, to: Recipient) -> Option<ScopeNo> {
        let is_driver = |(driver, _): &(AgentNo, ScopeNo)| to.queue() == QueueId::Agent(*driver);
        self.procedure.filter(is_driver).map(|(_, scope)| scope).or(self.session)
    }
}

impl WorkingState {
    /// Returns the scopes of a message.
    pub(crate) fn scopes_of(&self, message: &Message) -> MessageScopes {
        let correlation = message.correlation_id.as_deref().filter(|_| !message.is_control_notice());
        self.named_scopes(message.session_id.as_deref(), correlation)
    }

    /// Returns the scope of the delivery of an earlier message to a subscriber.
    pub(crate) fn scope_of_earlier(&self, earlier: &EarlierMessage, agent: AgentNo) -> Option<ScopeNo> {
        let scopes = self.named_scopes(earlier.session_id.as_deref(), earlier.correlation_id.as_deref());
        scopes.of(Recipient::agent(agent))
    }

    fn named_scopes(&self, session: Option<&str>, correlation: Option<&str>) -> MessageScopes {
        let session = session.and_then(|id| self.items().sessions.get(id)).map(|session| session.number);
        let procedure = correlation.and_then(|id| self.items().procedures.get(id)).and_then(|procedure| {
            Some((self.agents().number(procedure.driver.as_ref()?)?, procedure.number?))
        });
        MessageScopes { session, procedure }
    }

    /// Whether the scope is paused, so that its deliveries are held.
    pub(crate) fn is_paused(&self, scope: Option<ScopeNo>) -> bool {
        scope.is_some_and(|scope| self.items().pause_scopes.paused.contains_key(&scope))
    }

    /// Returns the paused session or procedure that holds a delivery.
    pub(crate) fn holder_of(&self, open: &OpenDelivery) -> Option<&ItemKey> {
        let OpenDeliveryState::Held { .. } = open.state else { return None };
        self.items().pause_scopes.paused.get(&open.scope()?)
    }

    /// Returns the state of a waiting delivery: ready, or held if its scope is paused.
    pub(crate) fn waiting_state(&self, scope: Option<ScopeNo>, since: Timestamp) -> OpenDeliveryState {
        if self.is_paused(scope) {
            OpenDeliveryState::Held { since }
        } else {
            OpenDeliveryState::Ready { since }
        }
    }

    /// Holds or releases the waiting deliveries of a scope according to its status.
    pub(super) fn apply_pause(&mut self, scope: ScopeNo) {
        let hold = self.is_paused(Some(scope));
        for number in self.items().pause_scopes.deliveries_of(scope).collect::<Vec<_>>() {
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

    /// Returns the deliveries that paused scopes hold, sorted by number. Not for hot paths.
    pub(crate) fn held_deliveries(&self) -> Vec<DeliveryNo> {
        let scopes = &self.items().pause_scopes;
        let all = scopes.paused.keys().flat_map(|scope| scopes.deliveries_of(*scope));
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
