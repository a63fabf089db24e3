//! Sending: one delivery for each recipient, leased at once where somebody waits.

use std::sync::Arc;

use quorate_core::{
    AgentNo, ClientId, Code, DeliveryNo, Durability, Generation, Handed, LineKind, Message, MessageId,
    OpResult, Principal, Refused, limits,
};

use crate::reference::agents::unknown;
use crate::reference::space::{Delivery, Place, Sent};
use crate::reference::step::Step;

impl Step<'_> {
    pub(super) fn send(
        &mut self,
        message: &Arc<Message>,
        fingerprint: &[u8; 32],
    ) -> Result<OpResult, Refused> {
        self.check_sender(message)?;
        if let Some(result) = self.sent_already(message, fingerprint)? {
            return Ok(result);
        }
        self.check_session(message)?;
        self.check_chain(message)?;
        let recipients = self.recipients(message)?;
        if let Some(answered) = self.answered_by(message, &recipients) {
            self.pay(message)?;
            return Ok(self.accept(message, fingerprint, answered));
        }
        let recipients = self.within_reach(message, recipients)?;
        self.check_room(&recipients)?;
        self.pay(message)?;
        self.say(message);
        Ok(self.post(message, *fingerprint, recipients))
    }

    /// The answer that the same message already has.
    pub(super) fn sent_already(
        &self,
        message: &Message,
        fingerprint: &[u8; 32],
    ) -> Result<Option<OpResult>, Refused> {
        let Some(id) = &message.client_id else { return Ok(None) };
        let Some(earlier) = self.sent_as(id) else { return Ok(None) };
        if earlier.fingerprint == *fingerprint && earlier.principal == self.commit.principal {
            return Ok(Some(earlier.result.clone()));
        }
        Err(Refused::new(Code::Duplicate, format!("the id {id} was used for another message")))
    }

    /// Makes one delivery for each recipient.
    pub(super) fn post(
        &mut self,
        message: &Arc<Message>,
        fingerprint: [u8; 32],
        recipients: Vec<AgentNo>,
    ) -> OpResult {
        let id = MessageId { generation: Generation(0), seq: self.seq, n: self.messages };
        let first = DeliveryNo(self.space.deliveries.len() as u64 + 1);
        let result = OpResult::Sent { id, first, count: recipients.len() as u32 };
        let mut made = Vec::new();
        for (index, agent) in recipients.iter().enumerate() {
            made.push(self.deliver(message, *agent, DeliveryNo(first.0 + index as u64)));
        }
        self.space.deliveries.extend(made);
        recipients.iter().for_each(|agent| self.space.stir(*agent));
        let sent = Sent {
            seq: self.seq,
            n: self.messages,
            at: self.now.wall,
            part: self.parts.len() as u32,
            message: Arc::clone(message),
            fingerprint,
            principal: self.commit.principal.clone(),
            first,
            recipients,
            result: result.clone(),
        };
        self.space.messages.push(sent);
        self.parts.push(message.payload.clone());
        if let Some(session) = &message.session_id {
            self.note_line(session.clone(), LineKind::Message);
        }
        self.messages += 1;
        self.changed = true;
        result
    }

    fn sent_as(&self, id: &ClientId) -> Option<&Sent> {
        self.space.messages.iter().find(|sent| sent.message.client_id.as_ref() == Some(id))
    }

    pub(super) fn check_sender(&self, message: &Message) -> Result<(), Refused> {
        if message.durability == Durability::Ephemeral {
            return Err(Refused::new(Code::Invalid, "what is ephemeral is in no commit"));
        }
        match (&self.commit.principal, &message.from) {
            (Principal::Agent(actor), Some(from)) if actor == from => Ok(()),
            (Principal::Agent(_), _) => Err(Refused::new(Code::Forbidden, "an agent sends as itself only")),
            (Principal::System, None) => Ok(()),
            (Principal::System, Some(from)) => match self.space.agent_number(from) {
                Some(_) => Ok(()),
                None => Err(unknown(from)),
            },
        }
    }

    /// Each agent named, once; or a refusal that names every unknown one.
    pub(super) fn recipients(&mut self, message: &Message) -> Result<Vec<AgentNo>, Refused> {
        let mut recipients = Vec::new();
        let mut unknown = Vec::new();
        for id in message.to.agents() {
            match self.space.agent_number(id) {
                None => unknown.push(id.to_string()),
                Some(number) if recipients.contains(&number) => {}
                Some(number) => recipients.push(number),
            }
        }
        if !unknown.is_empty() {
            let detail = format!("there is no agent {}", unknown.join(", "));
            return Err(Refused::new(Code::UnknownRecipient, detail));
        }
        self.deliveries += recipients.len();
        if self.deliveries > limits::DELIVERIES_PER_COMMIT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many deliveries in one commit")
                .limit(limits::DELIVERIES_PER_COMMIT_MAX as u64));
        }
        Ok(recipients)
    }

    pub(super) fn check_room(&self, recipients: &[AgentNo]) -> Result<(), Refused> {
        if recipients.iter().any(|agent| self.space.open_count(*agent) >= limits::INBOX_MAX) {
            return Err(Refused::new(Code::QueueFull, "an inbox is full").limit(limits::INBOX_MAX as u64));
        }
        Ok(())
    }

    fn deliver(&mut self, message: &Arc<Message>, agent: AgentNo, number: DeliveryNo) -> Delivery {
        let mut delivery = Delivery {
            agent,
            seq: self.seq,
            n: self.messages,
            priority: message.priority,
            attempts_max: message.attempts_max,
            expires_at: message.expires_at,
            session: self.space.session_of(message),
            attempt: 0,
            place: Place::Ready { since: self.now.wall, by_time: false },
            if_unavailable: message.if_unavailable,
        };
        if let Some(due) = message.deliver_at
            && due > self.now.wall
        {
            delivery.place = Place::Scheduled { due };
            return delivery;
        }
        let full = self.space.leased_count(agent) >= limits::IN_FLIGHT_MAX;
        let not_now = self.space.is_kept_back(&delivery) || delivery.is_expired(self.now.wall);
        if full || self.space.has_ready(agent) || not_now {
            return delivery;
        }
        let Some(consumer) = self.first_in_line(agent) else { return delivery };
        let token = self.next_token();
        let deadline = self.now.mono.plus_ms(consumer.lease_ms);
        let since = Some(self.now.wall);
        delivery.place = Place::Leased { token, lease_ms: consumer.lease_ms, deadline, since };
        delivery.attempt = 1;
        self.spend(consumer.id, 1);
        self.hear_of(agent);
        let handed = Handed {
            delivery: number,
            token,
            attempt: 1,
            lease_ms: consumer.lease_ms,
            seq: self.seq,
            n: self.messages,
            message: Some((self.now.wall, Arc::clone(message))),
        };
        self.handed.push((consumer.id, handed));
        delivery
    }
}
