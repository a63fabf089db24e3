//! Tasks: their representation alone, with payloads, and as held under a lease. The requests are in the submodules.

mod change;
mod context;
mod create;
mod query;

use std::borrow::Cow;
use std::num::NonZeroU64;

use bytes::Bytes;
use quorate_core::{
    AgentId, EscalationTarget, LeaseToken, OnDependencyFailure, Priority, Refused, Seq, Task as CoreTask,
    TaskId, TaskState, TaskStatus, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::id_resolver::AgentIds;
use crate::json::{RawJson, deserialize_in_two_passes};
use crate::payload::{self, render_bytes};
#[cfg(feature = "schema")]
use crate::schema;

pub use change::{
    CompletionStatus, TaskCancellation, TaskCompletion, TaskFailure, TaskHeartbeat, TaskRelease,
};
pub use context::{DependencyResult, TaskContext};
pub use create::{NewTask, NewTasks, RetryPolicy, TaskGraph, TaskWithInput, create_tasks_op, parse_create};
pub use query::{TaskGetQuery, TaskListQuery, parse_task_status};

/// A task.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Unique identifier.
    pub id: TaskId,
    /// Type of the task. A claim without `types` gets it only if the type is a capability of the agent.
    #[serde(rename = "type")]
    pub task_type: String,
    /// Agent that the task is assigned to.
    pub agent: Option<AgentId>,
    /// Current status.
    pub status: TaskStatus,
    /// Name of the priority.
    #[cfg_attr(feature = "schema", schemars(with = "schema::PriorityName"))]
    pub priority: Cow<'static, str>,
    /// Priority from 1 to 10, if the task was created with a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10)))]
    pub priority_rank: Option<u8>,
    /// Attempt number, starting at 1; 0 before the first attempt.
    pub attempt: u16,
    /// Maximum number of attempts.
    pub max_attempts: u16,
    /// Tasks that must be done before this one is ready.
    pub depends_on: Vec<TaskId>,
    /// Time at which the task was created.
    pub created_at: Timestamp,
    /// Agent that created the task; `null` for an operator.
    pub creator: Option<AgentId>,
    /// Agent that works on the task, or worked on it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<AgentId>,
    /// Lease token under which the result was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_token: Option<LeaseToken>,
    /// Confidence of the holder, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Rationale for the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Reason for a failure, cancellation or retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Session that this belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Failed dependencies that the task proceeded without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<TaskId>,
    /// Time of a scheduled attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// Media type of the input. Omitted for JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Maximum duration of an attempt.
    pub timeout_ms: Option<u64>,
    /// Lease duration, extended by heartbeats of the holder.
    pub lease_ms: u64,
    /// Delay after the first failed attempt.
    pub backoff_ms: u64,
    /// Handling of a failed dependency.
    pub on_dependency_failure: OnDependencyFailure,
    /// Recipient of the notification when the task fails permanently: `coordinators`, `nobody`, or an agent.
    pub escalate_to: String,
}

impl Task {
    /// Creates the API representation of a task.
    #[must_use]
    pub fn new(agents: &dyn AgentIds, task: &CoreTask) -> Self {
        let agent_id = |number| agents.agent_id(number);
        let end = completion(task);
        let priority = task.spec.priority;
        Self {
            id: task.spec.id.clone(),
            task_type: task.spec.task_type.to_string(),
            agent: task.spec.agent.and_then(agent_id),
            status: task.status(),
            priority: priority.as_str().into(),
            priority_rank: (priority.rank > 0).then_some(priority.rank),
            attempt: task.attempt,
            max_attempts: task.spec.attempts_max,
            depends_on: task.spec.depends_on.to_vec(),
            created_at: task.spec.created_at,
            creator: task.spec.creator.and_then(agent_id),
            holder: match &task.state {
                TaskState::Leased(lease) => agent_id(lease.by),
                _ => end.and_then(|end| agent_id(end.by)),
            },
            accepted_token: end.map(|end| end.token),
            confidence: end.and_then(|end| end.confidence),
            rationale: end.and_then(|end| end.rationale.clone()),
            reason: task.reason().map(Cow::into_owned),
            session_id: task.spec.session.clone(),
            missing: task.missing.to_vec(),
            due: match &task.state {
                TaskState::Scheduled { due } => Some(*due),
                _ => None,
            },
            content_type: task.spec.content_type.clone(),
            timeout_ms: task.spec.timeout_ms.map(NonZeroU64::get),
            lease_ms: task.spec.lease_ms.get(),
            backoff_ms: task.spec.backoff_ms,
            on_dependency_failure: task.spec.on_dependency_failure,
            escalate_to: escalation_target(agents, task.spec.escalate),
        }
    }

