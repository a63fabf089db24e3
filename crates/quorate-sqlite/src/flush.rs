//! Flushes a memtable into the tables: writes the current version of every row that the newest records changed.

use quorate_core::{
    AgentNo, DeliveryNo, DeliveryStateCounts, EndState, ItemKey, OpenDelivery, OpenDeliveryState, PriorSend,
    Seq, SpaceNo, Version, WorkingState, codec, row_id,
};
use rusqlite::{Connection, OptionalExtension as _, Statement};

use crate::ended_index;
use crate::lookup::encode_priority;
use crate::memtable::{ChangedAgent, ChangedDelivery, ChangedEntry, ChangedItem, LatestState, Memtable};

/// Default number of rows in a memtable that triggers a flush. Large enough that most deliveries end before their row is
/// written; small enough that a flush causes no noticeable latency.
pub(crate) const FLUSH_ROWS: usize = 4096;

/// Prepared statements of a flush.
pub(crate) struct Flusher<'c> {
    set_tables_at: Statement<'c>,
    delivery: Statement<'c>,
    delete_delivery: Statement<'c>,
    ends: Statement<'c>,
    select_ends: Statement<'c>,
    dead: Statement<'c>,
    delete_dead: Statement<'c>,
    delete_extended: Statement<'c>,
    agent: Statement<'c>,
    update_agent: Statement<'c>,
    entry: Statement<'c>,
    version: Statement<'c>,
    client_id: Statement<'c>,
    erased: Statement<'c>,
    item: Statement<'c>,
    delete_item: Statement<'c>,
    timeline: Statement<'c>,
    /// First delivery number that has no row yet.
    first_new: u64,
    space: SpaceNo,
    /// Deliberate bug: an acked delivery keeps its row, so that it is redelivered after a restart.
    #[cfg(feature = "sabotage")]
    pub(crate) keep_acked: bool,
}

