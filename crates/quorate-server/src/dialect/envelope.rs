//! Intermediate form of a message between a dialect and the native format.

use quorate_api::{Json, ParseContext};
use quorate_core::{ClientId, Destination, Message, MessageId, Payload, Refused, Timestamp};
use serde_json::value::RawValue;

use super::metadata;
use super::writer::to_raw_json;
use super::{Dialect, FieldError};
use crate::wire::{self, time};

/// A message during conversion.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    /// Id assigned by the hub, if the client assigned none.
    pub(crate) id: Option<String>,
    /// Author's timestamp, as the dialect writes it.
    pub(crate) timestamp: Option<Box<RawValue>>,
    /// The native fields. The payload is in [`Envelope::payload`]; an empty list of recipients means that none was
    /// given.
    pub(crate) message: Message,
    /// The payload as JSON; other content types are base64 strings.
    pub(crate) payload: Box<RawValue>,
}

/// Destination of a message that names no recipient.
pub(crate) const NO_RECIPIENT: Destination = Destination::Agents(Vec::new());

/// Whether an id has the format of ids assigned by the hub, which clients must not assign.
fn is_hub_id(id: &str) -> bool {
    id.parse::<MessageId>().is_ok() || id.starts_with("eph_")
}

impl Envelope {
    /// Creates a message with default values.
    pub(super) fn new(to: Destination, action: impl Into<String>, payload: Box<RawValue>) -> Self {
        let message = Message::new(to, action, Payload::unsealed(bytes::Bytes::new()));
        Self { id: None, timestamp: None, message, payload }
    }

    /// Sets the id of a message: a client id, or one assigned by the hub.
    pub(super) fn set_id(&mut self, path: String, id: Option<String>) -> Result<(), FieldError> {
        match id {
            Some(id) if is_hub_id(&id) => self.id = Some(id),
            Some(id) => {
                let id = ClientId::new(id).map_err(|refused| FieldError::new(path, refused.detail))?;
                self.message.client_id = Some(id);
            }
            None => {}
        }
        Ok(())
    }

    /// Returns the public id: the client id, else the hub's.
    pub(super) fn public_id(&self) -> Option<&str> {
        let client_id = self.message.client_id.as_ref().map(ClientId::as_str);
        client_id.or(self.id.as_deref())
    }

    /// Converts a delivered message for a reader of this dialect.
    pub(crate) fn from_delivered(dialect: Dialect, id: String, at: Timestamp, message: &Message) -> Self {
        let payload = wire::render(&message.payload, message.content_type.as_deref()).to_raw_value();
        let mut message = Message { payload: Payload::unsealed(bytes::Bytes::new()), ..message.clone() };
        if message.origin.as_deref() == Some(&origin_of(dialect)) {
            message.origin = None;
        }
        let (timestamp, metadata) = metadata::take_timestamp(dialect, message.metadata.take());
        message.metadata = metadata;
        let timestamp = timestamp.unwrap_or_else(|| timestamp_of(dialect, at));
        let id = message.client_id.is_none().then_some(id);
        Self { id, timestamp: Some(timestamp), message, payload }
    }

    /// Converts to a native message to send: seals the payload and stores the author's timestamp.
    pub(crate) fn into_message(
        self,
        dialect: Dialect,
        path: &str,
        context: &ParseContext<'_>,
    ) -> Result<Message, Refused> {
        if let Some(id) = self.id {
            return Err(FieldError::new(path, format!("{id:?} has the format of ids assigned by the hub"))
                .hint("use another id, or omit it")
                .into());
        }
        let mut message = self.message;
        let payload = Json::from(self.payload);
        message.payload = context.message_payload(
            &message.action,
            message.metadata.as_deref(),
            Some(&payload),
            message.content_type.as_deref(),
        )?;
        message.metadata = metadata::put_timestamp(dialect, path, message.metadata.take(), self.timestamp)?;
        message.origin.get_or_insert_with(|| origin_of(dialect));
        Ok(message)
    }
}

/// Returns the `origin` of messages received in a dialect.
fn origin_of(dialect: Dialect) -> String {
    format!("dialect:{}", dialect.as_str())
}

/// Renders a time in the dialect's format.
fn timestamp_of(dialect: Dialect, at: Timestamp) -> Box<RawValue> {
    match dialect {
        Dialect::Deliberation => to_raw_json(&at.0),
        Dialect::Orchestrator | Dialect::Coscientist | Dialect::Native => to_raw_json(&time::format(at)),
    }
}
