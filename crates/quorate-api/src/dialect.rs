//! Messages, entries and shared state in the formats of the dialects. The server converts them from and to the native
//! types field by field; these types describe the formats.

use std::collections::BTreeMap;

use quorate_core::{AgentId, MessageType, SessionId, SessionStatus, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::delivery::DeliveryLease;
use crate::json::RawJson;
use crate::result::SendReceipt;
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

/// Results of sending messages in a dialect.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DialectReceipts {
    /// One receipt per message that was sent, in order.
    pub receipts: Vec<SendReceipt>,
    /// Messages of an example document that were not sent, because another agent is their sender. Omitted if there are
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedMessage>,
}

/// A message that was not sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkippedMessage {
    /// Path of the message in the document.
    pub path: String,
    /// Sender of the message.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub from: AgentId,
    /// Why it was not sent.
    pub reason: String,
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
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContextEntry {
    /// Key of the entry.
    #[cfg_attr(feature = "schema", schemars(with = "schema::LongId"))]
    pub entry_id: String,
    /// Author of the first version: an agent ID, or `operator:NAME` and so on.
    pub agent_id: String,
    /// Author of this version.
    pub updated_by: String,
    /// Type of the entry; may be empty.
    pub entry_type: String,
    /// Content of the entry.
    pub content: RawJson,
    /// Time of the first version.
    pub created_at: Timestamp,
    /// Time of this version.
    pub updated_at: Timestamp,
    /// Version number, starting at 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub version: u64,
    /// Keys of the entries that this one depends on.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<schema::LongId>"))]
    pub dependencies: Vec<String>,
}

/// A context entry to write. Only `content` is required.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewContextEntry {
    /// Key of the entry. Must match the path.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LongId>"))]
    pub entry_id: Option<String>,
    /// Author of the first version: the caller for a new entry.
    pub agent_id: Option<String>,
    /// Validated and ignored: the caller is the author of a version.
    pub updated_by: Option<String>,
    /// Type of the entry; empty by default.
    pub entry_type: Option<String>,
    /// Content of the entry.
    pub content: RawJson,
    /// Validated and ignored: the hub sets the time.
    pub created_at: Option<Timestamp>,
    /// Validated and ignored: the hub sets the time.
    pub updated_at: Option<Timestamp>,
    /// Version that the entry will have. The write is refused if the current version is not the one before.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub version: Option<u64>,
    /// Keys of the entries that this one depends on; none by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<schema::LongId>>"))]
    pub dependencies: Option<Vec<String>>,
}

/// Shared state of a task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SharedState {
    /// Session ID.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub task_id: String,
    /// A number, or a string such as `3a`.
    pub current_phase: RawJson,
    /// `objective`, and the lists `keyDecisions`, `artifacts`, `blockers` and `notes`.
    pub shared_context: BTreeMap<String, RawJson>,
    /// State of each agent, by agent ID.
    pub agent_states: BTreeMap<String, RawJson>,
}

/// Change of the shared state of a task. Fields that are omitted or `null` keep their value.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SharedStateChange {
    /// Session ID. Must match the path.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub task_id: Option<String>,
    /// A number, or a string such as `3a`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Any>"))]
    pub current_phase: Option<RawJson>,
    /// `objective`, and the lists `keyDecisions`, `artifacts`, `blockers` and `notes`. Required, but may be empty: a
    /// member that is omitted or `null` keeps its value. A list is complete: an entry that is not in it is removed.
    pub shared_context: BTreeMap<String, RawJson>,
    /// State of each agent, by agent ID. Complete if present: an agent that is not in it is removed.
    pub agent_states: Option<BTreeMap<String, RawJson>>,
}

/// A session as one document.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionDocument {
    /// Session ID.
    pub id: SessionId,
    /// Agent that leads the session; `null` for an operator.
    pub coordinator: Option<AgentId>,
    /// Current participants.
    pub participants: Vec<AgentId>,
    /// Time at which the session was opened.
    pub started_at: Timestamp,
    /// Time of the last message, contribution or change of the session.
    pub last_activity: Timestamp,
    /// Current status.
    pub status: SessionStatus,
    /// Task and contributions.
    pub context: SessionContext,
    /// The newest 1,000 messages of the session that the caller may see, oldest first.
    pub message_log: Vec<MessageSummary>,
}

/// Task and contributions of a session, oldest first. An entry is the contribution as it was sent; `by`, `rationale` and
/// `timestamp` are added if it does not have them. One that is not an object is under `decision`, `artifact` or `finding`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionContext {
    /// Description of the joint work; `null` if there is none.
    pub task: Option<RawJson>,
    /// Decisions.
    pub decisions: Vec<BTreeMap<String, RawJson>>,
    /// Artifacts.
    pub artifacts: Vec<BTreeMap<String, RawJson>>,
    /// Findings.
    pub findings: Vec<BTreeMap<String, RawJson>>,
}

/// A message without its payload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MessageSummary {
    /// Message ID.
    pub id: String,
    /// Sender; `null` for the hub.
    pub from: Option<AgentId>,
    /// Recipients, as text.
    pub to: String,
    /// Type of the message.
    #[serde(rename = "type")]
    pub kind: MessageType,
    /// Action of the message.
    pub action: String,
    /// Time at which the hub accepted it.
    pub timestamp: Timestamp,
    /// ID of the message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
}

/// A session as one document, to open a session or to add to it. Everything is optional.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionDocumentChange {
    /// Session ID. Must match the path.
    pub id: Option<SessionId>,
    /// Agent that leads the session. Cannot be changed; the calling agent by default.
    pub coordinator: Option<AgentId>,
    /// Agents that participate; those that do not yet join. None leaves.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<schema::Id>>", length(max = 1000)))]
    pub participants: Option<Vec<AgentId>>,
    /// Validated and ignored: the hub sets the time.
    pub started_at: Option<Timestamp>,
    /// Validated and ignored: the hub sets the time.
    pub last_activity: Option<Timestamp>,
    /// Status to change to; unchanged by default.
    pub status: Option<SessionStatus>,
    /// Task and contributions.
    pub context: Option<SessionContextChange>,
    /// Ignored: the hub lists the messages.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<schema::Any>>"))]
    pub message_log: Option<Vec<RawJson>>,
}

/// Task and contributions of a session. Entries that the session does not have are added, and none is removed.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionContextChange {
    /// Description of the joint work. Cannot be changed.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Any>"))]
    pub task: Option<RawJson>,
    /// Decisions: any JSON. `rationale` has at most 1,000 characters.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<schema::Any>>"))]
    pub decisions: Option<Vec<RawJson>>,
    /// Artifacts: any JSON.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<schema::Any>>"))]
    pub artifacts: Option<Vec<RawJson>>,
    /// Findings: any JSON.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<schema::Any>>"))]
    pub findings: Option<Vec<RawJson>>,
}
