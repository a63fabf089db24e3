//! A message as OpenTelemetry spans: one for the message and one for each delivery, with the semantic conventions for
//! messaging and GenAI. Of the payload only its length is exported.

use quorate_core::{EndState, Timestamp};
use quorate_engine::{MessageView, Space};
use serde_json::{Value, json};

use crate::observe::span_index::{DeliveryTrace, MessageSpan};

const PRODUCER: u8 = 4;
const CONSUMER: u8 = 5;
const OK: u8 = 1;
const ERROR: u8 = 2;

/// Builds a string attribute.
pub(super) fn string_attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn nanos(at: Timestamp) -> String {
    at.0.saturating_mul(1_000_000).to_string()
}

/// Returns the name of an end state.
pub(crate) fn end_state_name(end: EndState) -> &'static str {
    match end {
        EndState::Acked => "acked",
        EndState::Dead => "dead",
        EndState::Expired => "expired",
        EndState::Purged => "purged",
    }
}

/// Returns the error of a message: the state of its first dead or expired delivery.
pub(crate) fn span_error(span: &MessageSpan) -> Option<&'static str> {
    let ends = span.deliveries.iter().filter_map(|delivery| delivery.ended);
    ends.map(|(_, end)| end).find(|end| matches!(end, EndState::Dead | EndState::Expired)).map(end_state_name)
}

fn status(wrong: Option<&str>, is_open: bool) -> Value {
    match wrong {
        Some(why) => json!({"code": ERROR, "message": why}),
        // Unfinished: the status is not known yet.
        None if is_open => json!({}),
        None => json!({"code": OK}),
    }
}

/// Properties of a message span, independent of their source.
pub(super) struct SpanSource<'a> {
    pub(super) trace: String,
    pub(super) span: String,
    pub(super) parent: Option<String>,
    pub(super) flags: Option<u8>,
    pub(super) id: String,
    pub(super) from: Option<&'a str>,
    pub(super) to: String,
    pub(super) kind: &'a str,
    pub(super) action: &'a str,
    pub(super) correlation: Option<&'a str>,
    pub(super) session: Option<&'a str>,
    /// Payload length.
    pub(super) bytes: Option<u64>,
    pub(super) at: Timestamp,
    /// Time at which its last delivery ended.
    pub(super) ended: Option<Timestamp>,
    pub(super) error: Option<&'a str>,
    /// Number of all deliveries, including those that were never leased.
    pub(super) deliveries: usize,
    pub(super) leased: Vec<DeliverySpan<'a>>,
}

/// A delivery that was leased by an agent.
pub(super) struct DeliverySpan<'a> {
    pub(super) span: String,
    pub(super) agent: String,
    pub(super) name: Option<String>,
    pub(super) attempts: u64,
    pub(super) state: &'a str,
    pub(super) delivered_at: Timestamp,
    pub(super) ended: Option<Timestamp>,
}

/// Builds the spans of a finished message.
pub(crate) fn message_spans(space: &Space, span: &MessageSpan, view: &MessageView) -> Vec<Value> {
    let message = &view.message;
    let agents = &space.published().agents;
    let taken = |delivery: &DeliveryTrace| {
        let (handed, (ended, how)) = (delivery.delivered_at?, delivery.ended?);
        let agent = delivery.agent.and_then(|number| agents.get(number))?;
        Some(DeliverySpan {
            span: span.context.delivery_span(delivery.number).to_string(),
            agent: agent.id.to_string(),
            name: Some(agent.name.clone()),
            attempts: delivery.attempts.into(),
            state: end_state_name(how),
            delivered_at: handed,
            ended: Some(ended),
        })
    };
    to_otlp_spans(&SpanSource {
        trace: span.context.trace.to_string(),
        span: span.context.span.to_string(),
        parent: span.parent.map(|parent| parent.to_string()),
        flags: Some(span.context.flags),
        id: view.id.to_string(),
        from: message.from.as_ref().map(|from| from.as_str()),
        to: message.to.to_string(),
        kind: message.kind.as_str(),
        action: &message.action,
        correlation: message.correlation_id.as_deref(),
        session: message.session_id.as_deref(),
        bytes: Some(message.payload.bytes.len() as u64),
        at: span.at,
        ended: Some(span.ended_at.unwrap_or(span.at)),
        error: span_error(span),
        deliveries: span.deliveries.len(),
        leased: span.deliveries.iter().filter_map(taken).collect(),
    })
}

