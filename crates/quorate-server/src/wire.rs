//! The shapes of the interface: JSON in, JSON out. Behind here there is no JSON but the payloads, which stay as they came.

pub(crate) mod agent;
pub(crate) mod delivery;
pub(crate) mod entry;
pub(crate) mod message;
pub(crate) mod op;
pub(crate) mod result;
pub(crate) mod task;
pub(crate) mod time;
pub(crate) mod told;

pub(crate) mod effect;

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use quorate_core::{Code, Payload, Refused, is_json};
use quorate_engine::{Space, is_flag_word, is_marked_private};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::settings::Times;

/// What comes in as JSON and goes to the log: sealed, and bytes of another type decoded.
pub(crate) struct Sealing<'a> {
    pub(crate) space: &'a Space,
    /// The request, of which payloads are parts: they are not copied.
    pub(crate) body: &'a Bytes,
    /// What holds where no time is named.
    pub(crate) times: Times,
}

impl Sealing<'_> {
    /// JSON as it came; with another content type, a text as it is, or the bytes that it holds in base64.
    pub(crate) fn payload(
        &self,
        raw: Option<&RawValue>,
        content_type: Option<&str>,
    ) -> Result<Payload, Refused> {
        Ok(self.space.seal(self.bytes(raw, content_type)?))
    }

    /// The payload of a message, of which the rest may say that it is a conduct flag.
    pub(crate) fn of_message(
        &self,
        (action, metadata): (&str, Option<&str>),
        raw: Option<&RawValue>,
        content_type: Option<&str>,
    ) -> Result<Payload, Refused> {
        let is_flag = is_flag_word(action) || metadata.is_some_and(|text| is_marked_private(text.as_bytes()));
        if !is_flag {
            return self.payload(raw, content_type);
        }
        Ok(self.space.seal_private(self.bytes(raw, content_type)?))
    }

    fn bytes(&self, raw: Option<&RawValue>, content_type: Option<&str>) -> Result<Bytes, Refused> {
        let raw = raw.map_or("null", RawValue::get);
        Ok(match content_type {
            kind if is_json(kind) => self.part(raw),
            Some(kind) if is_text(kind) => Bytes::from(text_in(raw)?),
            _ => Bytes::from(decode(raw)?),
        })
    }

    fn part(&self, raw: &str) -> Bytes {
        let whole = self.body.as_ptr_range();
        if whole.contains(&raw.as_ptr()) {
            return self.body.slice_ref(raw.as_bytes());
        }
        Bytes::copy_from_slice(raw.as_bytes())
    }
}

fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
}

fn text_in(raw: &str) -> Result<String, Refused> {
    serde_json::from_str(raw).map_err(|_| {
        Refused::new(Code::Invalid, "the payload is a text by its contentType, and no text")
            .hint("leave contentType out for JSON, or send a text in quotes")
    })
}

fn decode(raw: &str) -> Result<Vec<u8>, Refused> {
    let wrong = || {
        Refused::new(Code::Invalid, "the payload is not JSON by its contentType, and no text in base64")
            .hint("leave contentType out for JSON, or send the bytes as a text in base64")
    };
    let text: String = serde_json::from_str(raw).map_err(|_| wrong())?;
    BASE64_STANDARD.decode(text).map_err(|_| wrong())
}

/// Bytes on their way out: JSON as it came in, texts as texts, anything else in base64, `null` if they were erased.
pub(crate) fn shown(payload: &Payload, content_type: Option<&str>) -> Raw {
    let text = std::str::from_utf8(&payload.bytes);
    match (content_type, text) {
        _ if payload.is_erased() => Raw::NULL,
        (kind, Ok(_)) if is_json(kind) => Raw(payload.bytes.clone()),
        (kind, Err(_)) if is_json(kind) => Raw::NULL,
        (Some(kind), Ok(text)) if is_text(kind) => Raw(Value::from(text).to_string().into()),
        _ => Raw(format!("\"{}\"", BASE64_STANDARD.encode(&payload.bytes)).into()),
    }
}

/// JSON on its way out, byte for byte. A `RawValue` would be copied and parsed once more; this was checked at the door.
#[derive(Clone)]
pub(crate) struct Raw(Bytes);

impl Raw {
    pub(crate) const NULL: Self = Self(Bytes::from_static(b"null"));

    /// Parsed once more, for those who take it apart.
    pub(crate) fn parsed(&self) -> Box<RawValue> {
        serde_json::from_slice(&self.0).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // What serde_json takes for a `RawValue`: a structure of this name with one field of this name.
        const TOKEN: &str = "$serde_json::private::RawValue";
        let text = std::str::from_utf8(&self.0).map_err(serde::ser::Error::custom)?;
        let mut raw = serializer.serialize_struct(TOKEN, 1)?;
        raw.serialize_field(TOKEN, text)?;
        raw.end()
    }
}

impl JsonSchema for Raw {
    fn schema_name() -> Cow<'static, str> {
        <Box<RawValue>>::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        <Box<RawValue>>::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <Box<RawValue>>::json_schema(generator)
    }

    fn inline_schema() -> bool {
        <Box<RawValue>>::inline_schema()
    }
}

#[cfg(test)]
mod tests {
    use super::Raw;

    // Fails under: a release of serde_json that knows raw values by another name.
    #[test]
    fn json_goes_out_byte_for_byte() {
        let text = r#"{"b": 1.0,  "a":[1, 2e3],"n":18446744073709551615}"#;
        assert_eq!(serde_json::to_string(&Raw(text.into())).unwrap(), text);
        assert_eq!(serde_json::to_string(&[Raw::NULL]).unwrap(), "[null]");
    }
}
