//! One active WebSocket per agent: a newer connection replaces the older one, which is notified.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::{AgentId, SpaceNo};
use tokio::sync::{oneshot, watch};

/// How long a newer connection waits for the older one to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

type AgentKey = (SpaceNo, AgentId);

/// Active connections by agent.
#[derive(Clone, Default)]
pub(crate) struct ActiveConnections(Arc<State>);

#[derive(Default)]
struct State {
    active: Mutex<HashMap<AgentKey, Active>>,
    next_id: AtomicU64,
}

struct Active {
    id: u64,
    /// Used once, by the next connection.
    replace: Option<oneshot::Sender<()>>,
    closed: watch::Receiver<()>,
}

/// Registration of a connection as the active one of its agent, until dropped.
pub(crate) struct ActiveConnection {
    connections: ActiveConnections,
    key: AgentKey,
    id: u64,
    replace: oneshot::Receiver<()>,
    /// Closed when this connection ends.
    _closed: watch::Sender<()>,
}

impl ActiveConnections {
    fn lock(&self) -> MutexGuard<'_, HashMap<AgentKey, Active>> {
        self.0.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection of an agent, and waits until the previous one has closed.
    pub(crate) async fn activate(&self, space: SpaceNo, agent: &AgentId) -> ActiveConnection {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let (notify, replace) = oneshot::channel();
        let (open, closed) = watch::channel(());
        let key = (space, agent.clone());
        let previous = self.lock().insert(key.clone(), Active { id, replace: Some(notify), closed });
        let active = ActiveConnection { connections: self.clone(), key, id, replace, _closed: open };
        if let Some(Active { replace, mut closed, .. }) = previous {
            replace.map(|replace| replace.send(()));
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed.changed()).await;
        }
        active
    }
}

impl ActiveConnection {
    /// Resolves when a newer connection replaces this one.
    pub(crate) async fn replaced(&mut self) {
        let _ = (&mut self.replace).await;
    }

    /// Whether a newer connection has replaced this one.
    pub(crate) fn is_replaced(&self) -> bool {
        self.connections.lock().get(&self.key).is_none_or(|active| active.id != self.id)
    }
}

impl Drop for ActiveConnection {
    fn drop(&mut self) {
        let mut active = self.connections.lock();
        if active.get(&self.key).is_some_and(|active| active.id == self.id) {
            active.remove(&self.key);
        }
    }
}
