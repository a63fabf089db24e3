//! Content of a flag that arrived as a message or with a task: everything that its sender provided, with payloads
//! byte for byte.

use quorate_core::{
    CompleteTask, Durability, FailTask, HeartbeatTask, Message, MessageType, Payload, TaskLeaseRef, is_json,
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// A flag in JSON.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    action: &'a str,
    /// Task that it arrived with.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    durability: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_reply_to: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rationale: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
}

impl Envelope<'_> {
    pub(super) fn of_message(message: &Message) -> Vec<u8> {
        let is_default = message.kind == MessageType::default();
        Envelope {
            id: message.client_id.as_ref().map(AsRef::as_ref),
            from: message.from.as_ref().map(AsRef::as_ref),
            to: Some(message.to.to_string()),
            kind: Some(message.kind.as_str()).filter(|_| !is_default),
            action: &message.action,
            payload: Some(render(&message.payload, message.content_type.as_deref())),
            content_type: message.content_type.as_deref(),
            durability: (message.durability == Durability::Ephemeral).then_some("ephemeral"),
            in_reply_to: message.in_reply_to.as_deref(),
            correlation_id: message.correlation_id.as_deref(),
            causation_id: message.causation_id.as_deref(),
            session_id: message.session_id.as_deref(),
            origin: message.origin.as_deref(),
            confidence: message.confidence,
            rationale: message.rationale.as_deref(),
            metadata: message.metadata.as_deref().map(|text| json_or_text(text.as_bytes())),
            ..Envelope::default()
        }
        .to_bytes()
    }

    pub(super) fn of_completion(complete: &CompleteTask, result: &Payload) -> Vec<u8> {
        let envelope = Envelope {
            result: Some(render(result, complete.content_type.as_deref())),
            content_type: complete.content_type.as_deref(),
            confidence: complete.confidence,
            rationale: complete.rationale.as_deref(),
            ..of_task(&complete.lease)
        };
        envelope.to_bytes()
    }

    pub(super) fn of_failure(fail: &FailTask, details: &Payload) -> Vec<u8> {
        let reason = Some(fail.reason.as_str()).filter(|reason| !reason.is_empty());
        Envelope { details: Some(render(details, None)), reason, ..of_task(&fail.lease) }.to_bytes()
    }

    pub(super) fn of_partial(heartbeat: &HeartbeatTask, partial: &Payload) -> Vec<u8> {
        Envelope { partial: Some(render(partial, None)), ..of_task(&heartbeat.lease) }.to_bytes()
    }

    fn to_bytes(&self) -> Vec<u8> {
        // Serialization of this type cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

fn of_task(lease: &TaskLeaseRef) -> Envelope<'_> {
    Envelope { task: Some(lease.task.as_str()), ..Envelope::default() }
}

fn render(payload: &Payload, content_type: Option<&str>) -> Box<RawValue> {
    match is_json(content_type) {
        true => json_or_text(&payload.bytes),
        false => text(&payload.bytes),
    }
}

/// Returns JSON unchanged, and any other content as a string: a report must not be rejected for a syntax error.
fn json_or_text(bytes: &[u8]) -> Box<RawValue> {
    serde_json::from_slice(bytes).unwrap_or_else(|_| text(bytes))
}

/// Returns text as a string, and binary content in hexadecimal.
fn text(bytes: &[u8]) -> Box<RawValue> {
    let value = match std::str::from_utf8(bytes) {
        Ok(text) => to_raw_value(text),
        Err(_) => to_raw_value(&quorate_core::hex::encode(bytes)),
    };
    value.unwrap_or_else(|_| RawValue::NULL.to_owned())
}
