//! Lists of what is kept as one row each, page by page: one way for all of them.

use std::sync::Arc;

use quorate_core::{AgentId, Budget, Item, ItemKind, ItemRange, Request};
use quorate_store::{Read, Rows};

use crate::error::Error;
use crate::reads::unexpected;
use crate::space::Space;

/// Items looked at for one page of a list; the cursor leads on.
const LOOKED_AT_MAX: usize = 10_000;
/// Items read at once.
const AT_ONCE: usize = 500;

/// A page. It may be short and still have a cursor: it looked at many that were not wanted.
#[derive(Clone, Debug)]
pub struct ItemPage<T> {
    /// What was found, by id.
    pub items: Vec<T>,
    /// The id after which it goes on; `None` if there is no more.
    pub cursor: Option<Arc<str>>,
}

impl Space {
    /// The budgets after this id, by id: all, or those of one agent.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn budgets(
        &self,
        owner: Option<&AgentId>,
        after: Option<Arc<str>>,
        limit: usize,
    ) -> Result<ItemPage<Budget>, Error> {
        let published = self.published();
        let is = |number| published.agents.get(number).is_some_and(|agent| Some(&agent.id) == owner);
        let wanted = |item| match item {
            Item::Budget(budget) if owner.is_none() || budget.owner.is_some_and(is) => Some(budget),
            _ => None,
        };
        self.items(ItemKind::Budget, after, limit, wanted).await
    }

    /// The requests after this id, by id, open or over: all, or those that one agent made.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn requests(
        &self,
        from: Option<&AgentId>,
        after: Option<Arc<str>>,
        limit: usize,
    ) -> Result<ItemPage<Request>, Error> {
        let published = self.published();
        let is = |number| published.agents.get(number).is_some_and(|agent| Some(&agent.id) == from);
        let wanted = |item| match item {
            Item::Request(request) if from.is_none() || is(request.from) => Some(request),
            _ => None,
        };
        self.items(ItemKind::Request, after, limit, wanted).await
    }

    /// The items of a kind by id, after one of them, as far as they are wanted.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn items<T>(
        &self,
        kind: ItemKind,
        after: Option<Arc<str>>,
        limit: usize,
        wanted: impl Fn(Item) -> Option<T>,
    ) -> Result<ItemPage<T>, Error> {
        let mut page = ItemPage { items: Vec::new(), cursor: after };
        let mut looked_at = 0;
        while looked_at < LOOKED_AT_MAX {
            let read = Read::Items { kind, range: ItemRange::ById(page.cursor.clone()), limit: AT_ONCE };
            let items = match self.read_one(read).await? {
                Rows::Items(items) => items,
                other => return Err(unexpected(&other)),
            };
            let is_last = items.len() < AT_ONCE;
            looked_at += items.len();
            for item in items.into_iter().map(|listed| listed.item) {
                page.cursor = Some(Arc::clone(&item.key().id));
                page.items.extend(wanted(item));
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
