//! Pages of results: the items, the cursor of the next page, and the sort order.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use quorate_core::{Code, CreationPosition, ItemKind, ItemRange, Refused};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

#[cfg(feature = "schema")]
use crate::schema;

/// Sort order of a list, by creation.
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
    /// Returns the name used in queries and cursors.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Oldest => "oldest",
        }
    }
}

/// Query of a list.
#[derive(Clone, Default, Debug, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CursorQuery {
    /// Maximum number of items in a page; 100 by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    /// Cursor of the previous page; omit it for the first page.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}

/// Query of a list that is sorted by creation.
#[derive(Clone, Default, Debug, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// Sort order by creation; `newest` by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Order>"))]
    pub order: Option<Order>,
    /// Maximum number of items in a page; 100 by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    /// Cursor of the previous page; omit it for the first page.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}

/// Selects a page of a list that is sorted by creation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageQuery {
    /// Sort order.
    pub order: Order,
    /// Cursor of the previous page; `None` for the first page.
    pub cursor: Option<String>,
    /// Maximum number of items.
    pub limit: usize,
}

impl PageQuery {
    /// Returns the first page, newest first.
    #[must_use]
    pub fn newest(limit: usize) -> Self {
        Self { order: Order::Newest, cursor: None, limit }
    }

    /// Returns the first page, oldest first.
    #[must_use]
    pub fn oldest(limit: usize) -> Self {
        Self { order: Order::Oldest, cursor: None, limit }
    }

    /// Continues after a cursor.
    #[must_use]
    pub fn after(self, cursor: Option<String>) -> Self {
        Self { cursor, ..self }
    }

    /// Returns the range of items of this kind that the page covers.
    ///
    /// # Errors
    /// `INVALID` if the cursor belongs to another list or order.
    pub fn range(&self, kind: ItemKind) -> Result<ItemRange, Refused> {
        let prefix = format!("{}-{}-", self.order.as_str(), kind.as_str());
        let position = |cursor: &str| CreationPosition::from_str(cursor.strip_prefix(&prefix)?).ok();
        let from = match self.cursor.as_deref() {
            Some(cursor) => Some(position(cursor).ok_or_else(invalid_cursor)?),
            None => None,
        };
        Ok(match self.order {
            Order::Newest => ItemRange::Newest(from),
            Order::Oldest => ItemRange::Oldest(from),
        })
    }
}

/// Returns the cursor of the rest of a list; `None` if nothing was read yet. It names the list and the order, so that it
/// is valid for no other. The cursor of a list in the order of ids is the last id.
#[must_use]
pub fn encode_cursor(kind: ItemKind, rest: &ItemRange) -> Option<String> {
    let (order, position) = match rest {
        ItemRange::ById(after) => return after.as_deref().map(str::to_owned),
        ItemRange::Newest(before) => (Order::Newest, before.as_ref()?),
        ItemRange::Oldest(after) => (Order::Oldest, after.as_ref()?),
    };
    Some(format!("{}-{}-{position}", order.as_str(), kind.as_str()))
}

/// Creates the error for a cursor that this list did not return.
#[must_use]
pub fn invalid_cursor() -> Refused {
    Refused::new(Code::Invalid, "invalid cursor: it does not belong to this list")
        .hint("pass the cursor of the previous page unchanged, with the same order and filters")
}

/// Page of a list as a client receives it, independent of the name of the list field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<T, C = String> {
    /// Items of this page.
    pub items: Vec<T>,
    /// Cursor of the next page; `None` on the last page.
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
                // An unknown field, sent by a newer hub.
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let items = items.ok_or_else(|| A::Error::custom("the page contains no list"))?;
        Ok(Page { items, cursor })
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{Code, CreationPosition, ItemKind, ItemRange, Seq};

    use super::{Page, PageQuery, encode_cursor};

    #[test]
    fn a_page_is_parsed_regardless_of_its_list_field() {
        let page: Page<u8> = serde_json::from_str(r#"{"tasks":[1,2],"cursor":"b","more":{}}"#).unwrap();
        assert_eq!(page, Page { items: vec![1, 2], cursor: Some("b".to_owned()) });
        let last: Page<u8> = serde_json::from_str(r#"{"entries":[],"cursor":null}"#).unwrap();
        assert_eq!(last, Page { items: Vec::new(), cursor: None });
        assert!(serde_json::from_str::<Page<u8>>(r#"{"cursor":null}"#).is_err());
    }

    #[test]
    fn a_cursor_is_valid_for_its_list_and_order_only() {
        let created = CreationPosition::new(Seq(7), 2);
        let newest = encode_cursor(ItemKind::Task, &ItemRange::Newest(Some(created)));
        assert_eq!(newest.as_deref(), Some("newest-task-7-2"));
        let range = |query: PageQuery, kind| query.range(kind).map_err(|refused| refused.code);
        let next = PageQuery::newest(1).after(newest.clone());
        assert_eq!(range(next.clone(), ItemKind::Task), Ok(ItemRange::Newest(Some(created))));
        assert_eq!(range(next, ItemKind::Session), Err(Code::Invalid), "of another list");
        let oldest = PageQuery::oldest(1).after(newest);
        assert_eq!(range(oldest, ItemKind::Task), Err(Code::Invalid), "of another order");
        for invalid in ["", "tsk_0-7-2", "newest-task-", "newest-task-7", "newest-task-07-2", "7-2"] {
            let query = PageQuery::newest(1).after(Some(invalid.to_owned()));
            assert_eq!(range(query, ItemKind::Task), Err(Code::Invalid), "{invalid}");
        }
        assert_eq!(range(PageQuery::oldest(1), ItemKind::Task), Ok(ItemRange::Oldest(None)));
    }
}
