//! Status of a space: what is stuck, what is running, and what operators should know of.

use quorate_core::{AgentId, ProcedureId, Seq, StuckSubject, StuckWork as CoreStuckWork, TaskId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::policy::Violation;
use crate::procedure::Procedure;
use crate::rollback::ConsistencyReport;

/// Status of a space.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SpaceStatus {
    /// Sequence number of the newest record.
    pub seq: Seq,
    /// Time of the newest record.
    pub at: Timestamp,
    /// Work that no agent will do soon: those who could do it or hold it are gone, or there are none.
    pub stuck: Vec<StuckWork>,
    /// Procedures that have not ended, newest first.
    pub running_procedures: Vec<Procedure>,
    /// Budgets of which at least 80 % are used. An agent sees only its own.
    pub low_budgets: Vec<Budget>,
    /// Result of the last consistency check, periodic or requested. Omitted if none has run since the hub started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consistency: Option<ConsistencyReport>,
    /// Newest violations, refused loops, exceeded budgets and broken deadlocks, newest first. Requires the permission to
    /// read violations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violations: Option<Vec<Violation>>,
}

/// Work that no agent will do soon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StuckWork {
    /// What waits.
    pub kind: StuckKind,
    /// Name of the capability, the agent, the lock or the dependency.
    pub name: String,
    /// Number of tasks, messages, requests or procedures that wait; for `held` the number of tasks, messages and locks.
    pub waiting: usize,
    /// Why it waits, as text.
    pub reason: String,
    /// Agents that could do the work, or that hold it, and are gone: offline, disconnected, removed, or not seen since the
    /// restart of the hub.
    pub agents: Vec<AgentId>,
    /// Since when the first of them waits, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Time at which the first lease or grant ends, unless it is extended; for work that an agent holds, and for locks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The oldest of the tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The first of the procedures, by ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub procedure: Option<ProcedureId>,
}

/// Kind of stuck work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase")]
pub enum StuckKind {
    /// Tasks of a type.
    TaskType,
    /// Tasks for one agent.
    AgentTasks,
    /// Messages to `can:CAPABILITY`.
    Capability,
    /// Messages in the inbox of an agent.
    Inbox,
    /// Requests for a lock.
    Lock,
    /// Tasks that stay blocked until cancelled, because a dependency did not succeed.
    Dependency,
    /// Running procedures of a driver.
    Procedures,
    /// Running procedures that wait for an answer or a task of an agent, or of a capability such as `can:sum`.
    ProcedureWaits,
    /// Tasks, messages and locks that an agent holds.
    Held,
}

impl StuckWork {
    /// Creates the API representation; ages in the text are as of `now`.
    #[must_use]
    pub fn new(work: &CoreStuckWork, now: Timestamp) -> Self {
        let (kind, name) = match &work.subject {
            StuckSubject::TaskType { capability, .. } => (StuckKind::TaskType, capability.clone()),
            StuckSubject::TasksOfAgent { agent, .. } => (StuckKind::AgentTasks, agent.to_string()),
            StuckSubject::Capability(capability) => (StuckKind::Capability, capability.clone()),
            StuckSubject::Inbox(agent) => (StuckKind::Inbox, agent.to_string()),
            StuckSubject::Lock { name, .. } => (StuckKind::Lock, name.to_string()),
            StuckSubject::Dependency { task, .. } => (StuckKind::Dependency, task.to_string()),
            StuckSubject::Procedures { driver, .. } => (StuckKind::Procedures, driver.to_string()),
            StuckSubject::ProcedureWaits { on, .. } => (StuckKind::ProcedureWaits, on.clone()),
            StuckSubject::Held { agent, .. } => (StuckKind::Held, agent.to_string()),
        };
        Self {
            kind,
            name,
            waiting: work.waiting,
            reason: work.reason(now),
            agents: work.absent.iter().map(|absent| absent.agent.clone()).collect(),
            since: work.since,
            until: work.until(),
            task: work.first_task().cloned(),
            procedure: work.first_procedure().cloned(),
        }
    }
}
