//! Serde forms of ids, times and words: each is one JSON string, the same in every message of the interface.
//!
//! A text that is refused says why in terms of [`Refused`]. Serde carries only a text, so the rest travels in it and
//! [`refusal_in`] takes it apart again.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};

use crate::refused::{Code, Refused};

/// Separates the parts of a refusal in the text of a serde error.
const MARK: char = '\u{1f}';

/// Parses a JSON string without copying it. A refusal is carried in the error, see [`refusal_in`].
///
/// # Errors
/// What is not a string, and what is refused.
pub fn parse<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = Refused>,
    D: Deserializer<'de>,
{
    struct Text<T>(PhantomData<T>);

    impl<T: FromStr<Err = Refused>> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(carry)
        }
    }

    deserializer.deserialize_str(Text(PhantomData))
}

/// A serde error that carries a refusal.
pub(crate) fn carry<E: Error>(refused: Refused) -> E {
    E::custom(Marked(&refused))
}

/// A refusal as the text of a serde error.
struct Marked<'a>(&'a Refused);

impl Display for Marked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { detail, hint, facts, .. } = self.0;
        write!(f, "{detail}{MARK}{hint}{MARK}{}{MARK}", facts.limit.unwrap_or(0))
    }
}

/// The refusal that a serde error carries, if it does.
#[must_use]
pub fn refusal_in(error: &str) -> Option<Refused> {
    let mut parts = error.splitn(4, MARK);
    let (detail, hint, limit) = (parts.next()?, parts.next()?, parts.next()?);
    let refused = Refused::new(Code::Invalid, detail).hint(hint);
    match limit.parse() {
        Ok(0) | Err(_) => Some(refused),
        Ok(limit) => Some(refused.limit(limit)),
    }
}

/// One JSON string, by `Display` and `FromStr`.
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

/// One of a few words, by `ALL` and `as_str`.
macro_rules! serde_words {
    ($name:ty) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str((*self).as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text_serde::word(deserializer, &Self::ALL, |word| word.as_str())
            }
        }

        $crate::text_serde::text_schema!($name, { "type": "string", "enum": Self::ALL.map(|word| word.as_str()) });
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

pub(crate) use {serde_text, serde_words, text_schema};

/// Reads one of a few words.
pub(crate) fn word<'de, T: Copy, D: Deserializer<'de>>(
    deserializer: D,
    all: &[T],
    as_str: fn(&T) -> &'static str,
) -> Result<T, D::Error> {
    struct Word<'a, T>(&'a [T], fn(&T) -> &'static str);

    impl<T: Copy> Visitor<'_> for Word<'_, T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            let Self(all, as_str) = self;
            all.iter().find(|one| as_str(one) == text).copied().ok_or_else(|| {
                // As serde writes it for the variants of an enum.
                let words: Vec<String> = all.iter().map(|one| format!("`{}`", as_str(one))).collect();
                E::custom(format_args!("unknown variant `{text}`, expected one of {}", words.join(", ")))
            })
        }
    }

    deserializer.deserialize_str(Word(all, as_str))
}
