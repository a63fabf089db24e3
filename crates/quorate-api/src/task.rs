//! Tasks: creation, leases held by agents, completion and failure.

use std::borrow::Cow;
use std::num::NonZeroU64;

use bytes::Bytes;
use quorate_core::{
    AgentId, CancelTask, Code, CompleteTask, CreateTasks, Dependency, EscalateTo, EscalationTarget, FailTask,
    HeartbeatTask, LeaseToken, NewTask as CoreNewTask, OnDependencyFailure, Op, Priority, Refused, Seq,
    Task as CoreTask, TaskId, TaskLeaseRef, TaskState, TaskStatus, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::id_resolver::AgentIds;
use crate::json::{Json, RawJson, deserialize_in_two_passes};
use crate::lock::LockFence;
use crate::page::Order;
use crate::parse_context::{ParseContext, missing_field, path_or_body};
use crate::payload::{self, render_bytes};
use crate::priority::TaskPriority;
use crate::request_body::RequestFields;
#[cfg(feature = "schema")]
use crate::schema;

/// Graph of tasks, created atomically.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskGraph<'a> {
    /// Tasks. They can depend on each other by ID.
    #[serde(borrow, deserialize_with = "crate::strict::objects")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 10_000)))]
    pub tasks: Vec<NewTask<'a>>,
}

/// Task with the bytes of its input.
pub type TaskWithInput = (CoreNewTask, Option<Vec<u8>>);

/// Parses a single task, or a graph if there is a field `tasks`.
///
/// # Errors
/// `INVALID` with the path of the invalid field.
pub fn parse_create(fields: RequestFields<'_>, reading: &ParseContext<'_>) -> Result<Op, Refused> {
    let tasks = match fields.contains("tasks") {
        true => fields.parse_into::<TaskGraph<'_>>()?.tasks,
        false => vec![fields.parse_into()?],
    };
    create_tasks_op(tasks, reading)
}

/// Creates the operation that creates tasks.
///
/// # Errors
/// `INVALID` if an input does not match its content type.
pub fn create_tasks_op(tasks: Vec<NewTask<'_>>, reading: &ParseContext<'_>) -> Result<Op, Refused> {
    let tasks: Vec<TaskWithInput> =
        tasks.into_iter().map(|task| task.into_core(reading)).collect::<Result<_, _>>()?;
    Ok(Op::CreateTasks(CreateTasks::pack(tasks, reading.seal.salt())))
}

/// Task to create.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewTask<'a> {
    /// Client-assigned ID; the hub assigns one by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<TaskId>,
    /// Capability required to claim the task, unless it is assigned to an agent.
    #[serde(rename = "type", default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub task_type: String,
    /// Agent that the task is assigned to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Any JSON, stored byte for byte. With a `contentType` of `text/…` a string, with any other type a base64 string.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json<'a>>,
    /// Media type of the input. Omit it for JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub content_type: Option<String>,
    /// Priority; `normal` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<TaskPriority>,
    /// Tasks that must be done before this one is ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 10_000)))]
    pub depends_on: Vec<TaskId>,
    /// Maximum duration of an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_000, max = 604_800_000)))]
    pub timeout_ms: Option<u64>,
    /// Lease duration, extended by heartbeats of the holder; 30 s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub lease_ms: Option<u64>,
    /// Retry policy for failed attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Handling of a failed dependency; `fail` by default.
    #[serde(default)]
    pub on_dependency_failure: OnDependencyFailure,
    /// Recipient of the notification when the task fails permanently: `coordinators` (the default), `nobody`, or an
    /// agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<AgentId>"))]
    pub escalate_to: Option<String>,
    /// Session that this belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub session_id: Option<String>,
}

/// Retry policy for failed attempts of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryPolicy {
    /// Maximum number of attempts; 3 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub max_attempts: Option<u16>,
    /// Delay after the first failed attempt. It doubles with each further one, up to 16 times the initial delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 3_600_000)))]
    pub backoff_ms: Option<u64>,
}

