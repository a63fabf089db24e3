//! Status of a space: what is stuck, what is running, and what operators should know of.

use quorate_core::{AgentId, Seq, StuckSubject, StuckWork as CoreStuckWork, TaskId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::budget::Budget;
use crate::policy::Violation;
use crate::procedure::Procedure;

/// Status of a space.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SpaceStatus {
    /// Sequence number of the newest record.
    pub seq: Seq,
    /// Time of the newest record.
    pub at: Timestamp,
    /// Work that no agent will do soon: those who could do it are gone, or there are none.
    pub stuck: Vec<StuckWork>,
    /// Procedures that have not ended, newest first.
    pub running_procedures: Vec<Procedure>,
    /// Budgets of which at least 80 % are used. An agent sees only its own.
    pub low_budgets: Vec<Budget>,
    /// Newest violations, refused loops, exceeded budgets and broken deadlocks, newest first. Requires the permission to
    /// read violations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violations: Option<Vec<Violation>>,
}

/// Work that no agent will do soon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StuckWork {
    /// What waits.
    pub kind: StuckKind,
    /// Name of the capability, the agent or the lock.
    pub name: String,
    /// Number of tasks, messages or requests that wait.
    pub waiting: usize,
    /// Why it waits, as text.
    pub reason: String,
    /// Agents that could do the work, or that hold the lock, and are offline or disconnected.
    pub agents: Vec<AgentId>,
    /// Since when the first of them waits, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The oldest of the tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
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
}

impl StuckWork {
    /// Creates the API representation; ages in the text are as of `now`.
    #[must_use]
    pub fn new(work: &CoreStuckWork, now: Timestamp) -> Self {
        let (kind, name, task) = match &work.subject {
            StuckSubject::TaskType { capability, first } => {
                (StuckKind::TaskType, capability.clone(), Some(first.clone()))
            }
            StuckSubject::TasksOfAgent { agent, first } => {
                (StuckKind::AgentTasks, agent.to_string(), Some(first.clone()))
            }
            StuckSubject::Capability(capability) => (StuckKind::Capability, capability.clone(), None),
            StuckSubject::Inbox(agent) => (StuckKind::Inbox, agent.to_string(), None),
            StuckSubject::Lock { name, .. } => (StuckKind::Lock, name.to_string(), None),
        };
        Self {
            kind,
            name,
            waiting: work.waiting,
            reason: work.reason(now),
            agents: work.absent.iter().map(|absent| absent.agent.clone()).collect(),
            since: work.since,
            task,
        }
    }
}
