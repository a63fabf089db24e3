//! Who waits for deliveries: claims and streams, each with its credit. In memory only; after a restart they ask again.

use crate::ids::{AgentNo, ConsumerId};
use crate::working::{Undo, Working};

/// Consumers with credit, by turn.
pub(crate) type Line = std::collections::BTreeSet<(u64, ConsumerId)>;

/// Somebody who waits for deliveries of one recipient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Consumer {
    pub(crate) id: ConsumerId,
    pub(crate) agent: AgentNo,
    /// How many more deliveries it takes.
    pub(crate) credit: u32,
    pub(crate) lease_ms: u64,
    /// Leaves after the first hand-over.
    pub(crate) once: bool,
    /// Its place in line.
    pub(crate) turn: u64,
}

impl Working {
    pub(crate) fn consumer(&self, id: ConsumerId) -> Option<&Consumer> {
        self.consumers.get(&id)
    }

    pub(crate) fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    pub(crate) fn set_consumer(&mut self, id: ConsumerId, new: Option<Consumer>) {
        self.journal.push(Undo::Consumer(id, self.consumers.get(&id).copied()));
        self.put_consumer(id, new);
    }

    pub(super) fn put_consumer(&mut self, id: ConsumerId, new: Option<Consumer>) {
        let old = match new {
            Some(consumer) => self.consumers.insert(id, consumer),
            None => self.consumers.remove(&id),
        };
        // Most changes are of the credit alone, and leave the line as it is.
        if let (Some(old), Some(new)) = (old, new)
            && (old.agent, old.turn, old.credit > 0) == (new.agent, new.turn, new.credit > 0)
        {
            return;
        }
        if let Some(old) = old {
            self.inbox_mut(old.agent).consumers -= 1;
            self.each_line(old.agent, |line| line.remove(&(old.turn, id)));
        }
        if let Some(new) = new {
            self.inbox_mut(new.agent).consumers += 1;
            if new.credit > 0 {
                self.each_line(new.agent, |line| line.insert((new.turn, id)));
            }
        }
    }

    /// The line of an agent's inbox, and those of the pools that it may take from.
    fn each_line(&mut self, agent: AgentNo, mut change: impl FnMut(&mut Line) -> bool) {
        let inbox = &mut self.inboxes[agent.0 as usize - 1];
        change(&mut inbox.line);
        for pool in &inbox.pools {
            change(&mut self.pools.inbox_mut(*pool).line);
        }
    }

    /// Takes credit from a consumer for deliveries that go to it; it goes to the end of the line, or leaves.
    pub(crate) fn spend_credit(&mut self, id: ConsumerId, count: u32) {
        let Some(consumer) = self.consumer(id).copied() else { return };
        // Alone in the line there is nobody to go behind.
        let inbox = self.inbox(consumer.agent);
        let alone = inbox.line.len() == 1 && inbox.pools.is_empty();
        let turn = if alone { consumer.turn } else { self.next_turn() };
        let credit = consumer.credit.saturating_sub(count);
        self.set_consumer(id, (!consumer.once).then_some(Consumer { credit, turn, ..consumer }));
    }

    /// Sends away everybody who waits for this recipient: it was started again.
    pub(crate) fn dismiss_consumers(&mut self, agent: AgentNo) -> Vec<ConsumerId> {
        let mut gone: Vec<_> =
            self.consumers.iter().filter(|(_, one)| one.agent == agent).map(|(id, _)| *id).collect();
        gone.sort_unstable();
        for id in &gone {
            self.set_consumer(*id, None);
        }
        gone.extend(self.dismiss_claimers(agent));
        gone
    }
}
