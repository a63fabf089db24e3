//! Item changes, and the timers of items.

use crate::decide::{DecideError, Draft};
use crate::effect::Effect;
use crate::item::{Item, ItemKey, ItemKind, Retention, Verb};
use crate::limits::SWEEP_MAX;

impl Draft<'_> {
    /// Returns an item from memory or storage, including the effects of this commit.
    pub(super) fn item(&self, key: &ItemKey) -> Result<Option<Item>, DecideError> {
        if let Some(item) = self.working.items().get(key) {
            return Ok(Some(item));
        }
        match self.closed_items.get(key) {
            Some(closed) => Ok(closed.clone()),
            None => Ok(self.lookup.item(key)?),
        }
    }

    /// Sets the new state of an item.
    pub(super) fn change_item(&mut self, verb: Verb, item: Item) {
        match item.retention() {
            // It may have been closed earlier in this commit, and is open again.
            Retention::InMemory if self.closed_items.is_empty() => {}
            Retention::InMemory => drop(self.closed_items.remove(&item.key())),
            Retention::RowOnly => drop(self.closed_items.insert(item.key(), Some(item.clone()))),
            Retention::LogOnly => drop(self.closed_items.insert(item.key(), None)),
        }
        self.emit(Effect::Changed { verb, item });
    }

    /// Processes due timers of items. Bounded: the next sweep runs immediately if there is more to do.
    pub(super) fn sweep_items(&mut self) -> Result<(), DecideError> {
        for (key, part) in self.working.items().due_timers(self.now, SWEEP_MAX) {
            match key.kind {
                ItemKind::Lock => self.expire_lock(&key, part),
                ItemKind::Policy
                | ItemKind::Session
                | ItemKind::Snapshot
                | ItemKind::Budget
                | ItemKind::Subscription
                | ItemKind::Pool
                | ItemKind::Procedure => {}
                ItemKind::Task => self.sweep_task(&key, part)?,
                ItemKind::Request => self.time_out_request(&key),
                ItemKind::Token => self.expire_token(&key),
                ItemKind::Approval => self.expire_approval(&key)?,
            }
        }
        Ok(())
    }
}
