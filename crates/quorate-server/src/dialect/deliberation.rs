//! Deliberation between analysts: `id, round, sender, recipients, messageType, content, timestamp, replyTo`.

use quorate_core::limits::REASON_CHARS_MAX;
use quorate_core::{AgentId, Destination, Message, MessageType};
use serde_json::value::RawValue;

use super::kept::Kept;
use super::letter::NOBODY;
use super::said::{Said, Wrong};
use super::shape::{Shape, raw_of};
use super::{Heard, Letter};

/// Message types of the dialect.
const TYPES: [&str; 7] =
    ["finding", "question", "clarification", "agreement", "disagreement", "revision", "evidence"];
const FINDING: &str = "finding";
const QUESTION: &str = "question";
/// Sender of messages from the hub itself.
pub(super) const HUB: &str = "quorate";

pub(super) fn hear(mut fields: Said<'_>) -> Result<Heard<'_>, Wrong> {
    let words = TYPES.map(|word| (word, word));
    let kind = fields.word("messageType", &words)?.ok_or_else(|| fields.missing("messageType"))?;
    let content = fields.text("content")?.ok_or_else(|| fields.missing("content"))?;
    let payload = payload_of(&content);
    let mut envelope = Letter::new(recipients(&mut fields)?, kind, payload);
    envelope.message.from = fields.agent("sender")?;
    envelope.message.in_reply_to = fields.text("replyTo")?;
    envelope.message.kind = type_of(kind, envelope.message.in_reply_to.is_some());
    read_content(&fields.at("content"), &envelope.payload, &mut envelope.message)?;
    let id = fields.text("id")?;
    envelope.take_id(fields.at("id"), id)?;
    envelope.stamp = stamp(&mut fields)?;
    let mut own = Vec::new();
    let round_path = fields.at("round");
    if let Some(round) = fields.whole("round")? {
        if u32::try_from(round).is_err() {
            return Err(Wrong::new(round_path, format!("invalid round {round}")));
        }
        if round != usual_round(kind) {
            own.push(("round".to_owned(), raw_of(&round)));
        }
    }
    if content_of(&envelope.payload) != content {
        own.push(("content".to_owned(), raw_of(&content)));
    }
    let (metadata, metadata_path) = (fields.value("metadata"), fields.at("metadata"));
    fields.end("put additional fields into metadata or content")?;
    Ok(Heard { envelope, own, metadata, metadata_path })
}

fn recipients(fields: &mut Said<'_>) -> Result<Destination, Wrong> {
    let path = fields.at("recipients");
    match fields.texts("recipients")? {
        None => Ok(NOBODY),
        Some(texts) if texts.is_empty() => Err(Wrong::new(path, "the list of recipients is empty")),
        Some(texts) => Destination::of_texts(texts).map_err(|refused| Wrong::new(path, refused.detail)),
    }
}

/// Parses a timestamp in milliseconds since the Unix epoch.
fn stamp(fields: &mut Said<'_>) -> Result<Option<Box<RawValue>>, Wrong> {
    let path = fields.at("timestamp");
    let Some(raw) = fields.value("timestamp") else { return Ok(None) };
    let ms: Option<f64> = raw.get().parse().ok();
    match ms {
        Some(ms) if ms >= 0.0 && ms.is_finite() => Ok(Some(raw.to_owned())),
        _ => Err(Wrong::new(path, format!("invalid time {}", super::said::shortened(raw.get())))
            .hint("use milliseconds since the Unix epoch")),
    }
}

/// Findings precede the first round.
fn usual_round(kind: &str) -> u64 {
    u64::from(kind != FINDING)
}

fn type_of(kind: &str, is_reply: bool) -> MessageType {
    match kind {
        QUESTION => MessageType::Query,
        FINDING => MessageType::Event,
        _ if is_reply => MessageType::Response,
        _ => MessageType::Event,
    }
}

/// Returns the payload of a content text. The text contains JSON; other text becomes a JSON string.
fn payload_of(content: &str) -> Box<RawValue> {
    match serde_json::from_str::<&RawValue>(content) {
        Ok(json) => json.to_owned(),
        Err(_) => raw_of(content),
    }
}

/// Returns the content text of a payload: its JSON, or the plain text of a string that cannot be mistaken for JSON.
fn content_of(payload: &RawValue) -> String {
    match serde_json::from_str::<String>(payload.get()) {
        Ok(text) if serde_json::from_str::<&RawValue>(&text).is_err() => text,
        _ => payload.get().to_owned(),
    }
}

/// Validates known content fields, and copies confidence and reasoning to the message.
fn read_content(path: &str, payload: &RawValue, message: &mut Message) -> Result<(), Wrong> {
    // Only an object without duplicate fields is checked; any other content is free-form.
    let Ok(mut content) = Said::read(path, payload) else { return Ok(()) };
    message.confidence = content.confidence("confidence")?;
    content.text("summary")?;
    content.number("riskScore")?;
    content.whole("criticalIssues")?;
    content.text("revised_position")?;
    content.yes("agrees_with_peer")?;
    let reasoning = content.text("reasoning")?;
    message.rationale = reasoning.filter(|text| text.chars().count() <= REASON_CHARS_MAX);
    Ok(())
}

pub(super) fn tell(envelope: &Letter, stored: &Kept, metadata: Option<&RawValue>) -> Shape {
    let message = &envelope.message;
    let kind = nearest_type(message);
    let round = stored.own("round").and_then(|raw| raw.get().parse::<u32>().ok());
    let is_valid = read_content("", &envelope.payload, &mut message.clone()).is_ok();
    let content = match stored.own_text("content") {
        Some(content) if payload_of(&content).get() == envelope.payload.get() => content,
        _ if is_valid => content_of(&envelope.payload),
        // The dialect would misinterpret this payload, so it is wrapped.
        _ => Shape::default().with("data", &envelope.payload).to_raw().get().to_owned(),
    };
    Shape::default()
        .maybe("id", envelope.known_as())
        .with("round", round.map_or(usual_round(kind), u64::from))
        .with("sender", message.from.as_ref().map_or(HUB, AgentId::as_str))
        .maybe("recipients", (message.to != NOBODY).then(|| texts_of(&message.to)))
        .with("messageType", kind)
        .with("content", content)
        .maybe("timestamp", envelope.stamp.as_ref())
        .maybe("replyTo", message.in_reply_to.as_ref())
        .maybe("metadata", metadata)
}

pub(super) fn texts_of(to: &Destination) -> Vec<String> {
    match to.agents() {
        [] => vec![to.to_string()],
        agents => agents.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the nearest message type of the dialect.
fn nearest_type(message: &Message) -> &'static str {
    let by_action = TYPES.into_iter().find(|word| *word == message.action);
    by_action.unwrap_or(match message.kind {
        MessageType::Command | MessageType::Query => QUESTION,
        MessageType::Event => "evidence",
        MessageType::Response => "clarification",
    })
}
