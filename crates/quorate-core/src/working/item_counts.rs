//! Number of items of a kind, in total and per agent. For quotas of items that are not all in memory.

use std::hash::Hash;

use crate::working::Map;

/// Counts of one kind of item.
#[derive(Debug)]
pub(crate) struct ItemCounts<K> {
    total: usize,
    by_agent: Map<K, usize>,
}

impl<K> Default for ItemCounts<K> {
    fn default() -> Self {
        Self { total: 0, by_agent: Map::default() }
    }
}

impl<K: Eq + Hash> ItemCounts<K> {
    /// Returns the number of all items.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Returns the number of items that belong to an agent.
    pub(crate) fn of(&self, agent: &K) -> usize {
        self.by_agent.get(agent).copied().unwrap_or(0)
    }

    /// Adds an item, which may belong to an agent.
    pub(super) fn add(&mut self, agent: Option<K>) {
        self.total += 1;
        if let Some(agent) = agent {
            *self.by_agent.entry(agent).or_default() += 1;
        }
    }

    /// Removes an item that was added for the same agent.
    pub(super) fn remove(&mut self, agent: Option<K>) {
        self.total = self.total.saturating_sub(1);
        let Some(agent) = agent else { return };
        if let Some(count) = self.by_agent.get_mut(&agent) {
            *count -= 1;
            if *count == 0 {
                self.by_agent.remove(&agent);
            }
        }
    }
}
