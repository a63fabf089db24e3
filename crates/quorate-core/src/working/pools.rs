//! Pools: deliveries that any agent with a capability may take, and the queues of their consumers. A consumer is
//! queued at its agent's inbox and at all pools that its agent serves, with the same ticket.

use crate::ids::{AgentNo, Capability, PoolNo};
use crate::pool::{Pool, PoolAccess};
use crate::recipient::QueueId;
use crate::working::item_counts::ItemCounts;
use crate::working::{Consumer, Inbox, Map, WorkingState};

/// All pools of a space, by number.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    entries: Vec<PoolInbox>,
    by_name: Map<(Capability, PoolAccess), PoolNo>,
    /// Number of pools by the agent that opened them.
    counts: ItemCounts<AgentNo>,
}

/// A pool with its deliveries.
#[derive(Debug)]
struct PoolInbox {
    pool: Pool,
    inbox: Inbox,
}

impl Pools {
    pub(super) fn inbox(&self, pool: PoolNo) -> &Inbox {
        &self.entries[pool.0 as usize - 1].inbox
    }

    pub(super) fn inbox_mut(&mut self, pool: PoolNo) -> &mut Inbox {
        &mut self.entries[pool.0 as usize - 1].inbox
    }

    /// Returns the number of pools.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of pools that an agent opened.
    pub(crate) fn opened_by(&self, agent: AgentNo) -> usize {
        self.counts.of(&agent)
    }

    pub(crate) fn get(&self, pool: PoolNo) -> Option<&Pool> {
        let index = usize::try_from(pool.0).ok()?.checked_sub(1)?;
        self.entries.get(index).map(|entry| &entry.pool)
    }

    pub(crate) fn find(&self, capability: &Capability, access: PoolAccess) -> Option<PoolNo> {
        self.by_name.get(&(capability.clone(), access)).copied()
    }
}

impl WorkingState {
    /// Returns the pools of the space.
    #[must_use]
    pub(crate) fn pools(&self) -> &Pools {
        &self.pools
    }

    /// Returns the number of pools; their numbers are dense, starting at 1.
    #[must_use]
    pub fn pool_count(&self) -> usize {
        self.pools.len()
    }

    /// Returns the inbox of an agent or pool.
    pub(crate) fn inbox_at(&self, queue: QueueId) -> &Inbox {
        match queue {
            QueueId::Agent(agent) => self.inbox(agent),
            QueueId::Pool(pool) => self.pools.inbox(pool),
        }
    }

    /// Returns the first consumer of a pool whose agent has capacity for another lease.
    pub(crate) fn first_consumer_with_capacity(
        &self,
        pool: PoolNo,
        in_flight_max: usize,
    ) -> Option<Consumer> {
        let queue = self.pools.inbox(pool).waiting.iter();
        { queue }
            .filter_map(|(_, id)| self.consumer(*id))
            .find(|consumer| self.inbox(consumer.agent).leased.len() < in_flight_max)
            .copied()
    }

    /// Adds a new pool with the next number. An existing pool never changes.
    pub(super) fn put_pool(&mut self, pool: &Pool) {
        if pool.number.0 as usize != self.pools.len() + 1 {
            return;
        }
        self.pools.by_name.insert((pool.capability.clone(), pool.access), pool.number);
        self.pools.counts.add(pool.opened_by);
        self.pools.entries.push(PoolInbox { pool: pool.clone(), inbox: Inbox::default() });
        for agent in self.agents.capable(pool.capability.as_str()).to_vec() {
            self.join_pools(agent);
        }
    }

    /// Undoes the creation of the newest pool.
    pub(super) fn undo_pool(&mut self) {
        let number = PoolNo(self.pools.len() as u64);
        for inbox in &mut self.inboxes {
            inbox.pools.retain(|pool| *pool != number);
        }
        if let Some(PoolInbox { pool, .. }) = self.pools.entries.pop() {
            self.pools.counts.remove(pool.opened_by);
            self.pools.by_name.remove(&(pool.capability, pool.access));
        }
    }

    /// Requeues the consumers of all agents that serve a new pool.
    pub(super) fn requeue_pool_consumers(&mut self, pool: &Pool) {
        let agents = self.agents.capable(pool.capability.as_str()).to_vec();
        for agent in agents {
            if self.inbox(agent).pools.contains(&pool.number) {
                self.requeue_consumers(agent);
            }
        }
    }

    /// Updates the pools that an agent serves, and queues its consumers there. Returns whether anything changed.
    pub(super) fn join_pools(&mut self, agent: AgentNo) -> bool {
        let serving = match self.agents.get(agent) {
            Some(registered) if self.pools.len() > 0 => self.pools_serving(registered),
            _ => Vec::new(),
        };
        let inbox = self.inbox_mut(agent);
        if inbox.pools == serving {
            return false;
        }
        let waiting: Vec<_> = inbox.waiting.iter().copied().collect();
        let before = std::mem::replace(&mut inbox.pools, serving.clone());
        for pool in before {
            self.pools.inbox_mut(pool).waiting.retain(|position| !waiting.contains(position));
        }
        for pool in serving {
            self.pools.inbox_mut(pool).waiting.extend(waiting.iter().copied());
        }
        true
    }

    fn pools_serving(&self, agent: &crate::registry::Agent) -> Vec<PoolNo> {
        let mut serving = Vec::new();
        for capability in agent.capabilities.iter().filter_map(|name| Capability::new(name).ok()) {
            for access in [PoolAccess::AnyCapable, PoolAccess::Coordinators] {
                let found = self.pools.find(&capability, access);
                let found =
                    found.filter(|pool| self.pools.get(*pool).is_some_and(|pool| pool.is_open_to(agent)));
                serving.extend(found);
            }
        }
        serving.sort_unstable();
        serving.dedup();
        serving
    }

    /// Moves the consumers of an agent to the end of all their queues.
    pub(super) fn requeue_consumers(&mut self, agent: AgentNo) {
        let ids: Vec<_> = self.inbox(agent).waiting.iter().map(|(_, id)| *id).collect();
        for id in ids {
            if let Some(consumer) = self.consumer(id).copied() {
                let ticket = self.next_ticket();
                self.set_consumer(id, Some(Consumer { ticket, ..consumer }));
            }
        }
    }
}
