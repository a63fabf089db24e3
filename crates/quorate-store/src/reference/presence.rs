//! Presence of agents, and handling of messages for unavailable recipients.

use quorate_core::{
    AgentNo, AgentStatus, Code, DeliveryNo, EndState, Health, Heartbeat, IfUnavailable, Message, MessageId,
    OpResult, Presence, Principal, QueueId, Recipient, Refused, limits,
};

use crate::reference::space::{DeliveryPhase, LastActivity, Space};
use crate::reference::transaction::Transaction;

impl Space {
    /// Returns the time without activity after which an agent is offline, or `None` if it is not monitored.
    pub(super) fn offline_after_ms(&self, agent: AgentNo) -> Option<u64> {
        let agent = self.agent(agent);
        let is_monitored =
            agent.heartbeat_ms > 0 && !agent.removed && agent.presence.status != AgentStatus::Offline;
        is_monitored.then_some(3 * agent.heartbeat_ms)
    }

    pub(super) fn has_open_wait(&self, agent: AgentNo) -> bool {
        let is_own =
            |request: &MessageId| self.request(*request).is_some_and(|request| request.from == agent);
        self.task_runtime.claimers.iter().any(|claimer| claimer.agent == agent)
            || self.consumers.iter().any(|consumer| consumer.agent == agent)
            || self.lock_waiters.iter().any(|waiter| waiter.agent == agent)
            || self.task_waiters.iter().any(|waiter| waiter.agent == agent)
            || self.request_waiters.keys().any(is_own)
    }

    /// Returns the deliveries for offline agents that must not be queued.
    pub(super) fn undeliverable(&self) -> Vec<DeliveryNo> {
        let mut undeliverable = self.deliveries_where(|delivery| {
            let QueueId::Agent(agent) = delivery.to.queue() else { return false };
            let offline = self.agent(agent).presence.status == AgentStatus::Offline;
            let is_waiting =
                matches!(delivery.phase, DeliveryPhase::Ready { .. } | DeliveryPhase::Scheduled { .. });
            offline && is_waiting && delivery.if_unavailable != IfUnavailable::Queue
        });
        undeliverable.sort_by_key(|number| (self.deliveries[number.0 as usize - 1].to, *number));
        undeliverable
    }
}

