//! Payloads in JSON: JSON is embedded unchanged, text of a `text/…` type is a string, all other bytes are a base64
//! string.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use quorate_core::{Code, Payload, Refused, is_json};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{Json, RawJson};

fn is_text(content_type: &str) -> bool {
    content_type.starts_with("text/")
}

/// Decodes the bytes that a JSON value represents. JSON payloads are passed to `json`, which can avoid a copy.
///
/// # Errors
/// `INVALID` if the value does not match its content type.
pub fn decode_payload(
    raw: &str,
    content_type: Option<&str>,
    json: impl FnOnce(&str) -> Bytes,
) -> Result<Bytes, Refused> {
    Ok(match content_type {
        kind if is_json(kind) => json(raw),
        Some(kind) if is_text(kind) => Bytes::from(parse_text(raw)?),
        _ => Bytes::from(decode_base64(raw)?),
    })
}

fn parse_text(raw: &str) -> Result<String, Refused> {
    serde_json::from_str(raw).map_err(|_| {
        Refused::new(Code::Invalid, "the payload is not a string, as its contentType requires")
            .hint("omit contentType for JSON, or send the text as a JSON string")
    })
}

/// Decodes a JSON string of base64.
///
/// # Errors
/// `INVALID` if it is not a base64 string.
pub fn decode_base64(raw: &str) -> Result<Vec<u8>, Refused> {
    let invalid = || {
        Refused::new(Code::Invalid, "the payload is not a base64 string, as its contentType requires")
            .hint("omit contentType for JSON, or send the bytes as a base64 string")
    };
    let text: String = serde_json::from_str(raw).map_err(|_| invalid())?;
    BASE64_STANDARD.decode(text).map_err(|_| invalid())
}

/// Renders stored bytes as JSON; `null` if they were erased.
#[must_use]
pub fn render(payload: &Payload, content_type: Option<&str>) -> RawJson {
    let text = std::str::from_utf8(&payload.bytes);
    match (content_type, text) {
        _ if payload.is_erased() => RawJson::NULL,
        (kind, Ok(_)) if is_json(kind) => RawJson(payload.bytes.clone()),
        (kind, Err(_)) if is_json(kind) => RawJson::NULL,
        (Some(kind), Ok(text)) if is_text(kind) => RawJson(Value::from(text).to_string().into()),
        _ => RawJson(format!("\"{}\"", BASE64_STANDARD.encode(&payload.bytes)).into()),
    }
}

/// Renders a stored JSON payload; `None` if there is none or it was erased.
pub(crate) fn render_stored(payload: Option<&Payload>) -> Option<RawJson> {
    payload.filter(|payload| !payload.is_erased()).map(|payload| render(payload, None))
}

/// Renders unsealed bytes as JSON.
pub fn render_bytes(bytes: &Bytes, content_type: Option<&str>) -> RawJson {
    render(&Payload::unsealed(bytes.clone()), content_type)
}

/// Encodes bytes as the JSON value that is sent to a hub.
///
/// # Errors
/// `INVALID` if they do not match the content type.
pub fn encode(bytes: &[u8], content_type: Option<&str>) -> Result<Json<'static>, Refused> {
    let not_json = || {
        Refused::new(Code::Invalid, "the payload is not JSON")
            .hint("set a content type for other bytes, or encode the payload as JSON")
    };
    let text = match (content_type, std::str::from_utf8(bytes)) {
        (kind, text) if is_json(kind) => text.map_err(|_| not_json())?.to_owned(),
        (Some(kind), text) if is_text(kind) => {
            let text = text.map_err(|_| {
                Refused::new(Code::Invalid, "the payload is not valid UTF-8, as its content type requires")
                    .hint("use application/octet-stream for arbitrary bytes")
            })?;
            Value::from(text).to_string()
        }
        _ => format!("\"{}\"", BASE64_STANDARD.encode(bytes)),
    };
    RawValue::from_string(text).map(Json::from).map_err(|_| not_json())
}

/// Decodes a payload of a response.
///
/// # Errors
/// `INVALID` if it does not match its content type.
pub fn decode_received(raw: &RawJson, content_type: Option<&str>) -> Result<Payload, Refused> {
    let bytes = match content_type {
        kind if is_json(kind) => raw.0.clone(),
        // Erased.
        _ if raw.as_str() == "null" => Bytes::new(),
        kind => decode_payload(raw.as_str(), kind, |_| raw.0.clone())?,
    };
    Ok(Payload::unsealed(bytes))
}
