//! Serde implementations of ids, times and enums as JSON strings, the same in the whole API.
//!
//! An invalid text yields a [`Refused`]. Serde errors carry only a message, so the refusal is encoded in it;
//! [`extract_refusal`] decodes it.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};

use crate::refused::{Code, Refused};

/// Separates the parts of a refusal in the message of a serde error.
const SEPARATOR: char = '\u{1f}';

/// Parses a JSON string without copying it. The error contains the refusal, see [`extract_refusal`].
///
/// # Errors
/// If it is not a string, or the text is refused.
pub fn parse<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = Refused>,
    D: Deserializer<'de>,
{
    struct TextVisitor<T>(PhantomData<T>);

    impl<T: FromStr<Err = Refused>> Visitor<'_> for TextVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(refusal_error)
        }
    }

    deserializer.deserialize_str(TextVisitor(PhantomData))
}

/// Creates a serde error that contains a refusal.
pub(crate) fn refusal_error<E: Error>(refused: Refused) -> E {
    E::custom(Encoded(&refused))
}

/// A refusal, encoded for the message of a serde error.
struct Encoded<'a>(&'a Refused);

impl Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { detail, hint, facts, .. } = self.0;
        write!(f, "{detail}{SEPARATOR}{hint}{SEPARATOR}{}{SEPARATOR}", facts.limit.unwrap_or(0))
    }
}

/// Extracts the refusal from the message of a serde error, if it contains one.
#[must_use]
pub fn extract_refusal(error: &str) -> Option<Refused> {
    let mut parts = error.splitn(4, SEPARATOR);
    let (detail, hint, limit) = (parts.next()?, parts.next()?, parts.next()?);
    let refused = Refused::new(Code::Invalid, detail).hint(hint);
    match limit.parse() {
        Ok(0) | Err(_) => Some(refused),
        Ok(limit) => Some(refused.limit(limit)),
    }
}

/// Implements serde as a JSON string, by `Display` and `FromStr`.
macro_rules! serde_text {
    ($name:ty, $schema:tt) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text_serde::parse(deserializer)
            }
        }

        $crate::text_serde::text_schema!($name, $schema);
    };
}

/// Implements serde for an enum as one of several names, by `ALL` and `as_str`.
macro_rules! serde_names {
    ($name:ty) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str((*self).as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text_serde::deserialize_name(deserializer, &Self::ALL, |value| value.as_str())
            }
        }

        $crate::text_serde::text_schema!($name, { "type": "string", "enum": Self::ALL.map(|value| value.as_str()) });
    };
}

macro_rules! text_schema {
    ($name:ty, $schema:tt) => {
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

pub(crate) use {serde_names, serde_text, text_schema};

/// Deserializes one of several names.
pub(crate) fn deserialize_name<'de, T: Copy, D: Deserializer<'de>>(
    deserializer: D,
    all: &[T],
    as_str: fn(&T) -> &'static str,
) -> Result<T, D::Error> {
    struct NameVisitor<'a, T>(&'a [T], fn(&T) -> &'static str);

    impl<T: Copy> Visitor<'_> for NameVisitor<'_, T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            let Self(all, as_str) = self;
            all.iter().find(|value| as_str(value) == text).copied().ok_or_else(|| {
                // The wording of serde for unknown variants.
                let names: Vec<String> = all.iter().map(|value| format!("`{}`", as_str(value))).collect();
                E::custom(format_args!("unknown variant `{text}`, expected one of {}", names.join(", ")))
            })
        }
    }

    deserializer.deserialize_str(NameVisitor(all, as_str))
}
