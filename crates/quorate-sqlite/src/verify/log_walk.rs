//! Verifies the log of a space in one pass, from the first record to the last. Only the current state is kept in memory,
//! never the log.

use quorate_core::hash_chain::{RecordHeader, genesis_hash, record_hash};
use quorate_core::{Record, RecordKind, Seq, SpaceId, Timestamp, codec};
use rusqlite::Connection;

use super::chain_break::ChainBreak;
use super::payload_parts::PayloadParts;
use super::raw_rows::{self, LogRow, RowScan, SpaceRow};
use super::replay::ReplayedState;
use super::{Damage, Defect, LogCheckpoint, preconditions, tables};
use quorate_core::hex;

/// Computes the hash of a record at this position after a record with the hash `previous`.
pub(super) fn hash_at(previous: &[u8; 32], position: u64, record: &Record) -> [u8; 32] {
    let Record { at, format, kind, ref principal, ref body, .. } = *record;
    record_hash(previous, &RecordHeader { seq: Seq(position), at, format, kind, principal }, body)
}

pub(super) struct LogWalk<'a> {
    connection: &'a Connection,
    row: &'a SpaceRow,
    checkpoints: std::iter::Peekable<std::slice::Iter<'a, &'a LogCheckpoint>>,
    last_matched: Option<Seq>,
    previous: [u8; 32],
    pub(super) last_at: Timestamp,
    parts: PayloadParts,
    /// Number of valid records so far.
    pub(super) valid_records: u64,
    pub(super) checkpoints_matched: u64,
    pub(super) replayed: ReplayedState<'a>,
    /// First difference in a table, as of the record `tables_at`.
    pub(super) table_defect: Option<Defect>,
}

