//! Reads of items: single items, and lists in any order, merged from the table and the memtable.

use quorate_core::{CreationPosition, Item, ItemKey, ItemKind, ItemRange};
use quorate_store::ListedItem;
use rusqlite::OptionalExtension as _;
use rusqlite::types::Value;

use super::ReadSnapshot;
use crate::load;
use crate::readers::ReadError;

/// Reads an item from the table.
pub(super) fn stored(snapshot: &ReadSnapshot<'_>, key: &ItemKey) -> Result<Option<Item>, ReadError> {
    let sql = "SELECT kind, id, state FROM items WHERE space = ?1 AND kind = ?2 AND id = ?3";
    let mut statement = snapshot.connection.prepare_cached(sql)?;
    let mut rows = statement.query((snapshot.space.0, key.kind.number(), &*key.id))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    load::decode_item(row).map(Some).map_err(|error| ReadError::Other(error.to_string()))
}

/// Lists the first `limit` items of a range.
pub(super) fn list(
    snapshot: &ReadSnapshot<'_>,
    kind: ItemKind,
    range: &ItemRange,
    limit: usize,
) -> Result<Vec<ListedItem>, ReadError> {
    let mut found = only_in_memtable(snapshot, kind, range, limit)?;
    found.extend(in_table(snapshot, kind, range, limit)?);
    found.sort_by(|(left_id, left), (right_id, right)| {
        range.compare((left.created, left_id), (right.created, right_id))
    });
    found.truncate(limit);
    Ok(found.into_iter().map(|(_, listed)| listed).collect())
}

type Found = Vec<(String, ListedItem)>;

/// Returns the items that have no row in the table yet. Only for these the memtable contains the position of creation;
/// the others are listed from the table.
fn only_in_memtable(
    snapshot: &ReadSnapshot<'_>,
    kind: ItemKind,
    range: &ItemRange,
    limit: usize,
) -> Result<Found, ReadError> {
    let mut newer: Vec<_> = { snapshot.memtable.items_of(kind) }
        .filter(|(key, changed)| range.contains(changed.created, &key.id))
        .collect();
    newer.sort_by(|(left_key, left), (right_key, right)| {
        range.compare((left.created, &left_key.id), (right.created, &right_key.id))
    });
    let sql = "SELECT 1 FROM items WHERE space = ?1 AND kind = ?2 AND id = ?3";
    let mut statement = snapshot.connection.prepare_cached(sql)?;
    let mut found = Vec::new();
    for (key, changed) in newer {
        if found.len() == limit {
            break;
        }
        let Some(item) = &changed.item else { continue };
        let row_key = (snapshot.space.0, kind.number(), &*key.id);
        if changed.recreated || statement.query_row(row_key, |_| Ok(())).optional()?.is_none() {
            found.push((key.id.to_string(), ListedItem { created: changed.created, item: item.clone() }));
        }
    }
    Ok(found)
}

/// Returns the items that have a row in the table, in their current state.
fn in_table(
    snapshot: &ReadSnapshot<'_>,
    kind: ItemKind,
    range: &ItemRange,
    limit: usize,
) -> Result<Found, ReadError> {
    let number = |created: &CreationPosition| Value::Integer(created.number() as i64);
    let (condition, bound) = match range {
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
        format!("SELECT kind, id, state, created FROM items WHERE space = ?1 AND kind = ?2 AND {condition}");
    let mut statement = snapshot.connection.prepare_cached(&sql)?;
    let mut rows = statement.query((snapshot.space.0, kind.number(), bound))?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let (id, created): (String, u64) = (row.get(1)?, row.get(3)?);
        let item = match snapshot.memtable.items.get(&ItemKey::new(kind, id.as_str())) {
            Some(newer) if newer.recreated => None,
            Some(newer) => newer.item.clone(),
            None => Some(load::decode_item(row).map_err(|error| ReadError::Other(error.to_string()))?),
        };
        let created = CreationPosition::from_number(created);
        found.extend(item.map(|item| (id, ListedItem { created, item })));
    }
    Ok(found)
}
