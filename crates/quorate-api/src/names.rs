//! Resolves the numbers in records to IDs. Records refer to agents, messages and deliveries by number; the interface
//! uses IDs.

use std::sync::Arc;

use quorate_core::{AgentId, AgentNo, Agents, DeliveryId, DeliveryNo, Eras, MessageId, Seq};

/// Resolves agent numbers to IDs.
pub trait AgentNames {
    /// Returns the ID of an agent; `None` if the number is unknown.
    fn agent_id(&self, number: AgentNo) -> Option<AgentId>;
}

impl AgentNames for Agents {
    fn agent_id(&self, number: AgentNo) -> Option<AgentId> {
        self.get(number).map(|agent| agent.id.clone())
    }
}

impl<T: AgentNames> AgentNames for Arc<T> {
    fn agent_id(&self, number: AgentNo) -> Option<AgentId> {
        (**self).agent_id(number)
    }
}

/// Resolves all numbers in a record to IDs.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// Resolves agent numbers.
    pub agents: &'a dyn AgentNames,
    /// Generations in which records and deliveries were created. The generation is part of their IDs.
    pub eras: &'a Eras,
}

impl Names<'_> {
    pub(crate) fn agent(&self, number: AgentNo) -> Option<AgentId> {
        self.agents.agent_id(number)
    }

    pub(crate) fn message(&self, seq: Seq, n: u32) -> MessageId {
        self.eras.message_id(seq, n)
    }

    pub(crate) fn delivery(&self, number: DeliveryNo) -> DeliveryId {
        self.eras.delivery_id(number)
    }
}
