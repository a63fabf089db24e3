//! Merge comparison of two sorted lists of rows: the expected ones and the stored ones.

use std::cmp::Ordering;

use quorate_core::Seq;
use rusqlite::types::Value;
use rusqlite::{Connection, Params};

use super::super::raw_rows::column_values;
use super::Difference;

/// Expected row: all columns, the key first.
pub(super) struct ExpectedRow {
    pub(super) columns: Vec<Value>,
    /// Record that the row is derived from.
    pub(super) seq: Seq,
}

/// Table, and how to read the rows of one space in the order of the key.
pub(super) struct TableRows<'t> {
    pub(super) name: &'static str,
    pub(super) columns: &'t [&'static str],
    /// Number of leading columns that form the key.
    pub(super) key: usize,
    /// SQL condition and order, after `WHERE`.
    pub(super) filter: &'static str,
    /// Normalizes a stored row where it may legitimately differ from the log. Called with the stored and the expected
    /// row.
    pub(super) normalize: fn(&mut [Value], &[Value]),
}

impl TableRows<'_> {
    /// Returns the first row that differs.
    pub(super) fn first_difference(
        &self,
        connection: &Connection,
        params: impl Params,
        expected: impl Iterator<Item = ExpectedRow>,
        row_name: impl Fn(&[Value]) -> String,
    ) -> rusqlite::Result<Option<Difference>> {
        let sql = format!("SELECT {} FROM {} WHERE {}", self.columns.join(", "), self.name, self.filter);
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query(params)?;
        let mut expected = expected.peekable();
        let differs = |seq, expected: Option<&[Value]>, found: Option<&[Value]>| {
            let name = row_name(expected.or(found).unwrap_or_default());
            Ok(Some(Difference::new(self.name, name, seq, self.columns, expected, found)))
        };
        while let Some(row) = rows.next()? {
            let mut found = column_values(row, self.columns.len())?;
            let order =
                expected.peek().map_or(Ordering::Less, |expected| self.order(&found, &expected.columns));
            let Some(expected) = expected.next_if(|_| order != Ordering::Less) else {
                return differs(Seq(0), None, Some(&found));
            };
            if order == Ordering::Greater {
                return differs(expected.seq, Some(&expected.columns), None);
            }
            (self.normalize)(&mut found, &expected.columns);
            if found != expected.columns {
                return differs(expected.seq, Some(&expected.columns), Some(&found));
            }
        }
        match expected.next() {
            Some(expected) => differs(expected.seq, Some(&expected.columns), None),
            None => Ok(None),
        }
    }

    fn order(&self, found: &[Value], expected: &[Value]) -> Ordering {
        let pairs = found.iter().zip(expected).take(self.key);
        let orders = pairs.map(|(found, expected)| match (found, expected) {
            (Value::Integer(found), Value::Integer(expected)) => found.cmp(expected),
            (Value::Text(found), Value::Text(expected)) => found.cmp(expected),
            // No row has a key of another type: treat it as unexpected.
            _ => Ordering::Less,
        });
        { orders }.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}
