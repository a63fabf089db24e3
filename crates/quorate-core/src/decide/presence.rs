//! Presence: heartbeats, offline detection, and handling of messages for unavailable agents.

use std::sync::Arc;

use crate::codec;
use crate::commit::OpResult;
use crate::decide::{DecideError, Draft};
use crate::effect::{Effect, EndState, ReturnCause, ReturnOutcome};
use crate::ids::{AgentNo, DeliveryNo, Seq};
use crate::item::Verb;
use crate::limits::{INBOX_MAX, REFUSAL_NAMES_MAX, SWEEP_MAX};
use crate::lookup::LookupError;
use crate::message::{IfUnavailable, Message};
use crate::presence::{AgentStatus, Health, Heartbeat, Presence};
use crate::recipient::{QueueId, Recipient};
use crate::refused::{Code, Refused};
use crate::working::OpenDelivery;

impl Draft<'_> {
    pub(super) fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Result<OpResult, Refused> {
        self.require_self(&heartbeat.agent, "send heartbeats for")?;
        let number = self.require_agent(&heartbeat.agent)?;
        let Some(current) = self.presence(number) else { return Ok(OpResult::Done) };
        // A different detail text within the same health is not a change.
        let same = current.health.as_str() == heartbeat.health.as_str();
        let health: Health = if same { current.health.clone() } else { heartbeat.health.clone() };
        let presence = Presence { status: heartbeat.status, health, available: true };
        if presence != current {
            self.emit(Effect::PresenceChanged { number, presence });
        }
        self.working.record_activity(number, self.now);
        Ok(OpResult::Done)
    }

    /// Records heartbeats that carry no status change.
    pub(super) fn heartbeat_batch(&mut self, agents: &[AgentNo]) -> OpResult {
        for number in agents {
            if self.working.agents().get(*number).is_some_and(|agent| !agent.removed) {
                self.mark_online(*number);
                self.working.record_activity(*number, self.now);
                self.working.set_disconnected(*number, None);
            }
        }
        OpResult::Done
    }

    /// Records that a connection of an agent was closed. It counted as activity until now, and was the last one unless the
    /// agent has another waiting client.
    pub(super) fn connection_closed(&mut self, number: AgentNo) -> OpResult {
        if self.working.agents().get(number).is_some_and(|agent| !agent.removed) {
            self.working.record_activity(number, self.now);
            if !self.working.has_waiting_client(number) {
                self.working.set_disconnected(number, Some(self.now.mono));
            }
        }
        OpResult::Done
    }

    /// Marks an agent as online again, because it acted.
    pub(super) fn mark_online(&mut self, number: AgentNo) {
        if let Some(presence) = self.presence(number).filter(Presence::is_unavailable) {
            self.emit(Effect::PresenceChanged { number, presence: presence.after_activity() });
        }
    }

    /// Marks an agent as unavailable until its next activity, because it did not reply to a request in time.
    pub(super) fn mark_unavailable(&mut self, number: AgentNo) {
        let removed = self.working.agents().get(number).is_none_or(|agent| agent.removed);
        if let Some(presence) = self.presence(number).filter(|presence| presence.available && !removed) {
            let presence = Presence { available: false, ..presence };
            self.emit(Effect::PresenceChanged { number, presence });
        }
    }

    fn presence(&self, number: AgentNo) -> Option<Presence> {
        self.working.agents().get(number).map(|agent| agent.presence.clone())
    }

    /// Takes agents offline that missed their heartbeats. They keep what they hold until their leases end: an agent may be
    /// silent because it works. Bounded, like every sweep.
    pub(super) fn sweep_presence(&mut self) -> Result<(), DecideError> {
        for number in self.working.take_silent_agents(self.now.mono, SWEEP_MAX) {
            let health = self.presence(number).map(|presence| presence.health).unwrap_or_default();
            let presence = Presence { status: AgentStatus::Offline, health, available: false };
            self.emit(Effect::PresenceChanged { number, presence });
        }
        for delivery in self.working.displaced_deliveries(SWEEP_MAX) {
            self.displace(delivery)?;
        }
        Ok(())
    }

    /// Redirects or dead-letters a delivery whose recipient is offline and that must not be queued.
    fn displace(&mut self, delivery: DeliveryNo) -> Result<(), DecideError> {
        let Some(open) = self.working.open(delivery).copied() else { return Ok(()) };
        let QueueId::Agent(agent) = open.to.queue() else { return Ok(()) };
        let to = match open.if_unavailable {
            IfUnavailable::Redirect => match self.message_at(open.seq, open.n())? {
                Some(message) => self.alternative(agent, &message, &[]),
                None => None,
            },
            IfUnavailable::Fail | IfUnavailable::Queue => None,
        };
        let Some(to) = to else {
            let reason = format!("unavailable: agent {} is offline", self.agent_id(agent));
            let (token, cause) = (Default::default(), ReturnCause::Offline);
            let origin = open.origin();
            let effect =
                Effect::Returned { delivery, token, cause, reason, next: ReturnOutcome::Dead, origin };
            self.end_delivery(delivery, EndState::Dead, effect);
            return Ok(());
        };
        self.redirect(delivery, to);
        Ok(())
    }

    fn redirect(&mut self, delivery: DeliveryNo, to: AgentNo) {
        let Some(origin) = self.working.open(delivery).map(OpenDelivery::origin) else { return };
        self.emit(Effect::Returned {
            delivery,
            token: Default::default(),
            cause: ReturnCause::Offline,
            reason: String::new(),
            next: ReturnOutcome::Redirected(to),
            origin,
        });
        let request = self.working.items().requests.of_message(origin.seq, origin.n).cloned();
        if let Some(mut request) = request
            && let Some(index) = request.index_of(delivery)
        {
            request.recipients[index].recipient = to.into();
            self.change_request(Verb::RequestRedirected, request);
        }
        self.working.schedule_dispatch(QueueId::Agent(to));
    }

    /// Returns a message of this commit or of the log.
    fn message_at(&self, seq: Seq, n: u32) -> Result<Option<Arc<Message>>, DecideError> {
        let sent = |effect: &Effect| match effect {
            Effect::Sent { message, .. } => Some(Arc::clone(message)),
            _ => None,
        };
        if seq == self.seq {
            return Ok(self.effects.iter().filter_map(sent).nth(n as usize));
        }
        let Some(record) = self.lookup.record(seq)? else { return Ok(None) };
        let subject = "a message";
        let body =
            codec::read_body(&record).map_err(|source| LookupError { subject, source: Box::new(source) })?;
        Ok(body.effects.iter().filter_map(sent).nth(n as usize))
    }

    /// Applies `ifUnavailable` to unavailable recipients: replaces them in place, or refuses the message.
    pub(super) fn resolve_unavailable(
        &self,
        message: &Message,
        mut recipients: Vec<Recipient>,
    ) -> Result<Vec<Recipient>, Refused> {
        if message.unavailable_handling() == IfUnavailable::Queue {
            return Ok(recipients);
        }
        let mut unreachable = Vec::new();
        for index in 0..recipients.len() {
            let Some(number) = recipients[index].agent_no().filter(|number| self.is_unavailable(*number))
            else {
                continue;
            };
            let to = match message.if_unavailable {
                IfUnavailable::Redirect => self.alternative(number, message, &recipients),
                IfUnavailable::Fail | IfUnavailable::Queue => None,
            };
            match to {
                Some(to) => recipients[index] = to.into(),
                None => unreachable.push(self.agent_id(number)),
            }
        }
        if unreachable.is_empty() {
            return Ok(recipients);
        }
        let more = if unreachable.len() > REFUSAL_NAMES_MAX { " and others" } else { "" };
        unreachable.truncate(REFUSAL_NAMES_MAX);
        let names = unreachable.join(", ");
        let no_alternative = match message.if_unavailable {
            IfUnavailable::Redirect => ", and there is no alternative recipient",
            IfUnavailable::Fail | IfUnavailable::Queue => "",
        };
        Err(Refused::new(Code::Unavailable, format!("agent {names}{more} is unavailable{no_alternative}"))
            .hint("retry later, or set ifUnavailable to `queue`; nothing was sent"))
    }

    /// Returns an alternative for an unavailable recipient: an agent that supports the action or shares a capability,
    /// with the fewest open deliveries.
    fn alternative(
        &self,
        unavailable: AgentNo,
        message: &Message,
        recipients: &[Recipient],
    ) -> Option<AgentNo> {
        let agents = self.working.agents();
        let routing = self.routing();
        let capabilities = agents.get(unavailable).map_or(&[][..], |agent| &agent.capabilities);
        let sender = message.from.as_ref().and_then(|from| agents.number(from));
        let candidates = agents.iter().filter(|(number, agent)| {
            let supports_action =
                !message.action.is_empty() && agent.supported_actions.contains(&message.action);
            let shares_capability =
                || agent.capabilities.iter().any(|capability| capabilities.contains(capability));
            !agent.removed
                && !agent.presence.is_unavailable()
                && *number != unavailable
                && Some(*number) != sender
                && !recipients.contains(&Recipient::agent(*number))
                && routing.can_reach(message.from.as_ref(), *number)
                && self.working.inbox(*number).open < INBOX_MAX
                && (supports_action || shares_capability())
        });
        candidates.map(|(number, _)| number).min_by_key(|number| (self.working.inbox(*number).open, *number))
    }

    fn is_unavailable(&self, number: AgentNo) -> bool {
        self.working.agents().get(number).is_some_and(|agent| agent.presence.is_unavailable())
    }

    /// Returns the id of an agent as text; empty if the agent is unknown.
    pub(super) fn agent_id(&self, number: AgentNo) -> String {
        self.working.agents().get(number).map_or_else(String::new, |agent| agent.id.to_string())
    }
}