    /// Returns the priority as the core type.
    ///
    /// # Errors
    /// `INVALID` if the name is unknown.
    pub fn priority(&self) -> Result<Priority, Refused> {
        crate::priority::parse_priority(&self.priority, self.priority_rank.unwrap_or(0))
    }
}

fn completion(task: &CoreTask) -> Option<&quorate_core::Completion> {
    match &task.state {
        TaskState::Done(end) | TaskState::Partial(end) => Some(end),
        _ => None,
    }
}

/// Task with its payloads.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskWithPayloads {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// Fields that are only returned for a single task.
    #[serde(flatten)]
    pub more: TaskPayloads,
}

deserialize_in_two_passes!(TaskWithPayloads { task, more });

/// Fields of a task that are only returned for a single task, not in lists.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskPayloads {
    /// Dependencies that are not done yet.
    pub blocked_on: Vec<TaskId>,
    /// Time at which the lease of the holder expires.
    pub lease_until: Option<Timestamp>,
    /// Input.
    pub input: Option<RawJson>,
    /// Result.
    pub result: Option<RawJson>,
    /// Media type of the result. Omitted for JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_content_type: Option<String>,
    /// Partial results, oldest first.
    pub partials: Vec<RawJson>,
    /// Details of a failure.
    pub details: Option<RawJson>,
}

/// Payloads of a task, as they are stored.
#[derive(Clone, Default, Debug)]
pub struct StoredTaskPayloads {
    /// Dependencies that are not done yet.
    pub blocked_on: Vec<TaskId>,
    /// Time at which the lease of the holder expires.
    pub lease_until: Option<Timestamp>,
    /// Input.
    pub input: Option<Bytes>,
    /// Result.
    pub result: Option<Bytes>,
    /// Partial results, oldest first.
    pub partials: Vec<Bytes>,
    /// Details of a failure.
    pub failure_details: Option<Bytes>,
}

impl TaskWithPayloads {
    /// Creates the API representation of a single task.
    #[must_use]
    pub fn new(agents: &dyn AgentIds, task: &CoreTask, stored: &StoredTaskPayloads) -> Self {
        let content_type = completion(task).and_then(|end| end.content_type.as_deref());
        let spec = &task.spec;
        let more = TaskPayloads {
            blocked_on: stored.blocked_on.clone(),
            lease_until: stored.lease_until,
            input: stored.input.as_ref().map(|bytes| render_bytes(bytes, spec.content_type.as_deref())),
            result: stored.result.as_ref().map(|bytes| render_bytes(bytes, content_type)),
            result_content_type: content_type.map(str::to_owned),
            partials: stored.partials.iter().map(|bytes| render_bytes(bytes, None)).collect(),
            details: stored.failure_details.as_ref().map(|bytes| render_bytes(bytes, None)),
        };
        Self { task: Task::new(agents, task), more }
    }
}

impl TaskWithPayloads {
    /// Returns the input, byte for byte as it was sent.
    ///
    /// # Errors
    /// `INVALID` if it does not match its content type.
    pub fn input(&self) -> Result<Option<Bytes>, Refused> {
        decode(self.more.input.as_ref(), self.task.content_type.as_deref())
    }

