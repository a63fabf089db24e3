//! Pools: what waits for whoever can do it, and the line of those who wait for that. A consumer of an agent stands in the
//! line of its agent's inbox and in the lines of all pools that its agent may take from, at the same turn.

use crate::ids::{AgentNo, Capability, PoolNo};
use crate::pool::{Pool, Takers};
use crate::recipient::Home;
use crate::working::{Consumer, Inbox, Map, Working};

/// All pools of a space, by number.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    rooms: Vec<Room>,
    by_name: Map<(Capability, Takers), PoolNo>,
}

/// One pool and what waits in it.
#[derive(Debug)]
struct Room {
    pool: Pool,
    inbox: Inbox,
}

impl Pools {
    pub(super) fn inbox(&self, pool: PoolNo) -> &Inbox {
        &self.rooms[pool.0 as usize - 1].inbox
    }

    pub(super) fn inbox_mut(&mut self, pool: PoolNo) -> &mut Inbox {
        &mut self.rooms[pool.0 as usize - 1].inbox
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.rooms.len()
    }

    pub(crate) fn get(&self, pool: PoolNo) -> Option<&Pool> {
        let index = usize::try_from(pool.0).ok()?.checked_sub(1)?;
        self.rooms.get(index).map(|room| &room.pool)
    }

    pub(crate) fn find(&self, capability: &Capability, takers: Takers) -> Option<PoolNo> {
        self.by_name.get(&(capability.clone(), takers)).copied()
    }
}

impl Working {
    /// The pools of the space.
    #[must_use]
    pub(crate) fn pools(&self) -> &Pools {
        &self.pools
    }

    /// How many pools there are; their numbers are dense from 1.
    #[must_use]
    pub fn pool_count(&self) -> usize {
        self.pools.len()
    }

    /// What waits somewhere.
    pub(crate) fn inbox_at(&self, home: Home) -> &Inbox {
        match home {
            Home::Agent(agent) => self.inbox(agent),
            Home::Pool(pool) => self.pools.inbox(pool),
        }
    }

    /// The first consumer in the line of a pool whose agent may hold more.
    pub(crate) fn first_free(&self, pool: PoolNo, in_flight_max: usize) -> Option<Consumer> {
        let line = self.pools.inbox(pool).line.iter();
        { line }
            .filter_map(|(_, id)| self.consumer(*id))
            .find(|consumer| self.inbox(consumer.agent).leased.len() < in_flight_max)
            .copied()
    }

    /// Puts a new pool in its place: the next number. One that is there already never changes.
    pub(super) fn put_pool(&mut self, pool: &Pool) {
        if pool.number.0 as usize != self.pools.len() + 1 {
            return;
        }
        self.pools.by_name.insert((pool.capability.clone(), pool.takers), pool.number);
        self.pools.rooms.push(Room { pool: pool.clone(), inbox: Inbox::default() });
        for agent in self.agents.capable(pool.capability.as_str()).to_vec() {
            self.join_pools(agent);
        }
    }

    /// Takes the newest pool away again.
    pub(super) fn take_pool_back(&mut self) {
        let number = PoolNo(self.pools.len() as u64);
        for inbox in &mut self.inboxes {
            inbox.pools.retain(|pool| *pool != number);
        }
        if let Some(Room { pool, .. }) = self.pools.rooms.pop() {
            self.pools.by_name.remove(&(pool.capability, pool.takers));
        }
    }

    /// Who stands in the line of a pool goes to its end: it is new to them.
    pub(super) fn requeue_takers(&mut self, pool: &Pool) {
        let able = self.agents.capable(pool.capability.as_str()).to_vec();
        for agent in able {
            if self.inbox(agent).pools.contains(&pool.number) {
                self.requeue(agent);
            }
        }
    }

    /// Brings the pools that an agent may take from up to date, and its consumers into their lines. Says whether
    /// anything changed.
    pub(super) fn join_pools(&mut self, agent: AgentNo) -> bool {
        let serving = match self.agents.get(agent) {
            Some(described) if self.pools.len() > 0 => self.pools_serving(described),
            _ => Vec::new(),
        };
        let inbox = self.inbox_mut(agent);
        if inbox.pools == serving {
            return false;
        }
        let line: Vec<_> = inbox.line.iter().copied().collect();
        let before = std::mem::replace(&mut inbox.pools, serving.clone());
        for pool in before {
            self.pools.inbox_mut(pool).line.retain(|place| !line.contains(place));
        }
        for pool in serving {
            self.pools.inbox_mut(pool).line.extend(line.iter().copied());
        }
        true
    }

    fn pools_serving(&self, agent: &crate::registry::Agent) -> Vec<PoolNo> {
        let mut serving = Vec::new();
        for capability in agent.capabilities.iter().filter_map(|word| Capability::new(word).ok()) {
            for takers in [Takers::Anybody, Takers::Coordinators] {
                let found = self.pools.find(&capability, takers);
                let found = found.filter(|pool| self.pools.get(*pool).is_some_and(|pool| pool.serves(agent)));
                serving.extend(found);
            }
        }
        serving.sort_unstable();
        serving.dedup();
        serving
    }

    /// Whoever waits for an agent goes to the end of all its lines.
    pub(super) fn requeue(&mut self, agent: AgentNo) {
        let line: Vec<_> = self.inbox(agent).line.iter().map(|(_, id)| *id).collect();
        for id in line {
            if let Some(consumer) = self.consumer(id).copied() {
                let turn = self.next_turn();
                self.set_consumer(id, Some(Consumer { turn, ..consumer }));
            }
        }
    }
}