impl NewTask<'_> {
    /// Converts the request into a task and its input.
    ///
    /// # Errors
    /// `INVALID` if the input does not match its content type.
    pub fn into_core(self, reading: &ParseContext<'_>) -> Result<TaskWithInput, Refused> {
        let mut task = CoreNewTask::new(self.task_type);
        task.id = self.id;
        task.agent = self.agent;
        task.priority = self.priority.map_or(Priority::default(), |priority| priority.0);
        task.depends_on = self.depends_on.into_iter().map(Dependency::Task).collect();
        task.timeout_ms = self.timeout_ms;
        task.lease_ms = self.lease_ms.unwrap_or(reading.defaults.lease_ms);
        if let Some(retry) = self.retry {
            task.attempts_max = retry.max_attempts.unwrap_or(task.attempts_max);
            task.backoff_ms = retry.backoff_ms.unwrap_or(task.backoff_ms);
        }
        task.on_dependency_failure = self.on_dependency_failure;
        task.escalate_to = match self.escalate_to.as_deref() {
            None | Some("coordinators") => EscalateTo::Coordinators,
            Some("nobody") => EscalateTo::Never,
            Some(agent) => EscalateTo::Agent(AgentId::new(agent)?),
        };
        task.session = self.session_id;
        let content_type = self.content_type.as_deref();
        let decode = |json: Json<'_>| {
            payload::decode_payload(json.get(), content_type, |json| Bytes::copy_from_slice(json.as_bytes()))
        };
        let input = self.input.map(decode).transpose()?.map(Vec::from);
        task.content_type = self.content_type;
        Ok((task, input))
    }

    /// Creates the request body that a client sends. `depends_on` contains the IDs of the dependencies.
    ///
    /// # Errors
    /// `INVALID` if the input does not match its content type.
    pub fn new(
        task: &CoreNewTask,
        id: Option<TaskId>,
        depends_on: Vec<TaskId>,
        input: Option<&[u8]>,
    ) -> Result<NewTask<'static>, Refused> {
        let content_type = task.content_type.as_deref();
        Ok(NewTask {
            id,
            task_type: task.task_type.clone(),
            agent: task.agent.clone(),
            input: input.map(|bytes| payload::encode(bytes, content_type)).transpose()?,
            content_type: task.content_type.clone(),
            priority: Some(TaskPriority(task.priority)),
            depends_on,
            timeout_ms: task.timeout_ms,
            lease_ms: Some(task.lease_ms),
            retry: Some(RetryPolicy {
                max_attempts: Some(task.attempts_max),
                backoff_ms: Some(task.backoff_ms),
            }),
            on_dependency_failure: task.on_dependency_failure,
            escalate_to: Some(match &task.escalate_to {
                EscalateTo::Never => "nobody".to_owned(),
                EscalateTo::Coordinators => "coordinators".to_owned(),
                EscalateTo::Agent(agent) => agent.to_string(),
            }),
            session_id: task.session.clone(),
        })
    }
}

/// Declares a request by the holder of a task: task, lease token, and specific fields.
macro_rules! holder_change {
    ($(#[$doc:meta])* $name:ident $(<$life:lifetime>)? { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name $(<$life>)? {
            /// Task ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the
            /// path.
            #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
            pub task: Option<TaskId>,
            /// Lease token, returned by the claim.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schemars(required))]
            pub lease_token: Option<LeaseToken>,
            $($fields)*
        }

        impl $(<$life>)? $name $(<$life>)? {
            fn lease(&self, path: Option<TaskId>) -> Result<TaskLeaseRef, Refused> {
                let task = path_or_body("task", path, self.task.clone())?;
                let token = self.lease_token.ok_or_else(|| {
                    missing_field("leaseToken").hint("send the lease token that the claim returned")
                })?;
                Ok(TaskLeaseRef { task, token })
            }
        }
    };
}

holder_change!(
    /// Extends the lease of a task, optionally with a partial result.
    TaskHeartbeat<'a> {
        /// Partial result: any JSON.
        #[serde(borrow, skip_serializing_if = "Option::is_none")]
        pub partial: Option<Json<'a>>,
    }
);

holder_change!(
    /// Completes a task.
    TaskCompletion<'a> {
        /// Any JSON, stored byte for byte. With a `contentType` other than JSON, a string: plain text for `text/…`,
        /// base64 otherwise.
        #[serde(borrow, skip_serializing_if = "Option::is_none")]
        pub result: Option<Json<'a>>,
        /// Media type of the result. Omit it for JSON.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
        pub content_type: Option<String>,
        /// Confidence of the holder, from 0 to 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
        pub confidence: Option<f64>,
        /// Rationale for the result.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<schema::ReasonText>"))]
        pub rationale: Option<String>,
        /// `done` by default; `partial` for an incomplete result.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<CompletionStatus>,
        /// Fencing token of a lock. The call is rejected if the lock has been granted to another holder since.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub fence: Option<LockFence>,
    }
);