impl<'a> LogWalk<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        row: &'a SpaceRow,
        checkpoints: &'a [&'a LogCheckpoint],
    ) -> Result<Self, Defect> {
        let Ok(id) = <[u8; 16]>::try_from(row.id.as_slice()) else {
            let detail =
                format!("table `spaces`: the id of the space has {} bytes, expected 16", row.id.len());
            return Err(Defect { space: row.name.clone(), seq: Seq(1), damage: Damage::Tables, detail });
        };
        Ok(Self {
            connection,
            row,
            checkpoints: checkpoints.iter().peekable(),
            last_matched: None,
            previous: genesis_hash(SpaceId(id)),
            last_at: Timestamp(0),
            parts: PayloadParts::default(),
            valid_records: 0,
            checkpoints_matched: 0,
            replayed: ReplayedState::new(connection, row, SpaceId(id)),
            table_defect: None,
        })
    }

    /// Reads the log to the end. After the first defect it only determines whether the remaining records are intact.
    pub(super) fn run(&mut self) -> rusqlite::Result<Option<Defect>> {
        let start = self.previous;
        let mut defect = self.check_checkpoints(0, &start);
        let mut remainder = Remainder::default();
        let walked = raw_rows::for_each_log_row(self.connection, self.row.number, 0, |row| {
            if defect.is_some() {
                remainder.add(row);
                return Ok(RowScan::Continue);
            }
            let at = (row.position, row.record.as_ref().ok().map(|record| record.hash));
            defect = self.next(row)?;
            remainder.last = Some(at);
            // If the defect is in an earlier or a missing record, this row already comes after it.
            remainder.total = u64::from(defect.as_ref().is_some_and(|defect| defect.seq.0 < at.0));
            Ok(RowScan::Continue)
        });
        match defect {
            Some(defect) => {
                Ok(Some(Defect { detail: format!("{}; {}", defect.detail, remainder.describe()), ..defect }))
            }
            None => {
                walked?;
                Ok(self.check_end())
            }
        }
    }

    /// Checks the next row and applies its record.
    fn next(&mut self, row: LogRow) -> rusqlite::Result<Option<Defect>> {
        let position = self.valid_records + 1;
        let chain_break =
            ChainBreak { connection: self.connection, row: self.row, previous: self.previous, position };
        if row.position < position {
            return Ok(self.defect(
                row.position,
                Damage::Forked,
                "no hub writes a record at this position".into(),
            ));
        }
        if row.position > position {
            let (damage, detail) = chain_break.diagnose_gap(row.position)?;
            return Ok(self.defect(position, damage, detail));
        }
        if position > self.row.head_seq.0 {
            return Ok(self.defect(position, Damage::Forked, self.beyond_head()));
        }
        let record = match row.record {
            Ok(record) => record,
            Err(reason) => return Ok(self.defect(position, Damage::Edited, reason)),
        };
        let computed = hash_at(&self.previous, position, &record);
        if computed != record.hash {
            let (damage, detail) = chain_break.diagnose_record(&record, &computed)?;
            return Ok(self.defect(position, damage, detail));
        }
        if let Some(defect) = self.check_checkpoints(position, &record.hash) {
            return Ok(Some(defect));
        }
        self.check_content(&record)
    }

    /// Checks the content of a record whose hash is valid.
    fn check_content(&mut self, record: &Record) -> rusqlite::Result<Option<Defect>> {
        let position = record.seq.0;
        if let Err(reason) = self.parts.check(record) {
            return Ok(self.defect(position, Damage::Edited, reason));
        }
        let forged = |reason: String| format!("the chain is intact, but no hub wrote this record: {reason}");
        if record.at < self.last_at {
            let reason = format!(
                "its time {} is before {}, the time of the previous record",
                record.at.0, self.last_at.0
            );
            return Ok(self.defect(position, Damage::Forked, forged(reason)));
        }
        if RecordKind::from_number(record.kind).is_none() {
            return Ok(self.defect(
                position,
                Damage::Forked,
                forged(format!("unknown kind {}", record.kind)),
            ));
        }
        let body = match codec::read_body(record) {
            Ok(body) => body,
            Err(reason) => return Ok(self.defect(position, Damage::Forked, forged(reason.to_string()))),
        };
        let dead_letters = match preconditions::check(&self.replayed.space, record, &body) {
            Ok(dead_letters) => dead_letters,
            Err(reason) => return Ok(self.defect(position, Damage::Forked, forged(reason))),
        };
        if let Some((seq, part)) = self.parts.apply_erasures(&body.effects) {
            let reason =
                format!("part {part} of its payload was erased by record {position}, but it is not blank");
            return Ok(self.defect(seq.0, Damage::Edited, reason));
        }
        self.replayed.apply(record, &body.effects, dead_letters)?;
        if record.seq == self.row.tables_at {
            self.table_defect = tables::compare(self.connection, self.row, &self.replayed)?;
        }
        self.valid_records = position;
        self.previous = record.hash;
        self.last_at = record.at;
        Ok(None)
    }

    /// Compares the record with the checkpoints for its position.
    fn check_checkpoints(&mut self, position: u64, hash: &[u8; 32]) -> Option<Defect> {
        while let Some(checkpoint) = self.checkpoints.next_if(|checkpoint| checkpoint.seq.0 == position) {
            if checkpoint.hash != *hash {
                let since = self.last_matched.map_or(String::new(), |seq| {
                    format!(", after record {seq}, which matches its checkpoint")
                });
                let detail = format!(
                    "the chain is intact, but the checkpoint has hash {} and the log has {}: history was rewritten at or \
                     before this record{since}",
                    hex::encode(&checkpoint.hash),
                    hex::encode(hash)
                );
                return self.defect(position, Damage::Forked, detail);
            }
            self.checkpoints_matched += 1;
            self.last_matched = Some(checkpoint.seq);
        }
        None
    }

    /// Checks the end of the log, after all rows were valid.
    fn check_end(&mut self) -> Option<Defect> {
        let (last, head) = (self.valid_records, self.row.head_seq.0);
        if last < head.max(1) {
            let detail = format!(
                "the log ends at record {last}, but the head is record {head}; the existing records are intact"
            );
            return self.defect(last + 1, Damage::Truncated, detail);
        }
        if self.previous != self.row.head_hash {
            let detail = format!(
                "the chain is intact, but ends with hash {} and the head has {}: the last record or the head was rewritten",
                hex::encode(&self.previous),
                hex::encode(&self.row.head_hash)
            );
            return self.defect(head, Damage::Forked, detail);
        }
        if let Some(checkpoint) = self.checkpoints.next() {
            let detail = format!(
                "the log ends at record {last}, but there is a checkpoint of record {}; the existing records are intact",
                checkpoint.seq
            );
            return self.defect(last + 1, Damage::Truncated, detail);
        }
        let (seq, part) = self.parts.first_unexplained()?;
        let detail =
            format!("part {part} of its payload is blank, but no record erased it; the chain is intact");
        self.defect(seq.0, Damage::Edited, detail)
    }

    fn beyond_head(&self) -> String {
        format!(
            "the head is record {}, but the log continues: records were added, or the head was changed",
            self.row.head_seq
        )
    }

    fn defect(&self, seq: u64, damage: Damage, detail: String) -> Option<Defect> {
        Some(Defect { space: self.row.name.clone(), seq: Seq(seq), damage, detail })
    }
}

/// Records after the first defect: how many there are, and how many are not intact.
#[derive(Default)]
struct Remainder {
    last: Option<(u64, Option<[u8; 32]>)>,
    total: u64,
    damaged: u64,
}

impl Remainder {
    fn add(&mut self, row: LogRow) {
        self.total += 1;
        let hash = row.record.as_ref().ok().map(|record| record.hash);
        let follows = match (&row.record, self.last) {
            (Ok(record), Some((position, Some(previous)))) if position + 1 == row.position => {
                hash_at(&previous, row.position, record) == record.hash
                    && PayloadParts::default().check(record).is_ok()
            }
            _ => false,
        };
        self.damaged += u64::from(!follows);
        self.last = Some((row.position, hash));
    }

    fn describe(&self) -> String {
        match (self.total, self.damaged) {
            (0, _) => "there are no records after it".into(),
            (1, 0) => "the one record after it is intact".into(),
            (total, 0) => format!("the {total} records after it are intact"),
            (total, damaged) => format!(
                "of the {total} records after it, {damaged} are damaged or not chained to their predecessor"
            ),
        }
    }
}
