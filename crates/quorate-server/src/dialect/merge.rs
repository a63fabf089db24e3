//! Three-way merge of JSON documents: combines the changes of two writers since a common base, and reports values
//! that both changed differently as conflicts. Pure: independent of sessions and storage.
//!
//! Objects merge member by member. Lists merge by the `id` of their entries; entries without one are compared by
//! value, and entries added by either side are appended. Unchanged values keep their bytes.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use serde_json::value::RawValue;

use super::writer::{ObjectWriter, to_raw_json};
use crate::body::RequestFields;

/// A value that both sides changed differently. `None` means absent: removed, or never set.
#[derive(Clone, Debug)]
pub(crate) struct Conflict {
    /// JSON pointer (RFC 6901) into the current document; for absent values, into the submitted one.
    pub(crate) pointer: String,
    pub(crate) base: Option<Box<RawValue>>,
    pub(crate) current: Option<Box<RawValue>>,
    pub(crate) submitted: Option<Box<RawValue>>,
}

/// Result of a merge. Conflicting values keep their current value in the document.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) document: Box<RawValue>,
    pub(crate) conflicts: Vec<Conflict>,
}

/// Applies the changes from `base` to `submitted` to `current`.
pub(crate) fn merge(base: &RawValue, current: &RawValue, submitted: &RawValue) -> Merged {
    let mut merger = Merger { pointer: String::new(), conflicts: Vec::new() };
    let merged = merger.value(Some(base), Some(current), Some(submitted));
    Merged { document: merged.unwrap_or_else(|| current.to_owned()), conflicts: merger.conflicts }
}

/// Returns the pointer of the first value in `current` that `submitted` changes or lacks; `None` if `submitted` only
/// adds values.
pub(crate) fn first_change(current: &RawValue, submitted: &RawValue) -> Option<String> {
    let mut pointer = String::new();
    (!extends(current, submitted, &mut pointer)).then_some(pointer)
}

struct Merger {
    /// Pointer of the value being merged.
    pointer: String,
    conflicts: Vec<Conflict>,
}

impl Merger {
    fn value(
        &mut self,
        base: Option<&RawValue>,
        current: Option<&RawValue>,
        submitted: Option<&RawValue>,
    ) -> Option<Box<RawValue>> {
        if same(current, submitted) || same(base, submitted) {
            return current.map(ToOwned::to_owned);
        }
        if same(base, current) {
            return submitted.map(ToOwned::to_owned);
        }
        if let (Some(current), Some(submitted)) = (members(current), members(submitted)) {
            return Some(self.object(&members(base).unwrap_or_default(), &current, &submitted));
        }
        if let (Some(current), Some(submitted)) = (entries(current), entries(submitted)) {
            return Some(self.list(&entries(base).unwrap_or_default(), &current, &submitted));
        }
        self.conflict(base, current, submitted)
    }

    /// Records a conflict; the current value stays.
    fn conflict(
        &mut self,
        base: Option<&RawValue>,
        current: Option<&RawValue>,
        submitted: Option<&RawValue>,
    ) -> Option<Box<RawValue>> {
        let owned = |value: Option<&RawValue>| value.map(ToOwned::to_owned);
        self.conflicts.push(Conflict {
            pointer: self.pointer.clone(),
            base: owned(base),
            current: owned(current),
            submitted: owned(submitted),
        });
        owned(current)
    }

    fn object(
        &mut self,
        base: &Members<'_>,
        current: &Members<'_>,
        submitted: &Members<'_>,
    ) -> Box<RawValue> {
        let added = submitted.iter().filter(|(name, _)| find(current, name).is_none());
        let mut merged = ObjectWriter::default();
        for (name, _) in current.iter().chain(added) {
            let length = enter(&mut self.pointer, name);
            let value = self.value(find(base, name), find(current, name), find(submitted, name));
            self.pointer.truncate(length);
            merged = merged.with_optional(name, value);
        }
        merged.to_raw()
    }

    fn list(&mut self, base: &[&RawValue], current: &[&RawValue], submitted: &[&RawValue]) -> Box<RawValue> {
        let lists = [base, current, submitted];
        let by_id = lists.iter().all(|list| ids_are_unique(list));
        let [base, current, submitted] = lists.map(|list| Keyed::new(list, by_id));
        let mut removed = base.surplus_over(&submitted);
        let mut merged = Vec::new();
        for (index, entry) in current.entries.iter().enumerate() {
            match &entry.id {
                Some(id) => {
                    merged.extend(self.entry(index, base.find(id), Some(entry.raw), submitted.find(id)))
                }
                None if take_one(&mut removed, &entry.canonical) => {}
                None => merged.push(entry.raw.to_owned()),
            }
        }
        // An entry that both sides added is one entry: a repeated request adds nothing.
        let mut added_by_current = current.surplus_over(&base);
        let mut retained = base.counts();
        for (index, entry) in submitted.entries.iter().enumerate() {
            match &entry.id {
                Some(id) if current.find(id).is_some() => {}
                Some(id) => merged.extend(self.entry(index, base.find(id), None, Some(entry.raw))),
                None if take_one(&mut retained, &entry.canonical) => {}
                None if take_one(&mut added_by_current, &entry.canonical) => {}
                None => merged.push(entry.raw.to_owned()),
            }
        }
        to_raw_json(&merged)
    }