holder_change!(
    /// Reports a failed attempt.
    TaskFailure<'a> {
        /// Reason for the failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<schema::ReasonText>"))]
        pub reason: Option<String>,
        /// Details of the failure: any JSON.
        #[serde(borrow, skip_serializing_if = "Option::is_none")]
        pub details: Option<Json<'a>>,
        /// Whether another attempt may succeed; true by default.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub recoverable: Option<bool>,
    }
);

holder_change!(
    /// Releases a task without working on it. The attempt does not count.
    TaskRelease {}
);

/// Cancels a task.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskCancellation {
    /// Task ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Reason for the cancellation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::ReasonText>"))]
    pub reason: Option<String>,
}

/// Completeness of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum CompletionStatus {
    Done,
    Partial,
}

impl TaskHeartbeat<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the task or the lease token is missing.
    pub fn into_core(self, reading: &ParseContext<'_>, path: Option<TaskId>) -> Result<Op, Refused> {
        let lease = self.lease(path)?;
        Ok(Op::HeartbeatTask(HeartbeatTask {
            lease,
            partial: reading.optional_payload(self.partial.as_ref())?,
        }))
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the partial result is not JSON.
    pub fn new(beat: &HeartbeatTask) -> Result<TaskHeartbeat<'static>, Refused> {
        let TaskLeaseRef { task, token } = beat.lease.clone();
        let partial = beat.partial.as_ref().map(|part| payload::encode(&part.bytes, None)).transpose()?;
        Ok(TaskHeartbeat { task: Some(task), lease_token: Some(token), partial })
    }
}

impl TaskCompletion<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the task or the lease token is missing, or the result does not match its content type.
    pub fn into_core(self, reading: &ParseContext<'_>, path: Option<TaskId>) -> Result<Op, Refused> {
        let lease = self.lease(path)?;
        let content_type = self.content_type.as_deref();
        let result =
            self.result.as_ref().map(|json| reading.payload(Some(json), content_type)).transpose()?;
        Ok(Op::CompleteTask(CompleteTask {
            lease,
            status: match self.status {
                None | Some(CompletionStatus::Done) => TaskStatus::Done,
                Some(CompletionStatus::Partial) => TaskStatus::Partial,
            },
            result,
            content_type: self.content_type,
            confidence: self.confidence,
            rationale: self.rationale,
            fence: self.fence.map(Into::into),
        }))
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the result does not match its content type.
    pub fn new(done: &CompleteTask) -> Result<TaskCompletion<'static>, Refused> {
        let TaskLeaseRef { task, token } = done.lease.clone();
        let result = done.result.as_ref();
        let result =
            result.map(|result| payload::encode(&result.bytes, done.content_type.as_deref())).transpose()?;
        Ok(TaskCompletion {
            task: Some(task),
            lease_token: Some(token),
            result,
            content_type: done.content_type.clone(),
            confidence: done.confidence,
            rationale: done.rationale.clone(),
            status: (done.status == TaskStatus::Partial).then_some(CompletionStatus::Partial),
            fence: done.fence.as_ref().map(Into::into),
        })
    }
}

impl TaskFailure<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the task or the lease token is missing.
    pub fn into_core(self, reading: &ParseContext<'_>, path: Option<TaskId>) -> Result<Op, Refused> {
        let lease = self.lease(path)?;
        Ok(Op::FailTask(FailTask {
            lease,
            reason: self.reason.unwrap_or_default(),
            details: reading.optional_payload(self.details.as_ref())?,
            recoverable: self.recoverable.unwrap_or(true),
        }))
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the details are not JSON.
    pub fn new(fail: &FailTask) -> Result<TaskFailure<'static>, Refused> {
        let TaskLeaseRef { task, token } = fail.lease.clone();
        Ok(TaskFailure {
            task: Some(task),
            lease_token: Some(token),
            reason: Some(fail.reason.clone()),
            details: fail.details.as_ref().map(|part| payload::encode(&part.bytes, None)).transpose()?,
            recoverable: Some(fail.recoverable),
        })
    }
}

impl TaskRelease {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the task or the lease token is missing.
    pub fn into_core(self, path: Option<TaskId>) -> Result<Op, Refused> {
        Ok(Op::ReleaseTask(self.lease(path)?))
    }
}

