//! Verifies the log of a space in one pass, from the first record to the last. Only the current state is kept in memory,
//! never the log.

use quorate_core::chain::{Header, first_previous, record_hash};
use quorate_core::{Record, RecordKind, Seq, SpaceId, Timestamp, codec};
use rusqlite::Connection;

use super::folded::Folded;
use super::mismatch::Mismatch;
use super::parts::Parts;
use super::rows::{self, Go, LogRow, SpaceRow};
use super::{Bad, Checkpoint, Damage, fits, tables};
use quorate_core::hex;

/// Computes the hash of a record at this position after a record with the hash `previous`.
pub(super) fn hash_at(previous: &[u8; 32], place: u64, record: &Record) -> [u8; 32] {
    let Record { at, format, kind, ref principal, ref body, .. } = *record;
    record_hash(previous, &Header { seq: Seq(place), at, format, kind, principal }, body)
}

pub(super) struct Walk<'a> {
    connection: &'a Connection,
    row: &'a SpaceRow,
    checkpoints: std::iter::Peekable<std::slice::Iter<'a, &'a Checkpoint>>,
    last_matched: Option<Seq>,
    previous: [u8; 32],
    pub(super) last_at: Timestamp,
    parts: Parts,
    /// Number of valid records so far.
    pub(super) sound: u64,
    pub(super) checkpoints_met: u64,
    pub(super) folded: Folded<'a>,
    /// First difference in a table, as of the record `tables_at`.
    pub(super) bad_table: Option<Bad>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        row: &'a SpaceRow,
        checkpoints: &'a [&'a Checkpoint],
    ) -> Result<Self, Bad> {
        let Ok(id) = <[u8; 16]>::try_from(row.id.as_slice()) else {
            let detail =
                format!("table `spaces`: the id of the space has {} bytes, expected 16", row.id.len());
            return Err(Bad { space: row.name.clone(), seq: Seq(1), damage: Damage::Tables, detail });
        };
        Ok(Self {
            connection,
            row,
            checkpoints: checkpoints.iter().peekable(),
            last_matched: None,
            previous: first_previous(SpaceId(id)),
            last_at: Timestamp(0),
            parts: Parts::default(),
            sound: 0,
            checkpoints_met: 0,
            folded: Folded::new(connection, row, SpaceId(id)),
            bad_table: None,
        })
    }

    /// Reads the log to the end. After the first defect it only determines whether the remaining records are intact.
    pub(super) fn run(&mut self) -> rusqlite::Result<Option<Bad>> {
        let start = self.previous;
        let mut bad = self.check_checkpoints(0, &start);
        let mut remainder = Remainder::default();
        let walked = rows::log(self.connection, self.row.number, 0, |row| {
            if bad.is_some() {
                remainder.see(row);
                return Ok(Go::On);
            }
            let at = (row.place, row.record.as_ref().ok().map(|record| record.hash));
            bad = self.next(row)?;
            remainder.last = Some(at);
            // If the defect is in an earlier or a missing record, this row already comes after it.
            remainder.total = u64::from(bad.as_ref().is_some_and(|bad| bad.seq.0 < at.0));
            Ok(Go::On)
        });
        match bad {
            Some(bad) => Ok(Some(Bad { detail: format!("{}; {}", bad.detail, remainder.describe()), ..bad })),
            None => {
                walked?;
                Ok(self.check_end())
            }
        }
    }

    /// Checks the next row and applies its record.
    fn next(&mut self, row: LogRow) -> rusqlite::Result<Option<Bad>> {
        let place = self.sound + 1;
        let mismatch =
            Mismatch { connection: self.connection, row: self.row, previous: self.previous, place };
        if row.place < place {
            return Ok(self.bad(row.place, Damage::Forked, "no hub writes a record at this position".into()));
        }
        if row.place > place {
            let (damage, detail) = mismatch.gap(row.place)?;
            return Ok(self.bad(place, damage, detail));
        }
        if place > self.row.head_seq.0 {
            return Ok(self.bad(place, Damage::Forked, self.beyond_head()));
        }
        let record = match row.record {
            Ok(record) => record,
            Err(why) => return Ok(self.bad(place, Damage::Edited, why)),
        };
        let computed = hash_at(&self.previous, place, &record);
        if computed != record.hash {
            let (damage, detail) = mismatch.name(&record, &computed)?;
            return Ok(self.bad(place, damage, detail));
        }
        if let Some(bad) = self.check_checkpoints(place, &record.hash) {
            return Ok(Some(bad));
        }
        self.check_content(&record)
    }

    /// Checks the content of a record whose hash is valid.
    fn check_content(&mut self, record: &Record) -> rusqlite::Result<Option<Bad>> {
        let place = record.seq.0;
        if let Err(why) = self.parts.see(record) {
            return Ok(self.bad(place, Damage::Edited, why));
        }
        let forged = |why: String| format!("the chain is intact, but no hub wrote this record: {why}");
        if record.at < self.last_at {
            let why = format!(
                "its time {} is before {}, the time of the previous record",
                record.at.0, self.last_at.0
            );
            return Ok(self.bad(place, Damage::Forked, forged(why)));
        }
        if RecordKind::from_number(record.kind).is_none() {
            return Ok(self.bad(place, Damage::Forked, forged(format!("unknown kind {}", record.kind))));
        }
        let body = match codec::read_body(record) {
            Ok(body) => body,
            Err(why) => return Ok(self.bad(place, Damage::Forked, forged(why.to_string()))),
        };
        let died = match fits::check(&self.folded.world, record, &body) {
            Ok(died) => died,
            Err(why) => return Ok(self.bad(place, Damage::Forked, forged(why))),
        };
        if let Some((seq, part)) = self.parts.erase(&body.effects) {
            let why = format!("part {part} of its payload was erased by record {place}, but it is not blank");
            return Ok(self.bad(seq.0, Damage::Edited, why));
        }
        self.folded.take_in(record, &body.effects, died)?;
        if record.seq == self.row.tables_at {
            self.bad_table = tables::compare(self.connection, self.row, &self.folded)?;
        }
        self.sound = place;
        self.previous = record.hash;
        self.last_at = record.at;
        Ok(None)
    }

    /// Compares the record with the checkpoints for its position.
    fn check_checkpoints(&mut self, place: u64, hash: &[u8; 32]) -> Option<Bad> {
        while let Some(checkpoint) = self.checkpoints.next_if(|checkpoint| checkpoint.seq.0 == place) {
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
                return self.bad(place, Damage::Forked, detail);
            }
            self.checkpoints_met += 1;
            self.last_matched = Some(checkpoint.seq);
        }
        None
    }

    /// Checks the end of the log, after all rows were valid.
    fn check_end(&mut self) -> Option<Bad> {
        let (last, head) = (self.sound, self.row.head_seq.0);
        if last < head.max(1) {
            let detail = format!(
                "the log ends at record {last}, but the head is record {head}; the existing records are intact"
            );
            return self.bad(last + 1, Damage::Truncated, detail);
        }
        if self.previous != self.row.head_hash {
            let detail = format!(
                "the chain is intact, but ends with hash {} and the head has {}: the last record or the head was rewritten",
                hex::encode(&self.previous),
                hex::encode(&self.row.head_hash)
            );
            return self.bad(head, Damage::Forked, detail);
        }
        if let Some(checkpoint) = self.checkpoints.next() {
            let detail = format!(
                "the log ends at record {last}, but there is a checkpoint of record {}; the existing records are intact",
                checkpoint.seq
            );
            return self.bad(last + 1, Damage::Truncated, detail);
        }
        let (seq, part) = self.parts.unexplained()?;
        let detail =
            format!("part {part} of its payload is blank, but no record erased it; the chain is intact");
        self.bad(seq.0, Damage::Edited, detail)
    }

    fn beyond_head(&self) -> String {
        format!(
            "the head is record {}, but the log continues: records were added, or the head was changed",
            self.row.head_seq
        )
    }

    fn bad(&self, seq: u64, damage: Damage, detail: String) -> Option<Bad> {
        Some(Bad { space: self.row.name.clone(), seq: Seq(seq), damage, detail })
    }
}

/// Records after the first defect: how many there are, and how many are not intact.
#[derive(Default)]
struct Remainder {
    last: Option<(u64, Option<[u8; 32]>)>,
    total: u64,
    bad: u64,
}

impl Remainder {
    fn see(&mut self, row: LogRow) {
        self.total += 1;
        let hash = row.record.as_ref().ok().map(|record| record.hash);
        let follows = match (&row.record, self.last) {
            (Ok(record), Some((place, Some(previous)))) if place + 1 == row.place => {
                hash_at(&previous, row.place, record) == record.hash && Parts::default().see(record).is_ok()
            }
            _ => false,
        };
        self.bad += u64::from(!follows);
        self.last = Some((row.place, hash));
    }

    fn describe(&self) -> String {
        match (self.total, self.bad) {
            (0, _) => "there are no records after it".into(),
            (1, 0) => "the one record after it is intact".into(),
            (total, 0) => format!("the {total} records after it are intact"),
            (total, bad) => format!(
                "of the {total} records after it, {bad} are damaged or not chained to their predecessor"
            ),
        }
    }
}
