//! Routing: resolves the destination of a message to its recipients.

use quorate_core::{
    Agent, AgentNo, AgentRole, Capability, Code, Destination, Item, Message, Pool, PoolAccess, PoolNo,
    Recipient, Refused, limits,
};

use crate::reference::policy::violation;
use crate::reference::transaction::Transaction;

const MINUTE_MS: u64 = 60_000;

impl Transaction<'_> {
    /// Returns the recipients of a message without duplicates.
    pub(super) fn resolve_recipients(&mut self, message: &Message) -> Result<Vec<Recipient>, Refused> {
        let from = message.from.as_ref();
        let sender = from.and_then(|id| self.space.agent_number(id));
        let agents = match &message.to {
            Destination::Agent(_) | Destination::Agents(_) => self.named(message)?,
            Destination::Topic(topic) => {
                let mut subscribers = self.space.subscribers(topic);
                subscribers.retain(|number| Some(*number) != sender && self.is_reachable(from, *number));
                subscribers
            }
            Destination::Broadcast => {
                if self.is_confined(from) {
                    return Err(violation("broadcast", "to"));
                }
                self.count_broadcast(sender)?;
                self.others(sender, |_| true)
            }
            Destination::Role(role) => {
                if self.is_confined(from) && *role != AgentRole::Coordinator {
                    return Err(violation("supervised", "to"));
                }
                let found = self.others(sender, |agent| agent.role == *role);
                if found.is_empty() {
                    return Err(Refused::new(Code::UnknownRecipient, "no other agent has this role"));
                }
                found
            }
            Destination::Can(capability) => {
                return self.pool_for(message, capability).map(|pool| vec![Recipient::pool(pool)]);
            }
        };
        Ok(agents.into_iter().map(Recipient::agent).collect())
    }

    fn named(&self, message: &Message) -> Result<Vec<AgentNo>, Refused> {
        let mut found = Vec::new();
        let mut unknown = Vec::new();
        for id in message.to.agents() {
            match self.space.agent_number(id) {
                None => unknown.push(id.to_string()),
                Some(number) if found.contains(&number) => {}
                Some(number) => found.push(number),
            }
        }
        if !unknown.is_empty() {
            let detail = format!("unknown agent {}", unknown.join(", "));
            return Err(Refused::new(Code::UnknownRecipient, detail));
        }
        if found.iter().any(|number| !self.is_reachable(message.from.as_ref(), *number)) {
            return Err(violation("supervised", "to"));
        }
        Ok(found)
    }

    fn others(&self, sender: Option<AgentNo>, matches: impl Fn(&Agent) -> bool) -> Vec<AgentNo> {
        let numbered = self.space.agents.iter().enumerate();
        let found = numbered.filter(|(_, agent)| !agent.removed && matches(agent));
        found.map(|(index, _)| AgentNo(index as u64 + 1)).filter(|number| Some(*number) != sender).collect()
    }

    fn count_broadcast(&mut self, sender: Option<AgentNo>) -> Result<(), Refused> {
        let Some(sender) = sender else { return Ok(()) };
        let max = self.space.policy().policy.broadcasts_per_minute;
        let now = self.now.wall;
        let (since, count) = match self.space.broadcasts.get(&sender) {
            Some((since, count)) if now < since.plus_ms(MINUTE_MS) => (*since, *count),
            Some(_) | None => (now, 0),
        };
        if count >= max {
            return Err(Refused::new(Code::LimitExceeded, "too many broadcasts")
                .limit(u64::from(max))
                .rule("broadcastsPerMinute", "to"));
        }
        self.space.broadcasts.insert(sender, (since, count + 1));
        Ok(())
    }

    /// Returns the pool for a capability, creating it on first use.
    fn pool_for(&mut self, message: &Message, capability: &Capability) -> Result<PoolNo, Refused> {
        let is_capable = |agent: &&Agent| {
            !agent.removed && agent.capabilities.iter().any(|name| name == capability.as_str())
        };
        let capable: Vec<_> = self.space.agents.iter().filter(is_capable).collect();
        if capable.is_empty() {
            return Err(Refused::new(
                Code::UnknownRecipient,
                format!("no agent has the capability {capability}"),
            ));
        }
        let confined = self.is_confined(message.from.as_ref());
        if confined && capable.iter().all(|agent| agent.role != AgentRole::Coordinator) {
            return Err(violation("supervised", "to"));
        }
        let access = if confined { PoolAccess::Coordinators } else { PoolAccess::AnyCapable };
        let pools = self.space.pools();
        let same = |pool: &&Pool| pool.capability == *capability && pool.access == access;
        if let Some(pool) = pools.iter().find(same) {
            return Ok(pool.number);
        }
        if pools.len() >= limits::POOLS_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many pools").limit(limits::POOLS_MAX as u64));
        }
        let own = pools.iter().filter(|pool| pool.opened_by == self.actor).count();
        if self.actor.is_some() && own >= limits::POOLS_PER_AGENT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many pools of the agent")
                .limit(limits::POOLS_PER_AGENT_MAX as u64));
        }
        let number = PoolNo(pools.len() as u64 + 1);
        let opened_by = self.actor;
        self.set_item(Item::Pool(Pool { number, capability: capability.clone(), access, opened_by }));
        for index in 1..=self.space.agents.len() as u64 {
            if self.space.pools_of(AgentNo(index)).contains(&number) {
                self.space.requeue(AgentNo(index));
            }
        }
        Ok(number)
    }
}
