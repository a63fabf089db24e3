//! Reads of items: single items, and lists in any order, merged from the table and the memtable.

use quorate_core::{CreationPosition, Item, ItemKey, ItemKind, ItemRange};
use quorate_store::ListedItem;
use rusqlite::OptionalExtension as _;
use rusqlite::types::Value;

use super::ReadSnapshot;
use crate::load;
use crate::readers::ReadError;

/// Reads an item from the table.
pub(super) fn stored(reading: &ReadSnapshot<'_>, key: &ItemKey) -> Result<Option<Item>, ReadError> {
    let sql = "SELECT kind, id, state FROM items WHERE space = ?1 AND kind = ?2 AND id = ?3";
    let mut statement = reading.connection.prepare_cached(sql)?;
    let mut rows = statement.query((reading.space.0, key.kind.number(), &*key.id))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    load::decode_item(row).map(Some).map_err(|error| ReadError::Other(error.to_string()))
}

/// Lists the first `limit` items of a range.
pub(super) fn list(
    reading: &ReadSnapshot<'_>,
    kind: ItemKind,
    range: &ItemRange,
    limit: usize,
) -> Result<Vec<ListedItem>, ReadError> {
    let mut found = only_in_memtable(reading, kind, range, limit)?;
    found.extend(in_table(reading, kind, range, limit)?);
    found.sort_by(|(one_id, one), (other_id, other)| {
        range.compare((one.created, one_id), (other.created, other_id))
    });
    found.truncate(limit);
    Ok(found.into_iter().map(|(_, listed)| listed).collect())
}

type Found = Vec<(String, ListedItem)>;

/// Returns the items that have no row in the table yet. Only for these the memtable contains the position of creation;
/// the others are listed from the table.
fn only_in_memtable(
    reading: &ReadSnapshot<'_>,
    kind: ItemKind,
    range: &ItemRange,
    limit: usize,
) -> Result<Found, ReadError> {
    let mut newer: Vec<_> = { reading.memtable.items_of(kind) }
        .filter(|(key, changed)| range.contains(changed.created, &key.id))
        .collect();
    newer.sort_by(|(one, changed), (other, other_changed)| {
        range.compare((changed.created, &one.id), (other_changed.created, &other.id))
    });
    let sql = "SELECT 1 FROM items WHERE space = ?1 AND kind = ?2 AND id = ?3";
    let mut row = reading.connection.prepare_cached(sql)?;
    let mut found = Vec::new();
    for (key, changed) in newer {
        if found.len() == limit {
            break;
        }
        let Some(item) = &changed.item else { continue };
        let of_row = (reading.space.0, kind.number(), &*key.id);
        if changed.recreated || row.query_row(of_row, |_| Ok(())).optional()?.is_none() {
            found.push((key.id.to_string(), ListedItem { created: changed.created, item: item.clone() }));
        }
    }
    Ok(found)
}

/// Returns the items that have a row in the table, in their current state.
fn in_table(
    reading: &ReadSnapshot<'_>,
    kind: ItemKind,
    range: &ItemRange,
    limit: usize,
) -> Result<Found, ReadError> {
    let number = |created: &CreationPosition| Value::Integer(created.number() as i64);
    let (which, bound) = match range {
        ItemRange::ById(after) => {
            ("id > ?3 ORDER BY id", Value::Text(after.as_deref().unwrap_or_default().to_owned()))
        }
        ItemRange::Oldest(after) => {
            ("created > ?3 ORDER BY created", after.as_ref().map_or(Value::Integer(0), number))
        }
        ItemRange::Newest(before) => {
            ("created < ?3 ORDER BY created DESC", before.as_ref().map_or(Value::Integer(i64::MAX), number))
        }
    };
    let sql =
        format!("SELECT kind, id, state, created FROM items WHERE space = ?1 AND kind = ?2 AND {which}");
    let mut statement = reading.connection.prepare_cached(&sql)?;
    let mut rows = statement.query((reading.space.0, kind.number(), bound))?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let (id, created): (String, u64) = (row.get(1)?, row.get(3)?);
        let item = match reading.memtable.items.get(&ItemKey::new(kind, id.as_str())) {
            Some(newer) if newer.recreated => None,
            Some(newer) => newer.item.clone(),
            None => Some(load::decode_item(row).map_err(|error| ReadError::Other(error.to_string()))?),
        };
        let created = CreationPosition::from_number(created);
        found.extend(item.map(|item| (id, ListedItem { created, item })));
    }
    Ok(found)
}
