//! Writing a message in the shape of a dialect: fields in order, values as they came.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// An object on its way out. Its fields stay in their order, and what is raw stays as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape(Vec<(String, Box<RawValue>)>);

impl Shape {
    pub(super) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.0.push((name.to_owned(), raw_of(&value)));
        self
    }

    /// A field that is left out if there is nothing to say.
    pub(super) fn maybe(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The fields of another object behind its own.
    pub(super) fn followed_by(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn to_raw(&self) -> Box<RawValue> {
        raw_of(self)
    }
}

impl Serialize for Shape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// JSON of something that always is JSON.
pub(crate) fn raw_of(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
