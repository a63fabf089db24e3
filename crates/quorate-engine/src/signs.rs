//! Signs of life without news. Thousands of agents give them, and the head need not hear each by itself: they are
//! gathered here, and told together, at the latest before anybody could be missed.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quorate_core::{AgentNo, Commit, Epoch, Heartbeat, Op, Principal};
use quorate_store::Published;
use tokio::sync::Notify;

/// Agents that were heard of since the head was last told.
#[derive(Default)]
pub(crate) struct Signs {
    heard: Mutex<BTreeSet<AgentNo>>,
    first: Notify,
}

impl Signs {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<AgentNo>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a sign of life if it says nothing that the head does not know; else the head must hear it itself.
    pub(crate) fn take(&self, known: &Published, heartbeat: &Heartbeat, epoch: Option<Epoch>) -> bool {
        let Some(number) = known.agents.number(&heartbeat.agent) else { return false };
        let Some(agent) = known.agents.get(number).filter(|agent| !agent.removed) else { return false };
        let presence = &agent.presence;
        let is_news = presence.is_away()
            || presence.status != heartbeat.status
            || presence.health.as_str() != heartbeat.health.as_str()
            || epoch.is_some_and(|epoch| epoch != agent.epoch);
        if is_news {
            return false;
        }
        let mut heard = self.lock();
        if heard.is_empty() {
            self.first.notify_one();
        }
        heard.insert(number);
        true
    }

    /// Ends when somebody was heard of and the head was not told.
    pub(crate) async fn first(&self) {
        self.first.notified().await;
    }

    /// What to tell the head, if there is anything.
    pub(crate) fn commit(&self) -> Option<Commit> {
        let agents: Vec<_> = std::mem::take(&mut *self.lock()).into_iter().collect();
        (!agents.is_empty()).then(|| Commit::new(Principal::System, vec![Op::Heard { agents }]))
    }
}
