//! Diagnoses a break in the hash chain: edited, deleted or reordered records.

use quorate_core::hash_chain::genesis_hash;
use quorate_core::{Effect, Record, codec};
use rusqlite::Connection;

use super::Damage;
use super::log_walk::hash_at;
use super::raw_rows::{self, RowScan, SpaceRow};
use quorate_core::hex;

/// Maximum number of deleted records to search for when the following ones were renumbered to hide the gap.
const MOVED_MAX: u64 = 10_000;

/// Position in the log at which the chain breaks. Everything before it is valid.
pub(super) struct ChainBreak<'a> {
    pub(super) connection: &'a Connection,
    pub(super) row: &'a SpaceRow,
    /// Hash of the previous record.
    pub(super) previous: [u8; 32],
    pub(super) position: u64,
}

impl ChainBreak<'_> {
    /// Diagnoses a missing row; the next one is at `next`.
    pub(super) fn diagnose_gap(&self, next: u64) -> rusqlite::Result<(Damage, String)> {
        if let Some(found) = self.find_elsewhere(self.position)? {
            return Ok((Damage::Reordered, self.moved_to(found)));
        }
        let missing = match next - self.position {
            1 => "this record is missing".to_owned(),
            count => format!("{count} records are missing, up to {}", next - 1),
        };
        Ok((Damage::Deleted, missing))
    }

    /// Diagnoses a record whose content does not match its hash.
    pub(super) fn diagnose_record(
        &self,
        record: &Record,
        computed: &[u8; 32],
    ) -> rusqlite::Result<(Damage, String)> {
        if self.position == 1
            && let Some(detail) = other_id(record)
        {
            return Ok((Damage::Tables, detail));
        }
        if let Some(found) = self.find_elsewhere(self.position + 1)? {
            return Ok((Damage::Reordered, self.moved_to(found)));
        }
        let successor = self.record_at(self.position + 1)?;
        if let Some(count) = self.renumbered_by(record, successor.as_ref()) {
            let detail = format!(
                "{count} missing: the record at this position was written as number {} and renumbered",
                self.position + count
            );
            return Ok((Damage::Deleted, detail));
        }
        let follows = |previous: &[u8; 32]| {
            successor.as_ref().is_some_and(|next| hash_at(previous, self.position + 1, next) == next.hash)
        };
        let explanation = if follows(&record.hash) {
            "; the next record is chained to the stored hash, so only the content of this one was changed"
        } else if follows(computed) {
            "; the next record is chained to the computed hash, so only the stored hash was changed"
        } else {
            ""
        };
        let detail = format!(
            "stored hash {}, computed {}{explanation}",
            hex::encode(&record.hash),
            hex::encode(computed)
        );
        Ok((Damage::Edited, detail))
    }

    /// Searches from `from` on for the record that belongs to this position, which is identified by its hash.
    fn find_elsewhere(&self, from: u64) -> rusqlite::Result<Option<u64>> {
        let mut found = None;
        raw_rows::for_each_log_row(self.connection, self.row.number, from, |row| {
            let belongs =
                row.record.is_ok_and(|record| hash_at(&self.previous, self.position, &record) == record.hash);
            found = belongs.then_some(row.position);
            Ok(if belongs { RowScan::Stop } else { RowScan::Continue })
        })?;
        Ok(found)
    }

    fn moved_to(&self, found: u64) -> String {
        format!("the record of this position is stored as number {found}")
    }

    fn record_at(&self, position: u64) -> rusqlite::Result<Option<Record>> {
        let mut found = None;
        raw_rows::for_each_log_row(self.connection, self.row.number, position, |row| {
            found = row.record.ok().filter(|_| row.position == position);
            Ok(RowScan::Stop)
        })?;
        Ok(found)
    }

    /// Returns how many records were deleted before this one, if it and its successor were renumbered: they are still
    /// chained to each other under their original, higher numbers.
    fn renumbered_by(&self, record: &Record, successor: Option<&Record>) -> Option<u64> {
        let Some(successor) = successor else {
            let missing = self.row.head_seq.0.checked_sub(self.position).filter(|count| *count > 0);
            return missing.filter(|_| record.hash == self.row.head_hash);
        };
        (1..=MOVED_MAX)
            .find(|count| hash_at(&record.hash, self.position + 1 + count, successor) == successor.hash)
    }
}

/// Checks whether only the id in the table `spaces` is wrong: then the first record is valid under the id it contains.
fn other_id(record: &Record) -> Option<String> {
    let body = codec::read_body(record).ok()?;
    let Some(Effect::SpaceCreated { id, .. }) = body.effects.first() else { return None };
    let valid = hash_at(&genesis_hash(*id), 1, record) == record.hash;
    valid.then(|| {
        format!("table `spaces`: the id is not {}, which is the id in the first record", hex::encode(&id.0))
    })
}
