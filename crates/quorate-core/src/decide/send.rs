//! Sending: creates one delivery of a message for each recipient.

use std::sync::Arc;

use crate::commit::Fingerprint;
use crate::commit::{OpResult, Principal};
use crate::decide::{DecideError, Draft, LeasedDelivery};
use crate::destination::Destination;
use crate::effect::{Effect, NewDelivery};
use crate::ids::{AgentId, Capability, DeliveryNo, MessageId, PoolNo};
use crate::item::{Item, Verb};
use crate::limits::{DELIVERIES_PER_COMMIT_MAX, IN_FLIGHT_MAX, POOLS_MAX, POOLS_PER_AGENT_MAX};
use crate::lookup::PriorSend;
use crate::message::{Durability, Message};
use crate::pool::{Pool, PoolAccess};
use crate::recipient::{QueueId, Recipient};
use crate::refused::{Code, Refused};
use crate::routing::RoutedTo;
use crate::working::Consumer;

impl Draft<'_> {
    pub(super) fn send(
        &mut self,
        message: &Arc<Message>,
        fingerprint: &Fingerprint,
    ) -> Result<OpResult, DecideError> {
        self.check_sender(message)?;
        if let Some(result) = self.prior_send_result(message, fingerprint)? {
            return Ok(result);
        }
        self.check_session(message.session_id.as_deref())?;
        self.check_chain(message)?;
        self.working.policy().check_required_fields(message)?;
        let recipients = self.recipients(message)?;
        let reply = self.match_reply(message, &recipients)?;
        let recipients = match &reply {
            Some(_) => Vec::new(),
            None => self.resolve_unavailable(message, recipients)?,
        };
        self.check_inbox_capacity(message.from.as_ref(), &recipients)?;
        let low_budget = self.charge_budget(message)?;
        let result = match reply {
            Some(reply) => self.accept_reply(message, reply),
            None => {
                let delegated = self.delegate_answers(message, &recipients);
                let result = self.emit_message(message, recipients);
                self.change_delegated(delegated);
                result
            }
        };
        if let Some(budget) = low_budget {
            self.send_budget_warning(&budget, message);
        }
        self.remember_sent(message, fingerprint, result.clone());
        Ok(result)
    }

    /// Returns the id of the next message of this commit.
    pub(super) fn next_message_id(&self) -> MessageId {
        MessageId { generation: self.working.head.generation, seq: self.seq, n: self.messages }
    }

    /// Returns the result of an earlier message with the same client id.
    pub(super) fn prior_send_result(
        &self,
        message: &Message,
        fingerprint: &Fingerprint,
    ) -> Result<Option<OpResult>, DecideError> {
        let Some(id) = &message.client_id else { return Ok(None) };
        if let Some((earlier, result)) = self.sent_in_commit.get(id) {
            return if fingerprint.matches(earlier) {
                Ok(Some(result.clone()))
            } else {
                Err(used_id(id).into())
            };
        }
        let Some(prior) = self.lookup.prior_send(id)? else { return Ok(None) };
        let result = self.repeated_send(id, &prior, fingerprint)?;
        if let OpResult::Sent { id, count: 0, .. } = result
            && let Some(replied) = self.replied_before(message, id)?
        {
            return Ok(Some(replied));
        }
        Ok(Some(result))
    }

    pub(super) fn remember_sent(&mut self, message: &Message, fingerprint: &Fingerprint, result: OpResult) {
        if let Some(client_id) = &message.client_id {
            self.sent_in_commit.insert(client_id.clone(), (fingerprint.written, result));
        }
    }

    /// Writes a message and its deliveries. A delivery is leased immediately if a consumer waits for it.
    pub(super) fn emit_message(&mut self, message: &Arc<Message>, recipients: Vec<Recipient>) -> OpResult {
        let id = self.next_message_id();
        let first = self.working.next_delivery();
        let count = recipients.len() as u32;
        let scopes = self.working.scopes_of(message);
        let is_scheduled = message.deliver_at.is_some_and(|due| due > self.now.wall);
        let part = self.parts.len() as u32;
        self.parts.push(message.payload.clone());
        let mut deliveries = Vec::with_capacity(recipients.len());
        for (number, to) in (first.0..).map(DeliveryNo).zip(recipients) {
            deliveries.push(match is_scheduled || self.working.is_paused(scopes.of(to)) {
                true => NewDelivery { to, lease: None },
                false => self.new_delivery(to, number, message),
            });
        }
        let queues: Vec<_> = { deliveries.iter() }
            .filter(|delivery| delivery.lease.is_none())
            .map(|delivery| delivery.to.queue())
            .collect();
        self.emit(Effect::Sent { message: Arc::clone(message), part, first, deliveries });
        for queue in queues {
            self.working.schedule_dispatch(queue);
        }
        OpResult::Sent { id, first, count }
    }

    /// Checks that the sender of the message is the acting agent. Other principals may send as any registered agent.
    pub(super) fn check_sender(&self, message: &Message) -> Result<(), Refused> {
        if message.durability == Durability::Ephemeral {
            return Err(Refused::new(Code::Invalid, "an ephemeral message cannot be part of a commit")
                .hint("send it outside a commit, or make it durable"));
        }
        match (&self.commit.principal, &message.from) {
            (Principal::Agent(actor), Some(from)) if actor == from => Ok(()),
            (Principal::Agent(actor), from) => {
                let from = from.as_ref().map_or("the hub", AgentId::as_str);
                Err(Refused::new(Code::Forbidden, format!("agent {actor} may not send as {from}"))
                    .hint("omit `from`: the sender is the agent that owns the access token"))
            }
            (Principal::System | Principal::Holder { .. }, Some(from)) => self.require_agent(from).map(drop),
            (Principal::System | Principal::Holder { .. }, None) => Ok(()),
        }
    }

    /// Resolves the recipients, each once.
    pub(super) fn recipients(&mut self, message: &Message) -> Result<Vec<Recipient>, Refused> {
        if matches!(message.to, Destination::Broadcast | Destination::Role(_)) {
            self.lookup.add_steps(self.working.agents().len());
        }
        let recipients: Vec<Recipient> = match self.routing().route(message.from.as_ref(), &message.to)? {
            RoutedTo::Agents(agents) => agents.into_iter().map(Recipient::agent).collect(),
            RoutedTo::AnyCapable { capability, access } => {
                vec![Recipient::pool(self.pool(&capability, access)?)]
            }
        };
        if message.to == Destination::Broadcast {
            self.count_broadcast(message)?;
        }
        self.deliveries += recipients.len();
        if self.deliveries > DELIVERIES_PER_COMMIT_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                format!("the commit creates {} deliveries", self.deliveries),
            )
            .limit(DELIVERIES_PER_COMMIT_MAX as u64)
            .hint("split it into several commits, or send to fewer recipients"));
        }
        Ok(recipients)
    }

    /// Returns the pool of a capability; creates it for the first message.
    fn pool(&mut self, capability: &Capability, access: PoolAccess) -> Result<PoolNo, Refused> {
        if let Some(pool) = self.working.pools().find(capability, access) {
            return Ok(pool);
        }
        let number = PoolNo(self.working.pool_count() as u64 + 1);
        if number.0 as usize > POOLS_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                "the space has reached its maximum number of pools",
            )
            .limit(POOLS_MAX as u64)
            .hint(POOL_HINT));
        }
        if let Some(actor) = self.actor {
            let opened = self.working.pools().opened_by(actor);
            self.check_share("pools", opened, POOLS_PER_AGENT_MAX, POOL_HINT)?;
        }
        let pool = Pool { number, capability: capability.clone(), access, opened_by: self.actor };
        self.change_item(Verb::PoolOpened, Item::Pool(pool));
        Ok(number)
    }

    /// Charges a broadcast to the quota of its sender. The hub has no quota.
    fn count_broadcast(&mut self, message: &Message) -> Result<(), Refused> {
        let sender = message.from.as_ref().and_then(|id| self.working.agents().number(id));
        if let Some(sender) = sender {
            let broadcasts = self.working.broadcasts(sender).consume(self.working.policy(), self.now.wall)?;
            self.working.set_broadcasts(sender, broadcasts);
        }
        Ok(())
    }

    /// Creates a delivery. It is leased on creation if a consumer waits and nothing else is ready for its agent.
    fn new_delivery(&mut self, to: Recipient, number: DeliveryNo, message: &Arc<Message>) -> NewDelivery {
        let unleased = NewDelivery { to, lease: None };
        if message.expires_at.is_some_and(|at| at <= self.now.wall) {
            return unleased;
        }
        let Some(Consumer { id, agent, lease_ms, .. }) = self.next_consumer(to.queue()) else {
            return unleased;
        };
        let inbox = self.working.inbox(agent);
        let has_ready = inbox.has_ready()
            || inbox.pools().iter().any(|pool| self.working.inbox_at(QueueId::Pool(*pool)).has_ready());
        if has_ready || inbox.leased.len() >= IN_FLIGHT_MAX {
            return unleased;
        }
        let token = self.working.next_token();
        self.working.spend_credit(id, 1);
        let leased = LeasedDelivery {
            delivery: number,
            token,
            attempt: 1,
            lease_ms,
            seq: self.seq,
            n: self.messages,
            message: Some((self.now.wall, Arc::clone(message))),
        };
        self.dispatched.push((id, leased));
        self.working.record_activity(agent, self.now);
        NewDelivery { to: to.held_by(agent), lease: Some((token, lease_ms)) }
    }

    /// Handles a repeated client id: returns the same result if the sender and the message are the same.
    fn repeated_send(
        &self,
        id: &crate::ids::ClientId,
        prior: &PriorSend,
        fingerprint: &Fingerprint,
    ) -> Result<OpResult, Refused> {
        let same =
            fingerprint.matches(&prior.fingerprint) && prior.principal == self.commit.principal.to_text();
        if !same || self.erased_in_commit.contains(&(prior.seq, prior.part)) {
            return Err(used_id(id));
        }
        let id = self.working.generations().message_id(prior.seq, prior.n);
        Ok(OpResult::Sent { id, first: prior.first, count: prior.count })
    }
}

/// Pools are permanent, so waiting does not help.
const POOL_HINT: &str = "send to an agent, a role, a topic, or a capability that already has a pool";

fn used_id(id: &crate::ids::ClientId) -> Refused {
    Refused::new(Code::Duplicate, format!("the message id {id} was used for another message"))
        .hint("use a new id for each message; retry an id only with an identical message")
}
