//! Writer for JSON objects: fields in order, raw values unchanged.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// A JSON object under construction. Fields keep their order, and raw values their bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectWriter(Vec<(String, Box<RawValue>)>);

impl ObjectWriter {
    pub(super) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.0.push((name.to_owned(), to_raw_json(&value)));
        self
    }

    /// Adds a field if it has a value.
    pub(super) fn with_optional(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Appends the fields of another object.
    pub(super) fn append(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn to_raw(&self) -> Box<RawValue> {
        to_raw_json(self)
    }
}

impl Serialize for ObjectWriter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Serializes a value that always has a JSON representation.
pub(crate) fn to_raw_json(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
