//! Messages, entries and shared state in the formats of the dialects. The server converts them from and to the native
//! types field by field; these types describe the formats.

use std::collections::BTreeMap;

use quorate_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::delivery::DeliveryLease;
use crate::json::RawJson;
#[cfg(feature = "schema")]
use crate::schema;

/// One message in the format of the dialect, or a list of messages. The dialects guide describes each format.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum DialectMessages {
    One(BTreeMap<String, RawJson>),
    List(
        #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 256)))] Vec<BTreeMap<String, RawJson>>,
    ),
}

/// Query of a claim of deliveries in a dialect.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DialectInboxQuery {
    /// Agent to claim for. Only operators may name one.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub agent: Option<String>,
    /// Maximum number of deliveries; 1 by default.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 256)))]
    pub max: Option<u32>,
    /// How long to wait if there are none.
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
    /// Lease duration; 30 s by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub lease_ms: Option<u64>,
}

/// A leased delivery with its message in the dialect.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the fields are those of the lease")]
pub struct DialectDelivery {
    #[serde(flatten)]
    pub lease: DeliveryLease,
    /// Message in the format of the dialect.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Any"))]
    pub message: Box<RawValue>,
}

/// A context entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are those of the dialect")]
pub struct ContextEntry {
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LongId>"))]
    pub entry_id: Option<String>,
    pub agent_id: Option<String>,
    pub entry_type: Option<String>,
    pub content: RawJson,
    pub created_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub version: Option<u64>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<schema::LongId>>"))]
    pub dependencies: Option<Vec<String>>,
}

/// Shared state of a task. Omitted fields keep their value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are those of the dialect")]
pub struct SharedState {
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub task_id: Option<String>,
    /// A number, or a string such as `3a`.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Any"))]
    pub current_phase: Option<RawJson>,
    /// `objective`, and the lists `keyDecisions`, `artifacts`, `blockers` and `notes`.
    pub shared_context: BTreeMap<String, RawJson>,
    pub agent_states: Option<BTreeMap<String, RawJson>>,
}
