//! Reads of items: a single item, an item as of a record, and lists, the same for every resource that is stored as
//! one row.

use std::fmt;
use std::sync::Arc;

use quorate_api::page::{Page, encode_cursor};
use quorate_core::{
    AccessToken, Approval, ApprovalId, Budget, BudgetId, Code, Item, ItemKey, ItemKind, ItemRange, Lock,
    LockName, MessageId, Procedure, ProcedureId, Refused, Request, Seq, Session, SessionId, Snapshot,
    SnapshotName, Task, TaskId, TokenId,
};
use quorate_store::{ReadQuery, ReadResult};

use crate::error::Error;
use crate::reads::unexpected_result;
use crate::space::Space;

/// Maximum number of items scanned for one page of a filtered list.
const SCANNED_MAX: usize = 10_000;
/// Number of items read together.
const PAGE: usize = 500;

/// Resource that is stored as one row.
pub trait StoredItem: Sized {
    /// Kind of item.
    const KIND: ItemKind;
    /// Hint if no item with an ID exists.
    const HINT: &'static str;
    /// Type of its ID.
    type Id: fmt::Display;

    /// Converts an item; `None` if it is of another kind.
    fn from_item(item: Item) -> Option<Self>;

    /// Creates the error for an unknown ID.
    fn not_found(id: &Self::Id) -> Refused {
        Refused::new(Code::NotFound, format!("there is no {} {id}", Self::KIND.as_str())).hint(Self::HINT)
    }
}

/// One row per resource: its type, the type of its ID, its item variant, and the hint.
macro_rules! stored_items {
    ($($noun:ty, $id:ty, $kind:ident($held:ident) => $own:expr, $hint:literal;)*) => {$(
        impl StoredItem for $noun {
            const KIND: ItemKind = ItemKind::$kind;
            const HINT: &'static str = $hint;
            type Id = $id;

            fn from_item(item: Item) -> Option<Self> {
                match item {
                    Item::$kind($held) => Some($own),
                    _ => None,
                }
            }
        }
    )*};
}

stored_items! {
    Approval, ApprovalId, Approval(held) => *held, "check the id; list the pending approvals";
    Budget, BudgetId, Budget(held) => held,
        "create it first; list the budgets that you are allowed to see";
    Lock, LockName, Lock(held) => held, "check the name; a lock is created when it is first acquired";
    Procedure, ProcedureId, Procedure(held) => held, "start it first, or check the id";
    Request, MessageId, Request(held) => held,
        "a message without a requester is not a request; inspect it with `why`";
    Session, SessionId, Session(held) => held, "open it first, or check the id";
    Snapshot, SnapshotName, Snapshot(held) => held, "create it first, or check the name";
    Task, TaskId, Task(held) => held, "check the id; list the tasks";
    Arc<AccessToken>, TokenId, Token(held) => held,
        "list the valid tokens; revoked and expired ones are not listed";
}

fn key_of<T: StoredItem>(id: &T::Id) -> ItemKey {
    ItemKey::new(T::KIND, id.to_string())
}

/// Page of a list. It can be short and still continue if the scan limit was reached.
#[derive(Clone, PartialEq, Debug)]
pub struct ItemPage<T> {
    /// Items, each with the rest of the list after it.
    pub items: Vec<(ItemRange, T)>,
    /// Rest of the list; `None` at its end.
    pub rest: Option<ItemRange>,
}

impl<T: StoredItem> ItemPage<T> {
    /// Converts the page to the form that clients receive.
    pub fn render<U>(&self, convert: impl Fn(&T) -> U) -> Page<U> {
        let items = self.items.iter().map(|(_, item)| convert(item)).collect();
        Page { items, cursor: self.rest.as_ref().and_then(|rest| encode_cursor(T::KIND, rest)) }
    }
}

impl Space {
    /// Returns an item; `None` if it does not exist.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn find<T: StoredItem>(&self, id: &T::Id) -> Result<Option<T>, Error> {
        match self.read_one(ReadQuery::Item(key_of::<T>(id))).await? {
            ReadResult::Item(item) => Ok(item.and_then(T::from_item)),
            other => Err(unexpected_result(&other)),
        }
    }

    /// Returns an item.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a storage failure.
    pub async fn item<T: StoredItem>(&self, id: &T::Id) -> Result<T, Error> {
        Ok(self.find(id).await?.ok_or_else(|| T::not_found(id))?)
    }

    /// Returns an item as of a record.
    ///
    /// # Errors
    /// `NOT_FOUND`, also if it was created later; or a storage failure.
    pub async fn item_at<T: StoredItem>(&self, id: &T::Id, at: Seq) -> Result<T, Error> {
        let key = key_of::<T>(id);
        let found = self.items_at(std::slice::from_ref(&key), at).await?.remove(&key);
        Ok(found.and_then(T::from_item).ok_or_else(|| T::not_found(id))?)
    }

    /// Returns a page of the items that match the filter.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn list<T: StoredItem>(
        &self,
        range: ItemRange,
        limit: usize,
        filter: impl Fn(&T) -> bool,
    ) -> Result<ItemPage<T>, Error> {
        self.scan(T::KIND, range, limit, |item| T::from_item(item).filter(&filter)).await
    }

    /// Returns the items of a kind by ID, after one of them, that match the filter, and the rest of the list.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn items<T>(
        &self,
        kind: ItemKind,
        after: Option<ItemRange>,
        limit: usize,
        filter: impl Fn(Item) -> Option<T>,
    ) -> Result<Page<T, ItemRange>, Error> {
        let range = after.unwrap_or(ItemRange::ById(None));
        let ItemPage { items, rest } = self.scan(kind, range, limit, filter).await?;
        Ok(Page { items: items.into_iter().map(|(_, item)| item).collect(), cursor: rest })
    }

    async fn scan<T>(
        &self,
        kind: ItemKind,
        range: ItemRange,
        limit: usize,
        filter: impl Fn(Item) -> Option<T>,
    ) -> Result<ItemPage<T>, Error> {
        let mut page = ItemPage { items: Vec::new(), rest: Some(range) };
        // Start with the requested number: usually most items match.
        let (mut scanned, mut batch) = (0, limit.min(PAGE));
        while scanned < SCANNED_MAX
            && let Some(range) = page.rest.take()
        {
            let read = ReadQuery::Items { kind, range: range.clone(), limit: batch };
            let items = match self.read_one(read).await? {
                ReadResult::Items(items) => items,
                other => return Err(unexpected_result(&other)),
            };
            scanned += items.len();
            let is_last = items.len() < batch;
            for listed in items {
                let rest = range.after(listed.created, &listed.item.key().id);
                page.rest = Some(rest.clone());
                page.items.extend(filter(listed.item).map(|item| (rest, item)));
                if page.items.len() == limit {
                    return Ok(page);
                }
            }
            if is_last {
                page.rest = None;
            }
            batch = PAGE;
        }
        Ok(page)
    }
}
