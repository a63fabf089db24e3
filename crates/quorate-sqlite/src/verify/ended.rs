//! The table of ended deliveries grows with the log, so each end is looked up when its record goes by. A row that does
//! not fit yet may still be right: a dead letter that was redriven ended once more, later on.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::{DeliveryNo, Ended, Seq, SpaceNo, World, row_id};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _};

use super::rows::{LAST, values};
use super::tables::Difference;

pub(super) const COLUMNS: [&str; 3] = ["state", "token", "seq"];

pub(super) struct EndedRows<'a> {
    connection: &'a Connection,
    space: SpaceNo,
    /// Ends that the table does not hold, so far.
    unsettled: BTreeMap<DeliveryNo, Ended>,
    redriven: BTreeSet<DeliveryNo>,
}

impl<'a> EndedRows<'a> {
    pub(super) fn new(connection: &'a Connection, space: SpaceNo) -> Self {
        Self { connection, space, unsettled: BTreeMap::new(), redriven: BTreeSet::new() }
    }

    pub(super) fn redriven(&mut self, delivery: DeliveryNo) {
        self.unsettled.remove(&delivery);
        self.redriven.insert(delivery);
    }

    pub(super) fn ended(&mut self, delivery: DeliveryNo, end: Ended) -> rusqlite::Result<()> {
        if self.row(delivery)?.is_some_and(|row| row == expected(&end)) {
            self.unsettled.remove(&delivery);
        } else {
            self.unsettled.insert(delivery, end);
        }
        Ok(())
    }

    fn row(&self, delivery: DeliveryNo) -> rusqlite::Result<Option<Vec<Value>>> {
        let sql = "SELECT state, token, seq FROM ended WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.query_row([row_id(self.space, delivery.0)], |row| values(row, COLUMNS.len())).optional()
    }

    /// After the last record: what does not fit now is wrong.
    pub(super) fn difference(&self, world: &World) -> rusqlite::Result<Option<Difference>> {
        if let Some((delivery, end)) = self.unsettled.first_key_value() {
            let row = self.row(*delivery)?;
            let expected = expected(end);
            return Ok(Some(Difference::new(
                "ended",
                format!("of delivery {delivery}"),
                end.seq,
                &COLUMNS,
                Some(&expected),
                row.as_deref(),
            )));
        }
        for delivery in &self.redriven {
            if world.working.open(*delivery).is_some()
                && let Some(row) = self.row(*delivery)?
            {
                return Ok(Some(self.stray(delivery.0, &row)));
            }
        }
        let counts = world.working.counts();
        let expected = counts.acked + counts.dead + counts.expired + counts.purged;
        let range = (row_id(self.space, 0), row_id(self.space, LAST));
        let sql = "SELECT count(*) FROM ended WHERE id BETWEEN ?1 AND ?2";
        let found: u64 = self.connection.query_row(sql, range, |row| row.get(0))?;
        if found == expected { Ok(None) } else { self.find_stray(world).map(Some) }
    }

    /// The row that no record made: it is of a delivery that is open, dead otherwise, or was never made.
    fn find_stray(&self, world: &World) -> rusqlite::Result<Difference> {
        let sql = "SELECT id, state, token, seq FROM ended WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query((row_id(self.space, 0), row_id(self.space, LAST)))?;
        let next = world.working.kept().next_delivery;
        while let Some(row) = rows.next()? {
            let number = (row.get::<_, i64>(0)? - row_id(self.space, 0)) as u64;
            if number == 0 || number >= next || world.working.open(DeliveryNo(number)).is_some() {
                return Ok(self.stray(number, &values(row, 4)?[1..]));
            }
        }
        Ok(Difference::count("ended", world.working.head.seq))
    }

    fn stray(&self, delivery: u64, row: &[Value]) -> Difference {
        let seq = match row.get(2) {
            Some(Value::Integer(seq)) => Seq(u64::try_from(*seq).unwrap_or(0)),
            _ => Seq(0),
        };
        Difference::new("ended", format!("of delivery {delivery}"), seq, &COLUMNS, None, Some(row))
    }
}

fn expected(end: &Ended) -> Vec<Value> {
    vec![
        Value::Integer(i64::from(end.state.number())),
        Value::Integer(end.token.0 as i64),
        Value::Integer(end.seq.0 as i64),
    ]
}
