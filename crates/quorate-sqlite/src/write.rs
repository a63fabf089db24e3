//! What is written with every commit: its record, its idempotency key, and where the space stands. Everything else can
//! be derived from the records and waits in the [`crate::tail`].

use std::io::{Seek as _, SeekFrom, Write as _};

use quorate_core::{
    Commit, Decided, DeliveryNo, Principal, Receipt, Record, Seq, SpaceNo, Token, Working, codec, row_id,
    Ask, Commit, Counts, Decided, DeliveryNo, Effect, EndState, EndedOpen, Generation, Item, ItemKey, Keep,
    Key, Message, NewDelivery, Next, Open, OpenState, Principal, Receipt, Record, Seq, SpaceNo, Token,
    Version, Working, codec, row_id,
};
use rusqlite::{Connection, Statement};

use crate::lookup::{KeyTurn, Lookups, day_of};

/// Prepared statements of the writer.
pub(crate) struct Writes<'c> {
    connection: &'c Connection,
    log: Statement<'c>,
    head: Statement<'c>,
    new_delivery: Statement<'c>,
    delivery: Statement<'c>,
    delivery_gone: Statement<'c>,
    ended: Statement<'c>,
    ended_gone: Statement<'c>,
    dead: Statement<'c>,
    dead_gone: Statement<'c>,
    agent: Statement<'c>,
    agent_removed: Statement<'c>,
    agent_status: Statement<'c>,
    entry: Statement<'c>,
    version: Statement<'c>,
    client_id: Statement<'c>,
    era: Statement<'c>,
    extended: Statement<'c>,
    keys: [Statement<'c>; 2],
}

