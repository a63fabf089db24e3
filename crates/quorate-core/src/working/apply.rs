//! Application of effects to the working state. Shared by live decisions, recovery and replay.

use std::sync::Arc;

use crate::effect::{Effect, LoggedLease, NewDelivery, ReturnCause, ReturnOutcome};
use crate::ids::{AgentNo, DeliveryNo, GenerationStart, LeaseToken, Seq};
use crate::item::Item;
use crate::message::Message;
use crate::recipient::Recipient;
use crate::registry::Agent;
use crate::subscription::RecordedMessage;
use crate::time::Now;
use crate::working::{Lease, OpenDelivery, OpenDeliveryState, Undo, WorkingState, inbox};

impl WorkingState {
    /// Applies one effect of record `record_seq`. `message_count` counts the messages of that record so far.
    ///
    /// Effects were decided against this state, so they are not validated again. A missing delivery means that log and
    /// state have diverged. It is skipped here; `verify` reports such differences.
    pub(crate) fn apply(&mut self, effect: &Effect, record_seq: Seq, message_count: &mut u32, now: Now) {
        match effect {
            Effect::SpaceCreated { generation, .. } | Effect::SpaceRestored { generation } => {
                self.head.generation = *generation;
                let (generation, first_delivery) = (*generation, self.next_delivery());
                let start = GenerationStart { generation, first_seq: record_seq, first_delivery };
                Arc::make_mut(&mut self.generations).0.push(start);
            }
            Effect::AgentRegistered { number, agent } => self.apply_registered(*number, agent.clone()),
            Effect::AgentRemoved { number } => {
                if let Some(agent) = self.agents().get(*number).cloned() {
                    self.set_agent(*number, Some(Agent { removed: true, ..agent }));
                }
            }
            Effect::Sent { message, first, deliveries, .. } => {
                self.apply_sent(message, *first, deliveries, (record_seq, *message_count), now);
                *message_count += 1;
            }
            Effect::Leased { lease_ms, deliveries } => {
                self.apply_leased(None, *lease_ms, deliveries, (record_seq, now));
            }
            Effect::Acked { delivery, .. } => self.remove_acked(*delivery),
            Effect::Returned { delivery, cause, next, .. } => {
                self.apply_returned(*delivery, *cause, *next, now)
            }
            Effect::Expired { delivery, .. }
            | Effect::Purged { delivery, .. }
            | Effect::DeniedByPolicy { delivery, .. } => self.set_delivery(*delivery, None),
            Effect::Redriven { delivery, to, seq, n, priority, attempts_max, expires_at, scope } => {
                let message = RecordedMessage {
                    seq: *seq,
                    n: *n,
                    priority: *priority,
                    attempts_max: *attempts_max,
                    expires_at: *expires_at,
                    scope: *scope,
                };
                self.create_delivery_of_logged_message(*delivery, *to, &message, now);
            }
            Effect::Written { .. } | Effect::Deleted { .. } => {}
            Effect::Erased { seq, part } => self.drop_cached_inputs(*seq, *part),
            Effect::Changed { item, .. } => self.set_item(item, now),
            // Waits exist in memory only, and the waiting consumer was notified.
            Effect::WaitAborted { .. } => {}
            Effect::ContributionAdded { session, kind, n: contribution_no, .. } => {
                if let Some(mut session) = self.items().sessions.get(session.as_str()).cloned() {
                    session.count_contribution(*kind, *contribution_no);
                    self.set_item(&Item::Session(session), now);
                }
            }
            Effect::AckedMany { deliveries } => {
                deliveries.iter().for_each(|lease| self.remove_acked(lease.delivery));
            }
            Effect::LeasedFromPool { agent, lease_ms, deliveries } => {
                self.apply_leased(Some(*agent), *lease_ms, deliveries, (record_seq, now));
            }
            Effect::Backfilled { agent, first, messages } => {
                for (number, message) in (first.0..).map(DeliveryNo).zip(messages) {
                    self.create_delivery_of_logged_message(number, (*agent).into(), message, now);
                }
                self.next_delivery = first.0 + messages.len() as u64;
            }
            Effect::PresenceChanged { number, presence } => {
                if let Some(agent) = self.agents().get(*number).cloned() {
                    self.set_agent(*number, Some(Agent { presence: presence.clone(), ..agent }));
                }
            }
        }
    }

    /// Keeps the presence of an agent whose registration changed within the same epoch.
    fn apply_registered(&mut self, number: AgentNo, mut agent: Agent) {
        if let Some(current) = self.agents().get(number).filter(|current| current.epoch == agent.epoch) {
            agent.presence = current.presence.clone();
        }
        self.set_agent(number, Some(agent));
    }

    pub(crate) fn remove_acked(&mut self, number: DeliveryNo) {
        self.set_delivery(number, None);
    }

    /// Creates a delivery of a message that is already in the log.
    fn create_delivery_of_logged_message(
        &mut self,
        number: DeliveryNo,
        to: Recipient,
        message: &RecordedMessage,
        now: Now,
    ) {
        let state = self.waiting_state(message.scope, now.wall);
        let mut open = OpenDelivery::new(to, message.seq, message.n, state).with_scope(message.scope);
        open.priority = message.priority;
        open.attempts_max = message.attempts_max;
        open.expires = message.expires_at.unwrap_or(OpenDelivery::NEVER);
        self.set_delivery(number, Some((open, None)));
    }

