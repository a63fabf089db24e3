//! Presence of agents, and handling of messages for unavailable recipients.

use quorate_core::{
    AgentNo, Code, DeliveryNo, EndState, Health, Heartbeat, Home, IfUnavailable, Message, MessageId,
    OpResult, Presence, Principal, Recipient, Refused, Status, limits,
};

use crate::reference::space::{Place, Space};
use crate::reference::step::Step;

impl Space {
    /// Returns the time without activity after which an agent is offline, or `None` if it is not monitored.
    pub(super) fn silence_ms(&self, agent: AgentNo) -> Option<u64> {
        let agent = self.agent(agent);
        let watched = agent.heartbeat_ms > 0 && !agent.removed && agent.presence.status != Status::Offline;
        watched.then_some(3 * agent.heartbeat_ms)
    }

    pub(super) fn is_listened_for(&self, agent: AgentNo) -> bool {
        let asks = |request: &MessageId| self.request(*request).is_some_and(|one| one.from == agent);
        self.task_memory.claimers.iter().any(|one| one.agent == agent)
            || self.consumers.iter().any(|one| one.agent == agent)
            || self.lock_waiters.iter().any(|one| one.agent == agent)
            || self.task_waiters.iter().any(|one| one.agent == agent)
            || self.waiters.keys().any(asks)
    }

    /// Returns the deliveries for offline agents that must not be queued.
    pub(super) fn displaced(&self) -> Vec<DeliveryNo> {
        let mut displaced = self.deliveries_where(|one| {
            let Home::Agent(agent) = one.to.home() else { return false };
            let offline = self.agent(agent).presence.status == Status::Offline;
            let waits = matches!(one.place, Place::Ready { .. } | Place::Scheduled { .. });
            offline && waits && one.if_unavailable != IfUnavailable::Queue
        });
        displaced.sort_by_key(|number| (self.deliveries[number.0 as usize - 1].to, *number));
        displaced
    }
}

