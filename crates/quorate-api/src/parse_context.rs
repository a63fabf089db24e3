//! Context for parsing a request: everything that is needed in addition to its JSON.

use std::fmt::Display;
use std::sync::Mutex;

use bytes::Bytes;
use quorate_core::{AgentId, Code, Payload, Refused, Secret};
use serde_json::value::RawValue;

use crate::json::Json;
use crate::payload;

/// Seals payloads before they are written to the log. To **seal** a payload is to compute its salted digest; nothing is
/// encrypted. A hub uses fresh salts; a client does not seal.
pub trait Seal: Sync {
    /// Seals a payload.
    fn seal(&self, bytes: Bytes) -> Payload;

    /// Seals the payload of a message. Its action and metadata can mark the message as a conduct flag.
    fn seal_message(&self, action: &str, metadata: Option<&str>, bytes: Bytes) -> Payload;

    /// Generates a salt, which all tasks of a request share.
    fn salt(&self) -> [u8; 16];

    /// Generates a secret for an access token.
    fn generate_secret(&self) -> Secret;
}

/// Durations used for requests that omit them.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Lease duration of a delivery, a task or a lock.
    pub lease_ms: u64,
    /// Interval between heartbeats of an agent; 0 disables the liveness check.
    pub heartbeat_ms: u64,
}

/// Context for parsing a request.
pub struct ParseContext<'a> {
    /// Request body. Payloads are slices of it and are not copied.
    pub body: &'a Bytes,
    /// Agent that makes the request, if the principal is an agent.
    pub agent: Option<&'a AgentId>,
    /// Durations used for requests that omit them.
    pub defaults: Defaults,
    /// Seals the payloads of the request.
    pub seal: &'a dyn Seal,
    /// Collects the secrets of new access tokens; `None` where they cannot be returned.
    pub secrets: Option<&'a Mutex<Vec<Secret>>>,
}

impl ParseContext<'_> {
    /// Parses and seals a payload according to its content type.
    ///
    /// # Errors
    /// `INVALID` if it does not match its content type.
    pub fn payload(&self, json: Option<&Json<'_>>, content_type: Option<&str>) -> Result<Payload, Refused> {
        Ok(self.seal.seal(self.bytes(json, content_type)?))
    }

    /// Parses and seals the payload of a message. Its action and metadata can mark the message as a conduct flag.
    ///
    /// # Errors
    /// `INVALID` if it does not match its content type.
    pub fn message_payload(
        &self,
        action: &str,
        metadata: Option<&str>,
        json: Option<&Json<'_>>,
        content_type: Option<&str>,
    ) -> Result<Payload, Refused> {
        Ok(self.seal.seal_message(action, metadata, self.bytes(json, content_type)?))
    }

    /// Parses and seals an optional JSON payload.
    pub(crate) fn optional_payload(&self, json: Option<&Json<'_>>) -> Result<Option<Payload>, Refused> {
        json.map(|json| self.payload(Some(json), None)).transpose()
    }

    pub(crate) fn bytes(
        &self,
        json: Option<&Json<'_>>,
        content_type: Option<&str>,
    ) -> Result<Bytes, Refused> {
        let raw = json.map_or("null", |json| RawValue::get(&json.0));
        payload::decode_payload(raw, content_type, |raw| self.slice(raw))
    }

    fn slice(&self, raw: &str) -> Bytes {
        match self.body.as_ptr_range().contains(&raw.as_ptr()) {
            true => self.body.slice_ref(raw.as_bytes()),
            false => Bytes::copy_from_slice(raw.as_bytes()),
        }
    }

    /// Returns the agent given in the request, or else the agent that makes it.
    pub(crate) fn agent(&self, requested: Option<AgentId>) -> Result<AgentId, Refused> {
        requested.or_else(|| self.agent.cloned()).ok_or_else(|| missing_field("agent"))
    }
}

/// Returns the ID given in the path or in the body. If both are given they must agree.
pub(crate) fn path_or_body<T: PartialEq + Display>(
    field: &str,
    path: Option<T>,
    body: Option<T>,
) -> Result<T, Refused> {
    match (path, body) {
        (Some(path), Some(body)) if path != body => Err(Refused::new(
            Code::Invalid,
            format!("{field}: the path contains {path}, but the body contains {body}"),
        )
        .hint(format!("omit {field} from the body"))),
        (Some(id), _) | (None, Some(id)) => Ok(id),
        (None, None) => Err(missing_field(field)),
    }
}

pub(crate) fn missing_field(field: &str) -> Refused {
    Refused::new(Code::Invalid, format!("{field} is missing")).hint(format!("add the field {field}"))
}
