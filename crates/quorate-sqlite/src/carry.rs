//! Carrying the tail into the tables: every row that the newest records changed, as it is now.

use quorate_core::{
    AgentNo, Counts, DeliveryNo, EndState, ItemKey, Open, OpenState, SentBefore, Seq, SpaceNo, Version,
    Working, codec, row_id,
};
use rusqlite::{Connection, OptionalExtension as _, Statement};

use crate::ends;
use crate::lookup::stored_priority;
use crate::tail::{ChangedAgent, ChangedDelivery, ChangedEntry, ChangedItem, Fate, Tail};

/// Rows that the tail may hold before it is carried over: enough that most deliveries end before their row is written,
/// few enough that nobody notices the time it takes.
pub(crate) const TAIL_ROWS: usize = 4096;

/// Prepared statements.
pub(crate) struct Carry<'c> {
    reach: Statement<'c>,
    delivery: Statement<'c>,
    delivery_gone: Statement<'c>,
    ends: Statement<'c>,
    ends_now: Statement<'c>,
    dead: Statement<'c>,
    dead_gone: Statement<'c>,
    extended_gone: Statement<'c>,
    agent: Statement<'c>,
    agent_changed: Statement<'c>,
    entry: Statement<'c>,
    version: Statement<'c>,
    client_id: Statement<'c>,
    erased: Statement<'c>,
    item: Statement<'c>,
    item_gone: Statement<'c>,
    line: Statement<'c>,
    /// The number from which on deliveries have no row yet.
    first_new: u64,
    space: SpaceNo,
    /// A deliberate bug: an acked delivery keeps its row, so that it comes back after a restart.
    #[cfg(feature = "sabotage")]
    pub(crate) keep_acked: bool,
}

