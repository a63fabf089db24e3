//! Item changes, and the timers of items.

use crate::decide::{Draft, No};
use crate::effect::Effect;
use crate::item::{Item, ItemKey, ItemKind, Keep, Verb};
use crate::limits::SWEEP_MAX;

impl Draft<'_> {
    /// Returns an item from memory or storage, including the effects of this commit.
    pub(super) fn item(&self, key: &ItemKey) -> Result<Option<Item>, No> {
        if let Some(item) = self.working.items().get(key) {
            return Ok(Some(item));
        }
        match self.items_over.get(key) {
            Some(over) => Ok(over.clone()),
            None => Ok(self.rows.item(key)?),
        }
    }

    /// Sets the new state of an item.
    pub(super) fn change(&mut self, verb: Verb, item: Item) {
        match item.keep() {
            // It may have been closed earlier in this commit, and is open again.
            Keep::AtHand if self.items_over.is_empty() => {}
            Keep::AtHand => drop(self.items_over.remove(&item.key())),
            Keep::Stored => drop(self.items_over.insert(item.key(), Some(item.clone()))),
            Keep::Gone => drop(self.items_over.insert(item.key(), None)),
        }
        self.emit(Effect::Changed { verb, item });
    }

    /// Processes due timers of items. Bounded: the next sweep runs immediately if there is more to do.
    pub(super) fn sweep_items(&mut self) -> Result<(), No> {
        for (key, part) in self.working.items().went_off(self.now, SWEEP_MAX) {
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
                ItemKind::Request => self.time_out(&key),
                ItemKind::Token => self.expire_token(&key),
                ItemKind::Approval => self.expire_approval(&key)?,
            }
        }
        Ok(())
    }
}
