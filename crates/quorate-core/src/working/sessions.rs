//! Open sessions.

use std::sync::Arc;

use crate::ids::AgentId;
use crate::session::Session;
use crate::working::{Map, decrement};

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Map<Arc<str>, Session>,
    /// Number of open sessions of each coordinator.
    of_coordinator: Map<AgentId, usize>,
}

impl Sessions {
    pub(super) fn replace(&mut self, id: &Arc<str>, new: Option<Session>) -> Option<Session> {
        if let Some(coordinator) = new.as_ref().and_then(|session| session.coordinator.clone()) {
            *self.of_coordinator.entry(coordinator).or_default() += 1;
        }
        let old = match new {
            Some(session) => self.open.insert(Arc::clone(id), session),
            None => self.open.remove(id),
        };
        if let Some(coordinator) = old.as_ref().and_then(|old| old.coordinator.as_ref()) {
            decrement(&mut self.of_coordinator, coordinator);
        }
        old
    }

    /// Returns an open session.
    pub(crate) fn get(&self, id: &str) -> Option<&Session> {
        self.open.get(id)
    }

    /// Returns the number of open sessions.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns the number of open sessions that an agent coordinates.
    pub(crate) fn count_of(&self, coordinator: &AgentId) -> usize {
        self.of_coordinator.get(coordinator).copied().unwrap_or(0)
    }
}
