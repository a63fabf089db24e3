//! What the entries of the shared memory were built on, read page by page and bounded.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use quorate_core::{EntryHead, Key, SpaceNo, Version};
use quorate_store::{Built, Read, Rows, Store, StoreError};

use crate::error::Error;

/// Entries that were built on others, as many as are looked at.
const ENTRIES_MAX: usize = 100_000;
/// What they were built on, all together.
const DEPENDENCIES_MAX: usize = 1_000_000;
/// Entries that are read at once.
const PAGE: usize = 256;

/// Live entries, each with what its newest version was built on.
#[derive(Default)]
pub(crate) struct Dependencies {
    /// By key.
    pub(crate) entries: Vec<Entry>,
    /// Whether these are all.
    pub(crate) complete: bool,
}

/// A live entry that was built on others.
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) version: Version,
    pub(crate) on: Vec<On>,
}

/// Another entry that an entry was built on. That it was built on an earlier version of itself is nothing to note.
pub(crate) struct On {
    pub(crate) key: Key,
    /// The version it had then; 0 = it was not there.
    pub(crate) version: Version,
    /// What it is now.
    pub(crate) now: Option<EntryHead>,
}

impl Dependencies {
    /// Reads them. Each entry is as it was at one moment; two entries may be of two moments.
    pub(crate) async fn read(store: &Arc<dyn Store>, space: SpaceNo) -> Result<Self, Error> {
        let mut found = Self { complete: true, ..Self::default() };
        let mut after = None;
        let mut dependencies = 0;
        loop {
            let page = Read::Built { after: after.clone(), limit: PAGE };
            let rows = store.read(space, vec![page]).await?;
            let Some(Rows::Built(page)) = rows.into_iter().next() else {
                return Err(StoreError::Read("dependencies were not answered".into()).into());
            };
            let Some(last) = page.last() else { return Ok(found) };
            after = Some(last.key.clone());
            for Built { key, version, depends_on } in page {
                if found.entries.len() >= ENTRIES_MAX || dependencies >= DEPENDENCIES_MAX {
                    found.complete = false;
                    return Ok(found);
                }
                dependencies += depends_on.len();
                let others = depends_on.into_iter().filter(|(on, ..)| *on != key);
                let on = others.map(|(key, version, now)| On { key, version, now }).collect();
                found.entries.push(Entry { key, version, on });
            }
        }
    }

    /// Which entries were built on something of which `is_undone` is true, or on the newest version of such an entry, and on
    /// what. By key.
    pub(crate) fn built_on(&self, is_undone: impl Fn(&Key, Version) -> bool) -> Vec<(&Entry, &On)> {
        let index: HashMap<&Key, usize> =
            self.entries.iter().enumerate().map(|(index, entry)| (&entry.key, index)).collect();
        let mut users: Vec<Vec<(usize, &On)>> = self.entries.iter().map(|_| Vec::new()).collect();
        let mut found: Vec<Option<&On>> = vec![None; self.entries.len()];
        let mut next = Vec::new();
        for (user, entry) in self.entries.iter().enumerate() {
            for on in &entry.on {
                if let Some(used) = index.get(&on.key)
                    && self.entries[*used].version == on.version
                {
                    users[*used].push((user, on));
                }
                if found[user].is_none() && is_undone(&on.key, on.version) {
                    found[user] = Some(on);
                    next.push(user);
                }
            }
        }
        while let Some(used) = next.pop() {
            for (user, on) in &users[used] {
                if found[*user].is_none() {
                    found[*user] = Some(on);
                    next.push(*user);
                }
            }
        }
        self.entries.iter().zip(found).filter_map(|(entry, on)| Some((entry, on?))).collect()
    }

    /// One cycle of each group of entries that were built on each other, each by the smallest key in it.
    pub(crate) fn cycles(&self) -> Vec<Vec<Key>> {
        let index: HashMap<&Key, usize> =
            self.entries.iter().enumerate().map(|(index, entry)| (&entry.key, index)).collect();
        let edges: Vec<Vec<usize>> = self
            .entries
            .iter()
            .map(|entry| entry.on.iter().filter_map(|on| index.get(&on.key).copied()).collect())
            .collect();
        let mut cycles: Vec<Vec<Key>> = Vec::new();
        for group in groups(&edges) {
            let members: BTreeSet<usize> = group.into_iter().collect();
            // Every member leads to another one, so that following them comes back in the end.
            let mut path: Vec<usize> = members.first().copied().into_iter().collect();
            while let Some(last) = path.last()
                && let Some(step) = edges[*last].iter().find(|step| members.contains(*step))
            {
                if let Some(start) = path.iter().position(|seen| seen == step) {
                    cycles.push(path[start..].iter().map(|one| self.entries[*one].key.clone()).collect());
                    break;
                }
                path.push(*step);
            }
        }
        cycles.sort();
        cycles
    }
}

