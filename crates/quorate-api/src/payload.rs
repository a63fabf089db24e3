//! Payloads in JSON: JSON as it is, a text of a `text/…` type as a string, any other bytes as a string in base64.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use quorate_core::{Code, Payload, Refused, is_json};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{Json, Raw};

fn is_text(content_type: &str) -> bool {
    content_type.starts_with("text/")
}

/// The bytes that a JSON value stands for. JSON itself is passed to `json`, which need not copy it.
///
/// # Errors
/// `INVALID` if the value is not what its content type promises.
pub fn bytes_of(
    raw: &str,
    content_type: Option<&str>,
    json: impl FnOnce(&str) -> Bytes,
) -> Result<Bytes, Refused> {
    Ok(match content_type {
        kind if is_json(kind) => json(raw),
        Some(kind) if is_text(kind) => Bytes::from(text_in(raw)?),
        _ => Bytes::from(decode(raw)?),
    })
}

fn text_in(raw: &str) -> Result<String, Refused> {
    serde_json::from_str(raw).map_err(|_| {
        Refused::new(Code::Invalid, "the payload is not a string, which its contentType calls for")
            .hint("leave contentType out for JSON, or send the text as a JSON string")
    })
}

/// The bytes in a string of base64.
///
/// # Errors
/// `INVALID` if it is not one.
pub fn decode(raw: &str) -> Result<Vec<u8>, Refused> {
    let wrong = || {
        Refused::new(Code::Invalid, "the payload is not a string in base64, which its contentType calls for")
            .hint("leave contentType out for JSON, or send the bytes as a JSON string in base64")
    };
    let text: String = serde_json::from_str(raw).map_err(|_| wrong())?;
    BASE64_STANDARD.decode(text).map_err(|_| wrong())
}

/// Stored bytes as JSON; `null` if they were erased.
#[must_use]
pub fn shown(payload: &Payload, content_type: Option<&str>) -> Raw {
    let text = std::str::from_utf8(&payload.bytes);
    match (content_type, text) {
        _ if payload.is_erased() => Raw::NULL,
        (kind, Ok(_)) if is_json(kind) => Raw(payload.bytes.clone()),
        (kind, Err(_)) if is_json(kind) => Raw::NULL,
        (Some(kind), Ok(text)) if is_text(kind) => Raw(Value::from(text).to_string().into()),
        _ => Raw(format!("\"{}\"", BASE64_STANDARD.encode(&payload.bytes)).into()),
    }
}

/// A stored payload that is JSON; `None` if there is none or it was erased.
pub(crate) fn stored(payload: Option<&Payload>) -> Option<Raw> {
    payload.filter(|payload| !payload.is_erased()).map(|payload| shown(payload, None))
}

/// Stored bytes as JSON, without a seal.
pub(crate) fn shown_bytes(bytes: &Bytes, content_type: Option<&str>) -> Raw {
    shown(&Payload::unsealed(bytes.clone()), content_type)
}

/// Bytes to be sent to a hub, as JSON.
///
/// # Errors
/// `INVALID` if they are not what the content type promises.
pub fn json_of(bytes: &[u8], content_type: Option<&str>) -> Result<Json<'static>, Refused> {
    let not_json = || {
        Refused::new(Code::Invalid, "the payload is not JSON")
            .hint("set a content type for other bytes, or encode the payload as JSON")
    };
    let text = match (content_type, std::str::from_utf8(bytes)) {
        (kind, text) if is_json(kind) => text.map_err(|_| not_json())?.to_owned(),
        (Some(kind), text) if is_text(kind) => {
            let text = text.map_err(|_| {
                Refused::new(Code::Invalid, "the payload is not UTF-8, which its content type calls for")
                    .hint("use application/octet-stream for arbitrary bytes")
            })?;
            Value::from(text).to_string()
        }
        _ => format!("\"{}\"", BASE64_STANDARD.encode(bytes)),
    };
    RawValue::from_string(text).map(Json::from).map_err(|_| not_json())
}

/// A payload in an answer of the hub.
///
/// # Errors
/// `INVALID` if it is not what its content type promises.
pub fn received(raw: &Raw, content_type: Option<&str>) -> Result<Payload, Refused> {
    let bytes = match content_type {
        kind if is_json(kind) => raw.0.clone(),
        // Erased.
        _ if raw.as_str() == "null" => Bytes::new(),
        kind => bytes_of(raw.as_str(), kind, |_| raw.0.clone())?,
    };
    Ok(Payload::unsealed(bytes))
}
