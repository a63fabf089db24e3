//! State of a space as of a record.

use std::collections::BTreeMap;

use quorate_core::{Seq, Timestamp};
use serde::{Deserialize, Serialize};

use crate::agent::AgentSummary;
use crate::approval::Approval;
use crate::lock::Lock;
use crate::procedure::Procedure;
#[cfg(feature = "schema")]
use crate::schema;
use crate::session::Session;
use crate::stats::DeliveryCounts;
use crate::task::Task;

/// State of a space as of a record. To follow later changes, read `GET /v1/events?from=SEQ+1`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Sequence number of the record.
    pub seq: Seq,
    /// Time at which the record was committed.
    pub at: Timestamp,
    /// Registered agents.
    pub agents: Vec<AgentSummary>,
    /// Number of deliveries in each state.
    pub deliveries: DeliveryCounts,
    /// Number of tasks in each state.
    pub tasks: BTreeMap<String, u64>,
    /// Sessions.
    pub sessions: Vec<Session>,
    /// Locks.
    pub locks: Vec<Lock>,
    /// Tasks that have not ended.
    pub open_tasks: Vec<Task>,
    /// Procedures that have not ended.
    pub running_procedures: Vec<Procedure>,
    /// Approvals that are awaiting a decision. An agent sees only those that concern it.
    pub pending_approvals: Vec<Approval>,
    /// Lists that were truncated. Use the respective list call to read them completely.
    pub more: Vec<StateList>,
}

/// List in the state of a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum StateList {
    Agents,
    Sessions,
    Locks,
    OpenTasks,
    RunningProcedures,
    PendingApprovals,
}

/// Position of the state of a space; the newest record by default.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StateQuery {
    /// Sequence number of a record, or a time; the newest record by default.
    pub at: Option<String>,
    /// Read the state at this time. Cannot be combined with `at`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Time>"))]
    pub time: Option<String>,
}

/// Position of an as-of read of a resource; current state by default.
#[derive(Clone, Default, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AsOfQuery {
    /// Sequence number of a record, or a time: read the state after it.
    pub at: Option<String>,
    /// Read the state at this time. Cannot be combined with `at`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Time>"))]
    pub time: Option<String>,
}