impl From<&TaskLeaseRef> for TaskRelease {
    fn from(lease: &TaskLeaseRef) -> Self {
        Self { task: Some(lease.task.clone()), lease_token: Some(lease.token) }
    }
}

impl TaskCancellation {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the task is missing.
    pub fn into_core(self, path: Option<TaskId>) -> Result<Op, Refused> {
        let task = path_or_body("task", path, self.task)?;
        Ok(Op::CancelTask(CancelTask { task, reason: self.reason.unwrap_or_default() }))
    }
}

impl From<&CancelTask> for TaskCancellation {
    fn from(cancel: &CancelTask) -> Self {
        Self { task: Some(cancel.task.clone()), reason: Some(cancel.reason.clone()) }
    }
}

/// A task.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Unique identifier.
    pub id: TaskId,
    /// Capability required to claim the task.
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
        let name = |number| agents.agent_id(number);
        let end = completion(task);
        let priority = task.spec.priority;
        Self {
            id: task.spec.id.clone(),
            task_type: task.spec.task_type.to_string(),
            agent: task.spec.agent.and_then(name),
            status: task.status(),
            priority: priority.as_str().into(),
            priority_rank: (priority.rank > 0).then_some(priority.rank),
            attempt: task.attempt,
            max_attempts: task.spec.attempts_max,
            depends_on: task.spec.depends_on.to_vec(),
            created_at: task.spec.created_at,
            creator: task.spec.creator.and_then(name),
            holder: match &task.state {
                TaskState::Leased(lease) => name(lease.by),
                _ => end.and_then(|end| name(end.by)),
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
            escalate_to: escalates_to(agents, task.spec.escalate),
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
        decoded(self.more.input.as_ref(), self.task.content_type.as_deref())
    }

    /// Returns the result, byte for byte as it was sent.
    ///
    /// # Errors
    /// `INVALID` if it does not match its content type.
    pub fn result(&self) -> Result<Option<Bytes>, Refused> {
        decoded(self.more.result.as_ref(), self.more.result_content_type.as_deref())
    }
}

impl HeldTask {
    /// Returns the input, byte for byte as it was sent; empty if there is none.
    ///
    /// # Errors
    /// `INVALID` if it does not match its content type.
    pub fn input(&self) -> Result<Bytes, Refused> {
        Ok(decoded(self.held.input.as_ref(), self.task.content_type.as_deref())?.unwrap_or_default())
    }
}

fn decoded(raw: Option<&RawJson>, content_type: Option<&str>) -> Result<Option<Bytes>, Refused> {
    raw.map(|raw| payload::decode_received(raw, content_type).map(|payload| payload.bytes)).transpose()
}

fn escalates_to(agents: &dyn AgentIds, escalate: EscalationTarget) -> String {
    match escalate {
        EscalationTarget::Never => "nobody".to_owned(),
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
}

impl HeldTask {
    /// Creates the API representation of a task that is held since `since`.
    #[must_use]
    pub fn new(
        agents: &dyn AgentIds,
        task: &CoreTask,
        token: LeaseToken,
        input: &Bytes,
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

/// Parses the name of a task status.
///
/// # Errors
/// `INVALID` if the name is unknown.
pub fn parse_task_status(name: &str) -> Result<TaskStatus, Refused> {
    TaskStatus::ALL.into_iter().find(|status| status.as_str() == name).ok_or_else(|| {
        let names = TaskStatus::ALL.map(TaskStatus::as_str).join(", ");
        Refused::new(Code::Invalid, format!("unknown task status {name:?}"))
            .hint(format!("use one of {names}"))
    })
}

/// One task, a list of tasks, or a graph with the field `tasks`.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum NewTasks<'a> {
    One(Box<NewTask<'a>>),
    Graph(TaskGraph<'a>),
    List(Vec<NewTask<'a>>),
}

/// As-of position of a task, or a wait for its end.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskGetQuery {
    /// Sequence number of a record, or a time: read the state after it. Current state by default.
    pub at: Option<String>,
    /// Read the state at this time.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Time>"))]
    pub time: Option<String>,
    /// How long to wait for the end of the task; then the current state is returned. An agent counts as waiting for
    /// deadlock detection meanwhile.
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
}

/// Filter and page of a list of tasks.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct TaskListQuery {
    #[serde(alias = "state")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::TaskStatusName>"))]
    pub status: Option<String>,
    pub r#type: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub agent: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Order>"))]
    pub order: Option<Order>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}
