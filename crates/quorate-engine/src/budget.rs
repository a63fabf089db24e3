//! Budgets as callers see them.

use quorate_core::{Budget, BudgetId, Item, ItemKey, ItemKind};
use quorate_store::{Read, Rows};

use crate::error::Error;
use crate::reads::unexpected;
use crate::space::Space;

impl Space {
    /// A budget as it is; `None` if there is none.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn budget(&self, id: &BudgetId) -> Result<Option<Budget>, Error> {
        match self.read_one(Read::Item(ItemKey::new(ItemKind::Budget, id.as_str()))).await? {
            Rows::Item(Some(Item::Budget(budget))) => Ok(Some(budget)),
            Rows::Item(_) => Ok(None),
            other => Err(unexpected(&other)),
        }
    }
}
