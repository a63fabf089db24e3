//! Reads of log records, and the choice of the reader lane.

use quorate_core::{Record, Seq, SpaceNo, row_id};
use quorate_store::ReadQuery;
use rusqlite::Connection;

use super::ROW_NUMBER_MAX;
use crate::load;
use crate::readers::{Lane, ReadError};

/// Maximum size of the payloads that one read of records returns, plus the last record.
const PAYLOADS_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Reads up to `max` records, starting at `from`. Stops after the record that reaches [`PAYLOADS_BYTES_MAX`].
pub(crate) fn log(
    connection: &Connection,
    space: SpaceNo,
    from: Seq,
    max: usize,
) -> Result<Vec<Record>, ReadError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, at, format, kind, principal, hash, body, salts, payload FROM log
         WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3",
    )?;
    let last = row_id(space, ROW_NUMBER_MAX);
    let found = statement.query_map((row_id(space, from.0.min(ROW_NUMBER_MAX)), last, max), |row| {
        load::decode_record(row, space)
    })?;
    let (mut records, mut bytes) = (Vec::new(), 0);
    for record in found {
        let record = record?;
        bytes += record.payload.len();
        records.push(record);
        if bytes >= PAYLOADS_BYTES_MAX {
            break;
        }
    }
    Ok(records)
}

/// Maximum size of the bodies that one read returns, plus the last record: a record may contain thousands of effects.
const BODIES_BYTES_MAX: usize = 128 * 1024;

/// Like [`log`], without salts and payloads. They are stored at the end of a row, so their pages are not even read. Stops
/// after the record that reaches [`BODIES_BYTES_MAX`].
pub(crate) fn bodies(
    connection: &Connection,
    space: SpaceNo,
    from: Seq,
    max: usize,
) -> Result<Vec<Record>, ReadError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, at, format, kind, principal, hash, body, x'', x'' FROM log
         WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3",
    )?;
    let last = row_id(space, ROW_NUMBER_MAX);
    let found = statement.query_map((row_id(space, from.0.min(ROW_NUMBER_MAX)), last, max), |row| {
        load::decode_record(row, space)
    })?;
    let (mut records, mut bytes) = (Vec::new(), 0);
    for record in found {
        let record = record?;
        bytes += record.body.len();
        records.push(record);
        if bytes >= BODIES_BYTES_MAX {
            break;
        }
    }
    Ok(records)
}

/// Returns the lane for these reads.
pub(crate) fn lane_for_reads(queries: &[ReadQuery]) -> Lane {
    let is_bulk = |query: &ReadQuery| match query {
        ReadQuery::History { .. }
        | ReadQuery::Entries { .. }
        | ReadQuery::DeadLetters { .. }
        | ReadQuery::Dependencies { .. }
        | ReadQuery::Timeline { .. }
        | ReadQuery::Items { .. } => true,
        ReadQuery::Entry { .. }
        | ReadQuery::Message { .. }
        | ReadQuery::MessageByClientId(_)
        | ReadQuery::MessageOfDelivery(_)
        | ReadQuery::Deliveries { .. }
        | ReadQuery::SeqAt(_)
        | ReadQuery::Record(_)
        | ReadQuery::Item(_)
        | ReadQuery::Part { .. } => false,
    };
    if queries.iter().any(is_bulk) { Lane::Bulk } else { Lane::Point }
}

/// Returns the lane for reading up to `max` records of the log.
pub(crate) fn lane_for_records(max: usize) -> Lane {
    if max > 1 { Lane::Bulk } else { Lane::Point }
}
