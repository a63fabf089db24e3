//! The dialect `native`: the fields of `/v1/messages`, with numeric priorities, and a version and the author's
//! timestamp in every message.

use quorate_core::{Capability, Destination, MessageType, Priority};
use serde_json::value::RawValue;

use super::envelope::NO_RECIPIENT;
use super::field_reader::{FieldError, FieldReader, parse_time};
use super::metadata::DialectMetadata;
use super::native_extras::{self, DURABILITIES, DestinationJson, KINDS, OPTIONAL_TEXTS, name_of};
use super::writer::{ObjectWriter, to_raw_json};
use super::{Envelope, ParsedMessage};
use crate::wire::time;

/// Version of the envelope.
const VERSION: &str = "1.0";

pub(super) fn parse(mut fields: FieldReader<'_>) -> Result<ParsedMessage<'_>, FieldError> {
    let payload = fields.raw("payload").map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned);
    let to = native_extras::parse_destination(&mut fields, "to")?.unwrap_or(NO_RECIPIENT);
    let mut envelope = Envelope::new(to, fields.text("action")?.unwrap_or_default(), payload);
    let id = fields.text("id")?;
    envelope.set_id(fields.path_of("id"), id)?;
    let path = fields.path_of("version");
    if let Some(other) = fields.text("version")?.filter(|version| version != VERSION) {
        return Err(FieldError::new(path, format!("unsupported version {other:?}, expected {VERSION:?}")));
    }
    envelope.message.from = fields.agent("from")?;
    envelope.message.kind = fields.choice("type", &KINDS)?.unwrap_or_default();
    let path = fields.path_of("priority");
    if let Some(level) = fields.integer("priority")? {
        envelope.message.priority = match level {
            0..=3 => Priority { level: level as u8, rank: 0 },
            _ => return Err(FieldError::new(path, format!("{level} is not between 0 and 3"))),
        };
    }
    if let Some((_, text)) = fields.time("timestamp")? {
        envelope.timestamp = Some(to_raw_json(&text));
    }
    let mut dialect_fields = Vec::new();
    for name in ["expiresAt", "deliverAt"] {
        let Some((at, text)) = fields.time(name)? else { continue };
        match name {
            "expiresAt" => envelope.message.expires_at = Some(at),
            _ => envelope.message.deliver_at = Some(at),
        }
        if text != time::format(at) {
            dialect_fields.push((name.to_owned(), to_raw_json(&text)));
        }
    }
    let (metadata, metadata_path) = (fields.value("metadata"), fields.path_of("metadata"));
    native_extras::apply_common_fields(&mut fields, &mut envelope.message)?;
    fields.finish("put additional fields into metadata or payload")?;
    Ok(ParsedMessage { envelope, dialect_fields, metadata, metadata_path })
}

/// Returns the default recipient: a pool with the action's capability for a command or query, all agents for an
/// event.
pub(super) fn default_recipient(envelope: &Envelope) -> Option<Destination> {
    match envelope.message.kind {
        MessageType::Command | MessageType::Query => {
            Capability::new(&envelope.message.action).ok().map(Destination::Can)
        }
        MessageType::Event => Some(Destination::Broadcast),
        MessageType::Response => None,
    }
}

pub(super) fn render(
    envelope: &Envelope,
    stored: &DialectMetadata,
    metadata: Option<&RawValue>,
) -> ObjectWriter {
    let message = &envelope.message;
    let defaults = Envelope::new(NO_RECIPIENT, "", RawValue::NULL.to_owned()).message;
    let as_written = |name, at| {
        let text = stored.own_text(name).filter(|text| parse_time(text) == Some(at));
        text.unwrap_or_else(|| time::format(at))
    };
    let durability =
        (message.durability != defaults.durability).then(|| name_of(&DURABILITIES, message.durability));
    let if_unavailable = Some(message.if_unavailable).filter(|choice| *choice != defaults.if_unavailable);
    let mut object = ObjectWriter::default()
        .with_optional("id", envelope.public_id())
        .with("version", VERSION)
        .with_optional("from", message.from.as_ref().map(quorate_core::AgentId::as_str))
        .with_optional("to", Some(DestinationJson(&message.to)).filter(|_| message.to != NO_RECIPIENT))
        .with_optional("replyTo", message.reply_to.as_ref().map(quorate_core::AgentId::as_str))
        .with("type", message.kind.as_str())
        .with("priority", message.priority.level)
        .with_optional("timestamp", envelope.timestamp.as_ref())
        .with_optional("expiresAt", message.expires_at.map(|at| as_written("expiresAt", at)))
        .with("action", &message.action)
        .with("payload", &envelope.payload);
    let mut copy = message.clone();
    for (name, get) in OPTIONAL_TEXTS {
        object = object.with_optional(name, get(&mut copy).as_ref());
    }
    object
        .with_optional("deliverAt", message.deliver_at.map(|at| as_written("deliverAt", at)))
        .with_optional("durability", durability)
        .with_optional("maxAttempts", Some(message.attempts_max).filter(|max| *max != defaults.attempts_max))
        .with_optional("hops", Some(message.hops).filter(|hops| *hops != 0))
        .with_optional("maxHops", message.max_hops)
        .with_optional("confidence", message.confidence)
        .with_optional("ifUnavailable", if_unavailable.map(quorate_core::IfUnavailable::as_str))
        .with_optional("metadata", metadata)
}