impl<'c> Flusher<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
        Ok(Self {
            set_tables_at: prepare(
                "UPDATE spaces SET tables_at = ?2, next_delivery = ?3, last_token = ?4, acked = ?5, dead = ?6,
                        expired = ?7, purged = ?8 WHERE number = ?1",
            )?,
            delivery: prepare(
                "INSERT OR REPLACE INTO deliveries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            )?,
            delete_delivery: prepare("DELETE FROM deliveries WHERE id = ?1")?,
            ends: prepare("INSERT OR REPLACE INTO ends VALUES (?1, ?2)")?,
            select_ends: prepare("SELECT seqs FROM ends WHERE id = ?1")?,
            dead: prepare("INSERT OR REPLACE INTO dead VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?,
            delete_dead: prepare("DELETE FROM dead WHERE id = ?1")?,
            delete_extended: prepare("DELETE FROM extended WHERE id BETWEEN ?1 AND ?2")?,
            agent: prepare("INSERT OR REPLACE INTO agents VALUES (?1, ?2, ?3, ?4)")?,
            update_agent: prepare("UPDATE agents SET removed = ?2, presence = ?3 WHERE id = ?1")?,
            entry: prepare("INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?,
            version: prepare("INSERT INTO versions VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?,
            client_id: prepare("INSERT OR REPLACE INTO client_ids VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?,
            erased: prepare("INSERT INTO erased VALUES (?1, ?2, ?3)")?,
            // An existing row keeps `created`: only the state changes, so the index by creation is not touched.
            item: prepare(
                "INSERT INTO items VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (space, kind, id) DO UPDATE SET state = excluded.state",
            )?,
            delete_item: prepare("DELETE FROM items WHERE space = ?1 AND kind = ?2 AND id = ?3")?,
            timeline: prepare("INSERT INTO timeline VALUES (?1, ?2, ?3, ?4)")?,
            first_new: 0,
            space: SpaceNo::default(),
            #[cfg(feature = "sabotage")]
            keep_acked: false,
        })
    }

    /// Writes the rows of a memtable. `working` is the state after its last record; `first_new` is the first delivery
    /// number that has no row yet.
    pub(crate) fn flush(
        &mut self,
        space: SpaceNo,
        working: &WorkingState,
        memtable: &Memtable,
        first_new: u64,
    ) -> rusqlite::Result<()> {
        self.space = space;
        self.first_new = first_new;
        self.deliveries(memtable)?;
        for (number, agent) in &memtable.agents {
            self.agent(*number, agent)?;
        }
        for (key, entry) in &memtable.entries {
            self.entry(key.as_str(), entry)?;
        }
        for ((key, Version(version)), head) in &memtable.versions {
            let row = (space.0, key.as_str(), version, head.generation.0, head.seq.0, head.deleted);
            self.version.execute(row)?;
        }
        for (id, sent) in &memtable.client_ids {
            self.client_id(id.as_str(), sent)?;
        }
        for (Seq(seq), part) in memtable.erased.keys() {
            self.erased.execute((space.0, seq, part))?;
        }
        for (ItemKey { kind, id }, ChangedItem { item, created, recreated }) in &memtable.items {
            if *recreated || item.is_none() {
                self.delete_item.execute((space.0, kind.number(), &**id))?;
            }
            if let Some(item) = item {
                let state = codec::write_item(item);
                self.item.execute((space.0, kind.number(), &**id, state, created.number()))?;
            }
        }
        for (session, kind, Seq(seq)) in &memtable.timeline {
            self.timeline.execute((space.0, &**session, kind.number(), seq))?;
        }
        self.set_tables_at(working)
    }

    /// Records up to which log record the tables are now complete.
    fn set_tables_at(&mut self, working: &WorkingState) -> rusqlite::Result<()> {
        let counters = working.stored_counters();
        let DeliveryStateCounts { acked, dead, expired, purged, .. } = counters.counts;
        let number = self.space.0;
        let seq = working.head.seq.0;
        self.set_tables_at.execute((
            number,
            seq,
            counters.next_delivery,
            counters.last_token,
            acked,
            dead,
            expired,
            purged,
        ))?;
        Ok(())
    }

    fn row(&self, number: u64) -> i64 {
        row_id(self.space, number)
    }

    fn deliveries(&mut self, memtable: &Memtable) -> rusqlite::Result<()> {
        let mut sorted: Vec<_> =
            memtable.deliveries.iter().map(|(number, changed)| (*number, changed)).collect();
        sorted.sort_unstable_by_key(|(number, _)| *number);
        let mut ends: Vec<(DeliveryNo, Seq)> = Vec::with_capacity(sorted.len());
        for (number, ChangedDelivery { latest, redriven, .. }) in sorted {
            match latest {
                LatestState::Open { open, lease_ms } => {
                    self.open(number, open, *lease_ms)?;
                    if *redriven {
                        self.delete_dead.execute([self.row(number.0)])?;
                        ends.push((number, Seq(0)));
                    }
                }
                LatestState::Ended { open, state, seq, .. } => {
                    #[cfg(feature = "sabotage")]
                    if self.keep_acked && *state == EndState::Acked {
                        self.open(number, open, 1000)?;
                        continue;
                    }
                    if number.0 < self.first_new {
                        self.delete_delivery.execute([self.row(number.0)])?;
                    }
                    if *state == EndState::Dead {
                        self.dead(number, open, *seq)?;
                    } else if *redriven {
                        self.delete_dead.execute([self.row(number.0)])?;
                    }
                    ends.push((number, *seq));
                }
            }
        }
        let chunk_of = |(number, _): &(DeliveryNo, Seq)| ended_index::chunk_of(*number);
        for chunk in ends.chunk_by(|previous, next| chunk_of(previous) == chunk_of(next)) {
            self.ends(chunk_of(&chunk[0]), chunk)?;
        }
        // The rows of the deliveries contain the extended lease durations now.
        self.delete_extended.execute((self.row(0), self.row((1 << 47) - 1)))?;
        Ok(())
    }

    fn open(&mut self, number: DeliveryNo, open: &OpenDelivery, lease_ms: u64) -> rusqlite::Result<()> {
        let (state, value) = match open.state {
            OpenDeliveryState::Ready { since } | OpenDeliveryState::Held { since } => (0, since.0),
            OpenDeliveryState::Scheduled { due } => (1, due.0),
            OpenDeliveryState::Leased { token } => (2, token.0),
        };
        self.delivery.execute((
            self.row(number.0),
            open.to.number(),
            open.seq.0,
            open.n(),
            encode_priority(open.priority),
            open.attempt,
            open.attempts_max,
            state,
            value,
            lease_ms,
            expires(open),
            open.scope().map(|scope| scope.0),
            open.if_unavailable.number(),
        ))?;
        Ok(())
    }

    fn dead(&mut self, number: DeliveryNo, open: &OpenDelivery, seq: Seq) -> rusqlite::Result<()> {
        self.dead.execute((
            self.row(number.0),
            open.to.without_holder().number(),
            open.seq.0,
            open.n(),
            encode_priority(open.priority),
            open.attempt,
            open.attempts_max,
            expires(open),
            seq.0,
            open.scope().map(|scope| scope.0),
        ))?;
        Ok(())
    }

    fn ends(&mut self, chunk: u64, numbers: &[(DeliveryNo, Seq)]) -> rusqlite::Result<()> {
        let row = self.row(chunk);
        let has_row = chunk <= ended_index::chunk_of(DeliveryNo(self.first_new));
        let stored: Option<Vec<u8>> = match has_row {
            true => self.select_ends.query_row([row], |row| row.get(0)).optional()?,
            false => None,
        };
        let mut seqs = stored.unwrap_or_default();
        for (number, seq) in numbers {
            ended_index::set(&mut seqs, *number, *seq);
        }
        self.ends.execute((row, seqs))?;
        Ok(())
    }

    fn agent(&mut self, AgentNo(number): AgentNo, agent: &ChangedAgent) -> rusqlite::Result<()> {
        let row = self.row(number);
        let presence = codec::write_presence(&agent.presence);
        match agent.registered_in {
            Some(Seq(seq)) => self.agent.execute((row, seq, agent.removed, presence))?,
            None => self.update_agent.execute((row, agent.removed, presence))?,
        };
        Ok(())
    }

    fn entry(&mut self, key: &str, entry: &ChangedEntry) -> rusqlite::Result<()> {
        let ChangedEntry { head, entry_type, author, dependency_count } = entry;
        let (version, generation, seq) = (head.version.0, head.generation.0, head.seq.0);
        self.entry.execute((
            self.space.0,
            key,
            version,
            generation,
            seq,
            head.deleted,
            entry_type,
            author,
            dependency_count,
        ))?;
        Ok(())
    }

    fn client_id(&mut self, id: &str, sent: &PriorSend) -> rusqlite::Result<()> {
        let PriorSend { seq, n, part, principal, fingerprint, first, count } = sent;
        self.client_id.execute((self.space.0, id, seq.0, n, part, principal, fingerprint, first.0, count))?;
        Ok(())
    }
}

fn expires(open: &OpenDelivery) -> Option<u64> {
    (open.expires != OpenDelivery::NEVER).then_some(open.expires.0)
}
