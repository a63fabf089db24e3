//! The collaboration framework's envelope as documented there: numeric priorities, and a version and timestamp in
//! every message. Additional fields are those of `/v1/messages`.

use quorate_core::{Capability, Destination, MessageType, Priority};
use serde_json::value::RawValue;

use super::beyond::{self, DURABILITIES, KINDS, TEXTS, To, word};
use super::kept::Kept;
use super::letter::NOBODY;
use super::said::{Said, Wrong, time_of};
use super::shape::{Shape, raw_of};
use super::{Heard, Letter};
use crate::wire::time;

/// Version of the envelope.
const VERSION: &str = "1.0";

pub(super) fn hear(mut fields: Said<'_>) -> Result<Heard<'_>, Wrong> {
    let payload = fields.raw("payload").map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned);
    let to = beyond::destination(&mut fields, "to")?.unwrap_or(NOBODY);
    let mut envelope = Letter::new(to, fields.text("action")?.unwrap_or_default(), payload);
    let id = fields.text("id")?;
    envelope.take_id(fields.at("id"), id)?;
    let path = fields.at("version");
    if let Some(other) = fields.text("version")?.filter(|version| version != VERSION) {
        return Err(Wrong::new(path, format!("unsupported version {other:?}, expected {VERSION:?}")));
    }
    envelope.message.from = fields.agent("from")?;
    envelope.message.kind = fields.word("type", &KINDS)?.unwrap_or_default();
    let path = fields.at("priority");
    if let Some(level) = fields.whole("priority")? {
        envelope.message.priority = match level {
            0..=3 => Priority { level: level as u8, rank: 0 },
            _ => return Err(Wrong::new(path, format!("{level} is not between 0 and 3"))),
        };
    }
    if let Some((_, text)) = fields.time("timestamp")? {
        envelope.stamp = Some(raw_of(&text));
    }
    let mut own = Vec::new();
    for name in ["expiresAt", "deliverAt"] {
        let Some((at, text)) = fields.time(name)? else { continue };
        match name {
            "expiresAt" => envelope.message.expires_at = Some(at),
            _ => envelope.message.deliver_at = Some(at),
        }
        if text != time::shown(at) {
            own.push((name.to_owned(), raw_of(&text)));
        }
    }
    let (metadata, metadata_path) = (fields.value("metadata"), fields.at("metadata"));
    beyond::apply_rest(&mut fields, &mut envelope.message)?;
    fields.end("put additional fields into metadata or payload")?;
    Ok(Heard { envelope, own, metadata, metadata_path })
}

/// Returns the default recipient: a pool with the action's capability for a command or query, all agents for an
/// event.
pub(super) fn usual_recipient(envelope: &Letter) -> Option<Destination> {
    match envelope.message.kind {
        MessageType::Command | MessageType::Query => {
            Capability::new(&envelope.message.action).ok().map(Destination::Can)
        }
        MessageType::Event => Some(Destination::Everybody),
        MessageType::Response => None,
    }
}

pub(super) fn tell(envelope: &Letter, stored: &Kept, metadata: Option<&RawValue>) -> Shape {
    let message = &envelope.message;
    let defaults = Letter::new(NOBODY, "", RawValue::NULL.to_owned()).message;
    let as_written = |name, at| {
        let text = stored.own_text(name).filter(|text| time_of(text) == Some(at));
        text.unwrap_or_else(|| time::shown(at))
    };
    let durability =
        (message.durability != defaults.durability).then(|| word(&DURABILITIES, message.durability));
    let if_unavailable = Some(message.if_unavailable).filter(|choice| *choice != defaults.if_unavailable);
    let mut shape = Shape::default()
        .maybe("id", envelope.known_as())
        .with("version", VERSION)
        .maybe("from", message.from.as_ref().map(quorate_core::AgentId::as_str))
        .maybe("to", Some(To(&message.to)).filter(|_| message.to != NOBODY))
        .maybe("replyTo", message.reply_to.as_ref().map(quorate_core::AgentId::as_str))
        .with("type", message.kind.as_str())
        .with("priority", message.priority.level)
        .maybe("timestamp", envelope.stamp.as_ref())
        .maybe("expiresAt", message.expires_at.map(|at| as_written("expiresAt", at)))
        .with("action", &message.action)
        .with("payload", &envelope.payload);
    let mut texts = message.clone();
    for (name, get) in TEXTS {
        shape = shape.maybe(name, get(&mut texts).as_ref());
    }
    shape
        .maybe("deliverAt", message.deliver_at.map(|at| as_written("deliverAt", at)))
        .maybe("durability", durability)
        .maybe("maxAttempts", Some(message.attempts_max).filter(|max| *max != defaults.attempts_max))
        .maybe("hops", Some(message.hops).filter(|hops| *hops != 0))
        .maybe("confidence", message.confidence)
        .maybe("ifUnavailable", if_unavailable.map(quorate_core::IfUnavailable::as_str))
        .maybe("metadata", metadata)
}
