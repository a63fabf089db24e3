//! The shapes of the interface: JSON in, JSON out. Behind here there is no JSON but the payloads, which stay as they came.

pub(crate) mod agent;
pub(crate) mod delivery;
pub(crate) mod entry;
pub(crate) mod message;
pub(crate) mod op;
pub(crate) mod result;
pub(crate) mod task;
pub(crate) mod time;

pub(crate) mod effect;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use quorate_core::{Code, Payload, Refused};
use quorate_engine::Space;
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
    /// JSON as it came; with another content type, the bytes that a text holds in base64.
    pub(crate) fn payload(
        &self,
        raw: Option<&RawValue>,
        content_type: Option<&str>,
    ) -> Result<Payload, Refused> {
        let raw = raw.map_or("null", RawValue::get);
        let bytes = match content_type {
            None => self.part(raw),
            Some(_) => Bytes::from(decode(raw)?),
        };
        Ok(self.space.seal(bytes))
    }

    fn part(&self, raw: &str) -> Bytes {
        let whole = self.body.as_ptr_range();
        if whole.contains(&raw.as_ptr()) {
            return self.body.slice_ref(raw.as_bytes());
        }
        Bytes::copy_from_slice(raw.as_bytes())
    }
}

fn decode(raw: &str) -> Result<Vec<u8>, Refused> {
    let wrong = || {
        Refused::new(Code::Invalid, "the payload is not JSON by its contentType, and no text in base64")
            .hint("leave contentType out for JSON, or send the bytes as a text in base64")
    };
    let text: String = serde_json::from_str(raw).map_err(|_| wrong())?;
    BASE64_STANDARD.decode(text).map_err(|_| wrong())
}

/// Bytes on their way out: JSON as it came in, anything else in base64, `null` if they were erased.
pub(crate) fn shown(payload: &Payload, content_type: Option<&str>) -> Box<RawValue> {
    let text = match content_type {
        _ if payload.is_erased() => None,
        None => std::str::from_utf8(&payload.bytes).ok().map(ToOwned::to_owned),
        Some(_) => Some(format!("\"{}\"", BASE64_STANDARD.encode(&payload.bytes))),
    };
    text.and_then(|text| RawValue::from_string(text).ok()).unwrap_or_else(|| RawValue::NULL.to_owned())
}
