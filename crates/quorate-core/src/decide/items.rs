//! Changing items, and the alarms that time sets off.

use crate::decide::{Draft, No};
use crate::effect::Effect;
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::SWEEP_MAX;

impl Draft<'_> {
    /// An item as this commit left it, at hand or stored.
    pub(super) fn item(&self, key: &ItemKey) -> Result<Option<Item>, No> {
        if let Some(item) = self.working.items().get(key) {
            return Ok(Some(item));
        }
        let here = self.effects.iter().rev().find_map(|effect| match effect {
            Effect::Changed { item, .. } if item.key() == *key => Some(item.clone()),
            _ => None,
        });
        match here {
            Some(item) => Ok(Some(item)),
            None => Ok(self.rows.item(key)?),
        }
    }

    /// Gives an item its new state.
    pub(super) fn change(&mut self, verb: Verb, item: Item) {
        self.emit(Effect::Changed { verb, item });
    }

    /// Lets every alarm that went off do its work. Bounded: what is left over is found by the next sweep, at once.
    pub(super) fn sweep_items(&mut self) {
        for (key, part) in self.working.items().went_off(self.now, SWEEP_MAX) {
            match key.kind {
                ItemKind::Lock => self.expire_lock(&key, part),
                ItemKind::Policy | ItemKind::Session => {}
                ItemKind::Request => self.time_out(&key),
            }
        }
    }
}
