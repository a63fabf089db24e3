//! Entries that depend on others, with the current versions of their dependencies.

use std::collections::BTreeMap;

use quorate_core::{Effect, EntryHead, Key};
use quorate_store::EntryDependencies;
use rusqlite::OptionalExtension as _;

use super::ReadSnapshot;
use crate::lookup::decode_entry_head;
use crate::readers::ReadError;

/// Lists the live entries that depend on others, by key.
pub(super) fn list(
    snapshot: &ReadSnapshot<'_>,
    after: Option<&Key>,
    limit: usize,
) -> Result<Vec<EntryDependencies>, ReadError> {
    let newer = snapshot.memtable.entries.iter().filter(|(key, _)| after.is_none_or(|after| *key > after));
    // In the memtable, some of the stored entries may be deleted or no longer have dependencies.
    let limit_with_reserve = limit.saturating_add(snapshot.memtable.entries.len());
    let stored = stored(snapshot, after, limit_with_reserve)?;
    let complete = stored.len() < limit_with_reserve;
    let last = stored.last().map(|(key, _)| key.clone());
    let mut all: BTreeMap<Key, EntryHead> = stored.into_iter().collect();
    for (key, entry) in newer {
        if entry.head.deleted || entry.dependency_count == 0 {
            all.remove(key);
        } else if complete || Some(key) <= last.as_ref() {
            all.insert(key.clone(), entry.head);
        }
    }
    all.into_iter().take(limit).map(|(key, head)| with_dependencies(snapshot, key, head)).collect()
}

fn stored(
    snapshot: &ReadSnapshot<'_>,
    after: Option<&Key>,
    limit: usize,
) -> Result<Vec<(Key, EntryHead)>, ReadError> {
    let mut statement = snapshot.connection.prepare_cached(
        "SELECT version, generation, seq, deleted, key FROM entries
         WHERE space = ?1 AND key > ?2 AND NOT deleted AND depends > 0 ORDER BY key LIMIT ?3",
    )?;
    let mut rows = statement.query((snapshot.space.0, after.map_or("", Key::as_str), limit))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let key: String = row.get(4)?;
        let key = Key::new(&key).map_err(|refused| ReadError::Other(refused.detail))?;
        found.push((key, decode_entry_head(row)?));
    }
    Ok(found)
}

fn with_dependencies(
    snapshot: &ReadSnapshot<'_>,
    key: Key,
    head: EntryHead,
) -> Result<EntryDependencies, ReadError> {
    let decoded = snapshot.record(head.seq)?;
    let (_, body) = &*decoded;
    let mut depends_on = Vec::new();
    for effect in &body.effects {
        if let Effect::Written { key: written, version, depends_on: dependencies, .. } = effect
            && (written, *version) == (&key, head.version)
        {
            for (dependency, version) in dependencies {
                let now = newest(snapshot, dependency)?;
                depends_on.push((dependency.clone(), *version, now));
            }
        }
    }
    Ok(EntryDependencies { key, version: head.version, depends_on })
}

/// Returns the newest version of an entry, including tombstones.
fn newest(snapshot: &ReadSnapshot<'_>, key: &Key) -> Result<Option<EntryHead>, ReadError> {
    if let Some(entry) = snapshot.memtable.entries.get(key) {
        return Ok(Some(entry.head));
    }
    let sql = "SELECT version, generation, seq, deleted FROM entries WHERE space = ?1 AND key = ?2";
    let mut statement = snapshot.connection.prepare_cached(sql)?;
    Ok(statement.query_row((snapshot.space.0, key.as_str()), decode_entry_head).optional()?)
}
