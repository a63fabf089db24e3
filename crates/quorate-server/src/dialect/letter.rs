//! A message between two shapes: the native fields, and what only an edge knows of them.

use quorate_api::{Json, Reading};
use quorate_core::{ClientId, Destination, Message, MessageId, Payload, Refused, Timestamp};
use serde_json::value::RawValue;

use super::kept;
use super::shape::raw_of;
use super::{Dialect, Wrong};
use crate::wire::{self, time};

/// A message on its way through a dialect.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    /// The id that the hub gave it, where the client gave it none.
    pub(crate) id: Option<String>,
    /// When it was written, as the dialect says it.
    pub(crate) stamp: Option<Box<RawValue>>,
    /// All the rest. Its payload is in [`Letter::payload`]; a list of no recipients is one that was left out.
    pub(crate) message: Message,
    /// The payload as JSON: what has another content type is a text in base64.
    pub(crate) payload: Box<RawValue>,
}

/// Where a message goes that names nobody.
pub(crate) const NOBODY: Destination = Destination::Agents(Vec::new());

/// Ids of the hub begin like this; nobody else may give them.
fn is_of_hub(id: &str) -> bool {
    id.parse::<MessageId>().is_ok() || id.starts_with("eph_")
}

impl Letter {
    /// A message with everything else at its default.
    pub(super) fn new(to: Destination, action: impl Into<String>, payload: Box<RawValue>) -> Self {
        let message = Message::new(to, action, Payload::unsealed(bytes::Bytes::new()));
        Self { id: None, stamp: None, message, payload }
    }

    /// Takes the id that stands in a message: the client's, or one that the hub gave.
    pub(super) fn take_id(&mut self, path: String, id: Option<String>) -> Result<(), Wrong> {
        match id {
            Some(id) if is_of_hub(&id) => self.id = Some(id),
            Some(id) => {
                let id = ClientId::new(id).map_err(|refused| Wrong::new(path, refused.detail))?;
                self.message.client_id = Some(id);
            }
            None => {}
        }
        Ok(())
    }

    /// The id under which others know it.
    pub(super) fn known_as(&self) -> Option<&str> {
        let client_id = self.message.client_id.as_ref().map(ClientId::as_str);
        client_id.or(self.id.as_deref())
    }

    /// A message that the hub hands out, for a reader of this dialect.
    pub(crate) fn received(dialect: Dialect, id: String, at: Timestamp, message: &Message) -> Self {
        let payload = wire::shown(&message.payload, message.content_type.as_deref()).parsed();
        let mut message = Message { payload: Payload::unsealed(bytes::Bytes::new()), ..message.clone() };
        if message.origin.as_deref() == Some(&origin_of(dialect)) {
            message.origin = None;
        }
        let (stamp, metadata) = kept::without_stamp(dialect, message.metadata.take());
        message.metadata = metadata;
        let stamp = stamp.unwrap_or_else(|| stamp_of(dialect, at));
        let id = message.client_id.is_none().then_some(id);
        Self { id, stamp: Some(stamp), message, payload }
    }

    /// The message to send: sealed, and with when its author says that it was written.
    pub(crate) fn into_message(
        self,
        dialect: Dialect,
        path: &str,
        reading: &Reading<'_>,
    ) -> Result<Message, Refused> {
        if let Some(id) = self.id {
            return Err(Wrong::new(path, format!("{id:?} is an id that the hub gave"))
                .hint("choose an id of your own, or leave it out")
                .into());
        }
        let mut message = self.message;
        let payload = Json::from(self.payload);
        message.payload = reading.message_payload(
            &message.action,
            message.metadata.as_deref(),
            Some(&payload),
            message.content_type.as_deref(),
        )?;
        message.metadata = kept::with_stamp(dialect, path, message.metadata.take(), self.stamp)?;
        message.origin.get_or_insert_with(|| origin_of(dialect));
        Ok(message)
    }
}

/// Where a message entered that came in a dialect.
fn origin_of(dialect: Dialect) -> String {
    format!("dialect:{}", dialect.as_str())
}

/// A time as a dialect writes it.
fn stamp_of(dialect: Dialect, at: Timestamp) -> Box<RawValue> {
    match dialect {
        Dialect::Deliberation => raw_of(&at.0),
        Dialect::Orchestrator | Dialect::Coscientist | Dialect::Native => raw_of(&time::shown(at)),
    }
}
