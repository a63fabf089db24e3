//! The hub's JSON, from the other side: operations and messages out, results and deliveries in.

pub(crate) mod approval;
pub(crate) mod entry;
pub(crate) mod going_back;
pub(crate) mod message;
pub(crate) mod op;
pub(crate) mod procedure;
pub(crate) mod request;
pub(crate) mod rules;
pub(crate) mod session;
pub(crate) mod task;
pub(crate) mod view;
pub(crate) mod why;

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use quorate::{Code, Error, Refused, Remote};
use quorate_core::{Payload, Timestamp, is_json};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A payload on its way out: JSON as it is, a text in quotes, anything else in base64.
pub(crate) fn raw(bytes: &[u8], content_type: Option<&str>) -> Result<Box<RawValue>, Error> {
    let text = match (content_type, std::str::from_utf8(bytes)) {
        (kind, text) if is_json(kind) => text.map_err(|_| no_json())?.to_owned(),
        (Some(kind), text) if is_text(kind) => Value::from(text.map_err(|_| no_text())?).to_string(),
        _ => format!("\"{}\"", BASE64_STANDARD.encode(bytes)),
    };
    RawValue::from_string(text).map_err(|_| no_json().into())
}

fn no_json() -> Refused {
    Refused::new(Code::Invalid, "the payload is no JSON").hint("give it a content type, or write it as JSON")
}

fn no_text() -> Refused {
    Refused::new(Code::Invalid, "the payload is no text, as its content type says")
        .hint("give it another content type: application/octet-stream is any bytes")
}

fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
}

/// A payload as it came in.
pub(crate) fn payload(raw: Option<&RawValue>, content_type: Option<&str>) -> Result<Payload, Error> {
    let raw = raw.map_or("null", RawValue::get);
    let text = || serde_json::from_str::<String>(raw).map_err(|error| strange(&error));
    let bytes = match content_type {
        kind if is_json(kind) => Bytes::copy_from_slice(raw.as_bytes()),
        // What was erased is neither.
        _ if raw == "null" => Bytes::new(),
        Some(kind) if is_text(kind) => Bytes::from(text()?),
        _ => BASE64_STANDARD.decode(text()?).map(Bytes::from).map_err(|error| strange(&error))?,
    };
    Ok(Payload::unsealed(bytes))
}

/// A time as the hub reads it.
pub(crate) fn time_out(time: Timestamp) -> String {
    let ms = i64::try_from(time.0).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

/// A time as the hub shows it.
pub(crate) fn time_in(text: &str) -> Result<Timestamp, Error> {
    let time: jiff::Timestamp = text.parse().map_err(|error| strange(&error))?;
    u64::try_from(time.as_millisecond()).map(Timestamp).map_err(|error| strange(&error))
}

/// What is written as a text: an id, a role.
pub(crate) struct Text<T>(pub(crate) T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map(Self).map_err(D::Error::custom)
    }
}

/// A time in an answer.
pub(crate) struct At(pub(crate) Timestamp);

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        time_in(&Cow::<str>::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

/// All of a list that was written as texts.
pub(crate) fn all<T>(list: Vec<Text<T>>) -> Vec<T> {
    list.into_iter().map(|one| one.0).collect()
}

/// The one that is called so.
pub(crate) fn named<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, word: &str) -> Result<T, Error> {
    all.iter().copied().find(|one| name(*one) == word).ok_or_else(|| strange(&format!("{word:?}")))
}

/// What a hub of this release would not have said.
pub(crate) fn strange(what: &dyn std::fmt::Display) -> Error {
    Remote {
        code: Code::Unavailable,
        detail: format!("the hub's answer is not understood: {what}"),
        hint: "check that the hub is of the same release as this program".to_owned(),
        nothing_applied: false,
    }
    .into()
}

/// Reads JSON of a known shape.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| strange(&error))
}

/// Writes JSON.
pub(crate) fn write(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| {
        Refused::new(Code::Invalid, format!("this cannot be written as JSON: {error}")).into()
    })
}
