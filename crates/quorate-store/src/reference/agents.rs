//! Acting principal, registration and removal of agents.

use quorate_core::{
    Agent, AgentId, AgentNo, Code, Epoch, Op, OpResult, Principal, QueueId, Refused, RegisterAgent, limits,
};

use crate::reference::space::{Fairness, LastActivity};
use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    /// Resolves the acting agent. It must act under its newest epoch or specify none. An unregistered agent may only
    /// register itself.
    pub(super) fn resolve_actor(&mut self) -> Result<(), Refused> {
        let Principal::Agent(id) = &self.commit.principal else { return Ok(()) };
        let Some(number) = self.space.agent_number(id) else {
            return match self.commit.ops.first() {
                Some(Op::RegisterAgent(new)) if new.id == *id => Ok(()),
                _ => Err(unknown_agent(id)),
            };
        };
        self.actor = Some(number);
        let current = self.space.agent(number).epoch;
        match self.commit.epoch {
            Some(epoch) if epoch != current => Err(stale_epoch(current)),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the number of an agent that the principal may act for: an agent only for itself, others for any agent.
    pub(super) fn require_own_agent(&self, agent: &AgentId) -> Result<AgentNo, Refused> {
        self.require_own(agent)?;
        self.space.agent_number(agent).ok_or_else(|| unknown_agent(agent))
    }

    fn require_own(&self, agent: &AgentId) -> Result<(), Refused> {
        match &self.commit.principal {
            Principal::Agent(actor) if actor != agent => {
                Err(Refused::new(Code::Forbidden, format!("{actor} may not act for {agent}")))
            }
            Principal::Agent(_) | Principal::System | Principal::Holder { .. } => Ok(()),
        }
    }

    pub(super) fn register(&mut self, new: &RegisterAgent) -> Result<OpResult, Refused> {
        self.require_own(&new.id)?;
        let existing = self.space.agent_number(&new.id);
        let current = existing.map(|number| self.space.agent(number).epoch);
        let starts_epoch = match (current, new.epoch) {
            (Some(current), Some(epoch)) if epoch != current => return Err(stale_epoch(current)),
            (None, Some(_)) => return Err(unknown_agent(&new.id)),
            (Some(_), Some(_)) => false,
            (_, None) => true,
        };
        if existing.is_none() && self.space.agents.len() >= limits::AGENTS_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many agents").limit(limits::AGENTS_MAX as u64));
        }
        let epoch = match (current, starts_epoch) {
            (Some(current), false) => current,
            (_, _) => self.next_epoch(),
        };
        self.check_registration(existing, new)?;
        let pools = existing.map_or_else(Vec::new, |number| self.space.pools_of(number));
        if let (Some(number), true) = (existing, starts_epoch) {
            self.dismiss(number);
            for delivery in self.space.held_by(number) {
                self.return_delivery(delivery, "its holder registered again during the last attempt");
            }
            self.release_everything_of(number);
        }
        let presence =
            existing.filter(|_| !starts_epoch).map(|number| self.space.agent(number).presence.clone());
        let agent = Agent {
            id: new.id.clone(),
            name: new.name.clone(),
            role: new.role,
            capabilities: new.capabilities.clone(),
            supported_actions: new.supported_actions.clone(),
            epoch,
            removed: false,
            heartbeat_ms: new.heartbeat_ms,
            declaration: new.declaration,
            presence: presence.unwrap_or_default(),
        };
        let number = match existing {
            // An unchanged registration is a no-op.
            Some(number) if *self.space.agent(number) == agent => number,
            Some(number) => {
                self.space.agents[number.0 as usize - 1] = agent;
                self.changed = true;
                if self.space.pools_of(number) != pools {
                    self.space.requeue(number);
                }
                self.space.queue_dispatch_of_agent(number);
                self.record_activity(number);
                number
            }
            None => {
                self.space.agents.push(agent);
                self.space.fairness.push(Fairness::default());
                self.space.last_seen.push(LastActivity { at: self.now.mono, since_restart: true });
                self.changed = true;
                let number = AgentNo(self.space.agents.len() as u64);
                self.record_activity(number);
                number
            }
        };
        if self.commit.principal == Principal::Agent(new.id.clone()) {
            self.actor = Some(number);
        }
        Ok(OpResult::Registered { epoch })
    }

    pub(super) fn remove(&mut self, agent: &AgentId) -> Result<OpResult, Refused> {
        let number = self.require_own_agent(agent)?;
        if self.space.open_count(QueueId::Agent(number)) > 0 {
            return Err(Refused::new(Code::Conflict, format!("{agent} has open deliveries")));
        }
        if self.space.count_assigned_tasks(number) > 0 {
            return Err(Refused::new(Code::Conflict, format!("{agent} has open tasks")));
        }
        self.dismiss(number);
        for delivery in self.space.held_by(number) {
            self.return_delivery(delivery, "its holder registered again during the last attempt");
        }
        self.release_everything_of(number);
        self.unsubscribe_all(number);
        self.cancel_requests_of(number);
        self.revoke_tokens_of(agent);
        self.space.agents[number.0 as usize - 1].removed = true;
        self.changed = true;
        Ok(OpResult::Done)
    }

    /// Releases the locks and tasks of an agent and drops its waits.
    pub(super) fn release_everything_of(&mut self, agent: AgentNo) {
        self.revoke_locks_of(agent);
        self.dismiss_request_waiters(agent);
        self.dismiss_task_waiters(agent);
        self.release_tasks_of(agent);
    }

    /// Returns an epoch greater than every earlier one in the space, including those of removed agents.
    fn next_epoch(&self) -> Epoch {
        let highest = self.space.agents.iter().map(|agent| agent.epoch.0).max().unwrap_or(0);
        Epoch((highest + 1).max(self.seq.0).max(self.space.number_floor()))
    }

    /// Dismisses the delivery consumers and task claims of an agent.
    fn dismiss(&mut self, agent: AgentNo) {
        let mut dismissed: Vec<_> = self
            .space
            .consumers
            .iter()
            .filter(|consumer| consumer.agent == agent)
            .map(|consumer| consumer.id)
            .collect();
        dismissed.sort_unstable();
        self.space.consumers.retain(|consumer| consumer.agent != agent);
        self.dismissed_consumers.append(&mut dismissed);
        let claimers = self.space.remove_waiting_claims(agent);
        self.dismissed_consumers.extend(claimers);
    }
}

pub(super) fn unknown_agent(agent: &AgentId) -> Refused {
    Refused::new(Code::NotFound, format!("unknown agent {agent}"))
}

fn stale_epoch(current: Epoch) -> Refused {
    let mut refused = Refused::new(Code::StaleEpoch, "the agent has a newer epoch");
    refused.facts.current_epoch = Some(current.0);
    refused
}
