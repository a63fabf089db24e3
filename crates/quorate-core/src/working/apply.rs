//! Carrying out an effect. Live decisions, recovery and replay all come through here.

use std::sync::Arc;

use crate::effect::{Effect, NewDelivery, Next, ReturnCause};
use crate::ids::{AgentNo, DeliveryNo, Era, Seq, Token};
use crate::item::Item;
use crate::message::Message;
use crate::registry::Agent;
use crate::time::Now;
use crate::working::{Lease, Open, OpenState, Undo, Working, inbox};

impl Working {
    /// Carries out one effect of record `seq`. `n` counts the messages of that record.
    ///
    /// An effect was decided against the state before it, so it fits; a delivery that it names and that is not there
    /// means that log and state have come apart, and is passed over here: comparing them is the business of `verify`.
    pub(crate) fn apply(&mut self, effect: &Effect, seq: Seq, n: &mut u32, now: Now) {
        match effect {
            Effect::SpaceCreated { generation, .. } | Effect::Restored { generation } => {
                self.head.generation = *generation;
                let era =
                    Era { generation: *generation, first_seq: seq, first_delivery: self.next_delivery() };
                Arc::make_mut(&mut self.eras).0.push(era);
            }
            Effect::AgentRegistered { number, agent } => {
                let mut agent = agent.clone();
                // What is only described anew is the same start: it is as it was.
                if let Some(known) = self.agents().get(*number).filter(|known| known.epoch == agent.epoch) {
                    agent.presence = known.presence.clone();
                }
                self.set_agent(*number, Some(agent));
            }
            Effect::AgentRemoved { number } => {
                if let Some(agent) = self.agents().get(*number).cloned() {
                    self.set_agent(*number, Some(Agent { removed: true, ..agent }));
                }
            }
            Effect::Sent { message, first, deliveries, .. } => {
                self.apply_sent(message, *first, deliveries, (seq, *n), now);
                *n += 1;
            }
            Effect::Leased { lease_ms, deliveries } => {
                for (number, token) in deliveries {
                    let Some(open) = self.open(*number).copied() else { continue };
                    let state = OpenState::Leased { token: *token };
                    self.last_token = self.last_token.max(token.0);
                    let lease = Lease::new(*lease_ms, now);
                    self.set_delivery(
                        *number,
                        Some((Open { state, attempt: open.attempt + 1, ..open }, Some(lease))),
                    );
                }
            }
            Effect::Acked { delivery, .. } => {
                self.set_delivery(*delivery, None);
            }
            Effect::Returned { delivery, cause, next, .. } => {
                self.apply_returned(*delivery, *cause, *next, now)
            }
            Effect::Expired { delivery } | Effect::Purged { delivery } => self.set_delivery(*delivery, None),
            Effect::Redriven { delivery, agent, seq, n, priority, attempts_max, expires_at, session } => {
                let state = self.waiting(*session, now.wall);
                let mut open = Open::new(*agent, *seq, *n, state).of_session(*session);
                open.priority = *priority;
                open.attempts_max = *attempts_max;
                open.expires = expires_at.unwrap_or(Open::NEVER);
                self.set_delivery(*delivery, Some((open, None)));
            }
            Effect::Written { .. } | Effect::Deleted { .. } => {}
            Effect::Erased { seq, part } => self.forget_inputs(*seq, *part),
            Effect::Changed { item, .. } => self.set_item(item, now),
            // Waits are in memory only, and those who wait were told.
            Effect::WaitAborted { .. } => {}
            Effect::SessionAdded { session, kind, n, .. } => {
                if let Some(mut session) = self.items().sessions.get(session.as_str()).cloned() {
                    session.take_in(*kind, *n);
                    self.set_item(&Item::Session(session), now);
                }
            }
            Effect::AgentStatus { number, presence } => {
                if let Some(agent) = self.agents().get(*number).cloned() {
                    self.set_agent(*number, Some(Agent { presence: presence.clone(), ..agent }));
                }
            }
        }
    }

