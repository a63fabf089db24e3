//! Raw JSON that is passed through byte for byte.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use serde_json::value::RawValue;

/// Owned raw JSON. Unlike a `Box<RawValue>` it is neither copied nor parsed again when it is serialized: its bytes
/// were validated when they were received.
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(pub Bytes);

impl fmt::Debug for RawJson {
    /// Omits the content: debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.0.len())
    }
}

impl RawJson {
    /// JSON `null`.
    pub const NULL: Self = Self(Bytes::from_static(b"null"));

    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    /// Converts the JSON to a `RawValue`.
    #[must_use]
    pub fn to_raw_value(&self) -> Box<RawValue> {
        serde_json::from_slice(&self.0).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

impl From<Box<RawValue>> for RawJson {
    fn from(raw: Box<RawValue>) -> Self {
        Self(String::from(Box::<str>::from(raw)).into())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // serde_json recognizes a `RawValue` by a struct of this name with one field of this name.
        const TOKEN: &str = "$serde_json::private::RawValue";
        let text = std::str::from_utf8(&self.0).map_err(serde::ser::Error::custom)?;
        let mut raw = serializer.serialize_struct(TOKEN, 1)?;
        raw.serialize_field(TOKEN, text)?;
        raw.end()
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

/// Raw JSON in a request: borrowed from the body when it is parsed, so that a payload is not copied; owned when it is
/// serialized.
#[derive(Clone, Debug)]
pub struct Json<'a>(pub Cow<'a, RawValue>);

impl Json<'_> {
    /// Returns the JSON text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl<'a> From<&'a RawValue> for Json<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self(Cow::Borrowed(raw))
    }
}

impl From<Box<RawValue>> for Json<'_> {
    fn from(raw: Box<RawValue>) -> Self {
        Self(Cow::Owned(raw))
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&'de RawValue>::deserialize(deserializer).map(|raw| Self(Cow::Borrowed(raw)))
    }
}

/// Deserializes an object in two passes, as two types: serde's `flatten` does not support raw JSON. Each type ignores
/// the fields of the other one.
pub(crate) fn two_passes<'de, A, B, D>(deserializer: D) -> Result<(A, B), D::Error>
where
    A: Deserialize<'de>,
    B: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    let first = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
    let second = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
    Ok((first, second))
}

/// Implements `Deserialize` for a struct of two flattened parts, see [`two_passes`].
macro_rules! deserialize_in_two_passes {
    ($name:ident { $first:ident, $second:ident }) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let ($first, $second) = $crate::json::two_passes(deserializer)?;
                Ok(Self { $first, $second })
            }
        }
    };
}

pub(crate) use deserialize_in_two_passes;

#[cfg(feature = "schema")]
mod schema {
    use schemars::{JsonSchema, Schema, SchemaGenerator};
    use std::borrow::Cow;

    use super::{Json, RawJson};

    macro_rules! any_json {
        ($name:ty) => {
            impl JsonSchema for $name {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    "AnyJson".into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    Schema::default()
                }
            }
        };
    }

    any_json!(RawJson);
    any_json!(Json<'_>);
}

#[cfg(test)]
mod tests {
    use super::RawJson;

    // Fails under: a release of serde_json that uses another name for raw values.
    #[test]
    fn json_is_passed_through_byte_for_byte() {
        let text = r#"{"b": 1.0,  "a":[1, 2e3],"n":18446744073709551615}"#;
        assert_eq!(serde_json::to_string(&RawJson(text.into())).unwrap(), text);
        assert_eq!(serde_json::from_str::<RawJson>(text).unwrap(), RawJson(text.into()));
        assert_eq!(serde_json::to_string(&[RawJson::NULL]).unwrap(), "[null]");
    }
}
