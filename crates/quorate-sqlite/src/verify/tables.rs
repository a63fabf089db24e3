//! Holding the tables against what the records come to, up to the one that the tables reach. The log is the truth: a
//! table that differs is wrong.

mod expected;
mod merge;

use quorate_core::{Seq, Timestamp, row_id};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _};

use super::folded::Folded;
use super::rows::{SPACE_COLUMNS, SpaceRow};
use super::{Bad, Damage};
use quorate_core::hex;

/// A row that is not what the log says.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    seq: Seq,
    detail: String,
}

impl Difference {
    /// `row` says which; `expected` is what the log says of it and `found` what the table has, if anything.
    pub(super) fn new(
        table: &str,
        row: String,
        seq: Seq,
        columns: &[&str],
        expected: Option<&[Value]>,
        found: Option<&[Value]>,
    ) -> Self {
        let how = match (expected, found) {
            (Some(_), None) => "is missing".to_owned(),
            (None, _) => "is there, but the log has nothing of it".to_owned(),
            (Some(expected), Some(found)) => {
                let pairs = columns.iter().zip(expected.iter().zip(found));
                let wrong = pairs.filter(|(_, (expected, found))| expected != found).map(
                    |(column, (expected, found))| {
                        format!("{column} is {}, the log says {}", shown(found), shown(expected))
                    },
                );
                wrong.collect::<Vec<_>>().join("; ")
            }
        };
        Self { seq, detail: format!("table `{table}`, row {row}: {how}; the log is intact") }
    }

    /// There are more or fewer rows than the log says, and each one by itself looks right.
    pub(super) fn count(table: &str, seq: Seq) -> Self {
        Self {
            seq,
            detail: format!("table `{table}` has rows of which the log has nothing; the log is intact"),
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => format!("{text:?}"),
        Value::Blob(bytes) => hex::encode(bytes),
    }
}

/// Compares every table that can be derived from the log of a space.
pub(super) fn compare(
    connection: &Connection,
    row: &SpaceRow,
    folded: &Folded<'_>,
) -> rusqlite::Result<Option<Bad>> {
    let found = match folded.said_once.difference(row.tables_at)? {
        Some(difference) => Some(difference),
        None => match folded.ended.difference(&folded.world)? {
            Some(difference) => Some(difference),
            None => match head(row, folded) {
                Some(difference) => Some(difference),
                None => expected::first_difference(connection, row.number, folded)?,
            },
        },
    };
    Ok(found.map(|Difference { seq, detail }| Bad {
        space: row.name.clone(),
        seq,
        damage: Damage::Tables,
        detail,
    }))
}

/// The row of the space itself, as far as the walk has not looked at it already.
fn head(row: &SpaceRow, folded: &Folded<'_>) -> Option<Difference> {
    let working = &folded.world.working;
    let kept = working.kept();
    let number = |number: u64| Value::Integer(number as i64);
    let expected = [
        number(row.number.0),
        Value::Text(folded.name.clone()),
        Value::Blob(working.id.0.to_vec()),
        // The walk holds the head against the end of the log.
        row.columns[3].clone(),
        row.columns[4].clone(),
        row.columns[5].clone(),
        number(working.head.generation.0),
        number(working.head.seq.0),
        number(kept.next_delivery),
        number(kept.last_token),
        number(kept.counts.acked),
        number(kept.counts.dead),
        number(kept.counts.expired),
        number(kept.counts.purged),
    ];
    (row.columns != expected).then(|| {
        let which = format!("of space number {}", row.number);
        Difference::new("spaces", which, row.tables_at, &SPACE_COLUMNS, Some(&expected), Some(&row.columns))
    })
}

/// The head bears the time of the last record, and the tables reach up to a record that exists.
pub(super) fn reach(row: &SpaceRow, last_at: Timestamp) -> Option<Bad> {
    if row.head_at != last_at {
        let detail = format!(
            "table `spaces`: the time of the head is {}, the log says {}; the log is intact",
            row.head_at.0, last_at.0
        );
        return Some(Bad { space: row.name.clone(), seq: row.head_seq, damage: Damage::Tables, detail });
    }
    let exists = (1..=row.head_seq.0).contains(&row.tables_at.0);
    (!exists).then(|| Bad {
        space: row.name.clone(),
        seq: row.tables_at,
        damage: Damage::Tables,
        detail: format!(
            "table `spaces`: the tables reach up to record {}, the log ends at {}; the log is intact",
            row.tables_at, row.head_seq
        ),
    })
}

/// What belongs to no space: rows of spaces that do not exist, and the order of the pages themselves.
pub(super) fn whole_file(connection: &Connection, spaces: u64) -> rusqlite::Result<Option<Bad>> {
    let bad = |detail| Bad { space: String::new(), seq: Seq(0), damage: Damage::Tables, detail };
    let (first, after) = (row_id(quorate_core::SpaceNo(1), 0), row_id(quorate_core::SpaceNo(spaces + 1), 0));
    for table in ["log", "agents", "deliveries", "extended", "ends", "dead"] {
        let sql = format!("SELECT id FROM {table} WHERE id < ?1 OR id >= ?2 LIMIT 1");
        let stray: Option<i64> = connection.query_row(&sql, (first, after), |row| row.get(0)).optional()?;
        if let Some(id) = stray {
            return Ok(Some(bad(format!("table `{table}`, row {id}: it is of a space that does not exist"))));
        }
    }
    for table in ["eras", "entries", "versions", "client_ids", "items", "erased"] {
        let sql = format!("SELECT space FROM {table} WHERE space < 1 OR space > ?1 LIMIT 1");
        let stray: Option<i64> = connection.query_row(&sql, [spaces], |row| row.get(0)).optional()?;
        if let Some(space) = stray {
            return Ok(Some(bad(format!(
                "table `{table}` has a row of space number {space}, which does not exist"
            ))));
        }
    }
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok((verdict != "ok").then(|| bad(format!("SQLite's own check of the file says: {verdict}"))))
}
