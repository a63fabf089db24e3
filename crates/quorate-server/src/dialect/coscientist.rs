//! Supervisor and workers: a message consists of `header`, `payload` and `routing`.

use quorate_core::{AgentId, Destination, MessageType, Priority};
use serde_json::value::RawValue;

use super::deliberation::HUB;
use super::kept::Kept;
use super::letter::NOBODY;
use super::said::{Said, Wrong, time_of};
use super::shape::{Shape, raw_of};
use super::{Heard, Letter};
use crate::wire::time;

/// Target of a message to all agents.
const BROADCAST: &str = "broadcast";
/// Default message type.
const MESSAGE: &str = "message";
/// Default priority.
const PRIORITY: u8 = 5;
const ELSEWHERE: &str = "put additional fields into payload.metadata or payload.data";

pub(super) fn hear(mut fields: Said<'_>) -> Result<Heard<'_>, Wrong> {
    if !fields.has("header") && !fields.has("payload") {
        return Err(fields.missing("header"));
    }
    let (header, payload, routing) =
        (fields.object("header")?, fields.object("payload")?, fields.object("routing")?);
    let mut metadata_path = fields.at("payload.metadata");
    fields.end(ELSEWHERE)?;
    let (mut data, mut metadata) = (RawValue::NULL.to_owned(), None);
    if let Some(mut payload) = payload {
        data = payload.raw("data").map_or(data, ToOwned::to_owned);
        metadata_path = payload.at("metadata");
        metadata = payload.value("metadata");
        payload.end(ELSEWHERE)?;
    }
    let mut envelope = Letter::new(NOBODY, MESSAGE, data);
    envelope.message.priority = ten(PRIORITY);
    if let Some(header) = header {
        parse_header(header, &mut envelope)?;
    }
    envelope.message.kind = match envelope.message.to {
        Destination::Everybody => MessageType::Event,
        _ => MessageType::Command,
    };
    let mut own = Vec::new();
    if let Some(mut routing) = routing {
        let path = routing.at("priority");
        if let Some(priority) = routing.whole("priority")? {
            let priority = u8::try_from(priority).ok().and_then(|ten| Priority::from_ten(ten).ok());
            let error = || Wrong::new(path, "the priority is not between 1 and 10");
            envelope.message.priority = priority.ok_or_else(error)?;
        }
        if let Some((at, text)) = routing.time("expires_at")? {
            envelope.message.expires_at = Some(at);
            if text != time::shown(at) {
                own.push(("expires_at".to_owned(), raw_of(&text)));
            }
        }
        routing.end(ELSEWHERE)?;
    }
    Ok(Heard { envelope, own, metadata, metadata_path })
}

fn parse_header(mut header: Said<'_>, envelope: &mut Letter) -> Result<(), Wrong> {
    let id = header.text("message_id")?;
    envelope.take_id(header.at("message_id"), id)?;
    envelope.message.from = header.agent("source_agent")?;
    let path = header.at("target_agent");
    match header.text("target_agent")? {
        None => {}
        Some(all) if all == BROADCAST => envelope.message.to = Destination::Everybody,
        Some(one) => {
            envelope.message.to = one.parse().map_err(|refused: quorate_core::Refused| {
                Wrong::new(path, refused.detail).hint(refused.hint)
            })?;
        }
    }
    if let Some((_, text)) = header.time("timestamp")? {
        envelope.stamp = Some(raw_of(&text));
    }
    if let Some(action) = header.text("message_type")? {
        envelope.message.action = action;
    }
    header.end(ELSEWHERE)
}

fn ten(value: u8) -> Priority {
    Priority::from_ten(value).unwrap_or_default()
}

/// Returns the nearest priority from 1 to 10.
fn nearest(priority: Priority) -> u8 {
    match priority {
        Priority { rank, .. } if Priority::from_ten(rank) == Ok(priority) => rank,
        Priority { level: 0, .. } => 2,
        Priority { level: 1, .. } => PRIORITY,
        Priority { level: 2, .. } => 8,
        _ => 10,
    }
}

pub(super) fn tell(envelope: &Letter, stored: &Kept, metadata: Option<&RawValue>) -> Shape {
    let message = &envelope.message;
    let target = match &message.to {
        Destination::Everybody => BROADCAST.to_owned(),
        to => to.to_string(),
    };
    let header = Shape::default()
        .maybe("message_id", envelope.known_as())
        .with("source_agent", message.from.as_ref().map_or(HUB, AgentId::as_str))
        .maybe("target_agent", (message.to != NOBODY).then_some(target))
        .maybe("timestamp", envelope.stamp.as_ref())
        .with("message_type", &message.action);
    let payload = Shape::default().with("data", &envelope.payload).maybe("metadata", metadata);
    let as_written = stored
        .own_text("expires_at")
        .filter(|text| time_of(text).is_some_and(|at| Some(at) == message.expires_at));
    let expires_at = message.expires_at.map(|at| as_written.unwrap_or_else(|| time::shown(at)));
    let routing =
        Shape::default().with("priority", nearest(message.priority)).maybe("expires_at", expires_at);
    Shape::default().with("header", header).with("payload", payload).with("routing", routing)
}
