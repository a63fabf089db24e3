//! Activity of calling agents: any call is a heartbeat, and a connection that is closed during a call shows at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{AgentId, Epoch, SpaceNo};
use quorate_engine::Space;

/// Number of waiting calls and event streams of each agent. WebSockets are consumers, which the engine knows.
#[derive(Clone, Default)]
pub(crate) struct AgentConnections(Arc<Mutex<HashMap<(SpaceNo, AgentId), usize>>>);

impl AgentConnections {
    fn lock(&self) -> MutexGuard<'_, HashMap<(SpaceNo, AgentId), usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The agent that made a call, if an agent did.
#[derive(Clone)]
pub(crate) struct CallerActivity {
    space: Space,
    agent: Option<AgentId>,
    epoch: Option<Epoch>,
    connections: AgentConnections,
}

impl CallerActivity {
    pub(crate) fn new(
        space: &Space,
        agent: Option<&AgentId>,
        epoch: Option<Epoch>,
        connections: &AgentConnections,
    ) -> Self {
        Self { space: space.clone(), agent: agent.cloned(), epoch, connections: connections.clone() }
    }

    /// Returns the agent, unless its process is of an earlier epoch: that does not keep its successor alive.
    fn agent(&self) -> Option<&AgentId> {
        self.agent.as_ref().filter(|id| {
            let published = self.space.published();
            let current = published.agents.by_id(id);
            self.epoch.is_none_or(|epoch| current.is_some_and(|agent| agent.epoch == epoch))
        })
    }

    /// Records that the agent is alive.
    pub(crate) fn note(&self) {
        if let Some(agent) = self.agent() {
            self.space.note_activity(agent);
        }
    }

    /// Counts a connection of the agent that is open during a waiting call or an event stream.
    pub(crate) fn open_connection(&self) -> OpenConnection {
        if let Some(agent) = &self.agent {
            *self.connections.lock().entry((self.space.number(), agent.clone())).or_default() += 1;
        }
        OpenConnection { activity: self.clone(), is_answered: false }
    }
}

/// An open connection of an agent. If it is dropped without an answer, the client has closed it.
pub(crate) struct OpenConnection {
    activity: CallerActivity,
    is_answered: bool,
}

impl OpenConnection {
    /// States that the call was answered: the connection may still be open.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let Self { activity, is_answered } = self;
        let Some(agent) = &activity.agent else { return };
        let key = (activity.space.number(), agent.clone());
        let mut connections = activity.connections.lock();
        let open = connections.remove(&key).unwrap_or(1) - 1;
        if open > 0 {
            connections.insert(key, open);
        }
        drop(connections);
        if open == 0 && !*is_answered && activity.agent().is_some() {
            activity.space.note_closed_connection(agent);
        }
    }
}
