//! Records name agents, messages and deliveries by number. The interface shows their ids.

use std::sync::Arc;

use quorate_core::{AgentId, AgentNo, Agents, DeliveryId, DeliveryNo, Eras, MessageId, Seq};

/// The ids of agents by number.
pub trait AgentNames {
    /// The id of an agent; `None` if the number is unknown.
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

/// Everything that is needed to show the numbers of a record as ids.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// The ids of agents.
    pub agents: &'a dyn AgentNames,
    /// The generation in which records and deliveries were created: it is part of their ids.
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
