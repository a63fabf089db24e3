//! Reads rows without assumptions about their content: an invalid value is a defect to report, not an error.

use bytes::Bytes;
use quorate_core::{Record, Seq, SpaceNo, Timestamp, row_id};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row};

/// Largest number within a space that fits into a row id.
pub(super) const ROW_NUMBER_MAX: u64 = (1 << 47) - 1;

/// Row of `spaces`.
pub(super) struct SpaceRow {
    pub(super) number: SpaceNo,
    pub(super) name: String,
    /// As stored; 16 bytes unless it was changed.
    pub(super) id: Vec<u8>,
    pub(super) head_seq: Seq,
    pub(super) head_hash: [u8; 32],
    pub(super) head_at: Timestamp,
    /// Last record that the tables contain.
    pub(super) tables_at: Seq,
    /// All columns, in the order of [`SPACE_COLUMNS`].
    pub(super) columns: Vec<Value>,
}

/// Columns of `spaces`, in table order.
pub(super) const SPACE_COLUMNS: [&str; 14] = [
    "number",
    "name",
    "id",
    "seq",
    "hash",
    "at",
    "generation",
    "tables_at",
    "next_delivery",
    "last_token",
    "acked",
    "dead",
    "expired",
    "purged",
];

pub(super) fn space_rows(connection: &Connection) -> rusqlite::Result<Vec<SpaceRow>> {
    let sql = format!("SELECT {} FROM spaces ORDER BY number", SPACE_COLUMNS.join(", "));
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([], |row| {
        let blob = |index| match row.get_ref(index)? {
            ValueRef::Blob(bytes) => Ok::<_, rusqlite::Error>(bytes.to_vec()),
            _ => Ok(Vec::new()),
        };
        let columns = column_values(row, SPACE_COLUMNS.len())?;
        Ok(SpaceRow {
            number: SpaceNo(number(row, 0)?.unwrap_or(0)),
            name: text(row, 1)?.unwrap_or_default(),
            id: blob(2)?,
            head_seq: Seq(number(row, 3)?.unwrap_or(0)),
            // A hash of the wrong length is read as zeros, which match no real hash.
            head_hash: blob(4)?.try_into().unwrap_or([0; 32]),
            head_at: Timestamp(number(row, 5)?.unwrap_or(0)),
            tables_at: Seq(number(row, 7)?.unwrap_or(0)),
            columns,
        })
    })?;
    rows.collect()
}

/// Row of the log: its position, and the record or why it is invalid.
pub(super) struct LogRow {
    pub(super) position: u64,
    pub(super) record: Result<Record, String>,
}

/// Calls `each` for the rows of the log of a space, starting at `from`, until it returns `Stop`.
pub(super) fn for_each_log_row(
    connection: &Connection,
    space: SpaceNo,
    from: u64,
    mut each: impl FnMut(LogRow) -> rusqlite::Result<RowScan>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT id, at, format, kind, principal, hash, body, salts, payload FROM log
         WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
    )?;
    let mut rows = statement.query((row_id(space, from), row_id(space, ROW_NUMBER_MAX)))?;
    while let Some(row) = rows.next()? {
        let position = (row.get::<_, i64>(0)? - row_id(space, 0)) as u64;
        if each(LogRow { position, record: record(row, position)? })? == RowScan::Stop {
            break;
        }
    }
    Ok(())
}

/// Whether to continue with the next row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowScan {
    Continue,
    Stop,
}

fn record(row: &Row<'_>, position: u64) -> rusqlite::Result<Result<Record, String>> {
    let blob = |index| match row.get_ref(index)? {
        ValueRef::Blob(bytes) => Ok::<_, rusqlite::Error>(bytes.to_vec()),
        _ => Ok(Vec::new()),
    };
    let small =
        |index| Ok::<_, rusqlite::Error>(number(row, index)?.and_then(|found| u8::try_from(found).ok()));
    let Some(at) = number(row, 1)? else { return Ok(Err("its time is not a valid integer".into())) };
    let (Some(format), Some(kind)) = (small(2)?, small(3)?) else {
        return Ok(Err("its format or kind is not a byte".into()));
    };
    // The length of the principal is hashed as two bytes.
    let Some(principal) = text(row, 4)?.filter(|text| text.len() <= usize::from(u16::MAX)) else {
        return Ok(Err("its principal is not valid text, or is too long".into()));
    };
    let Ok(hash) = blob(5)?.try_into() else { return Ok(Err("its hash does not have 32 bytes".into())) };
    Ok(Ok(Record {
        seq: Seq(position),
        at: Timestamp(at),
        format,
        kind,
        principal,
        hash,
        body: blob(6)?,
        salts: blob(7)?,
        payload: Bytes::from(blob(8)?),
    }))
}

/// Returns the first columns of a row. Invalid UTF-8 is replaced: it matches no expected value anyway.
pub(super) fn column_values(row: &Row<'_>, count: usize) -> rusqlite::Result<Vec<Value>> {
    (0..count)
        .map(|index| {
            Ok(match row.get_ref(index)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => Value::Integer(number),
                ValueRef::Real(number) => Value::Real(number),
                ValueRef::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
                ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
            })
        })
        .collect()
}

fn number(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<u64>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Integer(found) => u64::try_from(found).ok(),
        _ => None,
    })
}

fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Text(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        _ => None,
    })
}
