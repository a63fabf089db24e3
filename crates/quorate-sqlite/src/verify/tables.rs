//! Compares the tables with the state replayed from the log, as of the record `tables_at`. The log is the source of
//! truth: a table that differs is wrong.

mod expected_rows;
mod merge_compare;

use quorate_core::{Seq, Timestamp, row_id};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _};

use super::raw_rows::{SPACE_COLUMNS, SpaceRow};
use super::replay::ReplayedState;
use super::{Damage, Defect};
use quorate_core::hex;

/// Row that does not match the log.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    seq: Seq,
    detail: String,
}

impl Difference {
    /// `row` identifies the row; `expected` is the row according to the log, `found` the stored one.
    pub(super) fn new(
        table: &str,
        row: String,
        seq: Seq,
        columns: &[&str],
        expected: Option<&[Value]>,
        found: Option<&[Value]>,
    ) -> Self {
        let problem = match (expected, found) {
            (Some(_), None) => "is missing".to_owned(),
            (None, _) => "is not in the log".to_owned(),
            (Some(expected), Some(found)) => {
                let pairs = columns.iter().zip(expected.iter().zip(found));
                let differences = pairs.filter(|(_, (expected, found))| expected != found).map(
                    |(column, (expected, found))| {
                        format!("{column} is {}, expected {}", render_value(found), render_value(expected))
                    },
                );
                differences.collect::<Vec<_>>().join("; ")
            }
        };
        Self { seq, detail: format!("table `{table}`, row {row}: {problem}; the log is intact") }
    }

    /// The number of rows does not match the log, although each single row does.
    pub(super) fn unexpected_rows(table: &str, seq: Seq) -> Self {
        Self { seq, detail: format!("table `{table}` has rows that are not in the log; the log is intact") }
    }
}

fn render_value(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => format!("{text:?}"),
        Value::Blob(bytes) => hex::encode(bytes),
    }
}

/// Compares every table that is derived from the log of a space.
pub(super) fn compare(
    connection: &Connection,
    row: &SpaceRow,
    replayed: &ReplayedState<'_>,
) -> rusqlite::Result<Option<Defect>> {
    let found = match replayed.append_only.difference(row.tables_at)? {
        Some(difference) => Some(difference),
        None => match replayed.ended_index.difference(&replayed.space)? {
            Some(difference) => Some(difference),
            None => match head(row, replayed) {
                Some(difference) => Some(difference),
                None => expected_rows::first_difference(connection, row.number, replayed)?,
            },
        },
    };
    Ok(found.map(|Difference { seq, detail }| Defect {
        space: row.name.clone(),
        seq,
        damage: Damage::Tables,
        detail,
    }))
}

/// Compares the row of the space, except for the head, which is checked at the end of the log.
fn head(row: &SpaceRow, replayed: &ReplayedState<'_>) -> Option<Difference> {
    let working = &replayed.space.working;
    let counters = working.stored_counters();
    let number = |number: u64| Value::Integer(number as i64);
    let expected = [
        number(row.number.0),
        Value::Text(replayed.name.clone()),
        Value::Blob(working.id.0.to_vec()),
        // Checked at the end of the log.
        row.columns[3].clone(),
        row.columns[4].clone(),
        row.columns[5].clone(),
        number(working.head.generation.0),
        number(working.head.seq.0),
        number(counters.next_delivery),
        number(counters.last_token),
        number(counters.counts.acked),
        number(counters.counts.dead),
        number(counters.counts.expired),
        number(counters.counts.purged),
    ];
    (row.columns != expected).then(|| {
        let row_name = format!("of space number {}", row.number);
        Difference::new(
            "spaces",
            row_name,
            row.tables_at,
            &SPACE_COLUMNS,
            Some(&expected),
            Some(&row.columns),
        )
    })
}

/// Checks that the head has the time of the last record, and that `tables_at` is an existing record.
pub(super) fn check_head(row: &SpaceRow, last_at: Timestamp) -> Option<Defect> {
    if row.head_at != last_at {
        let detail = format!(
            "table `spaces`: the time of the head is {}, expected {}; the log is intact",
            row.head_at.0, last_at.0
        );
        return Some(Defect { space: row.name.clone(), seq: row.head_seq, damage: Damage::Tables, detail });
    }
    let exists = (1..=row.head_seq.0).contains(&row.tables_at.0);
    (!exists).then(|| Defect {
        space: row.name.clone(),
        seq: row.tables_at,
        damage: Damage::Tables,
        detail: format!(
            "table `spaces`: tables_at is record {}, but the log ends at record {}; the log is intact",
            row.tables_at, row.head_seq
        ),
    })
}

/// Checks the file as a whole: rows of nonexistent spaces, and SQLite's integrity check.
pub(super) fn check_file(connection: &Connection, spaces: u64) -> rusqlite::Result<Option<Defect>> {
    let defect = |detail| Defect { space: String::new(), seq: Seq(0), damage: Damage::Tables, detail };
    let (first, after) = (row_id(quorate_core::SpaceNo(1), 0), row_id(quorate_core::SpaceNo(spaces + 1), 0));
    for table in ["log", "agents", "deliveries", "extended", "ends", "dead"] {
        let sql = format!("SELECT id FROM {table} WHERE id < ?1 OR id >= ?2 LIMIT 1");
        let stray: Option<i64> = connection.query_row(&sql, (first, after), |row| row.get(0)).optional()?;
        if let Some(id) = stray {
            return Ok(Some(defect(format!("table `{table}`, row {id}: its space does not exist"))));
        }
    }
    for table in ["eras", "entries", "versions", "client_ids", "items", "timeline", "erased"] {
        let sql = format!("SELECT space FROM {table} WHERE space < 1 OR space > ?1 LIMIT 1");
        let stray: Option<i64> = connection.query_row(&sql, [spaces], |row| row.get(0)).optional()?;
        if let Some(space) = stray {
            return Ok(Some(defect(format!(
                "table `{table}` has a row of space number {space}, which does not exist"
            ))));
        }
    }
    let result: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok((result != "ok").then(|| defect(format!("SQLite integrity check failed: {result}"))))
}
