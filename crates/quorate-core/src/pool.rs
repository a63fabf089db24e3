//! Pools: shared queues of messages to `can:CAPABILITY`, from which capable agents claim.

use crate::ids::{AgentNo, Capability, PoolNo};
use crate::registry::{Agent, AgentRole};

/// The agents that may claim from a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PoolAccess {
    /// Every agent with the capability.
    AnyCapable,
    /// Only coordinators with the capability, because the sender may reach no other agents.
    Coordinators,
}

/// A pool. Created by the first message to it, and never removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pool {
    /// Number of the pool.
    pub number: PoolNo,
    /// Required capability.
    pub capability: Capability,
    /// The agents that may claim from it.
    pub access: PoolAccess,
    /// The agent whose message created it; `None` is the hub.
    pub opened_by: Option<AgentNo>,
}

impl Pool {
    /// Whether an agent may claim from it.
    #[must_use]
    pub fn is_open_to(&self, agent: &Agent) -> bool {
        let allowed = match self.access {
            PoolAccess::AnyCapable => true,
            PoolAccess::Coordinators => agent.role == AgentRole::Coordinator,
        };
        allowed
            && !agent.removed
            && agent.capabilities.iter().any(|capability| *capability == self.capability.as_str())
    }

    /// The id of its item.
    #[must_use]
    pub fn id(&self) -> String {
        match self.access {
            PoolAccess::AnyCapable => format!("can:{}", self.capability),
            PoolAccess::Coordinators => format!("coordinators can:{}", self.capability),
        }
    }
}
