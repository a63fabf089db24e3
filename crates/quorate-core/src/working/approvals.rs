//! Pending approvals, and the agents that wait for them.

use std::sync::Arc;

use crate::approval::Approval;
use crate::deadlock::{Need, Wait};
use crate::ids::AgentNo;
use crate::working::wait_graph::WaitId;
use crate::working::{Map, WorkingState, decrement};

/// Pending approvals by id.
#[derive(Debug, Default)]
pub(crate) struct Approvals {
    pending: Map<Arc<str>, Approval>,
    of_agent: Map<AgentNo, usize>,
    /// Incremented by every change, including undone ones.
    changes: u64,
}

impl Approvals {
    pub(super) fn replace(&mut self, id: &Arc<str>, new: Option<Approval>) -> Option<Approval> {
        self.changes += 1;
        if let Some(agent) = new.as_ref().and_then(|new| new.agent) {
            *self.of_agent.entry(agent).or_default() += 1;
        }
        let old = match new {
            Some(new) => self.pending.insert(Arc::clone(id), new),
            None => self.pending.remove(id),
        };
        if let Some(agent) = old.as_ref().and_then(|old| old.agent) {
            decrement(&mut self.of_agent, &agent);
        }
        old
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Approval> {
        self.pending.get(id)
    }

    /// Returns all pending approvals, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Approval> {
        self.pending.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Returns the number of pending approvals that an agent requested.
    pub(crate) fn count_of(&self, agent: AgentNo) -> usize {
        self.of_agent.get(&agent).copied().unwrap_or(0)
    }
}

impl WorkingState {
    /// Returns a counter that changes whenever an approval changes. Its value has no other meaning.
    #[must_use]
    pub fn approval_changes(&self) -> u64 {
        self.items().approvals.changes
    }

    /// Adds the waits of agents for approvals to the wait-for graph. A person decides, so such a wait depends on no
    /// other wait: it is never part of a cycle, and never aborted. But it blocks whatever its agent holds, like any
    /// other wait.
    pub(super) fn approval_waits(&self, waits: &mut Vec<Wait<WaitId>>) {
        for approval in self.items().approvals.pending.values() {
            let Some(agent) = approval.agent else { continue };
            waits.push(Wait {
                id: WaitId::Approval,
                agent,
                within: None,
                age: (approval.seq, super::wait_graph::AFTER_REQUESTS - 1),
                needs: vec![Need { resource: 0, sources: Vec::new() }],
            });
        }
    }
}
