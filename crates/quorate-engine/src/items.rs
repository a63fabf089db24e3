//! Reads of items: one, one as it was, and lists, the same way for every noun that is kept as one row.

use std::fmt;
use std::sync::Arc;

use quorate_api::page::{Page, cursor_of};
use quorate_core::{
    AccessToken, Approval, ApprovalId, Budget, BudgetId, Code, Item, ItemKey, ItemKind, ItemRange, Lock,
    LockName, MessageId, Procedure, ProcedureId, Refused, Request, Seq, Session, SessionId, Snapshot,
    SnapshotName, Task, TaskId, TokenId,
};
use quorate_store::{Read, Rows};

use crate::error::Error;
use crate::reads::unexpected;
use crate::space::Space;

/// Items looked at for one page of a list; the cursor leads on.
const LOOKED_AT_MAX: usize = 10_000;
/// Items read at once.
const AT_ONCE: usize = 500;

/// A noun that is kept as one row.
pub trait Noun: Sized {
    /// Which kind of item it is.
    const KIND: ItemKind;
    /// What to do if there is none under an id.
    const HINT: &'static str;
    /// Its id.
    type Id: fmt::Display;

    /// The noun of an item; `None` for an item of another kind.
    fn of(item: Item) -> Option<Self>;

    /// There is none under this id.
    fn not_found(id: &Self::Id) -> Refused {
        Refused::new(Code::NotFound, format!("there is no {} {id}", Self::KIND.as_str())).hint(Self::HINT)
    }
}

/// A row for each noun: its type and that of its id, how an item holds it, and the hint.
macro_rules! nouns {
    ($($noun:ty, $id:ty, $kind:ident($held:ident) => $own:expr, $hint:literal;)*) => {$(
        impl Noun for $noun {
            const KIND: ItemKind = ItemKind::$kind;
            const HINT: &'static str = $hint;
            type Id = $id;

            fn of(item: Item) -> Option<Self> {
                match item {
                    Item::$kind($held) => Some($own),
                    _ => None,
                }
            }
        }
    )*};
}

nouns! {
    Approval, ApprovalId, Approval(held) => *held, "check the id; list what is pending";
    Budget, BudgetId, Budget(held) => held,
        "make it first; the list of budgets shows those that you may see";
    Lock, LockName, Lock(held) => held, "check the name; the list of locks shows those that were ever held";
    Procedure, ProcedureId, Procedure(held) => held, "start it first, or check the id";
    Request, MessageId, Request(held) => held,
        "a message that nobody waits for is not a request; look at it with `why`";
    Session, SessionId, Session(held) => held, "open it first, or check the id";
    Snapshot, SnapshotName, Snapshot(held) => held, "make it first, or check the name";
    Task, TaskId, Task(held) => held, "check the id; the list of tasks shows what there is";
    Arc<AccessToken>, TokenId, Token(held) => held,
        "the list of tokens shows those that are valid; one that was revoked or has expired is gone";
}

fn key_of<T: Noun>(id: &T::Id) -> ItemKey {
    ItemKey::new(T::KIND, id.to_string())
}

/// A page of a list. It may be short and still go on: it looked at many that were not wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct ItemPage<T> {
    /// The items, each with the rest of the list after it.
    pub items: Vec<(ItemRange, T)>,
    /// The rest of the list; `None` at its end.
    pub rest: Option<ItemRange>,
}

impl<T: Noun> ItemPage<T> {
    /// The page as clients receive it.
    pub fn render<U>(&self, show: impl Fn(&T) -> U) -> Page<U> {
        let items = self.items.iter().map(|(_, item)| show(item)).collect();
        Page { items, cursor: self.rest.as_ref().and_then(|rest| cursor_of(T::KIND, rest)) }
    }
}

impl Space {
    /// An item as it is; `None` if there is none.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn find<T: Noun>(&self, id: &T::Id) -> Result<Option<T>, Error> {
        match self.read_one(Read::Item(key_of::<T>(id))).await? {
            Rows::Item(item) => Ok(item.and_then(T::of)),
            other => Err(unexpected(&other)),
        }
    }

    /// An item as it is.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn item<T: Noun>(&self, id: &T::Id) -> Result<T, Error> {
        Ok(self.find(id).await?.ok_or_else(|| T::not_found(id))?)
    }

    /// An item as it was after a record.
    ///
    /// # Errors
    /// `NOT_FOUND`, also if it was created later; or a failure of the storage.
    pub async fn item_at<T: Noun>(&self, id: &T::Id, at: Seq) -> Result<T, Error> {
        let key = key_of::<T>(id);
        let found = self.items_at(std::slice::from_ref(&key), at).await?.remove(&key);
        Ok(found.and_then(T::of).ok_or_else(|| T::not_found(id))?)
    }

    /// A page of the items that are wanted.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn list<T: Noun>(
        &self,
        range: ItemRange,
        limit: usize,
        wanted: impl Fn(&T) -> bool,
    ) -> Result<ItemPage<T>, Error> {
        self.scan(T::KIND, range, limit, |item| T::of(item).filter(&wanted)).await
    }

    /// The items of a kind by id, after one of them, as far as they are wanted; and the rest of the list.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn items<T>(
        &self,
        kind: ItemKind,
        after: Option<ItemRange>,
        limit: usize,
        wanted: impl Fn(Item) -> Option<T>,
    ) -> Result<Page<T, ItemRange>, Error> {
        let range = after.unwrap_or(ItemRange::ById(None));
        let ItemPage { items, rest } = self.scan(kind, range, limit, wanted).await?;
        Ok(Page { items: items.into_iter().map(|(_, item)| item).collect(), cursor: rest })
    }

    async fn scan<T>(
        &self,
        kind: ItemKind,
        range: ItemRange,
        limit: usize,
        wanted: impl Fn(Item) -> Option<T>,
    ) -> Result<ItemPage<T>, Error> {
        let mut page = ItemPage { items: Vec::new(), rest: Some(range) };
        // As many as are asked for at first: mostly all of them are wanted.
        let (mut looked_at, mut at_once) = (0, limit.min(AT_ONCE));
        while looked_at < LOOKED_AT_MAX
            && let Some(range) = page.rest.take()
        {
            let read = Read::Items { kind, range: range.clone(), limit: at_once };
            let items = match self.read_one(read).await? {
                Rows::Items(items) => items,
                other => return Err(unexpected(&other)),
            };
            looked_at += items.len();
            let is_last = items.len() < at_once;
            for listed in items {
                let rest = range.after(listed.created, &listed.item.key().id);
                page.rest = Some(rest.clone());
                page.items.extend(wanted(listed.item).map(|item| (rest, item)));
                if page.items.len() == limit {
                    return Ok(page);
                }
            }
            if is_last {
                page.rest = None;
            }
            at_once = AT_ONCE;
        }
        Ok(page)
    }
}
