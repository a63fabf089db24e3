//! Converts a trace returned by `GET /v1/traces/{id}` to an OTLP request.

use quorate_core::Timestamp;
use serde_json::Value;

use super::span::{DeliverySpan, SpanSource, to_otlp_spans};
use crate::wire::time;

/// Converts a trace, as returned by the hub, to an OTLP document in JSON encoding. Properties missing in the trace,
/// such as payload lengths, are omitted.
#[must_use]
pub fn trace_to_otlp(trace: &Value) -> Value {
    let spans = array(&trace["spans"])
        .iter()
        .filter_map(span_source)
        .flat_map(|source| to_otlp_spans(&source))
        .collect();
    super::request("quorate", spans)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn timestamp(value: &Value) -> Option<Timestamp> {
    time::parse("time", value.as_str()?).ok()
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn span_source(span: &Value) -> Option<SpanSource<'_>> {
    Some(SpanSource {
        trace: owned(&span["traceId"])?,
        span: owned(&span["spanId"])?,
        parent: owned(&span["parentSpanId"]),
        flags: None,
        id: owned(&span["messageId"])?,
        from: span["from"].as_str(),
        to: owned(&span["to"])?,
        kind: span["type"].as_str()?,
        action: span["action"].as_str().unwrap_or_default(),
        correlation: span["tags"]["correlationId"].as_str(),
        session: span["tags"]["sessionId"].as_str(),
        bytes: None,
        at: timestamp(&span["startTime"])?,
        ended: timestamp(&span["endTime"]),
        error: span["error"].as_str(),
        deliveries: array(&span["deliveries"]).len(),
        leased: array(&span["deliveries"]).iter().filter_map(delivery_span).collect(),
    })
}

fn delivery_span(delivery: &Value) -> Option<DeliverySpan<'_>> {
    Some(DeliverySpan {
        span: owned(&delivery["spanId"])?,
        agent: owned(&delivery["agent"])?,
        name: None,
        attempts: delivery["attempts"].as_u64().unwrap_or_default(),
        state: delivery["state"].as_str()?,
        delivered_at: timestamp(&delivery["deliveredAt"])?,
        ended: timestamp(&delivery["endedAt"]),
    })
}
