//! Batching of heartbeats that report no change. Thousands of agents send them, and the writer need not process each
//! one: they are collected here and committed together, early enough that no agent is declared offline.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quorate_core::{AgentId, AgentNo, Commit, Epoch, Heartbeat, Op, Principal};
use quorate_store::PublishedState;
use tokio::sync::Notify;

/// Agents whose heartbeats are not committed yet.
#[derive(Default)]
pub(crate) struct HeartbeatBuffer {
    pending: Mutex<BTreeSet<AgentNo>>,
    first: Notify,
}

impl HeartbeatBuffer {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<AgentNo>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Buffers a heartbeat if it reports no change. Returns false if it has to be committed on its own.
    pub(crate) fn buffer(
        &self,
        published: &PublishedState,
        heartbeat: &Heartbeat,
        epoch: Option<Epoch>,
    ) -> bool {
        let Some(number) = published.agents.number(&heartbeat.agent) else { return false };
        let Some(agent) = published.agents.get(number).filter(|agent| !agent.removed) else { return false };
        let presence = &agent.presence;
        let is_change = presence.is_unavailable()
            || presence.status != heartbeat.status
            || presence.health.as_str() != heartbeat.health.as_str()
            || epoch.is_some_and(|epoch| epoch != agent.epoch);
        if is_change {
            return false;
        }
        self.insert(number);
        true
    }

    /// Buffers the activity of an agent that is no commit, such as a read.
    pub(crate) fn buffer_activity(&self, published: &PublishedState, id: &AgentId) {
        if let Some(number) = published.agents.number(id) {
            self.insert(number);
        }
    }

    fn insert(&self, number: AgentNo) {
        let mut pending = self.lock();
        if pending.is_empty() {
            self.first.notify_one();
        }
        pending.insert(number);
    }

    /// Resolves when the first heartbeat was buffered since the last commit.
    pub(crate) async fn first_buffered(&self) {
        self.first.notified().await;
    }

    /// Returns the commit of the buffered heartbeats, if there are any.
    pub(crate) fn take_commit(&self) -> Option<Commit> {
        let agents: Vec<_> = std::mem::take(&mut *self.lock()).into_iter().collect();
        (!agents.is_empty()).then(|| Commit::new(Principal::System, vec![Op::HeartbeatBatch { agents }]))
    }
}
