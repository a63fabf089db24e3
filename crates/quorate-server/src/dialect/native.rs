//! The collaboration framework's own envelope, as its document writes it: priorities are numbers, a version and a time
//! stand in every message. The fields beyond it are those of `/v1/messages`.

use quorate_core::{Capability, Destination, MessageType, Priority};
use serde_json::value::RawValue;

use super::beyond::{self, DURABILITIES, KINDS, TEXTS, To, word};
use super::kept::Kept;
use super::letter::NOBODY;
use super::said::{Said, Wrong, time_of};
use super::shape::{Shape, raw_of};
use super::{Heard, Letter};
use crate::wire::time;

/// The version of the envelope.
const VERSION: &str = "1.0";

pub(super) fn hear(mut said: Said<'_>) -> Result<Heard<'_>, Wrong> {
    let payload = said.raw("payload").map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned);
    let to = beyond::destination(&mut said, "to")?.unwrap_or(NOBODY);
    let mut letter = Letter::new(to, said.text("action")?.unwrap_or_default(), payload);
    let id = said.text("id")?;
    letter.take_id(said.at("id"), id)?;
    let path = said.at("version");
    if let Some(other) = said.text("version")?.filter(|version| version != VERSION) {
        return Err(Wrong::new(path, format!("{other:?} is not {VERSION:?}")));
    }
    letter.message.from = said.agent("from")?;
    letter.message.kind = said.word("type", &KINDS)?.unwrap_or_default();
    let path = said.at("priority");
    if let Some(level) = said.whole("priority")? {
        letter.message.priority = match level {
            0..=3 => Priority { level: level as u8, rank: 0 },
            _ => return Err(Wrong::new(path, format!("{level} is not between 0 and 3"))),
        };
    }
    if let Some((_, text)) = said.time("timestamp")? {
        letter.stamp = Some(raw_of(&text));
    }
    let mut own = Vec::new();
    for name in ["expiresAt", "deliverAt"] {
        let Some((at, text)) = said.time(name)? else { continue };
        match name {
            "expiresAt" => letter.message.expires_at = Some(at),
            _ => letter.message.deliver_at = Some(at),
        }
        if text != time::shown(at) {
            own.push((name.to_owned(), raw_of(&text)));
        }
    }
    let (metadata, metadata_path) = (said.value("metadata"), said.at("metadata"));
    beyond::apply_rest(&mut said, &mut letter.message)?;
    said.end("put what the envelope has no field for into metadata, or into payload")?;
    Ok(Heard { letter, own, metadata, metadata_path })
}

/// A command or a query goes to one that can do it, an event to everybody.
pub(super) fn usual_recipient(letter: &Letter) -> Option<Destination> {
    match letter.message.kind {
        MessageType::Command | MessageType::Query => {
            Capability::new(&letter.message.action).ok().map(Destination::Can)
        }
        MessageType::Event => Some(Destination::Everybody),
        MessageType::Response => None,
    }
}

pub(super) fn tell(letter: &Letter, kept: &Kept, metadata: Option<&RawValue>) -> Shape {
    let message = &letter.message;
    let usual = Letter::new(NOBODY, "", RawValue::NULL.to_owned()).message;
    let as_written = |name, at| {
        let text = kept.own_text(name).filter(|text| time_of(text) == Some(at));
        text.unwrap_or_else(|| time::shown(at))
    };
    let durability =
        (message.durability != usual.durability).then(|| word(&DURABILITIES, message.durability));
    let if_unavailable = Some(message.if_unavailable).filter(|choice| *choice != usual.if_unavailable);
    let mut shape = Shape::default()
        .maybe("id", letter.known_as())
        .with("version", VERSION)
        .maybe("from", message.from.as_ref().map(quorate_core::AgentId::as_str))
        .maybe("to", Some(To(&message.to)).filter(|_| message.to != NOBODY))
        .maybe("replyTo", message.reply_to.as_ref().map(quorate_core::AgentId::as_str))
        .with("type", message.kind.as_str())
        .with("priority", message.priority.level)
        .maybe("timestamp", letter.stamp.as_ref())
        .maybe("expiresAt", message.expires_at.map(|at| as_written("expiresAt", at)))
        .with("action", &message.action)
        .with("payload", &letter.payload);
    let mut texts = message.clone();
    for (name, get) in TEXTS {
        shape = shape.maybe(name, get(&mut texts).as_ref());
    }
    shape
        .maybe("deliverAt", message.deliver_at.map(|at| as_written("deliverAt", at)))
        .maybe("durability", durability)
        .maybe("maxAttempts", Some(message.attempts_max).filter(|max| *max != usual.attempts_max))
        .maybe("hops", Some(message.hops).filter(|hops| *hops != 0))
        .maybe("confidence", message.confidence)
        .maybe("ifUnavailable", if_unavailable.map(quorate_core::IfUnavailable::as_str))
        .maybe("metadata", metadata)
}
