//! Restore from a backup: begins a new generation with unused numbers and ends all leases and holds.

use quorate_core::{
    AgentNo, Commit, DeliveryId, DeliveryNo, Generation, GenerationStart, Now, Principal, RecordKind, Seq,
};

use crate::reference::decided_at;
use crate::reference::space::{LogRecord, Space};
use crate::reference::transaction::Transaction;

impl Space {
    /// Returns the current generation.
    pub(super) fn generation(&self) -> Generation {
        self.generations.last().map_or(Generation(0), |start| start.generation)
    }

    /// Returns the generation of a record.
    pub(super) fn generation_of(&self, seq: Seq) -> Generation {
        let mut before = self.generations.iter().filter(|start| start.first_seq <= seq);
        before.next_back().map_or(Generation(0), |start| start.generation)
    }

    /// Returns the lower bound of tokens, fencing tokens and epochs in the current generation.
    pub(super) fn number_floor(&self) -> u64 {
        self.generation().0 << 24
    }

    /// Resolves a delivery id, or returns `None` if its generation does not match.
    pub(super) fn resolve_delivery(&self, id: DeliveryId) -> Option<DeliveryNo> {
        let mut before = self.generations.iter().filter(|start| start.first_delivery <= id.number);
        let generation = before.next_back().map_or(Generation(0), |start| start.generation);
        (id.generation == generation).then_some(id.number)
    }

    /// Begins a new generation. Leases and locks of the backup may have ended in the lost history, so all are returned.
    pub(super) fn restore(&mut self, now: Now) {
        let now = decided_at(now, self.newest_at());
        self.activate_due_deliveries(now.wall);
        let start = GenerationStart {
            generation: Generation(self.generation().0 + 1),
            first_seq: Seq(self.newest_seq().0 + 1),
            first_delivery: DeliveryNo(self.deliveries.len() as u64 + 1),
        };
        self.generations.push(start);
        let empty = Commit::new(Principal::System, Vec::new());
        let mut transaction = Transaction::new(self, &empty, now);
        for number in (1..=transaction.space.agents.len() as u64).map(AgentNo) {
            for delivery in transaction.space.held_by(number) {
                transaction.return_delivery(delivery, "a backup was restored during the last attempt");
            }
            transaction.release_everything_of(number);
        }
        let parts = std::mem::take(&mut transaction.parts);
        let (at, principal) = (now.wall, "system".into());
        self.records.push(LogRecord { at, kind: RecordKind::Restore, principal, parts });
    }
}
