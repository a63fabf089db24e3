//! What reading a request needs besides its JSON.

use std::fmt::Display;
use std::sync::Mutex;

use bytes::Bytes;
use quorate_core::{AgentId, Code, Payload, Refused, Secret};
use serde_json::value::RawValue;

use crate::json::Json;
use crate::payload;

/// Seals payloads on their way into the log: a hub does with fresh salts, a client not at all.
pub trait Seal: Sync {
    /// Seals a payload.
    fn seal(&self, bytes: Bytes) -> Payload;

    /// Seals the payload of a message, whose action and metadata can mark it as a conduct flag.
    fn seal_message(&self, action: &str, metadata: Option<&str>, bytes: Bytes) -> Payload;

    /// A fresh salt, for tasks: they share one.
    fn salt(&self) -> [u8; 16];

    /// A fresh secret for a token.
    fn draw_secret(&self) -> Secret;
}

/// Durations that hold for requests that name none.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// Of a delivery, a task or a lock.
    pub lease_ms: u64,
    /// Between two heartbeats of an agent; 0 if none are expected.
    pub heartbeat_ms: u64,
}

/// What reading a request needs besides its JSON.
pub struct Reading<'a> {
    /// The body, of which payloads are slices: they are not copied.
    pub body: &'a Bytes,
    /// The agent that acts, if it is one.
    pub agent: Option<&'a AgentId>,
    /// Durations that hold for requests that name none.
    pub defaults: Defaults,
    /// Seals payloads.
    pub seal: &'a dyn Seal,
    /// Takes the secrets of new tokens, where they can be shown.
    pub secrets: Option<&'a Mutex<Vec<Secret>>>,
}

impl Reading<'_> {
    /// A payload by its content type.
    ///
    /// # Errors
    /// `INVALID` if it is not what its content type promises.
    pub fn payload(&self, json: Option<&Json<'_>>, content_type: Option<&str>) -> Result<Payload, Refused> {
        Ok(self.seal.seal(self.bytes(json, content_type)?))
    }

    /// The payload of a message, whose action and metadata can mark it as a conduct flag.
    ///
    /// # Errors
    /// `INVALID` if it is not what its content type promises.
    pub fn message_payload(
        &self,
        action: &str,
        metadata: Option<&str>,
        json: Option<&Json<'_>>,
        content_type: Option<&str>,
    ) -> Result<Payload, Refused> {
        Ok(self.seal.seal_message(action, metadata, self.bytes(json, content_type)?))
    }

    /// A payload that may be left out and is JSON.
    pub(crate) fn optional(&self, json: Option<&Json<'_>>) -> Result<Option<Payload>, Refused> {
        json.map(|json| self.payload(Some(json), None)).transpose()
    }

    pub(crate) fn bytes(
        &self,
        json: Option<&Json<'_>>,
        content_type: Option<&str>,
    ) -> Result<Bytes, Refused> {
        let raw = json.map_or("null", |json| RawValue::get(&json.0));
        payload::bytes_of(raw, content_type, |raw| self.slice(raw))
    }

    fn slice(&self, raw: &str) -> Bytes {
        match self.body.as_ptr_range().contains(&raw.as_ptr()) {
            true => self.body.slice_ref(raw.as_bytes()),
            false => Bytes::copy_from_slice(raw.as_bytes()),
        }
    }

    /// The agent that a request names, or the one that acts.
    pub(crate) fn agent(&self, named: Option<AgentId>) -> Result<AgentId, Refused> {
        named.or_else(|| self.agent.cloned()).ok_or_else(|| missing("agent"))
    }
}

/// The one that the path or the body names, or both if they agree.
pub(crate) fn named<T: PartialEq + Display>(
    what: &str,
    path: Option<T>,
    body: Option<T>,
) -> Result<T, Refused> {
    match (path, body) {
        (Some(path), Some(body)) if path != body => {
            Err(Refused::new(Code::Invalid, format!("{what}: the path names {path}, the body {body}"))
                .hint("name it in the path only"))
        }
        (Some(one), _) | (None, Some(one)) => Ok(one),
        (None, None) => Err(missing(what)),
    }
}

pub(crate) fn missing(field: &str) -> Refused {
    Refused::new(Code::Invalid, format!("{field} is missing")).hint(format!("add the field {field}"))
}