/// Builds one span for the message and one for each delivery. The end time of an unfinished span is its start time.
pub(super) fn to_otlp_spans(sent: &SpanSource<'_>) -> Vec<Value> {
    let mut attributes = shared(sent);
    attributes.push(string_attribute("messaging.operation.name", "send"));
    attributes.push(string_attribute("messaging.operation.type", "send"));
    attributes.extend(sent.bytes.map(|bytes| number("messaging.message.body.size", bytes)));
    attributes.push(number("quorate.deliveries", sent.deliveries as u64));
    attributes.extend(sent.from.map(|from| string_attribute("messaging.client.id", from)));
    attributes.extend(sent.error.map(|why| string_attribute("error.type", why)));
    let of_message = json!({
        "traceId": sent.trace,
        "spanId": sent.span,
        "parentSpanId": sent.parent.as_deref().unwrap_or_default(),
        "flags": sent.flags.unwrap_or_default(),
        "name": format!("send {}", sent.to),
        "kind": PRODUCER,
        "startTimeUnixNano": nanos(sent.at),
        "endTimeUnixNano": nanos(sent.ended.unwrap_or(sent.at).max(sent.at)),
        "attributes": attributes,
        "status": status(sent.error, sent.ended.is_none()),
    });
    std::iter::once(of_message).chain(sent.leased.iter().map(|taken| of_delivery(sent, taken))).collect()
}

fn of_delivery(sent: &SpanSource<'_>, taken: &DeliverySpan<'_>) -> Value {
    let failed = [EndState::Dead, EndState::Expired].map(end_state_name);
    let wrong = failed.contains(&taken.state).then_some(taken.state);
    let mut attributes = shared(sent);
    attributes.push(string_attribute("messaging.operation.name", "process"));
    attributes.push(string_attribute("messaging.operation.type", "process"));
    attributes.push(string_attribute("messaging.client.id", &taken.agent));
    attributes.push(string_attribute("gen_ai.operation.name", "invoke_agent"));
    attributes.push(string_attribute("gen_ai.provider.name", "quorate"));
    attributes.push(string_attribute("gen_ai.agent.id", &taken.agent));
    attributes.extend(taken.name.as_deref().map(|name| string_attribute("gen_ai.agent.name", name)));
    attributes.push(number("quorate.delivery.attempts", taken.attempts));
    attributes.push(string_attribute("quorate.delivery.state", taken.state));
    attributes.extend(wrong.map(|why| string_attribute("error.type", why)));
    json!({
        "traceId": sent.trace,
        "spanId": taken.span,
        "parentSpanId": sent.span,
        "flags": sent.flags.unwrap_or_default(),
        "name": format!("process {}", sent.to),
        "kind": CONSUMER,
        "startTimeUnixNano": nanos(taken.delivered_at),
        "endTimeUnixNano": nanos(taken.ended.unwrap_or(taken.delivered_at).max(taken.delivered_at)),
        "attributes": attributes,
        "status": status(wrong, taken.ended.is_none()),
    })
}

/// Returns the attributes shared by all spans of a message.
fn shared(sent: &SpanSource<'_>) -> Vec<Value> {
    let mut attributes = vec![
        string_attribute("messaging.system", "quorate"),
        string_attribute("messaging.destination.name", &sent.to),
        string_attribute("messaging.message.id", &sent.id),
        string_attribute("quorate.message.type", sent.kind),
    ];
    if !sent.action.is_empty() {
        attributes.push(string_attribute("quorate.message.action", sent.action));
    }
    if let Some(correlation) = sent.correlation {
        attributes.push(string_attribute("messaging.message.conversation_id", correlation));
    }
    if let Some(conversation) = sent.session.or(sent.correlation) {
        attributes.push(string_attribute("gen_ai.conversation.id", conversation));
    }
    attributes
}
