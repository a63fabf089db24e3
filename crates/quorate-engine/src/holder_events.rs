//! Events for agents as the holders of leases: work of theirs that is not needed any more. They do not depend on credit.

use std::collections::HashMap;

use quorate_core::{AgentId, Code, HolderEvent, Refused};
use tokio::sync::mpsc;

use crate::mailboxes::AgentKey;
use crate::space::Space;

/// Receiver of the events for an agent as the holder of leases, on any connection or consumer, until it is dropped. It
/// holds at most one unread event per lease.
pub struct HolderEvents(mpsc::UnboundedReceiver<HolderEvent>);

impl HolderEvents {
    /// Waits for the next event; `None` once the hub is closed. Cancel safe.
    pub async fn next(&mut self) -> Option<HolderEvent> {
        self.0.recv().await
    }
}

impl Space {
    /// Subscribes to the events for an agent as the holder of leases. Subscribe before you claim, to miss none.
    ///
    /// # Errors
    /// `NOT_FOUND`, if there is no such agent.
    pub fn holder_events(&self, agent: &AgentId) -> Result<HolderEvents, Refused> {
        let number = self.published().agents.number(agent).ok_or_else(|| {
            Refused::new(Code::NotFound, format!("there is no agent {agent}")).hint("register it first")
        })?;
        Ok(HolderEvents(self.mailboxes().subscribe_holder(self.number(), number)))
    }
}

/// Senders of the events, by agent.
#[derive(Default)]
pub(crate) struct HolderSenders(HashMap<AgentKey, Vec<mpsc::UnboundedSender<HolderEvent>>>);

impl HolderSenders {
    pub(crate) fn subscribe(&mut self, agent: AgentKey) -> mpsc::UnboundedReceiver<HolderEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let senders = self.0.entry(agent).or_default();
        // Reconnects would otherwise accumulate senders without receivers.
        senders.retain(|sender| !sender.is_closed());
        senders.push(sender);
        receiver
    }

    pub(crate) fn send(&mut self, agent: AgentKey, event: &HolderEvent) {
        let Some(senders) = self.0.get_mut(&agent) else { return };
        senders.retain(|sender| sender.send(event.clone()).is_ok());
        if senders.is_empty() {
            self.0.remove(&agent);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
