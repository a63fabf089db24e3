//! Pages of lists: the items under the name of the list, and the cursor of the next page.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// A page of a list as a client receives it, whatever the list is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins; `None` if there is none.
    pub cursor: Option<String>,
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
    use super::Page;

    #[test]
    fn a_page_is_read_whatever_the_list_is_called() {
        let page: Page<u8> = serde_json::from_str(r#"{"tasks":[1,2],"cursor":"b","more":{}}"#).unwrap();
        assert_eq!(page, Page { items: vec![1, 2], cursor: Some("b".to_owned()) });
        let last: Page<u8> = serde_json::from_str(r#"{"entries":[],"cursor":null}"#).unwrap();
        assert_eq!(last, Page { items: Vec::new(), cursor: None });
        assert!(serde_json::from_str::<Page<u8>>(r#"{"cursor":null}"#).is_err());
    }
}
