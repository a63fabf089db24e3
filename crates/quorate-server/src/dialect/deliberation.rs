//! Analysts who find, ask, agree and disagree: `id, round, sender, recipients, messageType, content, timestamp, replyTo`.

use quorate_core::limits::REASON_CHARS_MAX;
use quorate_core::{AgentId, Destination, Message, MessageType};
use serde_json::value::RawValue;

use super::kept::Kept;
use super::letter::NOBODY;
use super::said::{Said, Wrong};
use super::shape::{Shape, raw_of};
use super::{Heard, Letter};

/// What a message may be.
const TYPES: [&str; 7] =
    ["finding", "question", "clarification", "agreement", "disagreement", "revision", "evidence"];
const FINDING: &str = "finding";
const QUESTION: &str = "question";
/// The sender of what the hub says itself.
pub(super) const HUB: &str = "quorate";

pub(super) fn hear(mut said: Said<'_>) -> Result<Heard<'_>, Wrong> {
    let words = TYPES.map(|word| (word, word));
    let kind = said.word("messageType", &words)?.ok_or_else(|| said.missing("messageType"))?;
    let content = said.text("content")?.ok_or_else(|| said.missing("content"))?;
    let payload = payload_of(&content);
    let mut letter = Letter::new(recipients(&mut said)?, kind, payload);
    letter.message.from = said.agent("sender")?;
    letter.message.in_reply_to = said.text("replyTo")?;
    letter.message.kind = type_of(kind, letter.message.in_reply_to.is_some());
    read_content(&said.at("content"), &letter.payload, &mut letter.message)?;
    let id = said.text("id")?;
    letter.take_id(said.at("id"), id)?;
    letter.stamp = stamp(&mut said)?;
    let mut own = Vec::new();
    let round_path = said.at("round");
    if let Some(round) = said.whole("round")? {
        if u32::try_from(round).is_err() {
            return Err(Wrong::new(round_path, format!("{round} is no round")));
        }
        if round != usual_round(kind) {
            own.push(("round".to_owned(), raw_of(&round)));
        }
    }
    if content_of(&letter.payload) != content {
        own.push(("content".to_owned(), raw_of(&content)));
    }
    let (metadata, metadata_path) = (said.value("metadata"), said.at("metadata"));
    said.end("put what the dialect has no field for into metadata, or into content")?;
    Ok(Heard { letter, own, metadata, metadata_path })
}

fn recipients(said: &mut Said<'_>) -> Result<Destination, Wrong> {
    let path = said.at("recipients");
    match said.texts("recipients")? {
        None => Ok(NOBODY),
        Some(texts) if texts.is_empty() => Err(Wrong::new(path, "names nobody")),
        Some(texts) => Destination::of_texts(texts).map_err(|refused| Wrong::new(path, refused.detail)),
    }
}

/// Milliseconds since 1970.
fn stamp(said: &mut Said<'_>) -> Result<Option<Box<RawValue>>, Wrong> {
    let path = said.at("timestamp");
    let Some(raw) = said.value("timestamp") else { return Ok(None) };
    let ms: Option<f64> = raw.get().parse().ok();
    match ms {
        Some(ms) if ms >= 0.0 && ms.is_finite() => Ok(Some(raw.to_owned())),
        _ => Err(Wrong::new(path, format!("{} is no time", super::said::shortened(raw.get())))
            .hint("write it in milliseconds since 1970")),
    }
}

/// Findings come before the first round.
fn usual_round(kind: &str) -> u64 {
    u64::from(kind != FINDING)
}

fn type_of(kind: &str, answers: bool) -> MessageType {
    match kind {
        QUESTION => MessageType::Query,
        FINDING => MessageType::Event,
        _ if answers => MessageType::Response,
        _ => MessageType::Event,
    }
}

/// The content is JSON in a text. A text that is no JSON is taken for what it says.
fn payload_of(content: &str) -> Box<RawValue> {
    match serde_json::from_str::<&RawValue>(content) {
        Ok(json) => json.to_owned(),
        Err(_) => raw_of(content),
    }
}

/// The text for a payload: its JSON, or what it says if that is a text which could not be taken for JSON.
fn content_of(payload: &RawValue) -> String {
    match serde_json::from_str::<String>(payload.get()) {
        Ok(text) if serde_json::from_str::<&RawValue>(&text).is_err() => text,
        _ => payload.get().to_owned(),
    }
}

/// Checks what is known of a content, and takes over how sure its author is, and why.
fn read_content(path: &str, payload: &RawValue, message: &mut Message) -> Result<(), Wrong> {
    // Anything but an object is free; so is one in which something is said twice, since nobody knows what it says.
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

pub(super) fn tell(letter: &Letter, kept: &Kept, metadata: Option<&RawValue>) -> Shape {
    let message = &letter.message;
    let kind = word_for(message);
    let round = kept.own("round").and_then(|raw| raw.get().parse::<u32>().ok());
    let fits = read_content("", &letter.payload, &mut message.clone()).is_ok();
    let content = match kept.own_text("content") {
        Some(content) if payload_of(&content).get() == letter.payload.get() => content,
        _ if fits => content_of(&letter.payload),
        // What the dialect would take for something else.
        _ => Shape::default().with("data", &letter.payload).to_raw().get().to_owned(),
    };
    Shape::default()
        .maybe("id", letter.known_as())
        .with("round", round.map_or(usual_round(kind), u64::from))
        .with("sender", message.from.as_ref().map_or(HUB, AgentId::as_str))
        .maybe("recipients", (message.to != NOBODY).then(|| texts_of(&message.to)))
        .with("messageType", kind)
        .with("content", content)
        .maybe("timestamp", letter.stamp.as_ref())
        .maybe("replyTo", message.in_reply_to.as_ref())
        .maybe("metadata", metadata)
}

pub(super) fn texts_of(to: &Destination) -> Vec<String> {
    match to.agents() {
        [] => vec![to.to_string()],
        agents => agents.iter().map(ToString::to_string).collect(),
    }
}

/// The nearest that the dialect has.
fn word_for(message: &Message) -> &'static str {
    let by_action = TYPES.into_iter().find(|word| *word == message.action);
    by_action.unwrap_or(match message.kind {
        MessageType::Command | MessageType::Query => QUESTION,
        MessageType::Event => "evidence",
        MessageType::Response => "clarification",
    })
}
