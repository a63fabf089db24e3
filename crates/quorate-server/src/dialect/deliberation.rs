//! Deliberation between analysts: `id, round, sender, recipients, messageType, content, timestamp, replyTo`.

use quorate_core::limits::REASON_CHARS_MAX;
use quorate_core::{AgentId, Destination, Message, MessageType};
use serde_json::value::RawValue;

use super::envelope::NO_RECIPIENT;
use super::field_reader::{FieldError, FieldReader};
use super::metadata::DialectMetadata;
use super::writer::{ObjectWriter, to_raw_json};
use super::{Envelope, ParsedMessage};

/// Message types of the dialect.
const TYPES: [&str; 7] =
    ["finding", "question", "clarification", "agreement", "disagreement", "revision", "evidence"];
const FINDING: &str = "finding";
const QUESTION: &str = "question";
/// Sender of messages from the hub itself.
pub(super) const HUB_SENDER: &str = "quorate";

pub(super) fn parse(mut fields: FieldReader<'_>) -> Result<ParsedMessage<'_>, FieldError> {
    let choices = TYPES.map(|name| (name, name));
    let kind = fields.choice("messageType", &choices)?.ok_or_else(|| fields.missing("messageType"))?;
    let content = fields.text("content")?.ok_or_else(|| fields.missing("content"))?;
    let payload = payload_of(&content);
    let mut envelope = Envelope::new(recipients(&mut fields)?, kind, payload);
    envelope.message.from = fields.agent("sender")?;
    envelope.message.in_reply_to = fields.text("replyTo")?;
    envelope.message.kind = type_of(kind, envelope.message.in_reply_to.is_some());
    read_content(&fields.path_of("content"), &envelope.payload, &mut envelope.message)?;
    let id = fields.text("id")?;
    envelope.set_id(fields.path_of("id"), id)?;
    envelope.timestamp = parse_timestamp(&mut fields)?;
    let mut dialect_fields = Vec::new();
    let round_path = fields.path_of("round");
    if let Some(round) = fields.integer("round")? {
        if u32::try_from(round).is_err() {
            return Err(FieldError::new(round_path, format!("invalid round {round}")));
        }
        if round != default_round(kind) {
            dialect_fields.push(("round".to_owned(), to_raw_json(&round)));
        }
    }
    if content_of(&envelope.payload) != content {
        dialect_fields.push(("content".to_owned(), to_raw_json(&content)));
    }
    let (metadata, metadata_path) = (fields.value("metadata"), fields.path_of("metadata"));
    fields.finish("put additional fields into metadata or content")?;
    Ok(ParsedMessage { envelope, dialect_fields, metadata, metadata_path })
}

fn recipients(fields: &mut FieldReader<'_>) -> Result<Destination, FieldError> {
    let path = fields.path_of("recipients");
    match fields.text_list("recipients")? {
        None => Ok(NO_RECIPIENT),
        Some(texts) if texts.is_empty() => Err(FieldError::new(path, "the list of recipients is empty")),
        Some(texts) => {
            Destination::from_texts(texts).map_err(|refused| FieldError::new(path, refused.detail))
        }
    }
}

/// Parses a timestamp in milliseconds since the Unix epoch.
fn parse_timestamp(fields: &mut FieldReader<'_>) -> Result<Option<Box<RawValue>>, FieldError> {
    let path = fields.path_of("timestamp");
    let Some(raw) = fields.value("timestamp") else { return Ok(None) };
    let ms: Option<f64> = raw.get().parse().ok();
    match ms {
        Some(ms) if ms >= 0.0 && ms.is_finite() => Ok(Some(raw.to_owned())),
        _ => Err(FieldError::new(path, format!("invalid time {}", super::field_reader::truncate(raw.get())))
            .hint("use milliseconds since the Unix epoch")),
    }
}

/// Findings precede the first round.
fn default_round(kind: &str) -> u64 {
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
        Err(_) => to_raw_json(content),
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
fn read_content(path: &str, payload: &RawValue, message: &mut Message) -> Result<(), FieldError> {
    // Only an object without duplicate fields is checked; any other content is free-form.
    let Ok(mut content) = FieldReader::parse(path, payload) else { return Ok(()) };
    message.confidence = content.confidence("confidence")?;
    content.text("summary")?;
    content.number("riskScore")?;
    content.integer("criticalIssues")?;
    content.text("revised_position")?;
    content.boolean("agrees_with_peer")?;
    let reasoning = content.text("reasoning")?;
    message.rationale = reasoning.filter(|text| text.chars().count() <= REASON_CHARS_MAX);
    Ok(())
}

pub(super) fn render(
    envelope: &Envelope,
    stored: &DialectMetadata,
    metadata: Option<&RawValue>,
) -> ObjectWriter {
    let message = &envelope.message;
    let kind = nearest_type(message);
    let round = stored.own("round").and_then(|raw| raw.get().parse::<u32>().ok());
    let is_valid = read_content("", &envelope.payload, &mut message.clone()).is_ok();
    let content = match stored.own_text("content") {
        Some(content) if payload_of(&content).get() == envelope.payload.get() => content,
        _ if is_valid => content_of(&envelope.payload),
        // The dialect would misinterpret this payload, so it is wrapped.
        _ => ObjectWriter::default().with("data", &envelope.payload).to_raw().get().to_owned(),
    };
    ObjectWriter::default()
        .with_optional("id", envelope.public_id())
        .with("round", round.map_or(default_round(kind), u64::from))
        .with("sender", message.from.as_ref().map_or(HUB_SENDER, AgentId::as_str))
        .with_optional("recipients", (message.to != NO_RECIPIENT).then(|| recipient_list(&message.to)))
        .with("messageType", kind)
        .with("content", content)
        .with_optional("timestamp", envelope.timestamp.as_ref())
        .with_optional("replyTo", message.in_reply_to.as_ref())
        .with_optional("metadata", metadata)
}

pub(super) fn recipient_list(to: &Destination) -> Vec<String> {
    match to.agents() {
        [] => vec![to.to_string()],
        agents => agents.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the nearest message type of the dialect.
fn nearest_type(message: &Message) -> &'static str {
    let by_action = TYPES.into_iter().find(|name| *name == message.action);
    by_action.unwrap_or(match message.kind {
        MessageType::Command | MessageType::Query => QUESTION,
        MessageType::Event => "evidence",
        MessageType::Response => "clarification",
    })
}
