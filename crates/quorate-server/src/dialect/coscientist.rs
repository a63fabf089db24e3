//! The dialect `coscientist` of a supervisor and its workers: a message consists of `header`, `payload` and `routing`.

use quorate_core::{AgentId, Destination, MessageType, Priority};
use serde_json::value::RawValue;

use super::deliberation::HUB_SENDER;
use super::envelope::NO_RECIPIENT;
use super::field_reader::{FieldError, FieldReader, parse_time};
use super::metadata::DialectMetadata;
use super::writer::{ObjectWriter, to_raw_json};
use super::{Envelope, ParsedMessage};
use crate::wire::time;

/// Target of a message to all agents.
const BROADCAST: &str = "broadcast";
/// Action of a message without a `message_type`.
const DEFAULT_ACTION: &str = "message";
/// Priority of a message without one, on the scale from 1 to 10.
const DEFAULT_PRIORITY: u8 = 5;
const UNKNOWN_FIELD_HINT: &str = "put additional fields into payload.metadata or payload.data";

pub(super) fn parse(mut fields: FieldReader<'_>) -> Result<ParsedMessage<'_>, FieldError> {
    if !fields.has("header") && !fields.has("payload") {
        return Err(fields.missing("header"));
    }
    let (header, payload, routing) =
        (fields.object("header")?, fields.object("payload")?, fields.object("routing")?);
    let mut metadata_path = fields.path_of("payload.metadata");
    fields.finish(UNKNOWN_FIELD_HINT)?;
    let (mut data, mut metadata) = (RawValue::NULL.to_owned(), None);
    if let Some(mut payload) = payload {
        data = payload.raw("data").map_or(data, ToOwned::to_owned);
        metadata_path = payload.path_of("metadata");
        metadata = payload.value("metadata");
        payload.finish(UNKNOWN_FIELD_HINT)?;
    }
    let mut envelope = Envelope::new(NO_RECIPIENT, DEFAULT_ACTION, data);
    envelope.message.priority = priority_of(DEFAULT_PRIORITY);
    if let Some(header) = header {
        parse_header(header, &mut envelope)?;
    }
    envelope.message.kind = match envelope.message.to {
        Destination::Broadcast => MessageType::Event,
        _ => MessageType::Command,
    };
    let mut dialect_fields = Vec::new();
    if let Some(mut routing) = routing {
        let path = routing.path_of("priority");
        if let Some(priority) = routing.integer("priority")? {
            let priority = u8::try_from(priority).ok().and_then(|value| Priority::from_ten_scale(value).ok());
            let error = || FieldError::new(path, "the priority is not between 1 and 10");
            envelope.message.priority = priority.ok_or_else(error)?;
        }
        if let Some((at, text)) = routing.time("expires_at")? {
            envelope.message.expires_at = Some(at);
            if text != time::format(at) {
                dialect_fields.push(("expires_at".to_owned(), to_raw_json(&text)));
            }
        }
        routing.finish(UNKNOWN_FIELD_HINT)?;
    }
    Ok(ParsedMessage { envelope, dialect_fields, metadata, metadata_path })
}

fn parse_header(mut header: FieldReader<'_>, envelope: &mut Envelope) -> Result<(), FieldError> {
    let id = header.text("message_id")?;
    envelope.set_id(header.path_of("message_id"), id)?;
    envelope.message.from = header.agent("source_agent")?;
    let path = header.path_of("target_agent");
    match header.text("target_agent")? {
        None => {}
        Some(target) if target == BROADCAST => envelope.message.to = Destination::Broadcast,
        Some(target) => {
            envelope.message.to = target.parse().map_err(|refused: quorate_core::Refused| {
                FieldError::new(path, refused.detail).hint(refused.hint)
            })?;
        }
    }
    if let Some((_, text)) = header.time("timestamp")? {
        envelope.timestamp = Some(to_raw_json(&text));
    }
    if let Some(action) = header.text("message_type")? {
        envelope.message.action = action;
    }
    header.finish(UNKNOWN_FIELD_HINT)
}

fn priority_of(value: u8) -> Priority {
    Priority::from_ten_scale(value).unwrap_or_default()
}

/// Returns the nearest priority from 1 to 10.
fn nearest(priority: Priority) -> u8 {
    match priority {
        Priority { rank, .. } if Priority::from_ten_scale(rank) == Ok(priority) => rank,
        Priority { level: 0, .. } => 2,
        Priority { level: 1, .. } => DEFAULT_PRIORITY,
        Priority { level: 2, .. } => 8,
        _ => 10,
    }
}

pub(super) fn render(
    envelope: &Envelope,
    stored: &DialectMetadata,
    metadata: Option<&RawValue>,
) -> ObjectWriter {
    let message = &envelope.message;
    let target = match &message.to {
        Destination::Broadcast => BROADCAST.to_owned(),
        to => to.to_string(),
    };
    let header = ObjectWriter::default()
        .with_optional("message_id", envelope.public_id())
        .with("source_agent", message.from.as_ref().map_or(HUB_SENDER, AgentId::as_str))
        .with_optional("target_agent", (message.to != NO_RECIPIENT).then_some(target))
        .with_optional("timestamp", envelope.timestamp.as_ref())
        .with("message_type", &message.action);
    let payload = ObjectWriter::default().with("data", &envelope.payload).with_optional("metadata", metadata);
    let as_written = stored
        .own_text("expires_at")
        .filter(|text| parse_time(text).is_some_and(|at| Some(at) == message.expires_at));
    let expires_at = message.expires_at.map(|at| as_written.unwrap_or_else(|| time::format(at)));
    let routing = ObjectWriter::default()
        .with("priority", nearest(message.priority))
        .with_optional("expires_at", expires_at);
    ObjectWriter::default().with("header", header).with("payload", payload).with("routing", routing)
}
