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

fn int_attribute(key: &str, value: u64) -> Value {
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

fn status(error: Option<&str>, is_open: bool) -> Value {
    match error {
        Some(error) => json!({"code": ERROR, "message": error}),
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

/// Properties of the span of a delivery that was leased by an agent.
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
    let delivery_span = |delivery: &DeliveryTrace| {
        let (delivered_at, (ended, state)) = (delivery.delivered_at?, delivery.ended?);
        let agent = delivery.agent.and_then(|number| agents.get(number))?;
        Some(DeliverySpan {
            span: span.context.delivery_span(delivery.number).to_string(),
            agent: agent.id.to_string(),
            name: Some(agent.name.clone()),
            attempts: delivery.attempts.into(),
            state: end_state_name(state),
            delivered_at,
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
        leased: span.deliveries.iter().filter_map(delivery_span).collect(),
    })
}

/// Builds one span for the message and one for each delivery. The end time of an unfinished span is its start time.
pub(super) fn to_otlp_spans(source: &SpanSource<'_>) -> Vec<Value> {
    let mut attributes = common_attributes(source);
    attributes.push(string_attribute("messaging.operation.name", "send"));
    attributes.push(string_attribute("messaging.operation.type", "send"));
    attributes.extend(source.bytes.map(|bytes| int_attribute("messaging.message.body.size", bytes)));
    attributes.push(int_attribute("quorate.deliveries", source.deliveries as u64));
    attributes.extend(source.from.map(|from| string_attribute("messaging.client.id", from)));
    attributes.extend(source.error.map(|error| string_attribute("error.type", error)));
    let message_span = json!({
        "traceId": source.trace,
        "spanId": source.span,
        "parentSpanId": source.parent.as_deref().unwrap_or_default(),
        "flags": source.flags.unwrap_or_default(),
        "name": format!("send {}", source.to),
        "kind": PRODUCER,
        "startTimeUnixNano": nanos(source.at),
        "endTimeUnixNano": nanos(source.ended.unwrap_or(source.at).max(source.at)),
        "attributes": attributes,
        "status": status(source.error, source.ended.is_none()),
    });
    std::iter::once(message_span)
        .chain(source.leased.iter().map(|delivery| delivery_span(source, delivery)))
        .collect()
}

fn delivery_span(source: &SpanSource<'_>, delivery: &DeliverySpan<'_>) -> Value {
    let failed = [EndState::Dead, EndState::Expired].map(end_state_name);
    let error = failed.contains(&delivery.state).then_some(delivery.state);
    let mut attributes = common_attributes(source);
    attributes.push(string_attribute("messaging.operation.name", "process"));
    attributes.push(string_attribute("messaging.operation.type", "process"));
    attributes.push(string_attribute("messaging.client.id", &delivery.agent));
    attributes.push(string_attribute("gen_ai.operation.name", "invoke_agent"));
    attributes.push(string_attribute("gen_ai.provider.name", "quorate"));
    attributes.push(string_attribute("gen_ai.agent.id", &delivery.agent));
    attributes.extend(delivery.name.as_deref().map(|name| string_attribute("gen_ai.agent.name", name)));
    attributes.push(int_attribute("quorate.delivery.attempts", delivery.attempts));
    attributes.push(string_attribute("quorate.delivery.state", delivery.state));
    attributes.extend(error.map(|error| string_attribute("error.type", error)));
    json!({
        "traceId": source.trace,
        "spanId": delivery.span,
        "parentSpanId": source.span,
        "flags": source.flags.unwrap_or_default(),
        "name": format!("process {}", source.to),
        "kind": CONSUMER,
        "startTimeUnixNano": nanos(delivery.delivered_at),
        "endTimeUnixNano": nanos(delivery.ended.unwrap_or(delivery.delivered_at).max(delivery.delivered_at)),
        "attributes": attributes,
        "status": status(error, delivery.ended.is_none()),
    })
}

/// Returns the attributes shared by all spans of a message.
fn common_attributes(source: &SpanSource<'_>) -> Vec<Value> {
    let mut attributes = vec![
        string_attribute("messaging.system", "quorate"),
        string_attribute("messaging.destination.name", &source.to),
        string_attribute("messaging.message.id", &source.id),
        string_attribute("quorate.message.type", source.kind),
    ];
    if !source.action.is_empty() {
        attributes.push(string_attribute("quorate.message.action", source.action));
    }
    if let Some(correlation) = source.correlation {
        attributes.push(string_attribute("messaging.message.conversation_id", correlation));
    }
    if let Some(conversation) = source.session.or(source.correlation) {
        attributes.push(string_attribute("gen_ai.conversation.id", conversation));
    }
    attributes
}
