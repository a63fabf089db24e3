//! A message as spans of OpenTelemetry: one for the message, and one for each recipient that got it, by the conventions
//! for messaging and for GenAI. Never anything of a payload but its length.

use quorate_core::{AgentId, EndState, Message, Timestamp};
use quorate_engine::{MessageView, Space};
use serde_json::{Value, json};

use crate::observe::spans::{Delivered, Span};

const PRODUCER: u8 = 4;
const CONSUMER: u8 = 5;
const OK: u8 = 1;
const ERROR: u8 = 2;

/// An attribute that is a text.
pub(super) fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn nanos(at: Timestamp) -> String {
    at.0.saturating_mul(1_000_000).to_string()
}

/// The word for how a delivery ended.
pub(crate) fn word_of(end: EndState) -> &'static str {
    match end {
        EndState::Acked => "acked",
        EndState::Dead => "dead",
        EndState::Expired => "expired",
        EndState::Purged => "purged",
    }
}

/// What went wrong with a message, if anything did: the first delivery that was given up.
pub(crate) fn wrong_with(span: &Span) -> Option<&'static str> {
    let ends = span.deliveries.iter().filter_map(|delivery| delivery.ended);
    ends.map(|(_, end)| end).find(|end| matches!(end, EndState::Dead | EndState::Expired)).map(word_of)
}

fn status(wrong: Option<&str>) -> Value {
    match wrong {
        Some(why) => json!({"code": ERROR, "message": why}),
        None => json!({"code": OK}),
    }
}

/// The spans of a message that has ended.
pub(crate) fn of_message(space: &Space, span: &Span, view: &MessageView) -> Vec<Value> {
    let message = &view.message;
    let id = view.id.to_string();
    let wrong = wrong_with(span);
    let ended = span.ended_at.unwrap_or(span.at);
    let mut attributes = shared(message, &id);
    attributes.push(text("messaging.operation.name", "send"));
    attributes.push(text("messaging.operation.type", "send"));
    attributes.push(number("messaging.message.body.size", message.payload.bytes.len() as u64));
    attributes.push(number("quorate.deliveries", span.deliveries.len() as u64));
    attributes.extend(message.from.iter().map(|from| text("messaging.client.id", from.as_str())));
    attributes.extend(wrong.map(|why| text("error.type", why)));
    let of_message = json!({
        "traceId": span.context.trace.to_string(),
        "spanId": span.context.span.to_string(),
        "parentSpanId": span.parent.map(|parent| parent.to_string()).unwrap_or_default(),
        "flags": span.context.flags,
        "name": format!("send {}", message.to),
        "kind": PRODUCER,
        "startTimeUnixNano": nanos(span.at),
        "endTimeUnixNano": nanos(ended.max(span.at)),
        "attributes": attributes,
        "status": status(wrong),
    });
    let agents = &space.published().agents;
    let name_of = |delivery: &Delivered| {
        let agent = delivery.agent.and_then(|number| agents.get(number));
        agent.map(|agent| (agent.id.clone(), agent.name.clone()))
    };
    let taken = span.deliveries.iter().filter_map(|delivery| {
        let (handed, (ended, how)) = (delivery.handed_at?, delivery.ended?);
        Some(of_delivery(span, message, &id, delivery, name_of(delivery)?, (handed, ended, how)))
    });
    std::iter::once(of_message).chain(taken).collect()
}

fn of_delivery(
    span: &Span,
    message: &Message,
    id: &str,
    delivery: &Delivered,
    (agent, name): (AgentId, String),
    (handed, ended, how): (Timestamp, Timestamp, EndState),
) -> Value {
    let wrong = matches!(how, EndState::Dead | EndState::Expired).then(|| word_of(how));
    let mut attributes = shared(message, id);
    attributes.push(text("messaging.operation.name", "process"));
    attributes.push(text("messaging.operation.type", "process"));
    attributes.push(text("messaging.client.id", agent.as_str()));
    attributes.push(text("gen_ai.operation.name", "invoke_agent"));
    attributes.push(text("gen_ai.provider.name", "quorate"));
    attributes.push(text("gen_ai.agent.id", agent.as_str()));
    attributes.push(text("gen_ai.agent.name", &name));
    attributes.push(number("quorate.delivery.attempts", u64::from(delivery.attempts)));
    attributes.push(text("quorate.delivery.state", word_of(how)));
    attributes.extend(wrong.map(|why| text("error.type", why)));
    json!({
        "traceId": span.context.trace.to_string(),
        "spanId": span.context.of_delivery(delivery.number).to_string(),
        "parentSpanId": span.context.span.to_string(),
        "flags": span.context.flags,
        "name": format!("process {}", message.to),
        "kind": CONSUMER,
        "startTimeUnixNano": nanos(handed),
        "endTimeUnixNano": nanos(ended.max(handed)),
        "attributes": attributes,
        "status": status(wrong),
    })
}

/// What all spans of a message say.
fn shared(message: &Message, id: &str) -> Vec<Value> {
    let mut attributes = vec![
        text("messaging.system", "quorate"),
        text("messaging.destination.name", &message.to.to_string()),
        text("messaging.message.id", id),
        text("quorate.message.type", message.kind.as_str()),
    ];
    if !message.action.is_empty() {
        attributes.push(text("quorate.message.action", &message.action));
    }
    if let Some(correlation) = &message.correlation_id {
        attributes.push(text("messaging.message.conversation_id", correlation));
    }
    if let Some(conversation) = message.session_id.as_ref().or(message.correlation_id.as_ref()) {
        attributes.push(text("gen_ai.conversation.id", conversation));
    }
    attributes
}
