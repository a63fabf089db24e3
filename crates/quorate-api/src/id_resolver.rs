//! Resolves the numbers in records to IDs. Records refer to agents, messages and deliveries by number; the interface
//! uses IDs.

use std::sync::Arc;

use quorate_core::{AgentId, AgentNo, AgentRegistry, DeliveryId, DeliveryNo, Generations, MessageId, Seq};

/// Resolves agent numbers to IDs.
pub trait AgentIds {
    /// Returns the ID of an agent; `None` if the number is unknown.
    fn agent_id(&self, number: AgentNo) -> Option<AgentId>;
}

impl AgentIds for AgentRegistry {
    fn agent_id(&self, number: AgentNo) -> Option<AgentId> {
        self.get(number).map(|agent| agent.id.clone())
    }
}

impl<T: AgentIds> AgentIds for Arc<T> {
    fn agent_id(&self, number: AgentNo) -> Option<AgentId> {
        (**self).agent_id(number)
    }
}

/// Resolves all numbers in a record to IDs.
#[derive(Clone, Copy)]
pub struct IdResolver<'a> {
    /// Resolves agent numbers.
    pub agents: &'a dyn AgentIds,
    /// Generations in which records and deliveries were created. The generation is part of their IDs.
    pub generations: &'a Generations,
}

impl IdResolver<'_> {
    pub(crate) fn agent_id(&self, number: AgentNo) -> Option<AgentId> {
        self.agents.agent_id(number)
    }

    pub(crate) fn message_id(&self, seq: Seq, n: u32) -> MessageId {
        self.generations.message_id(seq, n)
    }

    pub(crate) fn delivery_id(&self, number: DeliveryNo) -> DeliveryId {
        self.generations.delivery_id(number)
    }
}