/// Groups of more than one, in which each leads to each (Tarjan's, without recursion: chains may be long).
fn groups(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut number = vec![UNSEEN; edges.len()];
    let mut lowest = vec![0; edges.len()];
    let mut waiting = vec![false; edges.len()];
    let (mut stack, mut found, mut count) = (Vec::new(), Vec::new(), 0);
    for root in 0..edges.len() {
        let mut work = if number[root] == UNSEEN { vec![(root, 0)] } else { Vec::new() };
        while let Some((node, edge)) = work.pop() {
            if edge == 0 {
                number[node] = count;
                lowest[node] = count;
                count += 1;
                stack.push(node);
                waiting[node] = true;
            } else {
                let child = edges[node][edge - 1];
                if waiting[child] {
                    lowest[node] = lowest[node].min(lowest[child]);
                }
            }
            match edges[node].get(edge) {
                Some(child) => {
                    work.push((node, edge + 1));
                    if number[*child] == UNSEEN {
                        work.push((*child, 0));
                    }
                }
                None if lowest[node] == number[node] => {
                    let start = stack.iter().rposition(|member| *member == node).unwrap_or(0);
                    let group = stack.split_off(start);
                    group.iter().for_each(|member| waiting[*member] = false);
                    if group.len() > 1 {
                        found.push(group);
                    }
                }
                None => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key, its version, and what it was built on.
    type Built<'a> = (&'a str, u64, &'a [(&'a str, u64)]);

    fn dependencies(entries: &[Built<'_>]) -> Dependencies {
        let key = |text: &str| Key::new(text).expect("a good key");
        let on = |(name, version): &(&str, u64)| On { key: key(name), version: Version(*version), now: None };
        let entry = |(name, version, ons): &Built<'_>| Entry {
            key: key(name),
            version: Version(*version),
            on: ons.iter().map(on).collect(),
        };
        Dependencies { entries: entries.iter().map(entry).collect(), complete: true }
    }

    fn words(cycles: &[Vec<Key>]) -> Vec<String> {
        let words = |cycle: &Vec<Key>| cycle.iter().map(Key::as_str).collect::<Vec<_>>().join(" ");
        cycles.iter().map(words).collect()
    }

    // Fails under: `lowest` not handed up from a child, or a member left waiting in the stack.
    #[test]
    fn c11_every_cycle_is_found_once() {
        let found = dependencies(&[
            ("a", 1, &[("b", 1), ("x", 1)]),
            ("b", 1, &[("c", 1)]),
            ("c", 1, &[("a", 1), ("d", 1)]),
            ("d", 1, &[("e", 1)]),
            ("e", 1, &[("f", 1)]),
            ("f", 1, &[("e", 1)]),
            ("g", 1, &[("a", 1), ("e", 1)]),
        ]);
        assert_eq!(words(&found.cycles()), ["a b c", "e f"]);
        let line: Vec<_> = (0..50_000).map(|number| format!("k{number:05}")).collect();
        let ons: Vec<_> = line.iter().skip(1).chain([&line[0]]).map(|next| [(next.as_str(), 1)]).collect();
        let all: Vec<_> = line.iter().zip(&ons).map(|(name, on)| (name.as_str(), 1, &on[..])).collect();
        assert_eq!(dependencies(&all).cycles()[0].len(), 50_000, "no stack is deep enough for recursion");
    }

    // Fails under: a version that is not compared, or a step that is not followed.
    #[test]
    fn c11_what_was_built_on_what_was_undone_is_found_transitively() {
        let found = dependencies(&[
            ("direct", 3, &[("base", 5)]),
            ("fine", 1, &[("base", 4)]),
            ("old", 1, &[("direct", 2)]),
            ("second", 1, &[("direct", 3)]),
            ("third", 9, &[("fine", 1), ("second", 1)]),
        ]);
        let undone = |key: &Key, version: Version| key.as_str() == "base" && version == Version(5);
        let built = found.built_on(undone);
        let words: Vec<_> =
            built.iter().map(|(entry, on)| format!("{} on {} v{}", entry.key, on.key, on.version)).collect();
        assert_eq!(words, ["direct on base v5", "second on direct v3", "third on second v1"]);
    }
}
