//! The recipient of a delivery: an agent, or a pool from which one of several agents claims it.

use crate::ids::{AgentNo, PoolNo};
use crate::limits::{AGENTS_MAX, POOLS_MAX};

/// The recipient of a delivery. A pool delivery has both pool and agent while an agent holds it; it returns to the pool.
/// Four bytes in memory, because there may be a million open deliveries; stored as [`Recipient::number`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Recipient(u32);

/// Bits of the agent number (0: no agent). The bits above are the pool number (0: no pool).
const AGENT_BITS: u32 = 17;
const AGENT_MASK: u32 = (1 << AGENT_BITS) - 1;

const _: () = assert!(AGENTS_MAX < 1 << AGENT_BITS && POOLS_MAX < 1 << (32 - AGENT_BITS));

/// The queue that a delivery waits in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QueueId {
    /// The inbox of an agent.
    Agent(AgentNo),
    /// The queue of a pool.
    Pool(PoolNo),
}

impl Recipient {
    /// Creates a recipient for a single agent.
    #[must_use]
    pub fn agent(agent: AgentNo) -> Self {
        Self(0).held_by(agent)
    }

    /// Creates a recipient for a pool.
    #[must_use]
    pub fn pool(pool: PoolNo) -> Self {
        Self::from_number(pool.0 << 32).expect("pools are limited")
    }

    /// Sets the agent that holds it.
    #[must_use]
    pub fn held_by(self, agent: AgentNo) -> Self {
        let agent = u32::try_from(agent.0).ok().filter(|agent| *agent <= AGENT_MASK);
        Self(self.0 & !AGENT_MASK | agent.expect("agents are limited"))
    }

    /// Removes the holder of a pool delivery. A direct delivery is unchanged.
    #[must_use]
    pub fn without_holder(self) -> Self {
        match self.pool_no() {
            Some(_) => Self(self.0 & !AGENT_MASK),
            None => self,
        }
    }

    /// Returns the queue it waits in.
    #[must_use]
    pub fn queue(self) -> QueueId {
        match self.pool_no() {
            Some(pool) => QueueId::Pool(pool),
            None => QueueId::Agent(AgentNo(u64::from(self.0))),
        }
    }

    /// The agent: the recipient, or the holder of a pool delivery; `None` while it waits in a pool.
    #[must_use]
    pub fn agent_no(self) -> Option<AgentNo> {
        Some(self.0 & AGENT_MASK).filter(|agent| *agent != 0).map(|agent| AgentNo(u64::from(agent)))
    }

    /// The pool that it belongs to, if any.
    #[must_use]
    pub fn pool_no(self) -> Option<PoolNo> {
        Some(self.0 >> AGENT_BITS).filter(|pool| *pool != 0).map(|pool| PoolNo(u64::from(pool)))
    }

    /// The stored number: the agent's number in the lower, the pool's in the upper 32 bits. Never changes.
    #[must_use]
    pub fn number(self) -> u64 {
        u64::from(self.0 >> AGENT_BITS) << 32 | u64::from(self.0 & AGENT_MASK)
    }

    /// The recipient with this number; `None` for 0 and for numbers beyond the limits.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        let (pool, agent) = ((number >> 32) as u32, number as u32);
        let fits = number != 0 && agent <= AGENT_MASK && pool < 1 << (32 - AGENT_BITS);
        fits.then_some(Self(pool << AGENT_BITS | agent))
    }
}

impl std::fmt::Debug for Recipient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.pool_no(), self.agent_no()) {
            (Some(pool), Some(agent)) => write!(f, "pool {pool} held by agent {agent}"),
            (Some(pool), None) => write!(f, "pool {pool}"),
            (None, _) => write!(f, "agent {}", self.0),
        }
    }
}

impl From<AgentNo> for Recipient {
    fn from(agent: AgentNo) -> Self {
        Self::agent(agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: fewer bits than the limits need, or a lost holder or pool.
    #[test]
    fn d3_a_recipient_keeps_pool_and_holder_apart() {
        let (agent, pool) = (AgentNo(AGENTS_MAX as u64), PoolNo(POOLS_MAX as u64));
        let direct = Recipient::agent(agent);
        assert_eq!((direct.agent_no(), direct.pool_no(), direct.number()), (Some(agent), None, agent.0));
        assert_eq!((direct.queue(), direct.without_holder()), (QueueId::Agent(agent), direct));
        let pooled = Recipient::pool(pool);
        assert_eq!((pooled.agent_no(), pooled.pool_no(), pooled.number()), (None, Some(pool), pool.0 << 32));
        let held = pooled.held_by(agent);
        assert_eq!((held.agent_no(), held.pool_no()), (Some(agent), Some(pool)));
        assert_eq!((held.queue(), held.without_holder()), (QueueId::Pool(pool), pooled));
        for recipient in [direct, pooled, held] {
            assert_eq!(Recipient::from_number(recipient.number()), Some(recipient));
        }
        for invalid in [0, u64::MAX, 1 << AGENT_BITS, 1 << (64 - AGENT_BITS)] {
            assert_eq!(Recipient::from_number(invalid), None);
        }
    }
}