impl Transaction<'_> {
    /// Records activity of an agent and schedules the next presence check.
    pub(super) fn record_activity(&mut self, agent: AgentNo) {
        self.space.last_seen[agent.0 as usize - 1] = LastActivity { at: self.now.mono, since_restart: true };
        if let Some(delay_ms) = self.space.offline_after_ms(agent) {
            let check_at = self.now.mono.plus_ms(delay_ms);
            self.space.presence_check_at =
                Some(self.space.presence_check_at.map_or(check_at, |at| at.min(check_at)));
        }
    }

    pub(super) fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Result<OpResult, Refused> {
        let number = self.require_own_agent(&heartbeat.agent)?;
        let current = self.space.agent(number).presence.clone();
        let same_health = matches!(
            (&current.health, &heartbeat.health),
            (Health::Healthy, Health::Healthy)
                | (Health::Degraded(_), Health::Degraded(_))
                | (Health::Error(_), Health::Error(_))
        );
        let health = if same_health { current.health.clone() } else { heartbeat.health.clone() };
        self.set_presence(number, Presence { status: heartbeat.status, health, available: true });
        self.record_activity(number);
        Ok(OpResult::Done)
    }

    pub(super) fn heartbeat_batch(&mut self, agents: &[AgentNo]) -> Result<OpResult, Refused> {
        if let Principal::Agent(_) = self.commit.principal {
            return Err(Refused::new(Code::Forbidden, "only the hub may report heartbeats of other agents"));
        }
        for number in agents {
            let known = self.space.agents.get((number.0 as usize).wrapping_sub(1));
            if known.is_some_and(|agent| !agent.removed) {
                self.mark_online(*number);
                self.record_activity(*number);
                self.space.disconnected.remove(number);
            }
        }
        Ok(OpResult::Done)
    }

    pub(super) fn connection_closed(&mut self, number: AgentNo) -> Result<OpResult, Refused> {
        if let Principal::Agent(_) = self.commit.principal {
            return Err(Refused::new(Code::Forbidden, "only the hub may report connections of other agents"));
        }
        let known = self.space.agents.get((number.0 as usize).wrapping_sub(1));
        if known.is_some_and(|agent| !agent.removed) {
            self.record_activity(number);
            if !self.space.has_open_wait(number) {
                self.space.disconnected.insert(number, self.now.mono);
            }
        }
        Ok(OpResult::Done)
    }

    fn set_presence(&mut self, number: AgentNo, presence: Presence) {
        let agent = &mut self.space.agents[number.0 as usize - 1];
        if agent.presence != presence {
            agent.presence = presence;
            self.changed = true;
        }
    }

    /// Marks an agent as available, because it has acted.
    pub(super) fn mark_online(&mut self, number: AgentNo) {
        let presence = self.space.agent(number).presence.clone();
        let status =
            if presence.status == AgentStatus::Offline { AgentStatus::Idle } else { presence.status };
        self.set_presence(number, Presence { status, available: true, ..presence });
    }

    /// Marks an agent as unavailable, because a request to it alone timed out.
    pub(super) fn mark_unavailable(&mut self, number: AgentNo) {
        if !self.space.agent(number).removed {
            let presence = self.space.agent(number).presence.clone();
            self.set_presence(number, Presence { available: false, ..presence });
        }
    }

    /// If a presence check is due, marks agents as offline that missed three heartbeats and have no open wait. Then
    /// handles the deliveries of offline agents.
    pub(super) fn check_presence(&mut self) {
        let now = self.now.mono;
        if self.space.presence_check_at.is_some_and(|at| at <= now) {
            let mut next = None;
            for number in (1..=self.space.agents.len() as u64).map(AgentNo) {
                let Some(delay_ms) = self.space.offline_after_ms(number) else { continue };
                let last_seen = match self.space.has_open_wait(number) {
                    true => now,
                    false => self.space.last_seen[number.0 as usize - 1].at,
                };
                let offline_at = last_seen.plus_ms(delay_ms);
                if offline_at > now {
                    next = Some(next.map_or(offline_at, |next: quorate_core::Mono| next.min(offline_at)));
                } else {
                    self.go_offline(number);
                }
            }
            let earliest = now.plus_ms(limits::PRESENCE_CHECK_MS);
            self.space.presence_check_at = next.map(|next| next.max(earliest));
        }
        for number in self.space.undeliverable() {
            self.displace(number);
        }
    }

    fn go_offline(&mut self, number: AgentNo) {
        let health = self.space.agent(number).presence.health.clone();
        self.set_presence(number, Presence { status: AgentStatus::Offline, health, available: false });
    }

    fn displace(&mut self, number: DeliveryNo) {
        let delivery = self.space.deliveries[number.0 as usize - 1].clone();
        let QueueId::Agent(unavailable) = delivery.to.queue() else { return };
        let message =
            self.space.messages.iter().find(|sent| (sent.seq, sent.n) == (delivery.seq, delivery.n));
        let message = message.map(|sent| sent.message.clone());
        let to = match (delivery.if_unavailable, message) {
            (IfUnavailable::Redirect, Some(message)) => self.find_substitute(unavailable, &message, &[]),
            _ => None,
        };
        self.changed = true;
        let Some(to) = to else {
            let name = self.space.agent(unavailable).id.clone();
            self.lost_request_code = Code::Unavailable;
            self.end_delivery(number, EndState::Dead, format!("unavailable: agent {name} is offline"));
            self.lost_request_code = Code::Cancelled;
            return;
        };
        let now = self.now.wall;
        let delivery = self.space.delivery_mut(number);
        delivery.to = to.into();
        if let DeliveryPhase::Ready { .. } = delivery.phase {
            delivery.phase = DeliveryPhase::Ready { since: now, by_time: false };
        }
        self.redirect_request_delivery(number, to);
        self.space.queue_dispatch(QueueId::Agent(to));
    }

    /// Applies the sender's choice for unavailable recipients: queues, redirects, or refuses the message.
    pub(super) fn resolve_unavailable(
        &self,
        message: &Message,
        mut recipients: Vec<Recipient>,
    ) -> Result<Vec<Recipient>, Refused> {
        for index in 0..recipients.len() {
            let QueueId::Agent(agent) = recipients[index].queue() else { continue };
            if !message.to.names_agents() || !self.space.agent(agent).presence.is_unavailable() {
                continue;
            }
            let to = match message.if_unavailable {
                IfUnavailable::Queue => continue,
                IfUnavailable::Fail => None,
                IfUnavailable::Redirect => self.find_substitute(agent, message, &recipients),
            };
            let to = to.map(Recipient::agent);
            recipients[index] =
                to.ok_or_else(|| Refused::new(Code::Unavailable, "the recipient is unavailable"))?;
        }
        Ok(recipients)
    }

    /// Finds a substitute: an available agent that supports the action or shares a capability. Prefers the shortest
    /// inbox, then the lowest number.
    fn find_substitute(
        &self,
        unavailable: AgentNo,
        message: &Message,
        recipients: &[Recipient],
    ) -> Option<AgentNo> {
        let mut best: Option<AgentNo> = None;
        for number in (1..=self.space.agents.len() as u64).map(AgentNo) {
            let agent = self.space.agent(number);
            let shares_capability = agent
                .capabilities
                .iter()
                .any(|capability| self.space.agent(unavailable).capabilities.contains(capability));
            let supports_action =
                !message.action.is_empty() && agent.supported_actions.contains(&message.action);
            let is_sender = message.from.as_ref() == Some(&agent.id);
            if agent.removed
                || agent.presence.is_unavailable()
                || number == unavailable
                || is_sender
                || recipients.contains(&number.into())
                || !self.is_reachable(message.from.as_ref(), number)
                || !(shares_capability || supports_action)
                || self.space.open_count(QueueId::Agent(number)) >= limits::INBOX_MAX
            {
                continue;
            }
            let load = |agent| self.space.open_count(QueueId::Agent(agent));
            if best.is_none_or(|best| load(number) < load(best)) {
                best = Some(number);
            }
        }
        best
    }
}
