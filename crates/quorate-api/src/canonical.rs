//! Canonical JSON (RFC 8785): a unique serialization of a value, so that its SHA-256 digest identifies the value.
//!
//! - UTF-8, no whitespace, no byte order mark.
//! - Object members are sorted by name, compared by UTF-16 code units. Duplicate names are rejected, because parsers
//!   disagree on their meaning.
//! - In strings only `"`, `\` and characters below U+0020 are escaped, the latter as `\b \t \n \f \r` or lowercase
//!   `\u00xx`. Lone surrogates are rejected.
//! - Numbers are IEEE 754 doubles, formatted as in ECMAScript. Stricter than the RFC: an integer beyond ±(2^53 − 1)
//!   is rejected, because rounding it to a double would approve another number than the proposed one.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use quorate_core::limits::{JSON_DEPTH_MAX, NUMBER_MAX};
use quorate_core::{Code, Refused};
use serde::de::{Deserialize, DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, json};

use crate::wellformed;

/// Returns the canonical bytes of an action: the canonical form of `{"action": NAME, "payload": PAYLOAD}`.
///
/// # Errors
/// `INVALID` if the payload has no canonical form.
pub fn action_document(action: &str, payload: &[u8]) -> Result<Bytes, Refused> {
    Ok(action_document_from_value(action, parse_canonical("payload", payload)?))
}

/// Returns the canonical bytes of an action whose payload is already parsed.
#[must_use]
pub fn action_document_from_value(action: &str, payload: Value) -> Bytes {
    to_canonical_bytes(&json!({"action": action, "payload": payload})).into()
}

/// Parses JSON that has a canonical form.
///
/// # Errors
/// `INVALID` if it is not JSON, has duplicate members, or contains numbers that are not exact.
pub fn parse_canonical(field: &str, bytes: &[u8]) -> Result<Value, Refused> {
    wellformed::check_json(field, bytes)?;
    let strict: Result<Strict, _> = serde_json::from_slice(bytes);
    strict.map(|strict| strict.0).map_err(|error| {
        Refused::new(Code::Invalid, format!("the {field} has no canonical form: {error}"))
            .hint("remove duplicate members, and send integers beyond 2^53 - 1 as strings")
    })
}

/// Returns the name of a member that an object of this JSON has twice, if there is one.
#[must_use]
pub fn duplicate_member(json: &[u8]) -> Option<String> {
    let mut found = None;
    // The error only ends the search.
    let _ = FindDuplicate(&mut found).deserialize(&mut serde_json::Deserializer::from_slice(json));
    found
}

/// Returns the canonical bytes of a value.
pub fn to_canonical_bytes(value: &Value) -> Vec<u8> {
    let mut out = String::new();
    write_value(value, &mut out);
    out.into_bytes()
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(first, _), (second, _)| compare_utf16(first, second));
            out.push('{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(name, out);
                out.push(':');
                write_value(value, out);
            }
            out.push('}');
        }
    }
}

/// Compares by UTF-16 code units: characters beyond the BMP sort before U+E000 to U+FFFF.
fn compare_utf16(first: &str, second: &str) -> Ordering {
    first.encode_utf16().cmp(second.encode_utf16())
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            character if character < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            character => out.push(character),
        }
    }
    out.push('"');
}

fn write_number(number: &Number, out: &mut String) {
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => out.push_str(&integer.to_string()),
        (None, Some(double)) => out.push_str(&format_ecmascript(double)),
        (None, None) => out.push_str("null"),
    }
}

/// Formats a finite number as ECMAScript does: the shortest digits that parse to the same number.
fn format_ecmascript(number: f64) -> String {
    if number == 0.0 {
        return "0".into();
    }
    let sign = if number < 0.0 { "-" } else { "" };
    let shortest = format!("{:e}", number.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    // Position of the decimal point: the number of digits before it.
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let count = digits.len() as i32;
    let text = match point {
        _ if count <= point && point <= 21 => format!("{digits}{}", "0".repeat((point - count) as usize)),
        1..=21 => format!("{}.{}", &digits[..point as usize], &digits[point as usize..]),
        -5..=0 => format!("0.{}{digits}", "0".repeat(-point as usize)),
        _ => {
            let (first, rest) = digits.split_at(1);
            let point_and_rest = if rest.is_empty() { String::new() } else { format!(".{rest}") };
            format!("{first}{point_and_rest}e{}{}", if point > 0 { "+" } else { "" }, point - 1)
        }
    };
    format!("{sign}{text}")
}

/// Value without duplicate members and without integers beyond the exact range.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DepthLimited(JSON_DEPTH_MAX).deserialize(deserializer).map(Self)
    }
}

/// Parses a value with this many nesting levels left.
#[derive(Clone, Copy)]
struct DepthLimited(usize);

impl<'de> DeserializeSeed<'de> for DepthLimited {
    type Value = Value;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl DepthLimited {
    fn descend<E: serde::de::Error>(self) -> Result<Self, E> {
        self.0.checked_sub(1).map(Self).ok_or_else(|| E::custom("nested too deeply"))
    }
}

impl<'de> Visitor<'de> for DepthLimited {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        if value > NUMBER_MAX {
            return Err(E::custom(format!("{value} is greater than 2^53 - 1")));
        }
        Ok(value.into())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        if value.unsigned_abs() > NUMBER_MAX {
            return Err(E::custom(format!("{value} is less than -(2^53 - 1)")));
        }
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // Integers beyond 64 bits arrive here too, as does 1e30, which is not expected to be exact.
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of the range of a double"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.descend()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.descend()?;
        let mut members = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let value = access.next_value_seed(inner)?;
            if members.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("duplicate member {name:?}")));
            }
        }
        Ok(Value::Object(members))
    }
}

/// Searches a value for duplicate members, and stores the name of the first one.
struct FindDuplicate<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for FindDuplicate<'_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FindDuplicate<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while access.next_element_seed(FindDuplicate(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = access.next_key::<String>()? {
            if names.contains(&name) {
                *self.0 = Some(name);
                return Err(A::Error::custom("duplicate member"));
            }
            names.insert(name);
            access.next_value_seed(FindDuplicate(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