impl<'c> Writes<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
        Ok(Self {
            connection,
            log: prepare("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?,
            head: prepare(
                "UPDATE spaces SET seq = ?2, hash = ?3, at = ?4, generation = ?5 WHERE number = ?1",
            )?,
            new_delivery: prepare("INSERT INTO deliveries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")?,
            delivery: prepare(
                "INSERT OR REPLACE INTO deliveries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?,
            delivery_gone: prepare("DELETE FROM deliveries WHERE id = ?1")?,
            ended: prepare("INSERT INTO ended VALUES (?1, ?2, ?3, ?4)")?,
            ended_gone: prepare("DELETE FROM ended WHERE id = ?1")?,
            dead: prepare("INSERT INTO dead VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?,
            dead_gone: prepare("DELETE FROM dead WHERE id = ?1")?,
            agent: prepare("INSERT OR REPLACE INTO agents VALUES (?1, ?2, 0, ?3)")?,
            agent_removed: prepare("UPDATE agents SET removed = 1 WHERE id = ?1")?,
            agent_status: prepare("UPDATE agents SET presence = ?2 WHERE id = ?1")?,
            entry: prepare("INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?,
            version: prepare("INSERT INTO versions VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?,
            client_id: prepare("INSERT INTO client_ids VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?,
            era: prepare("INSERT INTO eras VALUES (?1, ?2, ?3, ?4)")?,
            extended: prepare("INSERT OR REPLACE INTO extended VALUES (?1, ?2, ?3)")?,
            keys: [
                prepare("INSERT INTO keys_0 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?,
                prepare("INSERT INTO keys_1 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?,
            ],
        })
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Writes what a commit leaves behind at once.
    pub(crate) fn commit(
        &mut self,
        space: SpaceNo,
        working: &Working,
        commit: &Commit,
        decided: &Decided,
        lookups: &Lookups<'_>,
    ) -> rusqlite::Result<()> {
        for number in &decided.prolonged {
            self.extended(space, working, *number)?;
        }
        let Some(record) = &decided.record else { return Ok(()) };
        self.record(space, record)?;
        let mut at = At { space, seq: record.seq, record, working, n: 0, ended: decided.ended.iter() };
        let mut fingerprints = commit.ops.iter().filter_map(|op| match op {
            quorate_core::Op::Send { message, fingerprint }
            | quorate_core::Op::Request(Ask { message, fingerprint, .. })
                if message.client_id.is_some() =>
            {
                Some((message.client_id.as_ref(), fingerprint))
            }
            _ => None,
        });
        for effect in &decided.effects {
            self.effect(&mut at, effect, &mut fingerprints)?;
        }
        if let Some((key, fingerprint)) = &commit.key {
            self.key(space, &commit.principal, key.as_str(), fingerprint, &decided.receipt, lookups)?;
        }
        Ok(())
    }

    /// Writes the record itself.
    pub(crate) fn record(&mut self, space: SpaceNo, record: &Record) -> rusqlite::Result<()> {
        self.log.execute((
            row_id(space, record.seq.0),
            record.at.0,
            record.format,
            record.kind,
            &record.principal,
            &record.hash,
            &record.body,
            &record.salts,
            &record.payload[..],
        ))?;
        Ok(())
    }

    /// Writes where a space stands after the batch.
    pub(crate) fn head(&mut self, space: SpaceNo, working: &Working) -> rusqlite::Result<()> {
        let head = working.head;
        self.head.execute((space.0, head.seq.0, head.hash, head.at.0, head.generation.0))?;
        Ok(())
    }

    /// Writes the era that begins with the newest record.
    pub(crate) fn new_era(&mut self, space: SpaceNo, working: &Working) -> rusqlite::Result<()> {
        if let Some(era) = working.eras().0.last() {
            self.era.execute((space.0, era.first_seq.0, era.generation.0, era.first_delivery.0))?;
        }
        Ok(())
    }

    /// A lease that is longer now than the log says: extending leaves no record, but a restart must know.
    fn extended(&mut self, space: SpaceNo, working: &Working, number: DeliveryNo) -> rusqlite::Result<()> {
        let token = working.open(number).and_then(quorate_core::Open::token).unwrap_or(Token(0));
        let lease_ms = working.lease_ms(number).unwrap_or(0);
        self.extended.execute((row_id(space, number.0), token.0, lease_ms))?;
    fn effect<'a>(
        &mut self,
        at: &mut At<'a>,
        effect: &Effect,
        fingerprints: &mut impl Iterator<Item = (Option<&'a quorate_core::ClientId>, &'a [u8; 32])>,
    ) -> rusqlite::Result<()> {
        match effect {
            Effect::SpaceCreated { .. } | Effect::Restored { .. } => self.new_era(at.space, at.working)?,
            Effect::AgentRegistered { number, .. } => {
                let presence = at.working.agents().get(*number).map(|agent| agent.presence.clone());
                let presence = codec::write_presence(&presence.unwrap_or_default());
                self.agent.execute((at.row(number.0), at.seq.0, presence))?;
            }
            Effect::AgentRemoved { number } => {
                self.agent_removed.execute([at.row(number.0)])?;
            }
            Effect::Sent { message, part, first, deliveries } => {
                self.sent(at, message, *first, deliveries)?;
                if let Some(id) = &message.client_id {
                    // A message that was sent before made no effect, so its fingerprint is passed over.
                    let found = fingerprints.find(|(sent, _)| *sent == Some(id));
                    let fingerprint = found.map_or([0; 32], |(_, fingerprint)| *fingerprint);
                    self.client_id(at, id.as_str(), *part, &fingerprint, (*first, deliveries.len()))?;
                }
                at.n += 1;
            }
            Effect::Leased { deliveries, .. } => {
                for (number, _) in deliveries {
                    self.save(at.space, at.working, *number)?;
                }
            }
            Effect::Acked { delivery, .. } => self.end(at, *delivery, EndState::Acked)?,
            Effect::Returned {
                delivery,
                next: Next::Ready | Next::Scheduled(_) | Next::Redirected(_),
                ..
            } => self.save(at.space, at.working, *delivery)?,
            Effect::Returned { delivery, next: Next::Dead, .. } => self.end(at, *delivery, EndState::Dead)?,
            Effect::Returned { delivery, next: Next::Expired, .. } | Effect::Expired { delivery } => {
                self.end(at, *delivery, EndState::Expired)?;
            }
            Effect::Purged { delivery } => self.end(at, *delivery, EndState::Purged)?,
            Effect::Redriven { delivery, .. } => {
                self.ended_gone.execute([at.row(delivery.0)])?;
                self.dead_gone.execute([at.row(delivery.0)])?;
                self.save(at.space, at.working, *delivery)?;
            }
            Effect::Written { key, version, entry_type, .. } => {
                self.entry(at, key, *version, Some(entry_type))?
            }
            Effect::Deleted { key, version } => self.entry(at, key, *version, None)?,
            Effect::Erased { seq, part } => self.erase(at, *seq, *part)?,
            Effect::Changed { item, .. } => self.item(at.space, item)?,
            Effect::AgentStatus { number, presence } => {
                self.agent_status.execute((at.row(number.0), codec::write_presence(presence)))?;
            }
        }
        Ok(())
    }

    fn sent(
        &mut self,
        at: &At<'_>,
        message: &Message,
        first: DeliveryNo,
        deliveries: &[NewDelivery],
    ) -> rusqlite::Result<()> {
        for (index, delivery) in deliveries.iter().enumerate() {
            let (state, value, attempt, lease_ms) = match (delivery.lease, message.deliver_at) {
                (Some((token, lease_ms)), _) => (2, token.0, 1, lease_ms),
                (None, Some(due)) if due > at.record.at => (1, due.0, 0, 0),
                (None, _) => (0, at.record.at.0, 0, 0),
            };
            self.new_delivery.execute((
                at.row(first.0 + index as u64),
                delivery.agent.0,
                at.seq.0,
                at.n,
                stored_priority(message.priority),
                attempt,
                message.attempts_max,
                state,
                value,
                lease_ms,
                message.expires_at.map(|at| at.0),
                message.if_unavailable.number(),
            ))?;
        }
        Ok(())
    }

    /// Writes an open delivery as it is now. One that ended later in the same commit has no row to write.
    fn save(&mut self, space: SpaceNo, working: &Working, number: DeliveryNo) -> rusqlite::Result<()> {
        let Some(open) = working.open(number) else { return Ok(()) };
        let (state, value) = match open.state {
            OpenState::Ready { since } => (0, since.0),
            OpenState::Scheduled { due } => (1, due.0),
            OpenState::Leased { token } => (2, token.0),
        };
        self.delivery.execute((
            row_id(space, number.0),
            open.agent().0,
            open.seq.0,
            open.n(),
            stored_priority(open.priority),
            open.attempt,
            open.attempts_max,
            state,
            value,
            working.lease_ms(number).unwrap_or(0),
            expires(open),
            open.if_unavailable.number(),
        ))?;
        Ok(())
    }

    fn end(&mut self, at: &mut At<'_>, number: DeliveryNo, state: EndState) -> rusqlite::Result<()> {
        let before = at.ended.next().filter(|ended| ended.delivery == number).map(|ended| &ended.open);
        let token = before.and_then(Open::token).unwrap_or(Token(0));
        self.delivery_gone.execute([at.row(number.0)])?;
        self.ended.execute((at.row(number.0), state.number(), token.0, at.seq.0))?;
        if let (EndState::Dead, Some(open)) = (state, before) {
            self.dead.execute((
                at.row(number.0),
                open.agent().0,
                open.seq.0,
                open.n(),
                stored_priority(open.priority),
                open.attempt,
                open.attempts_max,
                expires(open),
            ))?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        at: &At<'_>,
        key: &Key,
        version: Version,
        live: Option<&String>,
    ) -> rusqlite::Result<()> {
        let Generation(generation) = at.working.head.generation;
        let deleted = live.is_none();
        let (key, version) = (key.as_str(), version.0);
        self.version.execute((at.space.0, key, version, generation, at.seq.0, deleted))?;
        let entry_type = live.map_or("", String::as_str);
        let author = at.record.principal.as_str();
        self.entry.execute((at.space.0, key, version, generation, at.seq.0, deleted, entry_type, author))?;
        Ok(())
    }

    fn item(&mut self, space: SpaceNo, item: &Item) -> rusqlite::Result<()> {
        let ItemKey { kind, id } = item.key();
        if item.keep() == Keep::Gone {
            self.item_gone.execute((space.0, kind.number(), &*id))?;
        } else {
            self.item.execute((space.0, kind.number(), &*id, codec::write_item(item)))?;
        }
        Ok(())
    }

    fn client_id(
        &mut self,
        at: &At<'_>,
        id: &str,
        part: u32,
        fingerprint: &[u8; 32],
        (first, count): (DeliveryNo, usize),
    ) -> rusqlite::Result<()> {
        self.client_id.execute((
            at.space.0,
            id,
            at.seq.0,
            at.n,
            part,
            &at.record.principal,
            fingerprint,
            first.0,
            count,
        ))?;
        Ok(())
    }

    fn key(
        &mut self,
        space: SpaceNo,
        principal: &Principal,
        key: &str,
        fingerprint: &[u8; 32],
        receipt: &Receipt,
        lookups: &Lookups<'_>,
    ) -> rusqlite::Result<()> {
        let day = day_of(receipt.at);
        let KeyTurn { mut turn, day: since, .. } = lookups.key_turn.get();
        if day > since {
            turn = 1 - turn;
            self.connection.execute(&format!("DELETE FROM keys_{turn}"), [])?;
            self.connection.execute("UPDATE key_turn SET turn = ?1, day = ?2", (turn, day))?;
            lookups.key_turn.set(KeyTurn { turn, day, alone: false });
        }
        let results = codec::write_results(&receipt.results);
        let seq = receipt.seq.map(|seq| seq.0);
        let table = &mut self.keys[turn as usize];
        table.execute((space.0, principal.to_text(), key, fingerprint, seq, receipt.at.0, results))?;
        Ok(())
    }

    /// Blanks salt and bytes of a part where they lie. Written in place, so that no freed page keeps them; the
    /// write-ahead log is emptied by the next checkpoint.
    pub(crate) fn erase(&mut self, space: SpaceNo, record: &Record, part: u32) -> rusqlite::Result<()> {
        let unreadable = |source: codec::Unreadable| rusqlite::Error::ToSqlConversionFailure(source.into());
        let parts = codec::parts_of(&record.body).map_err(unreadable)?;
        let start: u64 = parts.iter().take(part as usize).map(|(length, _)| length).sum();
        let length = parts.get(part as usize).map_or(0, |(length, _)| *length);
        let Seq(seq) = record.seq;
        self.blank(row_id(space, seq), "salts", u64::from(part) * 16, 16)?;
        self.blank(row_id(space, seq), "payload", start, length)
    }

    fn blank(&self, row: i64, column: &str, start: u64, length: u64) -> rusqlite::Result<()> {
        let io = |source: std::io::Error| rusqlite::Error::ToSqlConversionFailure(source.into());
        let mut blob = self.connection.blob_open("main", "log", column, row, false)?;
        blob.seek(SeekFrom::Start(start)).map_err(io)?;
        blob.write_all(&vec![0; usize::try_from(length).unwrap_or(0)]).map_err(io)?;
        blob.close()
    }
}