impl Step<'_> {
    /// Records activity of an agent and schedules the next presence check.
    pub(super) fn hear_of(&mut self, agent: AgentNo) {
        self.space.heard[agent.0 as usize - 1] = self.now.mono;
        if let Some(silence_ms) = self.space.silence_ms(agent) {
            let by = self.now.mono.plus_ms(silence_ms);
            self.space.presence_at = Some(self.space.presence_at.map_or(by, |at| at.min(by)));
        }
    }

    pub(super) fn heartbeat(&mut self, beat: &Heartbeat) -> Result<OpResult, Refused> {
        let number = self.own(&beat.agent)?;
        let now = self.space.agent(number).presence.clone();
        let same_health = matches!(
            (&now.health, &beat.health),
            (Health::Healthy, Health::Healthy)
                | (Health::Degraded(_), Health::Degraded(_))
                | (Health::Error(_), Health::Error(_))
        );
        let health = if same_health { now.health.clone() } else { beat.health.clone() };
        self.set_presence(number, Presence { status: beat.status, health, available: true });
        self.hear_of(number);
        Ok(OpResult::Done)
    }

    pub(super) fn heard(&mut self, agents: &[AgentNo]) -> Result<OpResult, Refused> {
        if let Principal::Agent(_) = self.commit.principal {
            return Err(Refused::new(Code::Forbidden, "only the hub may report heartbeats of other agents"));
        }
        for number in agents {
            let known = self.space.agents.get((number.0 as usize).wrapping_sub(1));
            if known.is_some_and(|agent| !agent.removed) {
                self.come_back_online(*number);
                self.hear_of(*number);
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
    pub(super) fn come_back_online(&mut self, number: AgentNo) {
        let presence = self.space.agent(number).presence.clone();
        let status = if presence.status == Status::Offline { Status::Idle } else { presence.status };
        self.set_presence(number, Presence { status, available: true, ..presence });
    }

    /// Marks an agent as unavailable, because a request to it alone timed out.
    pub(super) fn did_not_answer(&mut self, number: AgentNo) {
        if !self.space.agent(number).removed {
            let presence = self.space.agent(number).presence.clone();
            self.set_presence(number, Presence { available: false, ..presence });
        }
    }

    /// If a presence check is due, marks agents as offline that missed three heartbeats and have no open wait. Then
    /// handles the deliveries of offline agents.
    pub(super) fn look_for_the_silent(&mut self) {
        let now = self.now.mono;
        if self.space.presence_at.is_some_and(|at| at <= now) {
            let mut next = None;
            for number in (1..=self.space.agents.len() as u64).map(AgentNo) {
                let Some(silence_ms) = self.space.silence_ms(number) else { continue };
                let last_seen = match self.space.is_listened_for(number) {
                    true => now,
                    false => self.space.heard[number.0 as usize - 1],
                };
                let until = last_seen.plus_ms(silence_ms);
                if until > now {
                    next = Some(next.map_or(until, |next: quorate_core::Mono| next.min(until)));
                } else {
                    self.go_offline(number);
                }
            }
            let soonest = now.plus_ms(limits::PRESENCE_LOOK_MS);
            self.space.presence_at = next.map(|next| next.max(soonest));
        }
        for number in self.space.displaced() {
            self.displace(number);
        }
    }

    fn go_offline(&mut self, number: AgentNo) {
        let health = self.space.agent(number).presence.health.clone();
        self.set_presence(number, Presence { status: Status::Offline, health, available: false });
        self.lost_with = Code::Unavailable;
        for delivery in self.space.held_by(number) {
            self.come_back(delivery, "its holder went offline during the last attempt");
        }
        self.lost_with = Code::Cancelled;
        self.let_go(number);
    }

    fn displace(&mut self, number: DeliveryNo) {
        let delivery = self.space.deliveries[number.0 as usize - 1].clone();
        let Home::Agent(away) = delivery.to.home() else { return };
        let message =
            self.space.messages.iter().find(|sent| (sent.seq, sent.n) == (delivery.seq, delivery.n));
        let message = message.map(|sent| sent.message.clone());
        let to = match (delivery.if_unavailable, message) {
            (IfUnavailable::Redirect, Some(message)) => self.find_substitute(away, &message, &[]),
            _ => None,
        };
        self.changed = true;
        let Some(to) = to else {
            let name = self.space.agent(away).id.clone();
            self.lost_with = Code::Unavailable;
            self.end(number, EndState::Dead, format!("unavailable: agent {name} is offline"));
            self.lost_with = Code::Cancelled;
            return;
        };
        let now = self.now.wall;
        let moved = self.space.delivery_mut(number);
        moved.to = to.into();
        if let Place::Ready { .. } = moved.place {
            moved.place = Place::Ready { since: now, by_time: false };
        }
        self.ask_instead(number, to);
        self.space.stir(Home::Agent(to));
    }

    /// Applies the sender's choice for unavailable recipients: queues, redirects, or refuses the message.
    pub(super) fn within_reach(
        &self,
        message: &Message,
        mut recipients: Vec<Recipient>,
    ) -> Result<Vec<Recipient>, Refused> {
        for index in 0..recipients.len() {
            let Home::Agent(agent) = recipients[index].home() else { continue };
            if !message.to.is_by_name() || !self.space.agent(agent).presence.is_away() {
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
    fn find_substitute(&self, away: AgentNo, message: &Message, taken: &[Recipient]) -> Option<AgentNo> {
        let mut best: Option<AgentNo> = None;
        for number in (1..=self.space.agents.len() as u64).map(AgentNo) {
            let agent = self.space.agent(number);
            let shares =
                agent.capabilities.iter().any(|one| self.space.agent(away).capabilities.contains(one));
            let answers = !message.action.is_empty() && agent.supported_actions.contains(&message.action);
            let is_sender = message.from.as_ref() == Some(&agent.id);
            if agent.removed
                || agent.presence.is_away()
                || number == away
                || is_sender
                || taken.contains(&number.into())
                || !self.may_reach(message.from.as_ref(), number)
                || !(shares || answers)
                || self.space.open_count(Home::Agent(number)) >= limits::INBOX_MAX
            {
                continue;
            }
            let load = |agent| self.space.open_count(Home::Agent(agent));
            if best.is_none_or(|best| load(number) < load(best)) {
                best = Some(number);
            }
        }
        best
    }
}
