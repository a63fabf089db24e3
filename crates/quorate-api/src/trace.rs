//! Traces: the messages of a W3C trace as spans.

use std::borrow::Cow;
use std::collections::BTreeMap;

use quorate_core::Timestamp;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::schema;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Trace {
    #[cfg_attr(feature = "schema", schemars(with = "schema::TraceId"))]
    pub trace_id: String,
    pub spans: Vec<Span>,
    /// Whether the trace has more spans than returned.
    pub more: bool,
    pub searched: SearchedRecords,
}

/// Range of searched records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SearchedRecords {
    pub from: u64,
    pub to: u64,
}

/// Span of a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Span {
    #[cfg_attr(feature = "schema", schemars(with = "schema::TraceId"))]
    pub trace_id: String,
    pub span_id: String,
    /// Parent span; `null` for the root of the trace.
    pub parent_span_id: Option<String>,
    pub message_id: String,
    pub operation: String,
    pub start_time: Timestamp,
    /// Time at which its last delivery ended.
    pub end_time: Option<Timestamp>,
    /// `ok`, or `error` if a delivery was dead-lettered or expired.
    pub status: Cow<'static, str>,
    pub error: Option<Cow<'static, str>>,
    pub from: Option<String>,
    pub to: String,
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    pub action: String,
    pub tags: BTreeMap<Cow<'static, str>, String>,
    pub logs: Vec<SpanLog>,
    pub deliveries: Vec<SpanDelivery>,
}

/// Event within a span.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SpanLog {
    pub at: Timestamp,
    pub event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

/// State of one delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SpanDelivery {
    pub agent: Option<String>,
    pub span_id: String,
    pub delivered_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub state: Cow<'static, str>,
    pub attempts: u16,
    /// Cause of the last return.
    pub returned: Option<Cow<'static, str>>,
}
