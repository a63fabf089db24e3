//! The rules of the space.

use quorate_core::{Item, OpResult, Policy, Refused};

use crate::reference::step::Step;

impl Step<'_> {
    pub(super) fn set_policy(&mut self, policy: &Policy) -> Result<OpResult, Refused> {
        self.require_system()?;
        let new = Item::Policy(policy.clone());
        let old = self.space.items.get(&new.key()).cloned();
        if old.unwrap_or(Item::Policy(Policy::default())) != new {
            self.set_item(new);
        }
        Ok(OpResult::Done)
    }

    /// Writes down the new state of an item.
    pub(super) fn set_item(&mut self, item: Item) {
        self.changed = true;
        if item.keep() == quorate_core::Keep::Gone {
            self.space.items.remove(&item.key());
        } else {
            self.space.items.insert(item.key(), item);
        }
    }
}
