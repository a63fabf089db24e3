//! Senders to crowded inboxes: how many deliveries each of them added since the inbox has many open ones. The senders of
//! the deliveries before are not known: a delivery in memory does not contain its sender.

use crate::ids::AgentNo;
use crate::recipient::QueueId;
use crate::working::inbox::Inbox;
use crate::working::{Undo, WorkingState};

impl WorkingState {
    /// Returns the number of deliveries that a sender added to an inbox since it is crowded.
    pub(crate) fn crowded_sends(&self, queue: QueueId, sender: AgentNo) -> u32 {
        self.inbox_at(queue).crowded_sends.get(&sender).copied().unwrap_or(0)
    }

    pub(crate) fn set_crowded_sends(&mut self, queue: QueueId, sender: AgentNo, count: u32) {
        let before = self.queue_mut(queue).crowded_sends.insert(sender, count);
        self.journal.push(Undo::CrowdedSends(queue, sender, before));
    }

    /// Forgets the senders to an inbox that is not crowded any more. If the commit is refused, they are not restored,
    /// which only lets them send more.
    pub(crate) fn clear_crowded_sends(&mut self, queue: QueueId) {
        if !self.inbox_at(queue).crowded_sends.is_empty() {
            self.queue_mut(queue).crowded_sends.clear();
        }
    }

    pub(super) fn undo_crowded_sends(&mut self, queue: QueueId, sender: AgentNo, before: Option<u32>) {
        let sends = &mut self.queue_mut(queue).crowded_sends;
        match before {
            Some(before) => drop(sends.insert(sender, before)),
            None => drop(sends.remove(&sender)),
        }
    }

    fn queue_mut(&mut self, queue: QueueId) -> &mut Inbox {
        match queue {
            QueueId::Agent(agent) => self.inbox_mut(agent),
            QueueId::Pool(pool) => self.pools.inbox_mut(pool),
        }
    }
}
