//! Consumers of deliveries: claims and streams with their credit. In memory only; clients reconnect after a restart.

use crate::ids::{AgentNo, ConsumerId};
use crate::working::{Undo, WorkingState};

/// Consumers with credit, in the order of their tickets.
pub(crate) type ConsumerQueue = std::collections::BTreeSet<(u64, ConsumerId)>;

/// A consumer of the deliveries of one agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Consumer {
    pub(crate) id: ConsumerId,
    pub(crate) agent: AgentNo,
    /// Number of further deliveries that it accepts.
    pub(crate) credit: u32,
    pub(crate) lease_ms: u64,
    /// Whether it is closed after the first dispatch.
    pub(crate) once: bool,
    /// Ticket number, which determines its place in the queue.
    pub(crate) ticket: u64,
}

impl WorkingState {
    pub(crate) fn consumer(&self, id: ConsumerId) -> Option<&Consumer> {
        self.consumers.get(&id)
    }

    pub(crate) fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    pub(crate) fn set_consumer(&mut self, id: ConsumerId, new: Option<Consumer>) {
        if let Some(consumer) = new {
            self.set_disconnected(consumer.agent, None);
        }
        self.journal.push(Undo::Consumer(id, self.consumers.get(&id).copied()));
        self.put_consumer(id, new);
    }

    pub(super) fn put_consumer(&mut self, id: ConsumerId, new: Option<Consumer>) {
        let old = match new {
            Some(consumer) => self.consumers.insert(id, consumer),
            None => self.consumers.remove(&id),
        };
        // Most changes only concern the credit and leave the queue position unchanged.
        if let (Some(old), Some(new)) = (old, new)
            && (old.agent, old.ticket, old.credit > 0) == (new.agent, new.ticket, new.credit > 0)
        {
            return;
        }
        if let Some(old) = old {
            self.inbox_mut(old.agent).consumers -= 1;
            self.each_queue(old.agent, |queue| queue.remove(&(old.ticket, id)));
        }
        if let Some(new) = new {
            self.inbox_mut(new.agent).consumers += 1;
            if new.credit > 0 {
                self.each_queue(new.agent, |queue| queue.insert((new.ticket, id)));
            }
        }
    }

    /// Applies a change to the consumer queues of an agent's inbox and of all pools that it serves.
    fn each_queue(&mut self, agent: AgentNo, mut change: impl FnMut(&mut ConsumerQueue) -> bool) {
        let inbox = &mut self.inboxes[agent.0 as usize - 1];
        change(&mut inbox.waiting);
        for pool in &inbox.pools {
            change(&mut self.pools.inbox_mut(*pool).waiting);
        }
    }

    /// Deducts credit for dispatched deliveries. The consumer moves to the end of the queue; a one-shot one is closed.
    pub(crate) fn spend_credit(&mut self, id: ConsumerId, count: u32) {
        let Some(consumer) = self.consumer(id).copied() else { return };
        // A sole consumer keeps its ticket.
        let inbox = self.inbox(consumer.agent);
        let is_sole = inbox.waiting.len() == 1 && inbox.pools.is_empty();
        let ticket = if is_sole { consumer.ticket } else { self.next_ticket() };
        let credit = consumer.credit.saturating_sub(count);
        self.set_consumer(id, (!consumer.once).then_some(Consumer { credit, ticket, ..consumer }));
    }

    /// Closes all consumers of an agent, because it registered again or was removed.
    pub(crate) fn dismiss_consumers(&mut self, agent: AgentNo) -> Vec<ConsumerId> {
        let mut closed: Vec<_> = self
            .consumers
            .iter()
            .filter(|(_, consumer)| consumer.agent == agent)
            .map(|(id, _)| *id)
            .collect();
        closed.sort_unstable();
        for id in &closed {
            self.set_consumer(*id, None);
        }
        closed.extend(self.dismiss_task_claimers(agent));
        closed
    }
}
