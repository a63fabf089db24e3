//! Sending: a message becomes one delivery for each recipient.

use std::collections::HashSet;
use std::sync::Arc;

use crate::commit::{OpResult, Principal};
use crate::decide::{Draft, Handed, No};
use crate::effect::{Effect, NewDelivery};
use crate::ids::{AgentId, AgentNo, DeliveryNo, MessageId};
use crate::limits::{DELIVERIES_PER_COMMIT_MAX, IN_FLIGHT_MAX, INBOX_MAX};
use crate::message::{Durability, Message};
use crate::refused::{Code, Refused};
use crate::rows::SentBefore;

/// Unknown recipients that a refusal names.
const UNKNOWN_NAMED: usize = 16;

impl Draft<'_> {
    pub(super) fn send(&mut self, message: &Arc<Message>, fingerprint: &[u8; 32]) -> Result<OpResult, No> {
        self.check_sender(message)?;
        if let Some(result) = self.sent_already(message, fingerprint)? {
            return Ok(result);
        }
        self.check_session(message)?;
        self.check_chain(message)?;
        let recipients = self.recipients(message)?;
        let result = match self.answer_of(message, &recipients)? {
            Some(answer) => {
                self.spend(message)?;
                self.take_answer(message, answer)
            }
            None => {
                let recipients = self.reachable(message, recipients)?;
                self.check_room(&recipients)?;
                self.spend(message)?;
                self.post(message, &recipients)
            }
        };
        self.remember_sent(message, fingerprint, result.clone());
        Ok(result)
    }

    /// The id of the next message of this commit.
    pub(super) fn next_message_id(&self) -> MessageId {
        MessageId { generation: self.working.head.generation, seq: self.seq, n: self.messages }
    }

    /// The answer that a message with the same client's id already has.
    pub(super) fn sent_already(
        &self,
        message: &Message,
        fingerprint: &[u8; 32],
    ) -> Result<Option<OpResult>, No> {
        let Some(id) = &message.client_id else { return Ok(None) };
        if let Some((earlier, result)) = self.sent_here.get(id) {
            return if earlier == fingerprint { Ok(Some(result.clone())) } else { Err(used_id(id).into()) };
        }
        let Some(before) = self.rows.sent_before(id)? else { return Ok(None) };
        let result = self.sent_again(id, &before, fingerprint)?;
        if let OpResult::Sent { id, count: 0, .. } = result
            && let Some(replied) = self.replied_before(message, id)?
        {
            return Ok(Some(replied));
        }
        Ok(Some(result))
    }

    pub(super) fn remember_sent(&mut self, message: &Message, fingerprint: &[u8; 32], result: OpResult) {
        if let Some(client_id) = &message.client_id {
            self.sent_here.insert(client_id.clone(), (*fingerprint, result));
        }
    }

    /// Sends a message to those who were found to be its recipients, leased at once where somebody waits for it.
    pub(super) fn post(&mut self, message: &Arc<Message>, recipients: &[AgentNo]) -> OpResult {
        let id = self.next_message_id();
        let first = self.working.next_delivery();
        let count = recipients.len() as u32;
        let held = self.working.holds(self.working.session_of(message));
        let later = held || message.deliver_at.is_some_and(|due| due > self.now.wall);
        let part = self.parts.len() as u32;
        self.parts.push(message.payload.clone());
        let mut deliveries = Vec::with_capacity(recipients.len());
        for (index, agent) in recipients.iter().enumerate() {
            let delivery = DeliveryNo(first.0 + index as u64);
            let lease = if later { None } else { self.lease_at_once(*agent, delivery, message) };
            deliveries.push(NewDelivery { agent: *agent, lease });
        }
        self.emit(Effect::Sent { message: Arc::clone(message), part, first, deliveries });
        for agent in recipients {
            self.working.stir(*agent);
        }
        OpResult::Sent { id, first, count }
    }

    /// The sender that the message names is the one that acts; the hub may speak for anybody it knows.
    pub(super) fn check_sender(&self, message: &Message) -> Result<(), Refused> {
        if message.durability == Durability::Ephemeral {
            return Err(Refused::new(Code::Invalid, "an ephemeral message cannot be part of a commit")
                .hint("send it by itself, or make it durable"));
        }
        match (&self.commit.principal, &message.from) {
            (Principal::Agent(actor), Some(from)) if actor == from => Ok(()),
            (Principal::Agent(actor), from) => {
                let from = from.as_ref().map_or("the hub", AgentId::as_str);
                Err(Refused::new(Code::Forbidden, format!("agent {actor} may not send as {from}")))
            }
            (Principal::System, Some(from)) => self.known(from).map(drop),
            (Principal::System, None) => Ok(()),
        }
    }

    /// The recipients' numbers, each once, in the order named. Unknown ones are refused, never swallowed.
    pub(super) fn recipients(&mut self, message: &Message) -> Result<Vec<AgentNo>, Refused> {
        let named = message.to.agents();
        let mut recipients = Vec::with_capacity(named.len());
        let mut seen = HashSet::new();
        let mut unknown = Vec::new();
        for id in named {
            match self.working.agents().number(id) {
                Some(number) if named.len() == 1 || seen.insert(number) => recipients.push(number),
                Some(_) => {}
                None => unknown.push(id.as_str()),
            }
        }
        if !unknown.is_empty() {
            let more = if unknown.len() > UNKNOWN_NAMED { " and others" } else { "" };
            let names = unknown[..unknown.len().min(UNKNOWN_NAMED)].join(", ");
            return Err(Refused::new(Code::UnknownRecipient, format!("there is no agent {names}{more}"))
                .hint("register the recipient first, or check the spelling; nothing was sent to anybody"));
        }
        self.deliveries += recipients.len();
        if self.deliveries > DELIVERIES_PER_COMMIT_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                format!("the commit makes {} deliveries", self.deliveries),
            )
            .limit(DELIVERIES_PER_COMMIT_MAX as u64)
            .hint("split it into several commits"));
        }
        Ok(recipients)
    }

    /// Everybody has room for one more.
    pub(super) fn check_room(&self, recipients: &[AgentNo]) -> Result<(), Refused> {
        for number in recipients {
            if self.working.inbox(*number).open >= INBOX_MAX {
                let id = self.working.agents().get(*number).map_or("", |agent| agent.id.as_str());
                return Err(Refused::new(Code::QueueFull, format!("the inbox of agent {id} is full"))
                    .limit(INBOX_MAX as u64)
                    .hint("wait until it has worked off some of it; nothing was sent to anybody"));
            }
        }
        Ok(())
    }

    /// A lease in the very insert, when somebody waits and nothing older or higher waits for them.
    fn lease_at_once(
        &mut self,
        agent: AgentNo,
        delivery: DeliveryNo,
        message: &Arc<Message>,
    ) -> Option<(crate::ids::Token, u64)> {
        let inbox = self.working.inbox(agent);
        if inbox.has_ready() || inbox.leased.len() >= IN_FLIGHT_MAX {
            return None;
        }
        if message.expires_at.is_some_and(|at| at <= self.now.wall) {
            return None;
        }
        let consumer = inbox.first_in_line()?;
        let lease_ms = self.working.consumer(consumer)?.lease_ms;
        let token = self.working.next_token();
        self.working.spend_credit(consumer, 1);
        let handed = Handed {
            delivery,
            token,
            attempt: 1,
            lease_ms,
            seq: self.seq,
            n: self.messages,
            message: Some((self.now.wall, Arc::clone(message))),
        };
        self.handed.push((consumer, handed));
        self.working.hear_of(agent, self.now);
        Some((token, lease_ms))
    }

    /// The same id again: the same answer if it is the same message by the same sender.
    fn sent_again(
        &self,
        id: &crate::ids::ClientId,
        before: &SentBefore,
        fingerprint: &[u8; 32],
    ) -> Result<OpResult, Refused> {
        let same = before.fingerprint == *fingerprint && before.principal == self.commit.principal.to_text();
        if !same || self.erased_here.contains(&(before.seq, before.part)) {
            return Err(used_id(id));
        }
        let id = self.working.eras().message_id(before.seq, before.n);
        Ok(OpResult::Sent { id, first: before.first, count: before.count })
    }
}

fn used_id(id: &crate::ids::ClientId) -> Refused {
    Refused::new(Code::Duplicate, format!("the message id {id} was used for another message"))
        .hint("give each message an id of its own; repeat an id only with the very same message")
}
