//! Pools: who may take from them, and who waits for what.

use quorate_core::{Agent, AgentNo, Home, Item, Pool, PoolNo, Role, Takers};

use crate::reference::space::{Consumer, Space};

impl Space {
    /// All pools, by id.
    pub(super) fn pools(&self) -> Vec<Pool> {
        let pool = |item: &Item| match item {
            Item::Pool(pool) => Some(pool.clone()),
            _ => None,
        };
        self.items.values().filter_map(pool).collect()
    }

    /// The pools that an agent may take from: it can do what they ask for, and leads where they ask for that.
    pub(super) fn pools_of(&self, agent: AgentNo) -> Vec<PoolNo> {
        let Agent { capabilities, role, removed, .. } = self.agent(agent);
        let mut pools = self.pools();
        pools.retain(|pool| {
            let able = capabilities.iter().any(|one| one == pool.capability.as_str());
            let allowed = pool.takers == Takers::Anybody || *role == Role::Coordinator;
            able && allowed && !removed
        });
        let mut numbers: Vec<_> = pools.into_iter().map(|pool| pool.number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Whether what waits there may go to this agent.
    pub(super) fn may_take(&self, agent: AgentNo, home: Home) -> bool {
        match home {
            Home::Agent(other) => other == agent,
            Home::Pool(pool) => self.pools_of(agent).contains(&pool),
        }
    }

    /// What people know a place by.
    pub(super) fn name_of(&self, home: Home) -> String {
        match home {
            Home::Agent(agent) => self.agent(agent).id.to_string(),
            Home::Pool(pool) => {
                let pool = self.pools().into_iter().find(|one| one.number == pool);
                pool.map_or_else(String::new, |pool| format!("can:{}", pool.capability))
            }
        }
    }

    /// Whether somebody waits for what lies there, with credit.
    pub(super) fn waits_for(&self, consumer: &Consumer, home: Home) -> bool {
        consumer.credit > 0 && self.may_take(consumer.agent, home)
    }

    /// Whoever waits for an agent goes to the end of the line: it stands in another line now.
    pub(super) fn requeue(&mut self, agent: AgentNo) {
        let (mut moved, mut line): (Vec<_>, Vec<_>) =
            self.consumers.drain(..).partition(|one| one.agent == agent);
        line.append(&mut moved);
        self.consumers = line;
    }
}