    /// Merges an entry that has an id.
    fn entry(
        &mut self,
        index: usize,
        base: Option<&RawValue>,
        current: Option<&RawValue>,
        submitted: Option<&RawValue>,
    ) -> Option<Box<RawValue>> {
        let length = enter(&mut self.pointer, &index.to_string());
        // Two entries added with the same id are different entries, even if their members do not overlap.
        let is_id_conflict =
            base.is_none() && current.is_some() && submitted.is_some() && !same(current, submitted);
        let merged = match is_id_conflict {
            true => self.conflict(base, current, submitted),
            false => self.value(base, current, submitted),
        };
        self.pointer.truncate(length);
        merged
    }
}

fn extends(current: &RawValue, submitted: &RawValue, pointer: &mut String) -> bool {
    if same(Some(current), Some(submitted)) {
        return true;
    }
    let mut retained = |name: &str, current: &RawValue, submitted: Option<&RawValue>| {
        let length = enter(pointer, name);
        let retained = submitted.is_some_and(|submitted| extends(current, submitted, pointer));
        if retained {
            pointer.truncate(length);
        }
        retained
    };
    if let (Some(current), Some(submitted)) = (members(Some(current)), members(Some(submitted))) {
        return current.iter().all(|(name, value)| retained(name, value, find(&submitted, name)));
    }
    if let (Some(current), Some(submitted)) = (entries(Some(current)), entries(Some(submitted))) {
        let by_id = ids_are_unique(&current) && ids_are_unique(&submitted);
        let (current, submitted) = (Keyed::new(&current, by_id), Keyed::new(&submitted, by_id));
        let mut counts = submitted.counts();
        return current.entries.iter().enumerate().all(|(index, entry)| match &entry.id {
            Some(id) => retained(&index.to_string(), entry.raw, submitted.find(id)),
            None => take_one(&mut counts, &entry.canonical) || retained(&index.to_string(), entry.raw, None),
        });
    }
    false
}

/// Whether two values are equal JSON, regardless of member order and white space.
pub(crate) fn same(left: Option<&RawValue>, right: Option<&RawValue>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => left.get() == right.get() || canonical(left) == canonical(right),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Returns a comparable form of the value. Numbers out of range, such as `1e999`, are compared as written.
pub(crate) fn canonical(raw: &RawValue) -> String {
    serde_json::from_str::<Value>(raw.get()).map_or_else(|_| raw.get().to_owned(), |value| value.to_string())
}

/// Returns the `id` of a list entry: a string or a number.
pub(crate) fn id_of(entry: &RawValue) -> Option<String> {
    let members = members(Some(entry))?;
    let id = find(&members, "id")?;
    match serde_json::from_str(id.get()).ok()? {
        id @ (Value::String(_) | Value::Number(_)) => Some(id.to_string()),
        _ => None,
    }
}

type Members<'a> = Vec<(String, &'a RawValue)>;

/// Returns the members of an object in order; of duplicates the last one counts.
fn members(value: Option<&RawValue>) -> Option<Members<'_>> {
    let pairs = serde_json::from_str::<RequestFields<'_>>(value?.get()).ok()?.into_pairs();
    let mut members: Members<'_> = Vec::with_capacity(pairs.len());
    let mut positions: HashMap<String, usize> = HashMap::with_capacity(pairs.len());
    for (name, value) in pairs {
        let name = name.into_owned();
        match positions.get(&name) {
            Some(position) => members[*position].1 = value,
            None => {
                positions.insert(name.clone(), members.len());
                members.push((name, value));
            }
        }
    }
    Some(members)
}

fn find<'a>(members: &Members<'a>, name: &str) -> Option<&'a RawValue> {
    members.iter().find(|(member, _)| member == name).map(|(_, value)| *value)
}

fn entries(value: Option<&RawValue>) -> Option<Vec<&RawValue>> {
    serde_json::from_str(value?.get()).ok()
}

fn ids_are_unique(list: &[&RawValue]) -> bool {
    let mut seen = HashSet::new();
    list.iter().filter_map(|entry| id_of(entry)).all(|id| seen.insert(id))
}

/// A list indexed by entry id.
struct Keyed<'a> {
    entries: Vec<Entry<'a>>,
    by_id: HashMap<String, &'a RawValue>,
}

struct Entry<'a> {
    raw: &'a RawValue,
    /// `None` if it has no id, or if ids of its list are not unique.
    id: Option<String>,
    canonical: String,
}

impl<'a> Keyed<'a> {
    fn new(list: &[&'a RawValue], by_id: bool) -> Self {
        let entry = |raw: &&'a RawValue| {
            let id = by_id.then(|| id_of(raw)).flatten();
            Entry { raw, id, canonical: canonical(raw) }
        };
        let entries: Vec<_> = list.iter().map(entry).collect();
        let by_id = entries.iter().filter_map(|entry| Some((entry.id.clone()?, entry.raw))).collect();
        Self { entries, by_id }
    }

    fn find(&self, id: &str) -> Option<&'a RawValue> {
        self.by_id.get(id).copied()
    }

    /// Counts equal entries without an id.
    fn counts(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for entry in self.entries.iter().filter(|entry| entry.id.is_none()) {
            *counts.entry(entry.canonical.clone()).or_default() += 1;
        }
        counts
    }

    /// Counts how many more of each entry without an id this list has than `other`.
    fn surplus_over(&self, other: &Self) -> HashMap<String, usize> {
        let other = other.counts();
        let surplus = |(entry, count): (String, usize)| {
            let surplus = count.saturating_sub(other.get(&entry).copied().unwrap_or(0));
            (entry, surplus)
        };
        self.counts().into_iter().map(surplus).collect()
    }
}

fn take_one(counts: &mut HashMap<String, usize>, entry: &str) -> bool {
    match counts.get_mut(entry) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}

/// Appends a token to a pointer and returns the previous length.
fn enter(pointer: &mut String, token: &str) -> usize {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
    length
}
