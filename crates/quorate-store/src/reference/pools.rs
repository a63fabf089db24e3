//! Pools: membership, and the consumers that wait for them.

use quorate_core::{Agent, AgentNo, AgentRole, Item, Pool, PoolAccess, PoolNo, QueueId};

use crate::reference::space::{Consumer, Space};

impl Space {
    /// Returns all pools, ordered by id.
    pub(super) fn pools(&self) -> Vec<Pool> {
        let pool = |item: &Item| match item {
            Item::Pool(pool) => Some(pool.clone()),
            _ => None,
        };
        self.items.values().filter_map(pool).collect()
    }

    /// Returns the pools that an agent may take from: it has the capability, and the role if the pool is for
    /// coordinators.
    pub(super) fn pools_of(&self, agent: AgentNo) -> Vec<PoolNo> {
        let Agent { capabilities, role, removed, .. } = self.agent(agent);
        let mut pools = self.pools();
        pools.retain(|pool| {
            let is_capable = capabilities.iter().any(|name| name == pool.capability.as_str());
            let is_allowed = pool.access == PoolAccess::AnyCapable || *role == AgentRole::Coordinator;
            is_capable && is_allowed && !removed
        });
        let mut numbers: Vec<_> = pools.into_iter().map(|pool| pool.number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Whether this agent may take deliveries from an inbox or a pool.
    pub(super) fn may_take(&self, agent: AgentNo, queue: QueueId) -> bool {
        match queue {
            QueueId::Agent(other) => other == agent,
            QueueId::Pool(pool) => self.pools_of(agent).contains(&pool),
        }
    }

    /// Returns the display name of an inbox or a pool.
    pub(super) fn queue_name(&self, queue: QueueId) -> String {
        match queue {
            QueueId::Agent(agent) => self.agent(agent).id.to_string(),
            QueueId::Pool(pool) => {
                let pool = self.pools().into_iter().find(|candidate| candidate.number == pool);
                pool.map_or_else(String::new, |pool| format!("can:{}", pool.capability))
            }
        }
    }

    /// Whether a consumer has credit and may take from an inbox or a pool.
    pub(super) fn can_serve(&self, consumer: &Consumer, queue: QueueId) -> bool {
        consumer.credit > 0 && self.may_take(consumer.agent, queue)
    }

    /// Moves the consumers of an agent to the end of the queue, after its set of pools has changed.
    pub(super) fn requeue(&mut self, agent: AgentNo) {
        let (mut moved, mut others): (Vec<_>, Vec<_>) =
            self.consumers.drain(..).partition(|consumer| consumer.agent == agent);
        others.append(&mut moved);
        self.consumers = others;
    }
}
