//! Agents: identity of the actor, registration, removal.

use crate::commit::{Op, OpResult, Principal, RegisterAgent};
use crate::decide::{DecideError, Draft};
use crate::effect::{Effect, ReturnCause};
use crate::ids::{AgentId, AgentNo, Epoch};
use crate::limits::AGENTS_MAX;
use crate::refused::{Code, Refused};
use crate::registry::Agent;

impl Draft<'_> {
    /// Resolves the acting agent. Refuses a commit of an earlier epoch, so that a stale process cannot change anything.
    pub(super) fn resolve_actor(&mut self) -> Result<(), Refused> {
        let Principal::Agent(id) = &self.commit.principal else { return Ok(()) };
        self.actor = self.working.agents().number(id);
        let Some(agent) = self.actor.and_then(|number| self.working.agents().get(number)) else {
            // An unknown agent may only register itself.
            let registers =
                matches!(self.commit.ops.first(), Some(Op::RegisterAgent(agent)) if agent.id == *id);
            return if registers { Ok(()) } else { Err(unknown_agent(id)) };
        };
        match self.commit.epoch {
            Some(epoch) if epoch != agent.epoch => Err(stale_epoch(agent, epoch)),
            _ => Ok(()),
        }
    }

    /// Refuses an agent that acts for another agent. Other principals may act for any agent.
    pub(super) fn require_self(&self, agent: &AgentId, action: &str) -> Result<(), Refused> {
        match &self.commit.principal {
            Principal::Agent(actor) if actor != agent => {
                Err(Refused::new(Code::Forbidden, format!("agent {actor} may not {action} {agent}"))
                    .hint("an agent can act only for itself"))
            }
            Principal::Agent(_) | Principal::System | Principal::Holder { .. } => Ok(()),
        }
    }

    /// Whether the principal of the commit is this agent.
    pub(super) fn is_principal(&self, agent: &AgentId) -> bool {
        matches!(&self.commit.principal, Principal::Agent(actor) if actor == agent)
    }

    pub(super) fn require_agent(&self, agent: &AgentId) -> Result<AgentNo, Refused> {
        self.working.agents().number(agent).ok_or_else(|| unknown_agent(agent))
    }

    pub(super) fn register(&mut self, new: &RegisterAgent) -> Result<OpResult, DecideError> {
        self.require_self(&new.id, "register")?;
        let existing = self.working.agents().number(&new.id);
        let current = existing.and_then(|number| self.working.agents().get(number)).cloned();
        let epoch = match (&current, new.epoch) {
            (Some(agent), Some(epoch)) if epoch != agent.epoch => {
                return Err(stale_epoch(agent, epoch).into());
            }
            (Some(agent), Some(_)) => agent.epoch,
            (None, Some(_)) => return Err(unknown_agent(&new.id).into()),
            (_, None) => self.working.next_epoch(self.seq),
        };
        let number = existing.unwrap_or_else(|| self.working.agents().next_number());
        if number.0 as usize > AGENTS_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                "the space has reached its maximum number of agents",
            )
            .limit(AGENTS_MAX as u64)
            .hint("removed agents count as well; register an id that was used before, or use another space")
            .into());
        }
        self.check_registration(current.as_ref(), new)?;
        if let (Some(_), None) = (&current, new.epoch) {
            self.release_all_of(number, ReturnCause::EpochEnded)?;
        }
        let same_epoch = current.as_ref().filter(|agent| agent.epoch == epoch);
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
            presence: same_epoch.map(|agent| agent.presence.clone()).unwrap_or_default(),
        };
        // An identical registration changes nothing and writes no record.
        if current.as_ref() != Some(&agent) {
            self.emit(Effect::AgentRegistered { number, agent });
            self.working.schedule_dispatch_to(number);
            self.working.record_activity(number, self.now);
        }
        if self.commit.principal == Principal::Agent(new.id.clone()) {
            self.actor = Some(number);
        }
        Ok(OpResult::Registered { epoch })
    }

    pub(super) fn remove_agent(&mut self, agent: &AgentId) -> Result<OpResult, DecideError> {
        self.require_self(agent, "remove")?;
        let number = self.require_agent(agent)?;
        let open = self.working.inbox(number).open;
        if open > 0 {
            return Err(Refused::new(Code::Conflict, format!("agent {agent} has {open} open deliveries"))
                .hint(format!(
                    "let it finish them, or purge them with `quorate agent purge {agent}` or the operation `purge`"
                ))
                .into());
        }
        let assigned = self.working.tasks().assigned_count(number);
        if assigned > 0 {
            return Err(Refused::new(
                Code::Conflict,
                format!("{assigned} open tasks are assigned to agent {agent}"),
            )
            .hint("let it finish them, or cancel them first")
            .into());
        }
        self.release_all_of(number, ReturnCause::EpochEnded)?;
        self.unsubscribe_all(number);
        self.cancel_requests_of(number);
        self.revoke_tokens_of(agent);
        self.emit(Effect::AgentRemoved { number });
        Ok(OpResult::Done)
    }

    /// Ends all leases, locks and waits of an agent: it was removed or registered again.
    pub(super) fn release_all_of(&mut self, agent: AgentNo, cause: ReturnCause) -> Result<(), DecideError> {
        self.dismissed_consumers.extend(self.working.dismiss_consumers(agent));
        for delivery in self.working.inbox(agent).leased.clone() {
            self.return_delivery(delivery, cause, String::new(), None);
        }
        self.revoke_locks_of(agent);
        self.dismiss_listeners(agent);
        self.dismiss_task_waiters(agent);
        self.release_tasks_of(agent)
    }
}

fn unknown_agent(id: &AgentId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no agent {id}")).hint("register it first")
}

fn stale_epoch(agent: &Agent, epoch: Epoch) -> Refused {
    let detail = format!(
        "stale epoch {epoch}: agent {} has registered again and is at epoch {}",
        agent.id, agent.epoch
    );
    let mut refused = Refused::new(Code::StaleEpoch, detail)
        .hint("stop this instance of the agent, or register it again to get a new epoch");
    refused.facts.current_epoch = Some(agent.epoch.0);
    refused
}
