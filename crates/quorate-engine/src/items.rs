//! Pages of nouns that are kept as one row each: those that the caller may see.

use std::sync::Arc;

use quorate_core::{AgentId, Budget, Item, ItemKind, Request};
use quorate_store::{Read, Rows};

use crate::error::Error;
use crate::reads::unexpected;
use crate::space::Space;

/// Rows looked at for one page; the cursor leads on.
const LOOKED_AT_MAX: usize = 10_000;
/// Rows read at once.
const PAGE: usize = 500;

/// A page. It may be short and still have a cursor: it looked at many that were not wanted.
#[derive(Clone, Debug)]
pub struct ItemPage<T> {
    /// What was found, by id.
    pub items: Vec<T>,
    /// The id after which it goes on; `None` if there is no more.
    pub cursor: Option<String>,
}

impl Space {
    /// The budgets after this id, by id: all, or those of one agent.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn budgets(
        &self,
        owner: Option<&AgentId>,
        after: Option<String>,
        limit: usize,
    ) -> Result<ItemPage<Budget>, Error> {
        let published = self.published();
        let is = |number| published.agents.get(number).is_some_and(|agent| Some(&agent.id) == owner);
        let wanted = |item| match item {
            Item::Budget(budget) if owner.is_none() || budget.owner.is_some_and(is) => Some(budget),
            _ => None,
        };
        self.items_of(ItemKind::Budget, after, limit, wanted).await
    }

    /// The requests after this id, by id, open or over: all, or those that one agent made.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn requests(
        &self,
        from: Option<&AgentId>,
        after: Option<String>,
        limit: usize,
    ) -> Result<ItemPage<Request>, Error> {
        let published = self.published();
        let is = |number| published.agents.get(number).is_some_and(|agent| Some(&agent.id) == from);
        let wanted = |item| match item {
            Item::Request(request) if from.is_none() || is(request.from) => Some(request),
            _ => None,
        };
        self.items_of(ItemKind::Request, after, limit, wanted).await
    }

    async fn items_of<T>(
        &self,
        kind: ItemKind,
        after: Option<String>,
        limit: usize,
        wanted: impl Fn(Item) -> Option<T>,
    ) -> Result<ItemPage<T>, Error> {
        let mut page = ItemPage { items: Vec::new(), cursor: after };
        let mut looked_at = 0;
        while looked_at < LOOKED_AT_MAX {
            let after = page.cursor.as_deref().map(Arc::from);
            let rows = match self.read_one(Read::Items { kind, after, limit: PAGE }).await? {
                Rows::Items(rows) => rows,
                other => return Err(unexpected(&other)),
            };
            let is_last = rows.len() < PAGE;
            looked_at += rows.len();
            for row in rows {
                page.cursor = Some(row.key().id.to_string());
                page.items.extend(wanted(row));
                if page.items.len() == limit {
                    return Ok(page);
                }
            }
            if is_last {
                page.cursor = None;
                break;
            }
        }
        Ok(page)
    }
}
