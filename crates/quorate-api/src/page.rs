//! Pages of lists: the items under the name of the list, the cursor of the next page, and the order.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use quorate_core::{Code, Created, ItemKind, ItemRange, Refused};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// The order of a list, by creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    /// Newest first.
    #[default]
    Newest,
    /// Oldest first.
    Oldest,
}

impl Order {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Oldest => "oldest",
        }
    }
}

/// Which page of a list by creation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageQuery {
    /// The order.
    pub order: Order,
    /// The cursor of the previous page; `None` is the first page.
    pub cursor: Option<String>,
    /// How many at most.
    pub limit: usize,
}

impl PageQuery {
    /// The first page of the newest.
    #[must_use]
    pub fn newest(limit: usize) -> Self {
        Self { order: Order::Newest, cursor: None, limit }
    }

    /// The first page of the oldest.
    #[must_use]
    pub fn oldest(limit: usize) -> Self {
        Self { order: Order::Oldest, cursor: None, limit }
    }

    /// The page after this cursor.
    #[must_use]
    pub fn after(self, cursor: Option<String>) -> Self {
        Self { cursor, ..self }
    }

    /// The part of the list of a kind.
    ///
    /// # Errors
    /// `INVALID` for the cursor of another list or order.
    pub fn range(&self, kind: ItemKind) -> Result<ItemRange, Refused> {
        let prefix = format!("{}-{}-", self.order.as_str(), kind.as_str());
        let created = |cursor: &str| Created::from_str(cursor.strip_prefix(&prefix)?).ok();
        let from = match self.cursor.as_deref() {
            Some(cursor) => Some(created(cursor).ok_or_else(invalid_cursor)?),
            None => None,
        };
        Ok(match self.order {
            Order::Newest => ItemRange::Newest(from),
            Order::Oldest => ItemRange::Oldest(from),
        })
    }
}

/// The cursor of a list of items that goes on here; `None` at its beginning. It names the list and the order, so that it
/// is good for no other.
#[must_use]
pub fn cursor_of(kind: ItemKind, rest: &ItemRange) -> Option<String> {
    let (order, created) = match rest {
        ItemRange::ById(after) => return after.as_deref().map(str::to_owned),
        ItemRange::Newest(before) => (Order::Newest, before.as_ref()?),
        ItemRange::Oldest(after) => (Order::Oldest, after.as_ref()?),
    };
    Some(format!("{}-{}-{created}", order.as_str(), kind.as_str()))
}

/// A cursor that this list did not return.
#[must_use]
pub fn invalid_cursor() -> Refused {
    Refused::new(Code::Invalid, "invalid cursor: it does not belong to this list")
        .hint("pass the cursor of the previous page unchanged, with the same order and filters")
}

/// A page of a list as a client receives it, whatever the list is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<T, C = String> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins; `None` if there is none.
    pub cursor: Option<C>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Page<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PageVisitor(PhantomData))
    }
}

struct PageVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PageVisitor<T> {
    type Value = Page<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list and a cursor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Page<T>, A::Error> {
        let (mut items, mut cursor) = (None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "cursor" => cursor = map.next_value()?,
                _ if items.is_none() => items = Some(map.next_value()?),
                // A field of a newer hub.
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let items = items.ok_or_else(|| A::Error::custom("the page has no list"))?;
        Ok(Page { items, cursor })
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{Code, Created, ItemKind, ItemRange, Seq};

    use super::{Page, PageQuery, cursor_of};

    #[test]
    fn a_page_is_read_whatever_the_list_is_called() {
        let page: Page<u8> = serde_json::from_str(r#"{"tasks":[1,2],"cursor":"b","more":{}}"#).unwrap();
        assert_eq!(page, Page { items: vec![1, 2], cursor: Some("b".to_owned()) });
        let last: Page<u8> = serde_json::from_str(r#"{"entries":[],"cursor":null}"#).unwrap();
        assert_eq!(last, Page { items: Vec::new(), cursor: None });
        assert!(serde_json::from_str::<Page<u8>>(r#"{"cursor":null}"#).is_err());
    }

    #[test]
    fn a_cursor_is_valid_for_its_list_and_order_only() {
        let created = Created::new(Seq(7), 2);
        let newest = cursor_of(ItemKind::Task, &ItemRange::Newest(Some(created)));
        assert_eq!(newest.as_deref(), Some("newest-task-7-2"));
        let range = |query: PageQuery, kind| query.range(kind).map_err(|refused| refused.code);
        let on = PageQuery::newest(1).after(newest.clone());
        assert_eq!(range(on.clone(), ItemKind::Task), Ok(ItemRange::Newest(Some(created))));
        assert_eq!(range(on, ItemKind::Session), Err(Code::Invalid), "of another list");
        let oldest = PageQuery::oldest(1).after(newest);
        assert_eq!(range(oldest, ItemKind::Task), Err(Code::Invalid), "of another order");
        for wrong in ["", "tsk_0-7-2", "newest-task-", "newest-task-7", "newest-task-07-2", "7-2"] {
            let query = PageQuery::newest(1).after(Some(wrong.to_owned()));
            assert_eq!(range(query, ItemKind::Task), Err(Code::Invalid), "{wrong}");
        }
        assert_eq!(range(PageQuery::oldest(1), ItemKind::Task), Ok(ItemRange::Oldest(None)));
    }
}
