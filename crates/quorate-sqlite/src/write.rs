//! What is written with every commit: its record, its idempotency key, and where the space stands. Everything else can
//! be derived from the records and waits in the [`crate::tail`].

use std::io::{Seek as _, SeekFrom, Write as _};

use quorate_core::{
    Commit, Decided, DeliveryNo, Principal, Receipt, Record, Seq, SpaceNo, Token, Working, codec, row_id,
};
use rusqlite::{Connection, Statement};

use crate::lookup::{KeyTurn, Lookups, day_of};

/// Prepared statements of the writer.
pub(crate) struct Writes<'c> {
    connection: &'c Connection,
    log: Statement<'c>,
    head: Statement<'c>,
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
        if let Some(record) = &decided.record {
            self.record(space, record)?;
        }
        if let Some((key, fingerprint)) = commit.key.as_ref().filter(|_| decided.uses_key()) {
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
        // There is no record 0: what changed nothing has none.
        let seq = receipt.seq.map_or(0, |seq| seq.0);
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