    /// Leases deliveries to their recipient, or to the agent that took them from a pool.
    fn apply_leased(
        &mut self,
        holder: Option<AgentNo>,
        lease_ms: u64,
        deliveries: &[LoggedLease],
        (seq, now): (Seq, Now),
    ) {
        for LoggedLease { delivery: number, token, .. } in deliveries {
            let Some(mut open) = self.open(*number).copied() else { continue };
            open.state = OpenDeliveryState::Leased { token: *token };
            open.attempt += 1;
            open.to = holder.map_or(open.to, |agent| open.to.held_by(agent));
            self.last_token = self.last_token.max(token.0);
            let lease = Lease::new(lease_ms, seq, now);
            self.set_delivery(*number, Some((open, Some(lease))));
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
        let scopes = self.scopes_of(message);
        self.record_chain_message(message);
        for (index, delivery) in deliveries.iter().enumerate() {
            let scope = scopes.of(delivery.to);
            let waiting = match message.deliver_at {
                Some(due) if due > now.wall => OpenDeliveryState::Scheduled { due },
                _ => self.waiting_state(scope, now.wall),
            };
            let mut open = OpenDelivery::new(delivery.to, seq, n, waiting).with_scope(scope);
            open.priority = message.priority;
            open.attempts_max = message.attempts_max;
            open.expires = message.expires_at.unwrap_or(OpenDelivery::NEVER);
            open.if_unavailable = message.unavailable_handling();
            let mut lease = None;
            if let Some((token, lease_ms)) = delivery.lease {
                open.state = OpenDeliveryState::Leased { token };
                open.attempt = 1;
                self.last_token = self.last_token.max(token.0);
                lease = Some(Lease::new(lease_ms, seq, now));
            }
            self.set_delivery(DeliveryNo(first.0 + index as u64), Some((open, lease)));
        }
        self.next_delivery = first.0 + deliveries.len() as u64;
    }

    fn apply_returned(&mut self, delivery: DeliveryNo, cause: ReturnCause, next: ReturnOutcome, now: Now) {
        let Some(mut open) = self.open(delivery).copied() else { return };
        if cause == ReturnCause::Released {
            open.attempt -= 1;
        }
        open.to = open.to.without_holder();
        open.state = match next {
            ReturnOutcome::Ready => self.waiting_state(open.scope(), now.wall),
            ReturnOutcome::Scheduled(due) => OpenDeliveryState::Scheduled { due },
            ReturnOutcome::Dead | ReturnOutcome::Expired => return self.set_delivery(delivery, None),
            ReturnOutcome::Redirected(agent) => {
                open.to = agent.into();
                match open.state {
                    OpenDeliveryState::Scheduled { due } => OpenDeliveryState::Scheduled { due },
                    OpenDeliveryState::Ready { .. }
                    | OpenDeliveryState::Held { .. }
                    | OpenDeliveryState::Leased { .. } => self.waiting_state(open.scope(), now.wall),
                }
            }
        };
        self.set_delivery(delivery, Some((open, None)));
    }

    /// Updates the counts of ended deliveries. Separate from `apply`: a live commit calls it only when it concludes.
    pub(crate) fn count_ended(&mut self, effect: &Effect) {
        match effect {
            Effect::Acked { .. } => self.counts.acked += 1,
            Effect::Returned { next: ReturnOutcome::Dead, .. } => self.counts.dead += 1,
            Effect::Expired { .. } | Effect::Returned { next: ReturnOutcome::Expired, .. } => {
                self.counts.expired += 1
            }
            Effect::Purged { .. } => self.counts.purged += 1,
            Effect::Redriven { .. } => self.counts.dead -= 1,
            Effect::AckedMany { deliveries } => self.counts.acked += deliveries.len() as u64,
            Effect::DeniedByPolicy { .. } => self.counts.dead += 1,
            Effect::SpaceCreated { .. }
            | Effect::SpaceRestored { .. }
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
            | Effect::PresenceChanged { .. }
            | Effect::LeasedFromPool { .. }
            | Effect::Backfilled { .. } => {}
            Effect::ContributionAdded { .. } => {}
        }
    }

    pub(crate) fn set_fairness(&mut self, agent: AgentNo, fairness: inbox::Fairness) {
        let before = std::mem::replace(&mut self.inbox_mut(agent).fairness, fairness);
        self.journal.push(Undo::Fairness(agent, before));
    }

    /// Loads a stored lease extension, if the lease is still current. The lease restarts with its full duration.
    pub fn load_lease(&mut self, number: DeliveryNo, token: LeaseToken, lease_ms: u64, now: Now) {
        if self.open(number).and_then(OpenDelivery::token) == Some(token) {
            self.extend_lease(number, lease_ms, now);
            self.mark_durable();
        }
    }

    /// Extends the lease of a leased delivery.
    pub(crate) fn extend_lease(&mut self, number: DeliveryNo, lease_ms: u64, now: Now) {
        if let Some(open) = self.open(number).copied() {
            let before = self.lease(number);
            // The longest duration that was promised to the holder applies again after a restart.
            let longest = before.map_or(0, |lease| lease.lease_ms).max(lease_ms);
            let (since, seq) = before.map_or((None, Seq(0)), |lease| (lease.since, lease.seq));
            let lease = Lease { lease_ms: longest, deadline: now.mono.plus_ms(lease_ms), since, seq };
            self.set_delivery(number, Some((open, Some(lease))));
        }
    }
}
