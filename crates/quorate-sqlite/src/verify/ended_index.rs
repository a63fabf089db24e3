//! Compares the table `ends` with the log. It grows with the log, so each entry is looked up while its record is read,
//! instead of being kept in memory. An entry that does not match yet may still be correct: a redriven dead letter ends
//! again in a later record.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::{DeliveryEnd, DeliveryNo, ReplayedSpace, Seq, SpaceNo, row_id};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _};

use super::raw_rows::ROW_NUMBER_MAX;
use super::tables::Difference;
use crate::ended_index;

const COLUMNS: [&str; 1] = ["seq"];

pub(super) struct EndedIndexCheck<'a> {
    connection: &'a Connection,
    space: SpaceNo,
    /// Ended deliveries for which the table has another record, so far.
    unsettled: BTreeMap<DeliveryNo, DeliveryEnd>,
    redriven: BTreeSet<DeliveryNo>,
}

impl<'a> EndedIndexCheck<'a> {
    pub(super) fn new(connection: &'a Connection, space: SpaceNo) -> Self {
        Self { connection, space, unsettled: BTreeMap::new(), redriven: BTreeSet::new() }
    }

    pub(super) fn note_redriven(&mut self, delivery: DeliveryNo) {
        self.unsettled.remove(&delivery);
        self.redriven.insert(delivery);
    }

    pub(super) fn check_ended(&mut self, delivery: DeliveryNo, end: DeliveryEnd) -> rusqlite::Result<()> {
        if self.stored(delivery)? == Some(end.seq) {
            self.unsettled.remove(&delivery);
        } else {
            self.unsettled.insert(delivery, end);
        }
        Ok(())
    }

    /// Returns the record that ended a delivery according to the table.
    fn stored(&self, delivery: DeliveryNo) -> rusqlite::Result<Option<Seq>> {
        let mut statement = self.connection.prepare_cached("SELECT seqs FROM ends WHERE id = ?1")?;
        let row = row_id(self.space, ended_index::chunk_of(delivery));
        let seqs: Option<Vec<u8>> = statement.query_row([row], |row| row.get(0)).optional()?;
        Ok(seqs.and_then(|seqs| ended_index::get(&seqs, delivery)))
    }

    /// Returns the first difference. Called after the last record that the tables contain.
    pub(super) fn difference(&self, replayed: &ReplayedSpace) -> rusqlite::Result<Option<Difference>> {
        if let Some((delivery, end)) = self.unsettled.first_key_value() {
            let stored = self.stored(*delivery)?.map(seq_value);
            let found = stored.as_ref().map(std::slice::from_ref);
            return Ok(Some(difference_of(*delivery, end.seq, Some(&[seq_value(end.seq)]), found)));
        }
        for delivery in &self.redriven {
            if replayed.working.open(*delivery).is_some()
                && let Some(seq) = self.stored(*delivery)?
            {
                return Ok(Some(difference_of(*delivery, seq, None, Some(&[seq_value(seq)]))));
            }
        }
        self.stray(replayed)
    }

    /// Returns the first entry without a matching record: of an open or nonexistent delivery.
    fn stray(&self, replayed: &ReplayedSpace) -> rusqlite::Result<Option<Difference>> {
        let mut statement =
            self.connection.prepare("SELECT id, seqs FROM ends WHERE id BETWEEN ?1 AND ?2 ORDER BY id")?;
        let mut rows = statement.query((row_id(self.space, 0), row_id(self.space, ROW_NUMBER_MAX)))?;
        let next = replayed.working.stored_counters().next_delivery;
        let mut found = 0;
        while let Some(row) = rows.next()? {
            let chunk = (row.get::<_, i64>(0)? - row_id(self.space, 0)) as u64;
            let seqs: Vec<u8> = row.get(1)?;
            for (delivery, seq) in ended_index::ended_in_chunk(chunk, &seqs) {
                found += 1;
                if delivery.0 == 0 || delivery.0 >= next || replayed.working.open(delivery).is_some() {
                    return Ok(Some(difference_of(delivery, seq, None, Some(&[seq_value(seq)]))));
                }
            }
        }
        let counts = replayed.working.counts();
        let expected = counts.acked + counts.dead + counts.expired + counts.purged;
        Ok((found != expected).then(|| Difference::unexpected_rows("ends", replayed.working.head.seq)))
    }
}

fn seq_value(seq: Seq) -> Value {
    Value::Integer(seq.0 as i64)
}

fn difference_of(
    delivery: DeliveryNo,
    seq: Seq,
    expected: Option<&[Value]>,
    found: Option<&[Value]>,
) -> Difference {
    Difference::new("ends", format!("of delivery {delivery}"), seq, &COLUMNS, expected, found)
}