impl<'c> Carry<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
        Ok(Self {
            reach: prepare(
                "UPDATE spaces SET tables_at = ?2, next_delivery = ?3, last_token = ?4, acked = ?5, dead = ?6,
                        expired = ?7, purged = ?8 WHERE number = ?1",
            )?,
            delivery: prepare(
                "INSERT OR REPLACE INTO deliveries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            )?,
            delivery_gone: prepare("DELETE FROM deliveries WHERE id = ?1")?,
            ends: prepare("INSERT OR REPLACE INTO ends VALUES (?1, ?2)")?,
            ends_now: prepare("SELECT seqs FROM ends WHERE id = ?1")?,
            dead: prepare("INSERT OR REPLACE INTO dead VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?,
            dead_gone: prepare("DELETE FROM dead WHERE id = ?1")?,
            extended_gone: prepare("DELETE FROM extended WHERE id BETWEEN ?1 AND ?2")?,
            agent: prepare("INSERT OR REPLACE INTO agents VALUES (?1, ?2, ?3, ?4)")?,
            agent_changed: prepare("UPDATE agents SET removed = ?2, presence = ?3 WHERE id = ?1")?,
            entry: prepare("INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?,
            version: prepare("INSERT INTO versions VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?,
            client_id: prepare("INSERT OR REPLACE INTO client_ids VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?,
            erased: prepare("INSERT INTO erased VALUES (?1, ?2, ?3)")?,
            // What was there keeps its place: only the state is new, and the index by creation is left alone.
            item: prepare(
                "INSERT INTO items VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (space, kind, id) DO UPDATE SET state = excluded.state",
            )?,
            item_gone: prepare("DELETE FROM items WHERE space = ?1 AND kind = ?2 AND id = ?3")?,
            line: prepare("INSERT INTO timeline VALUES (?1, ?2, ?3, ?4)")?,
            first_new: 0,
            space: SpaceNo::default(),
            #[cfg(feature = "sabotage")]
            keep_acked: false,
        })
    }

    /// Writes the rows of a tail. `working` is the state after its last record; `first_new` is the number of the next
    /// delivery as the tables know it.
    pub(crate) fn over(
        &mut self,
        space: SpaceNo,
        working: &Working,
        tail: &Tail,
        first_new: u64,
    ) -> rusqlite::Result<()> {
        self.space = space;
        self.first_new = first_new;
        self.deliveries(tail)?;
        for (number, agent) in &tail.agents {
            self.agent(*number, agent)?;
        }
        for (key, entry) in &tail.entries {
            self.entry(key.as_str(), entry)?;
        }
        for ((key, Version(version)), head) in &tail.versions {
            let row = (space.0, key.as_str(), version, head.generation.0, head.seq.0, head.deleted);
            self.version.execute(row)?;
        }
        for (id, sent) in &tail.client_ids {
            self.client_id(id.as_str(), sent)?;
        }
        for (Seq(seq), part) in tail.erased.keys() {
            self.erased.execute((space.0, seq, part))?;
        }
        for (ItemKey { kind, id }, ChangedItem { item, created, anew }) in &tail.items {
            if *anew || item.is_none() {
                self.item_gone.execute((space.0, kind.number(), &**id))?;
            }
            if let Some(item) = item {
                let state = codec::write_item(item);
                self.item.execute((space.0, kind.number(), &**id, state, created.number()))?;
            }
        }
        for (session, kind, Seq(seq)) in &tail.lines {
            self.line.execute((space.0, &**session, kind.number(), seq))?;
        }
        self.reach(working)
    }

    /// Says up to which record the tables reach from now on.
    fn reach(&mut self, working: &Working) -> rusqlite::Result<()> {
        let kept = working.kept();
        let Counts { acked, dead, expired, purged, .. } = kept.counts;
        let number = self.space.0;
        let seq = working.head.seq.0;
        self.reach.execute((
            number,
            seq,
            kept.next_delivery,
            kept.last_token,
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

    fn deliveries(&mut self, tail: &Tail) -> rusqlite::Result<()> {
        let mut sorted: Vec<_> = tail.deliveries.iter().map(|(number, changed)| (*number, changed)).collect();
        sorted.sort_unstable_by_key(|(number, _)| *number);
        let mut ends: Vec<(DeliveryNo, Seq)> = Vec::with_capacity(sorted.len());
        for (number, ChangedDelivery { fate, redriven, .. }) in sorted {
            match fate {
                Fate::Open { open, lease_ms } => {
                    self.open(number, open, *lease_ms)?;
                    if *redriven {
                        self.dead_gone.execute([self.row(number.0)])?;
                        ends.push((number, Seq(0)));
                    }
                }
                Fate::Ended { open, state, seq, .. } => {
                    #[cfg(feature = "sabotage")]
                    if self.keep_acked && *state == EndState::Acked {
                        self.open(number, open, 1000)?;
                        continue;
                    }
                    if number.0 < self.first_new {
                        self.delivery_gone.execute([self.row(number.0)])?;
                    }
                    if *state == EndState::Dead {
                        self.dead(number, open, *seq)?;
                    } else if *redriven {
                        self.dead_gone.execute([self.row(number.0)])?;
                    }
                    ends.push((number, *seq));
                }
            }
        }
        let chunk_of = |(number, _): &(DeliveryNo, Seq)| ends::chunk_of(*number);
        for together in ends.chunk_by(|one, next| chunk_of(one) == chunk_of(next)) {
            self.ends(chunk_of(&together[0]), together)?;
        }
        // How long leases are is in the rows of the deliveries now.
        self.extended_gone.execute((self.row(0), self.row((1 << 47) - 1)))?;
        Ok(())
    }

    fn open(&mut self, number: DeliveryNo, open: &Open, lease_ms: u64) -> rusqlite::Result<()> {
        let (state, value) = match open.state {
            OpenState::Ready { since } | OpenState::Held { since } => (0, since.0),
            OpenState::Scheduled { due } => (1, due.0),
            OpenState::Leased { token } => (2, token.0),
        };
        self.delivery.execute((
            self.row(number.0),
            open.to.number(),
            open.seq.0,
            open.n(),
            stored_priority(open.priority),
            open.attempt,
            open.attempts_max,
            state,
            value,
            lease_ms,
            expires(open),
            open.session().map(|session| session.0),
            open.if_unavailable.number(),
        ))?;
        Ok(())
    }

    fn dead(&mut self, number: DeliveryNo, open: &Open, seq: Seq) -> rusqlite::Result<()> {
        self.dead.execute((
            self.row(number.0),
            open.to.back_home().number(),
            open.seq.0,
            open.n(),
            stored_priority(open.priority),
            open.attempt,
            open.attempts_max,
            expires(open),
            seq.0,
            open.session().map(|session| session.0),
        ))?;
        Ok(())
    }

    fn ends(&mut self, chunk: u64, numbers: &[(DeliveryNo, Seq)]) -> rusqlite::Result<()> {
        let row = self.row(chunk);
        let known = chunk <= ends::chunk_of(DeliveryNo(self.first_new));
        let stored: Option<Vec<u8>> = match known {
            true => self.ends_now.query_row([row], |row| row.get(0)).optional()?,
            false => None,
        };
        let mut seqs = stored.unwrap_or_default();
        for (number, seq) in numbers {
            ends::set(&mut seqs, *number, *seq);
        }
        self.ends.execute((row, seqs))?;
        Ok(())
    }

    fn agent(&mut self, AgentNo(number): AgentNo, agent: &ChangedAgent) -> rusqlite::Result<()> {
        let row = self.row(number);
        let presence = codec::write_presence(&agent.presence);
        match agent.described {
            Some(Seq(seq)) => self.agent.execute((row, seq, agent.removed, presence))?,
            None => self.agent_changed.execute((row, agent.removed, presence))?,
        };
        Ok(())
    }

    fn entry(&mut self, key: &str, entry: &ChangedEntry) -> rusqlite::Result<()> {
        let ChangedEntry { head, entry_type, author, depends } = entry;
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
            depends,
        ))?;
        Ok(())
    }

    fn client_id(&mut self, id: &str, sent: &SentBefore) -> rusqlite::Result<()> {
        let SentBefore { seq, n, part, principal, fingerprint, first, count } = sent;
        self.client_id.execute((self.space.0, id, seq.0, n, part, principal, fingerprint, first.0, count))?;
        Ok(())
    }
}

fn expires(open: &Open) -> Option<u64> {
    (open.expires != Open::NEVER).then_some(open.expires.0)
}