    /// Returns the result, byte for byte as it was sent.
    ///
    /// # Errors
    /// `INVALID` if it does not match its content type.
    pub fn result(&self) -> Result<Option<Bytes>, Refused> {
        decode(self.more.result.as_ref(), self.more.result_content_type.as_deref())
    }
}

impl HeldTask {
    /// Returns what earlier attempts and dependencies left.
    #[must_use]
    pub fn context(&self) -> TaskContext {
        let TaskLease { partials, details, dependencies, truncated, .. } = self.held.clone();
        TaskContext { partials, details, dependencies, truncated }
    }

    /// Returns the input, byte for byte as it was sent; empty if there is none.
    ///
    /// # Errors
    /// `INVALID` if it does not match its content type.
    pub fn input(&self) -> Result<Bytes, Refused> {
        Ok(decode(self.held.input.as_ref(), self.task.content_type.as_deref())?.unwrap_or_default())
    }
}

fn decode(raw: Option<&RawJson>, content_type: Option<&str>) -> Result<Option<Bytes>, Refused> {
    raw.map(|raw| payload::decode_received(raw, content_type).map(|payload| payload.bytes)).transpose()
}

fn escalation_target(agents: &dyn AgentIds, target: EscalationTarget) -> String {
    match target {
        EscalationTarget::Nobody => "nobody".to_owned(),
        EscalationTarget::Coordinators => "coordinators".to_owned(),
        EscalationTarget::Agent(agent) => {
            agents.agent_id(agent).map_or_else(|| "coordinators".to_owned(), |agent| agent.to_string())
        }
    }
}

/// Task held under a lease.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldTask {
    /// Lease and input.
    #[serde(flatten)]
    pub held: TaskLease,
    /// The task.
    #[serde(flatten)]
    pub task: Task,
}

deserialize_in_two_passes!(HeldTask { held, task });

/// Task whose lease has ended because its work is not needed any more, as sent over WebSocket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LostTask {
    /// Task ID.
    pub task: TaskId,
    /// Token of the lease that ended.
    pub lease_token: LeaseToken,
    /// `CANCELLED` if the task was cancelled, `TIMEOUT` if the attempt took too long.
    pub code: String,
    /// Reason given for a cancellation; may be empty.
    #[serde(default)]
    pub reason: String,
}

/// Lease of a task, with the input of the task.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskLease {
    /// Lease token. Pass it to complete, fail, release or extend the task.
    pub lease_token: LeaseToken,
    /// Time at which the lease expires unless a heartbeat extends it.
    pub lease_until: Timestamp,
    /// Input of the task.
    pub input: Option<RawJson>,
    /// Partial results of earlier attempts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partials: Vec<RawJson>,
    /// Details of the last failed attempt; `reason` is its reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<RawJson>,
    /// Dependencies with their results, in the order of `dependsOn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<DependencyResult>,
    /// Whether partial results, details or results of dependencies were left out because of their size. Read them with
    /// `GET /v1/tasks/{id}`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl HeldTask {
    /// Creates the API representation of a task that is held since `since`.
    #[must_use]
    pub fn new(
        agents: &dyn AgentIds,
        task: &CoreTask,
        token: LeaseToken,
        input: &Bytes,
        context: &TaskContext,
        since: Timestamp,
    ) -> Self {
        let length_ms = match &task.state {
            TaskState::Leased(lease) => lease.length_ms.get(),
            _ => 0,
        };
        let held = TaskLease {
            lease_token: token,
            lease_until: since.plus_ms(length_ms),
            input: task.spec.input.map(|_| render_bytes(input, task.spec.content_type.as_deref())),
            partials: context.partials.clone(),
            details: context.details.clone(),
            dependencies: context.dependencies.clone(),
            truncated: context.truncated,
        };
        Self { held, task: Task::new(agents, task) }
    }
}

/// Result of completing or failing a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AcceptedTask {
    /// Sequence number of the record.
    pub seq: Seq,
    /// Lease token under which it was accepted.
    pub accepted_token: LeaseToken,
}
