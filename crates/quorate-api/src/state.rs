//! The state of a space at a record.

use std::collections::BTreeMap;

use quorate_core::{Seq, Timestamp};
use serde::{Deserialize, Serialize};

use crate::agent::AgentSummary;
use crate::approval::Approval;
use crate::lock::Lock;
use crate::procedure::Procedure;
use crate::session::Session;
use crate::stats::DeliveryCounts;
use crate::task::Task;

/// The state of a space after a record. Follow it with `GET /v1/events?from=SEQ+1`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The sequence number of the record.
    pub seq: Seq,
    /// When it was committed.
    pub at: Timestamp,
    /// The agents.
    pub agents: Vec<AgentSummary>,
    /// The number of deliveries in each state.
    pub deliveries: DeliveryCounts,
    /// The number of tasks in each state.
    pub tasks: BTreeMap<String, u64>,
    /// The sessions.
    pub sessions: Vec<Session>,
    /// The locks.
    pub locks: Vec<Lock>,
    /// The tasks that have not ended.
    pub open_tasks: Vec<Task>,
    /// The procedures that have not ended.
    pub running_procedures: Vec<Procedure>,
    /// The approvals that wait for a decision; an agent sees those that concern it.
    pub pending_approvals: Vec<Approval>,
    /// The lists that were cut: their own calls return all of them.
    pub more: Vec<StateList>,
}

/// A list of the state of a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the words say it")]
pub enum StateList {
    Agents,
    Sessions,
    Locks,
    OpenTasks,
    RunningProcedures,
    PendingApprovals,
}
