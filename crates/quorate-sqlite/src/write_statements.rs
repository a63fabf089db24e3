//! Statements that write the state of each commit immediately: the record, the idempotency key and the head of the
//! space. Everything else can be derived from the records and is collected in the memtable.

use std::collections::BTreeSet;
use std::io::{Seek as _, SeekFrom, Write as _};

use quorate_core::{
    Commit, CommitOutcome, DeliveryNo, LeaseToken, Principal, Receipt, Record, Seq, SpaceNo, WorkingState,
    codec, row_id,
};
use rusqlite::{Connection, Statement};

use crate::lookup::{KeyRotation, SqliteLookup, day_of};

/// Prepared statements of the writer thread.
pub(crate) struct WriteStatements<'c> {
    connection: &'c Connection,
    log: Statement<'c>,
    head: Statement<'c>,
    batch: Statement<'c>,
    generation: Statement<'c>,
    extended: Statement<'c>,
    keys: [Statement<'c>; 2],
    /// Spaces with rows of the current batch that no record contains: extended leases and keys of no-ops.
    changed: BTreeSet<SpaceNo>,
}

impl<'c> WriteStatements<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql);
        Ok(Self {
            connection,
            log: prepare("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?,
            head: prepare(
                "UPDATE spaces SET seq = ?2, hash = ?3, at = ?4, generation = ?5, batch = ?6 WHERE number = ?1",
            )?,
            batch: prepare("UPDATE spaces SET batch = ?2 WHERE number = ?1")?,
            generation: prepare("INSERT INTO eras VALUES (?1, ?2, ?3, ?4)")?,
            extended: prepare("INSERT OR REPLACE INTO extended VALUES (?1, ?2, ?3)")?,
            keys: [
                prepare("INSERT INTO keys_0 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?,
                prepare("INSERT INTO keys_1 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?,
            ],
            changed: BTreeSet::new(),
        })
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Writes the record, the extended leases and the idempotency key of a commit.
    pub(crate) fn write_commit(
        &mut self,
        space: SpaceNo,
        working: &WorkingState,
        commit: &Commit,
        decided: &CommitOutcome,
        lookups: &SqliteLookup<'_>,
    ) -> rusqlite::Result<()> {
        for number in &decided.extended_leases {
            self.extended(space, working, *number)?;
        }
        if let Some(record) = &decided.record {
            self.append_record(space, record)?;
        }
        if let Some((key, fingerprint)) = commit.key.as_ref().filter(|_| decided.consumes_key()) {
            self.key(space, &commit.principal, key.as_str(), fingerprint, &decided.receipt, lookups)?;
            self.changed.insert(space);
        }
        Ok(())
    }

    /// Appends a record to the log.
    pub(crate) fn append_record(&mut self, space: SpaceNo, record: &Record) -> rusqlite::Result<()> {
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

    /// Writes the head of a space after the batch with this number.
    pub(crate) fn write_head(
        &mut self,
        space: SpaceNo,
        working: &WorkingState,
        batch: u64,
    ) -> rusqlite::Result<()> {
        let head = working.head;
        self.head.execute((space.0, head.seq.0, head.hash, head.at.0, head.generation.0, batch))?;
        Ok(())
    }

    /// Writes the number of a batch that changed a space without a record.
    pub(crate) fn write_batch(&mut self, space: SpaceNo, batch: u64) -> rusqlite::Result<()> {
        self.batch.execute((space.0, batch))?;
        Ok(())
    }

    /// Takes the spaces in which the current batch changed rows that no record contains.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<SpaceNo> {
        std::mem::take(&mut self.changed)
    }

    /// Writes the generation that begins with the newest record.
    pub(crate) fn write_generation(
        &mut self,
        space: SpaceNo,
        working: &WorkingState,
    ) -> rusqlite::Result<()> {
        if let Some(start) = working.generations().0.last() {
            self.generation.execute((
                space.0,
                start.first_seq.0,
                start.generation.0,
                start.first_delivery.0,
            ))?;
        }
        Ok(())
    }

    /// Writes the new duration of an extended lease: an extension creates no record, but must survive a restart.
    fn extended(
        &mut self,
        space: SpaceNo,
        working: &WorkingState,
        number: DeliveryNo,
    ) -> rusqlite::Result<()> {
        let token = working.open(number).and_then(quorate_core::OpenDelivery::token).unwrap_or(LeaseToken(0));
        let lease_ms = working.lease_ms(number).unwrap_or(0);
        self.extended.execute((row_id(space, number.0), token.0, lease_ms))?;
        self.changed.insert(space);
        Ok(())
    }

    fn key(
        &mut self,
        space: SpaceNo,
        principal: &Principal,
        key: &str,
        fingerprint: &[u8; 32],
        receipt: &Receipt,
        lookups: &SqliteLookup<'_>,
    ) -> rusqlite::Result<()> {
        let day = day_of(receipt.at);
        let KeyRotation { mut current, day: since, .. } = lookups.key_rotation.get();
        if day > since {
            current = 1 - current;
            self.connection.execute(&format!("DELETE FROM keys_{current}"), [])?;
            self.connection.execute("UPDATE key_turn SET turn = ?1, day = ?2", (current, day))?;
            lookups.key_rotation.set(KeyRotation { current, day, other_is_empty: false });
        }
        let results = codec::write_results(&receipt.results);
        // 0 means no record: the commit was a no-op.
        let seq = receipt.seq.map_or(0, |seq| seq.0);
        let table = &mut self.keys[current as usize];
        table.execute((space.0, principal.to_text(), key, fingerprint, seq, receipt.at.0, results))?;
        Ok(())
    }

    /// Overwrites the salt and the bytes of a payload part with zeros, in place, so that no freed page keeps them. Copies
    /// in the write-ahead log are gone once it is overwritten after the next checkpoint.
    pub(crate) fn erase_part(&mut self, space: SpaceNo, record: &Record, part: u32) -> rusqlite::Result<()> {
        let unreadable = |source: codec::DecodeError| rusqlite::Error::ToSqlConversionFailure(source.into());
        let parts = codec::part_table(&record.body).map_err(unreadable)?;
        let start: u64 = parts.iter().take(part as usize).map(|(length, _)| length).sum();
        let length = parts.get(part as usize).map_or(0, |(length, _)| *length);
        let Seq(seq) = record.seq;
        self.overwrite_with_zeros(row_id(space, seq), "salts", u64::from(part) * 16, 16)?;
        self.overwrite_with_zeros(row_id(space, seq), "payload", start, length)
    }

    fn overwrite_with_zeros(&self, row: i64, column: &str, start: u64, length: u64) -> rusqlite::Result<()> {
        let io = |source: std::io::Error| rusqlite::Error::ToSqlConversionFailure(source.into());
        let mut blob = self.connection.blob_open("main", "log", column, row, false)?;
        blob.seek(SeekFrom::Start(start)).map_err(io)?;
        blob.write_all(&vec![0; usize::try_from(length).unwrap_or(0)]).map_err(io)?;
        blob.close()
    }
}
