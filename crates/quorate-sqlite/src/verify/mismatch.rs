//! What happened, when the record at a place is not the one that belongs there.

use quorate_core::chain::first_previous;
use quorate_core::{Effect, Record, codec};
use rusqlite::Connection;

use super::Damage;
use super::rows::{self, Go, SpaceRow};
use super::walk::hash_at;
use quorate_core::hex;

/// Records that may be missing before the ones that were moved up into their places, when nothing else says how many.
const MOVED_MAX: u64 = 10_000;

/// A place in the log at which the chain breaks. Everything before it is sound.
pub(super) struct Mismatch<'a> {
    pub(super) connection: &'a Connection,
    pub(super) row: &'a SpaceRow,
    /// The hash of the record before.
    pub(super) previous: [u8; 32],
    pub(super) place: u64,
}

impl Mismatch<'_> {
    /// There is no row at the place; the next one is at `next`.
    pub(super) fn gap(&self, next: u64) -> rusqlite::Result<(Damage, String)> {
        if let Some(found) = self.elsewhere(self.place)? {
            return Ok((Damage::Reordered, self.moved(found)));
        }
        let missing = match next - self.place {
            1 => "this record is missing".to_owned(),
            count => format!("{count} records are missing, up to {}", next - 1),
        };
        Ok((Damage::Deleted, missing))
    }

    /// There is a record at the place, but its bytes do not give its hash.
    pub(super) fn name(&self, record: &Record, computed: &[u8; 32]) -> rusqlite::Result<(Damage, String)> {
        if self.place == 1
            && let Some(detail) = other_id(record)
        {
            return Ok((Damage::Tables, detail));
        }
        if let Some(found) = self.elsewhere(self.place + 1)? {
            return Ok((Damage::Reordered, self.moved(found)));
        }
        let successor = self.at(self.place + 1)?;
        if let Some(count) = self.moved_up(record, successor.as_ref()) {
            let detail = format!(
                "{count} missing: the record here was written as number {}, and was moved up",
                self.place + count
            );
            return Ok((Damage::Deleted, detail));
        }
        let follows = |previous: &[u8; 32]| {
            successor.as_ref().is_some_and(|next| hash_at(previous, self.place + 1, next) == next.hash)
        };
        let which = if follows(&record.hash) {
            "; the next record follows from the stored hash, so only the content of this one was changed"
        } else if follows(computed) {
            "; the next record follows from the computed hash, so only the stored hash was changed"
        } else {
            ""
        };
        let detail =
            format!("stored hash {}, computed {}{which}", hex::encode(&record.hash), hex::encode(computed));
        Ok((Damage::Edited, detail))
    }

    /// Where the record lies that belongs here, from a place on. Its hash gives it away.
    fn elsewhere(&self, from: u64) -> rusqlite::Result<Option<u64>> {
        let mut found = None;
        rows::log(self.connection, self.row.number, from, |row| {
            let belongs =
                row.record.is_ok_and(|record| hash_at(&self.previous, self.place, &record) == record.hash);
            found = belongs.then_some(row.place);
            Ok(if belongs { Go::Stop } else { Go::On })
        })?;
        Ok(found)
    }

    fn moved(&self, found: u64) -> String {
        format!("the record that belongs here is found as number {found}")
    }

    fn at(&self, place: u64) -> rusqlite::Result<Option<Record>> {
        let mut found = None;
        rows::log(self.connection, self.row.number, place, |row| {
            found = row.record.ok().filter(|_| row.place == place);
            Ok(Go::Stop)
        })?;
        Ok(found)
    }

    /// How many records were taken out before this one, if it and its successor were then moved up: they still follow
    /// on from each other, only under higher numbers.
    fn moved_up(&self, record: &Record, successor: Option<&Record>) -> Option<u64> {
        let Some(successor) = successor else {
            let lacking = self.row.head_seq.0.checked_sub(self.place).filter(|count| *count > 0);
            return lacking.filter(|_| record.hash == self.row.head_hash);
        };
        (1..=MOVED_MAX)
            .find(|count| hash_at(&record.hash, self.place + 1 + count, successor) == successor.hash)
    }
}

/// The first record names the space. If it is sound under the id that it names, the table has another one.
fn other_id(record: &Record) -> Option<String> {
    let body = codec::read_body(record).ok()?;
    let Some(Effect::SpaceCreated { id, .. }) = body.effects.first() else { return None };
    let sound = hash_at(&first_previous(*id), 1, record) == record.hash;
    sound
        .then(|| format!("table `spaces`: the id is not {}, the one in the first record", hex::encode(&id.0)))
}
