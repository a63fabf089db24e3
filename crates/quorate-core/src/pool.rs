//! Pools: where messages to `can:CAPABILITY` wait until an agent that can do it is free.

use crate::ids::{Capability, PoolNo};
use crate::registry::{Agent, Role};

/// Who may take from a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Takers {
    /// Every agent that can do it.
    Anybody,
    /// Only coordinators that can do it: the sender may reach nobody else.
    Coordinators,
}

/// A pool. It comes into being with the first message to it, and stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Its number.
    pub number: PoolNo,
    /// What one must be able to do.
    pub capability: Capability,
    /// Who may take from it.
    pub takers: Takers,
}

impl Pool {
    /// Whether an agent may take from it.
    #[must_use]
    pub fn serves(&self, agent: &Agent) -> bool {
        let allowed = match self.takers {
            Takers::Anybody => true,
            Takers::Coordinators => agent.role == Role::Coordinator,
        };
        allowed && !agent.removed && agent.capabilities.iter().any(|one| *one == self.capability.as_str())
    }

    /// The id of its item: what it is called.
    #[must_use]
    pub fn id(&self) -> String {
        match self.takers {
            Takers::Anybody => format!("can:{}", self.capability),
            Takers::Coordinators => format!("coordinators can:{}", self.capability),
        }
    }
}
