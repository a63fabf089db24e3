//! Sending: one delivery per recipient, leased immediately if a consumer waits.

use std::sync::Arc;

use quorate_core::{
    AgentId, ClientId, Code, DeliveryNo, Durability, Fingerprint, LeasedDelivery, Message, MessageId,
    OpResult, Principal, Recipient, Refused, TimelineKind, limits,
};

use crate::reference::agents::unknown_agent;
use crate::reference::space::{Delivery, DeliveryPhase, LoggedMessage};
use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    pub(super) fn send(
        &mut self,
        message: &Arc<Message>,
        fingerprint: &Fingerprint,
    ) -> Result<OpResult, Refused> {
        self.check_sender(message)?;
        if let Some(result) = self.prior_send(message, fingerprint)? {
            return Ok(result);
        }
        self.check_session(message.session_id.as_deref())?;
        self.check_chain(message)?;
        self.check_message_format(message)?;
        let recipients = self.recipients(message)?;
        if let Some(matched) = self.match_reply(message, &recipients) {
            let low = self.charge_budget(message)?;
            let result = self.accept_reply(message, fingerprint, matched);
            if let Some(budget) = low {
                self.send_budget_warning(&budget, message);
            }
            return Ok(result);
        }
        let recipients = self.resolve_unavailable(message, recipients)?;
        self.check_inbox_capacity(message.from.as_ref(), &recipients)?;
        let low = self.charge_budget(message)?;
        self.delegate_answers(message, &recipients);
        let result = self.store_message(message, fingerprint.written, recipients);
        if let Some(budget) = low {
            self.send_budget_warning(&budget, message);
        }
        Ok(result)
    }

    /// Returns the result of an earlier message with the same client id.
    pub(super) fn prior_send(
        &self,
        message: &Message,
        fingerprint: &Fingerprint,
    ) -> Result<Option<OpResult>, Refused> {
        let Some(id) = &message.client_id else { return Ok(None) };
        let Some(earlier) = self.sent_as(id) else { return Ok(None) };
        if fingerprint.matches(&earlier.fingerprint) && earlier.principal == self.commit.principal {
            return Ok(Some(earlier.result.clone()));
        }
        Err(Refused::new(Code::Duplicate, format!("client id {id} was used for another message")))
    }

    /// Stores a message and creates one delivery per recipient.
    pub(super) fn store_message(
        &mut self,
        message: &Arc<Message>,
        fingerprint: [u8; 32],
        recipients: Vec<Recipient>,
    ) -> OpResult {
        self.record_chain_message(message);
        let id = MessageId { generation: self.space.generation(), seq: self.seq, n: self.messages };
        let first = DeliveryNo(self.space.deliveries.len() as u64 + 1);
        let result = OpResult::Sent { id, first, count: recipients.len() as u32 };
        let mut created = Vec::new();
        for (index, to) in recipients.iter().enumerate() {
            created.push(self.deliver(message, *to, DeliveryNo(first.0 + index as u64)));
        }
        let recipients: Vec<Recipient> = created.iter().map(|delivery| delivery.to).collect();
        self.space.deliveries.extend(created);
        recipients.iter().for_each(|to| self.space.queue_dispatch(to.queue()));
        let sent = LoggedMessage {
            seq: self.seq,
            n: self.messages,
            at: self.now.wall,
            part: self.parts.len() as u32,
            message: Arc::new(Message { reports_failure: false, ..Message::clone(message) }),
            fingerprint,
            principal: self.commit.principal.clone(),
            first,
            recipients,
            result: result.clone(),
        };
        self.space.messages.push(sent);
        self.parts.push(message.payload.clone());
        if let Some(session) = &message.session_id {
            self.add_timeline_entry(session.clone(), TimelineKind::Message);
        }
        self.messages += 1;
        self.changed = true;
        result
    }

    fn sent_as(&self, id: &ClientId) -> Option<&LoggedMessage> {
        self.space.messages.iter().find(|sent| sent.message.client_id.as_ref() == Some(id))
    }

    pub(super) fn check_sender(&self, message: &Message) -> Result<(), Refused> {
        if message.durability == Durability::Ephemeral {
            return Err(Refused::new(Code::Invalid, "an ephemeral message cannot be part of a commit"));
        }
        match (&self.commit.principal, &message.from) {
            (Principal::Agent(actor), Some(from)) if actor == from => Ok(()),
            (Principal::Agent(_), _) => {
                Err(Refused::new(Code::Forbidden, "an agent may only send as itself"))
            }
            (Principal::System | Principal::Holder { .. }, None) => Ok(()),
            (Principal::System | Principal::Holder { .. }, Some(from)) => match self.space.agent_number(from)
            {
                Some(_) => Ok(()),
                None => Err(unknown_agent(from)),
            },
        }
    }

    /// Returns the recipients of a message and counts its deliveries against the limit of the commit.
    pub(super) fn recipients(&mut self, message: &Message) -> Result<Vec<Recipient>, Refused> {
        let recipients = self.resolve_recipients(message)?;
        self.deliveries += recipients.len();
        if self.deliveries > limits::DELIVERIES_PER_COMMIT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many deliveries in one commit")
                .limit(limits::DELIVERIES_PER_COMMIT_MAX as u64));
        }
        Ok(recipients)
    }

    pub(super) fn check_inbox_capacity(
        &mut self,
        from: Option<&AgentId>,
        recipients: &[Recipient],
    ) -> Result<(), Refused> {
        let full = |limit: u64| Refused::new(Code::QueueFull, "an inbox is full").limit(limit);
        let sender = from.and_then(|from| self.space.agent_number(from));
        for queue in recipients.iter().map(|to| to.queue()) {
            let open = self.space.open_count(queue);
            if open < limits::INBOX_SHARED_FROM {
                self.space.crowded_sends.retain(|(crowded, _), _| *crowded != queue);
            } else if open >= limits::INBOX_MAX {
                return Err(full(limits::INBOX_MAX as u64));
            } else if let Some(sender) = sender {
                let sent = self.space.crowded_sends.entry((queue, sender)).or_default();
                if *sent >= limits::INBOX_PER_SENDER_MAX {
                    return Err(full(limits::INBOX_PER_SENDER_MAX.into()));
                }
                *sent += 1;
            }
        }
        Ok(())
    }

    fn deliver(&mut self, message: &Arc<Message>, to: Recipient, number: DeliveryNo) -> Delivery {
        let mut delivery = Delivery {
            to,
            seq: self.seq,
            n: self.messages,
            priority: message.priority,
            attempts_max: message.attempts_max,
            expires_at: message.expires_at,
            session: self.space.session_of(message),
            procedure: self.space.procedure_of(message, to),
            attempt: 0,
            phase: DeliveryPhase::Ready { since: self.now.wall, by_time: false },
            if_unavailable: message.unavailable_handling(),
        };
        if let Some(due) = message.deliver_at
            && due > self.now.wall
        {
            delivery.phase = DeliveryPhase::Scheduled { due };
            return delivery;
        }
        if self.space.is_paused(&delivery) || delivery.is_expired(self.now.wall) {
            return delivery;
        }
        let Some(consumer) = self.next_consumer(to.queue()) else { return delivery };
        // Lease directly only if the consumer has no older or higher-priority delivery waiting.
        let full = self.space.leased_count(consumer.agent) >= limits::IN_FLIGHT_MAX;
        let is_claimable = |other: &Delivery| {
            self.space.is_ready(other) && self.space.may_take(consumer.agent, other.to.queue())
        };
        if full || self.space.deliveries.iter().any(is_claimable) {
            return delivery;
        }
        let token = self.next_token();
        let deadline = self.now.mono.plus_ms(consumer.lease_ms);
        let since = Some(self.now.wall);
        let (lease_ms, seq) = (consumer.lease_ms, self.seq);
        delivery.phase = DeliveryPhase::Leased { token, lease_ms, deadline, since, seq };
        delivery.to = to.held_by(consumer.agent);
        delivery.attempt = 1;
        self.spend_credit(consumer.id, 1);
        self.record_activity(consumer.agent);
        let leased = LeasedDelivery {
            delivery: number,
            token,
            attempt: 1,
            lease_ms: consumer.lease_ms,
            seq: self.seq,
            n: self.messages,
            message: Some((self.now.wall, Arc::clone(message))),
        };
        self.dispatched.push((consumer.id, leased));
        delivery
    }
}
