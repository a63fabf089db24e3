//! Lists of what is kept as one row each, page by page: one way for tasks, approvals and procedures.

use std::sync::Arc;

use quorate_core::{Item, ItemKind};
use quorate_store::{Read, Rows};

use crate::error::Error;
use crate::reads::unexpected;
use crate::space::Space;

/// Items looked at for one page of a list; the cursor leads on.
const LOOKED_AT_MAX: usize = 10_000;
/// Items read at once.
const AT_ONCE: usize = 500;

/// Some items, and where to go on.
pub(crate) struct Items<T> {
    pub(crate) found: Vec<T>,
    /// The id after which the next page begins; `None` if there is none.
    pub(crate) cursor: Option<Arc<str>>,
}

impl Space {
    /// The items of a kind by id, after one of them, as far as they are wanted. A page may be short and still have a
    /// cursor: it looked at many that were not.
    pub(crate) async fn items<T>(
        &self,
        kind: ItemKind,
        after: Option<Arc<str>>,
        limit: usize,
        wanted: impl Fn(Item) -> Option<T>,
    ) -> Result<Items<T>, Error> {
        let mut page = Items { found: Vec::new(), cursor: after };
        let mut looked_at = 0;
        while looked_at < LOOKED_AT_MAX {
            let read = Read::Items { kind, after: page.cursor.clone(), limit: AT_ONCE };
            let items = match self.read_one(read).await? {
                Rows::Items(items) => items,
                other => return Err(unexpected(&other)),
            };
            let is_last = items.len() < AT_ONCE;
            looked_at += items.len();
            for item in items {
                page.cursor = Some(Arc::clone(&item.key().id));
                page.found.extend(wanted(item));
                if page.found.len() == limit {
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