    fn apply_sent(
        &mut self,
        message: &Message,
        first: DeliveryNo,
        deliveries: &[NewDelivery],
        (seq, n): (Seq, u32),
        now: Now,
    ) {
        let session = self.session_of(message);
        self.note_chain(message);
        let waiting = match message.deliver_at {
            Some(due) if due > now.wall => OpenState::Scheduled { due },
            _ => self.waiting(session, now.wall),
        };
        for (index, delivery) in deliveries.iter().enumerate() {
            let mut open = Open::new(delivery.agent, seq, n, waiting).of_session(session);
            open.priority = message.priority;
            open.attempts_max = message.attempts_max;
            open.expires = message.expires_at.unwrap_or(Open::NEVER);
            open.if_unavailable = message.if_unavailable;
            let mut lease = None;
            if let Some((token, lease_ms)) = delivery.lease {
                open.state = OpenState::Leased { token };
                open.attempt = 1;
                self.last_token = self.last_token.max(token.0);
                lease = Some(Lease::new(lease_ms, now));
            }
            self.set_delivery(DeliveryNo(first.0 + index as u64), Some((open, lease)));
        }
        self.next_delivery = first.0 + deliveries.len() as u64;
    }

    fn apply_returned(&mut self, delivery: DeliveryNo, cause: ReturnCause, next: Next, now: Now) {
        let Some(mut open) = self.open(delivery).copied() else { return };
        if cause == ReturnCause::Released {
            open.attempt -= 1;
        }
        open.state = match next {
            Next::Ready => self.waiting(open.session(), now.wall),
            Next::Scheduled(due) => OpenState::Scheduled { due },
            Next::Dead | Next::Expired => return self.set_delivery(delivery, None),
            Next::Redirected(agent) => {
                open = open.redirected(agent);
                match open.state {
                    OpenState::Scheduled { due } => OpenState::Scheduled { due },
                    OpenState::Ready { .. } | OpenState::Held { .. } | OpenState::Leased { .. } => {
                        self.waiting(open.session(), now.wall)
                    }
                }
            }
        };
        self.set_delivery(delivery, Some((open, None)));
    }

    /// Counts how a delivery ended. Kept apart from the deliveries themselves, which are gone by then.
    pub(crate) fn count_end(&mut self, effect: &Effect) {
        match effect {
            Effect::Acked { .. } => self.counts.acked += 1,
            Effect::Returned { next: Next::Dead, .. } => self.counts.dead += 1,
            Effect::Expired { .. } | Effect::Returned { next: Next::Expired, .. } => self.counts.expired += 1,
            Effect::Purged { .. } => self.counts.purged += 1,
            Effect::Redriven { .. } => self.counts.dead -= 1,
            Effect::SpaceCreated { .. }
            | Effect::Restored { .. }
            | Effect::AgentRegistered { .. }
            | Effect::AgentRemoved { .. }
            | Effect::Sent { .. }
            | Effect::Leased { .. }
            | Effect::Returned { .. }
            | Effect::Written { .. }
            | Effect::Deleted { .. }
            | Effect::Erased { .. }
            | Effect::Changed { .. }
            | Effect::WaitAborted { .. }
            | Effect::AgentStatus { .. } => {}
            Effect::SessionAdded { .. } => {}
        }
    }

    pub(crate) fn set_fairness(&mut self, agent: AgentNo, fairness: inbox::Fairness) {
        let before = std::mem::replace(&mut self.inbox_mut(agent).fairness, fairness);
        self.journal.push(Undo::Fairness(agent, before));
    }

    /// Takes up that a lease was made longer, if it is still the current one. It runs its full length again from now.
    pub fn load_lease(&mut self, number: DeliveryNo, token: Token, lease_ms: u64, now: Now) {
        if self.open(number).and_then(Open::token) == Some(token) {
            self.prolong(number, lease_ms, now);
            self.settle();
        }
    }

    /// Prolongs the lease of a delivery that is held.
    pub(crate) fn prolong(&mut self, number: DeliveryNo, lease_ms: u64, now: Now) {
        if let Some(open) = self.open(number).copied() {
            let before = self.lease(number);
            // After a restart the lease runs again in full: as long as the longest that its holder was promised.
            let longest = before.map_or(0, |lease| lease.lease_ms).max(lease_ms);
            let since = before.and_then(|lease| lease.since);
            let lease = Lease { lease_ms: longest, deadline: now.mono.plus_ms(lease_ms), since };
            self.set_delivery(number, Some((open, Some(lease))));
        }
    }
}
