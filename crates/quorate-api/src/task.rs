//! Tasks.

use std::borrow::Cow;
use std::num::NonZeroU64;

use bytes::Bytes;
use quorate_core::{
    AgentId, CancelTask, Code, CompleteTask, CreateTasks, Dependency, Escalate, EscalateTo, FailTask,
    HeartbeatTask, NewTask as CoreNewTask, OnDependencyFailure, Op, Priority, Refused, Seq, Task as CoreTask,
    TaskId, TaskLeaseRef, TaskState, TaskStatus, Timestamp, Token,
};
use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::json::{Json, Raw, deserialize_in_two_passes};
use crate::lock::Fence;
use crate::names::AgentNames;
use crate::payload::{self, shown_bytes};
use crate::priority::TaskPriority;
use crate::reading::{Reading, missing, named};
#[cfg(feature = "schema")]
use crate::schema;

/// A graph of tasks, created all or none.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskGraph<'a> {
    /// The tasks. They may depend on each other by their ids.
    #[serde(borrow, deserialize_with = "crate::strict::objects")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 10_000)))]
    pub tasks: Vec<NewTask<'a>>,
}

/// A task and the bytes of its input.
pub type WithInput = (CoreNewTask, Option<Vec<u8>>);

/// Parses one task, or a graph if there is a field `tasks`.
///
/// # Errors
/// `INVALID` with the path of what is wrong.
pub fn create(fields: Fields<'_>, reading: &Reading<'_>) -> Result<Op, Refused> {
    let tasks = match fields.has("tasks") {
        true => fields.read::<TaskGraph<'_>>()?.tasks,
        false => vec![fields.read()?],
    };
    create_all(tasks, reading)
}

/// The operation that creates tasks.
///
/// # Errors
/// `INVALID` if an input is not what its content type promises.
pub fn create_all(tasks: Vec<NewTask<'_>>, reading: &Reading<'_>) -> Result<Op, Refused> {
    let tasks: Vec<WithInput> = tasks.into_iter().map(|task| task.read(reading)).collect::<Result<_, _>>()?;
    Ok(Op::CreateTasks(CreateTasks::pack(tasks, reading.seal.salt())))
}

/// A task to create.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewTask<'a> {
    /// The creator's own id; by default the hub assigns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<TaskId>,
    /// The capability that it needs, unless it names an agent.
    #[serde(rename = "type", default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub task_type: String,
    /// The agent that it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Any JSON, kept byte for byte; with a `contentType`, a string in base64.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json<'a>>,
    /// The media type of the input, unless it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub content_type: Option<String>,
    /// `normal` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<TaskPriority>,
    /// Tasks that must be done before it is ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 10_000)))]
    pub depends_on: Vec<TaskId>,
    /// How long one attempt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_000, max = 604_800_000)))]
    pub timeout_ms: Option<u64>,
    /// How long a holder may be silent; 30 s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub lease_ms: Option<u64>,
    /// How failed attempts are retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What becomes of it if a dependency fails; `fail` by default.
    #[serde(default)]
    pub on_dependency_failure: OnDependencyFailure,
    /// Who is notified when it is given up: `coordinators` (the default), `nobody`, or an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<AgentId>"))]
    pub escalate_to: Option<String>,
    /// The session that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub session_id: Option<String>,
}

/// How failed attempts of a task are retried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// Attempts before it is given up; 3 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub max_attempts: Option<u16>,
    /// The delay after the first failed attempt. It doubles with each further one, up to 16 times as long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 3_600_000)))]
    pub backoff_ms: Option<u64>,
}

impl NewTask<'_> {
    /// The task and its input.
    ///
    /// # Errors
    /// `INVALID` if the input is not what its content type promises.
    pub fn read(self, reading: &Reading<'_>) -> Result<WithInput, Refused> {
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
            Some("nobody") => EscalateTo::Nobody,
            Some(agent) => EscalateTo::Agent(AgentId::new(agent)?),
        };
        task.session = self.session_id;
        let input = match (self.input, &self.content_type) {
            (None, _) => None,
            (Some(json), None) => Some(json.get().as_bytes().to_vec()),
            (Some(json), Some(_)) => Some(payload::decode(json.get())?),
        };
        task.content_type = self.content_type;
        Ok((task, input))
    }

    /// A task as a client creates it. `depends_on` are its dependencies by id.
    ///
    /// # Errors
    /// `INVALID` if the input is not what its content type promises.
    pub fn new(
        task: &CoreNewTask,
        id: Option<TaskId>,
        depends_on: Vec<TaskId>,
        input: Option<&[u8]>,
    ) -> Result<NewTask<'static>, Refused> {
        let content_type = task.content_type.as_deref();
        // Bytes that are not JSON are sent in base64 here, whatever their type.
        let encoding = content_type.map(|_| "application/octet-stream");
        Ok(NewTask {
            id,
            task_type: task.task_type.clone(),
            agent: task.agent.clone(),
            input: input.map(|bytes| payload::json_of(bytes, encoding)).transpose()?,
            content_type: task.content_type.clone(),
            priority: Some(TaskPriority(task.priority)),
            depends_on,
            timeout_ms: task.timeout_ms,
            lease_ms: Some(task.lease_ms),
            retry: Some(Retry { max_attempts: Some(task.attempts_max), backoff_ms: Some(task.backoff_ms) }),
            on_dependency_failure: task.on_dependency_failure,
            escalate_to: Some(match &task.escalate_to {
                EscalateTo::Nobody => "nobody".to_owned(),
                EscalateTo::Coordinators => "coordinators".to_owned(),
                EscalateTo::Agent(agent) => agent.to_string(),
            }),
            session_id: task.session.clone(),
        })
    }
}

/// Declares a change of a held task: which task, under which lease, and its own fields.
macro_rules! holder_change {
    ($(#[$doc:meta])* $name:ident $(<$life:lifetime>)? { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $name $(<$life>)? {
            /// In a commit, also as `id`. In a call of its own the id is part of the path.
            #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
            pub task: Option<TaskId>,
            /// The token of its lease, from the claim.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "schema", schemars(required))]
            pub lease_token: Option<Token>,
            $($fields)*
        }

        impl $(<$life>)? $name $(<$life>)? {
            fn lease(&self, path: Option<TaskId>) -> Result<TaskLeaseRef, Refused> {
                let task = named("task", path, self.task.clone())?;
                let token = self.lease_token.ok_or_else(|| {
                    missing("leaseToken").hint("give the lease token that the claim returned")
                })?;
                Ok(TaskLeaseRef { task, token })
            }
        }
    };
}

holder_change!(
    /// Extends the lease of a task, with an intermediate result if there is one.
    TaskHeartbeat<'a> {
        /// The result so far: any JSON.
        #[serde(borrow, skip_serializing_if = "Option::is_none")]
        pub partial: Option<Json<'a>>,
    }
);

holder_change!(
    /// Completes a task.
    TaskCompletion<'a> {
        /// Any JSON, kept byte for byte; with a `contentType`, a string in base64.
        #[serde(borrow, skip_serializing_if = "Option::is_none")]
        pub result: Option<Json<'a>>,
        /// The media type of the result, unless it is JSON.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
        pub content_type: Option<String>,
        /// How sure the holder is, from 0 to 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
        pub confidence: Option<f64>,
        /// Why this is the result.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Sentence>"))]
        pub rationale: Option<String>,
        /// `done` by default; `partial` for a part of the result.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<CompletionStatus>,
        /// Refused if the lock has been granted to someone else since.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub fence: Option<Fence>,
    }
);

holder_change!(
    /// Reports that an attempt failed.
    TaskFailure<'a> {
        /// What went wrong.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Sentence>"))]
        pub reason: Option<String>,
        /// More about what went wrong: any JSON.
        #[serde(borrow, skip_serializing_if = "Option::is_none")]
        pub details: Option<Json<'a>>,
        /// Whether another attempt may help; true by default.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub recoverable: Option<bool>,
    }
);

holder_change!(
    /// Gives a task back untouched. The attempt does not count.
    TaskRelease {}
);

/// Cancels a task.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskCancellation {
    /// In a commit, also as `id`. In a call of its own the id is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Sentence>"))]
    pub reason: Option<String>,
}

/// How much of a task was completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the words say it")]
pub enum CompletionStatus {
    Done,
    Partial,
}

impl TaskHeartbeat<'_> {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no task or lease is named.
    pub fn read(self, reading: &Reading<'_>, path: Option<TaskId>) -> Result<Op, Refused> {
        let lease = self.lease(path)?;
        Ok(Op::HeartbeatTask(HeartbeatTask { lease, partial: reading.optional(self.partial.as_ref())? }))
    }

    /// As a client sends it.
    ///
    /// # Errors
    /// `INVALID` if the partial result is not JSON.
    pub fn new(beat: &HeartbeatTask) -> Result<TaskHeartbeat<'static>, Refused> {
        let TaskLeaseRef { task, token } = beat.lease.clone();
        let partial = beat.partial.as_ref().map(|part| payload::json_of(&part.bytes, None)).transpose()?;
        Ok(TaskHeartbeat { task: Some(task), lease_token: Some(token), partial })
    }
}

impl TaskCompletion<'_> {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no task or lease is named, or the result is not what its content type promises.
    pub fn read(self, reading: &Reading<'_>, path: Option<TaskId>) -> Result<Op, Refused> {
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

    /// As a client sends it.
    ///
    /// # Errors
    /// `INVALID` if the result is not what its content type promises.
    pub fn new(done: &CompleteTask) -> Result<TaskCompletion<'static>, Refused> {
        let TaskLeaseRef { task, token } = done.lease.clone();
        let result = done.result.as_ref();
        let result =
            result.map(|result| payload::json_of(&result.bytes, done.content_type.as_deref())).transpose()?;
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
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no task or lease is named.
    pub fn read(self, reading: &Reading<'_>, path: Option<TaskId>) -> Result<Op, Refused> {
        let lease = self.lease(path)?;
        Ok(Op::FailTask(FailTask {
            lease,
            reason: self.reason.unwrap_or_default(),
            details: reading.optional(self.details.as_ref())?,
            recoverable: self.recoverable.unwrap_or(true),
        }))
    }

    /// As a client sends it.
    ///
    /// # Errors
    /// `INVALID` if the details are not JSON.
    pub fn new(fail: &FailTask) -> Result<TaskFailure<'static>, Refused> {
        let TaskLeaseRef { task, token } = fail.lease.clone();
        Ok(TaskFailure {
            task: Some(task),
            lease_token: Some(token),
            reason: Some(fail.reason.clone()),
            details: fail.details.as_ref().map(|part| payload::json_of(&part.bytes, None)).transpose()?,
            recoverable: Some(fail.recoverable),
        })
    }
}

impl TaskRelease {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no task or lease is named.
    pub fn read(self, path: Option<TaskId>) -> Result<Op, Refused> {
        Ok(Op::ReleaseTask(self.lease(path)?))
    }
}

impl From<&TaskLeaseRef> for TaskRelease {
    fn from(lease: &TaskLeaseRef) -> Self {
        Self { task: Some(lease.task.clone()), lease_token: Some(lease.token) }
    }
}

impl TaskCancellation {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no task is named.
    pub fn read(self, path: Option<TaskId>) -> Result<Op, Refused> {
        let task = named("task", path, self.task)?;
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
    /// Its id.
    pub id: TaskId,
    /// The capability that it needs.
    #[serde(rename = "type")]
    pub task_type: String,
    /// The agent that it is for.
    pub agent: Option<AgentId>,
    /// Its state.
    pub status: TaskStatus,
    /// How urgent it is.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Urgency"))]
    pub priority: Cow<'static, str>,
    /// How urgent it is from 1 to 10, if it was created with a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10)))]
    pub priority_rank: Option<u8>,
    /// The attempt number, starting at 1; 0 before the first.
    pub attempt: u16,
    /// Attempts before it is given up.
    pub max_attempts: u16,
    /// Tasks that must be done before it is ready.
    pub depends_on: Vec<TaskId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// The agent that created it; `null` for an operator.
    pub creator: Option<AgentId>,
    /// The agent that works on it, or did last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<AgentId>,
    /// The lease token under which its result was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_token: Option<Token>,
    /// How sure its holder was, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Why this is the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Why it failed, was cancelled, or is retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The session that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Failed dependencies that it went on without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<TaskId>,
    /// When a scheduled attempt is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// The media type of the input, unless it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// How long one attempt may take.
    pub timeout_ms: Option<u64>,
    /// How long a holder may be silent.
    pub lease_ms: u64,
    /// The delay after the first failed attempt.
    pub backoff_ms: u64,
    /// What becomes of it if a dependency fails.
    pub on_dependency_failure: OnDependencyFailure,
    /// Who is notified when it is given up: `coordinators`, `nobody`, or an agent.
    pub escalate_to: String,
}

impl Task {
    /// A task as it is shown.
    #[must_use]
    pub fn new(agents: &dyn AgentNames, task: &CoreTask) -> Self {
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

    /// Its priority, as the core knows it.
    ///
    /// # Errors
    /// `INVALID` if the word is none.
    pub fn priority(&self) -> Result<Priority, Refused> {
        crate::priority::of_word(&self.priority, self.priority_rank.unwrap_or(0))
    }
}

fn completion(task: &CoreTask) -> Option<&quorate_core::Completion> {
    match &task.state {
        TaskState::Done(end) | TaskState::Partial(end) => Some(end),
        _ => None,
    }
}

/// A task with its payloads.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskWithPayloads {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// The rest.
    #[serde(flatten)]
    pub more: TaskPayloads,
}

deserialize_in_two_passes!(TaskWithPayloads { task, more });

/// What is read only when one task is requested.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskPayloads {
    /// Dependencies that are not done yet.
    pub blocked_on: Vec<TaskId>,
    /// When the lease of its holder expires.
    pub lease_until: Option<Timestamp>,
    /// Its input.
    pub input: Option<Raw>,
    /// Its result.
    pub result: Option<Raw>,
    /// The media type of the result, unless it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_content_type: Option<String>,
    /// Intermediate results, oldest first.
    pub partials: Vec<Raw>,
    /// More about why it failed.
    pub details: Option<Raw>,
}

/// The payloads of a task, as they are stored.
#[derive(Clone, Default, Debug)]
pub struct StoredPayloads {
    /// Dependencies that are not done yet.
    pub blocked_on: Vec<TaskId>,
    /// When the lease of its holder expires.
    pub lease_until: Option<Timestamp>,
    /// Its input.
    pub input: Option<Bytes>,
    /// Its result.
    pub result: Option<Bytes>,
    /// Intermediate results, oldest first.
    pub partials: Vec<Bytes>,
    /// More about why it failed.
    pub failure_details: Option<Bytes>,
}

impl TaskWithPayloads {
    /// A task as it is shown by itself.
    #[must_use]
    pub fn new(agents: &dyn AgentNames, task: &CoreTask, stored: &StoredPayloads) -> Self {
        let content_type = completion(task).and_then(|end| end.content_type.as_deref());
        let spec = &task.spec;
        let more = TaskPayloads {
            blocked_on: stored.blocked_on.clone(),
            lease_until: stored.lease_until,
            input: stored.input.as_ref().map(|bytes| shown_bytes(bytes, spec.content_type.as_deref())),
            result: stored.result.as_ref().map(|bytes| shown_bytes(bytes, content_type)),
            result_content_type: content_type.map(str::to_owned),
            partials: stored.partials.iter().map(|bytes| shown_bytes(bytes, None)).collect(),
            details: stored.failure_details.as_ref().map(|bytes| shown_bytes(bytes, None)),
        };
        Self { task: Task::new(agents, task), more }
    }
}

impl TaskWithPayloads {
    /// The input, byte for byte as it was sent.
    ///
    /// # Errors
    /// `INVALID` if it is not what its content type promises.
    pub fn input(&self) -> Result<Option<Bytes>, Refused> {
        decoded(self.more.input.as_ref(), self.task.content_type.as_deref())
    }

    /// The result, byte for byte as it was sent.
    ///
    /// # Errors
    /// `INVALID` if it is not what its content type promises.
    pub fn result(&self) -> Result<Option<Bytes>, Refused> {
        decoded(self.more.result.as_ref(), self.more.result_content_type.as_deref())
    }
}

impl HeldTask {
    /// The input, byte for byte as it was sent; empty if there is none.
    ///
    /// # Errors
    /// `INVALID` if it is not what its content type promises.
    pub fn input(&self) -> Result<Bytes, Refused> {
        Ok(decoded(self.held.input.as_ref(), self.task.content_type.as_deref())?.unwrap_or_default())
    }
}

fn decoded(raw: Option<&Raw>, content_type: Option<&str>) -> Result<Option<Bytes>, Refused> {
    raw.map(|raw| payload::received(raw, content_type).map(|payload| payload.bytes)).transpose()
}

fn escalates_to(agents: &dyn AgentNames, escalate: Escalate) -> String {
    match escalate {
        Escalate::Nobody => "nobody".to_owned(),
        Escalate::Coordinators => "coordinators".to_owned(),
        Escalate::To(agent) => {
            agents.agent_id(agent).map_or_else(|| "coordinators".to_owned(), |agent| agent.to_string())
        }
    }
}

/// A task that was claimed.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldTask {
    /// Its lease and input.
    #[serde(flatten)]
    pub held: TaskLease,
    /// The task.
    #[serde(flatten)]
    pub task: Task,
}

deserialize_in_two_passes!(HeldTask { held, task });

/// The lease of a task, with its input.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskLease {
    /// Names the lease in a completion.
    pub lease_token: Token,
    /// When it expires without a heartbeat.
    pub lease_until: Timestamp,
    /// The input of the task.
    pub input: Option<Raw>,
}

impl HeldTask {
    /// A task that is held since a time.
    #[must_use]
    pub fn new(
        agents: &dyn AgentNames,
        task: &CoreTask,
        token: Token,
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
            input: task.spec.input.map(|_| shown_bytes(input, task.spec.content_type.as_deref())),
        };
        Self { held, task: Task::new(agents, task) }
    }
}

/// The record of a completion or a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AcceptedTask {
    /// The record.
    pub seq: Seq,
    /// The lease token under which it was accepted.
    pub accepted_token: Token,
}

/// Unknown states are an error of the caller.
///
/// # Errors
/// `INVALID` for a word that is none.
pub fn status_of(word: &str) -> Result<TaskStatus, Refused> {
    TaskStatus::ALL.into_iter().find(|status| status.as_str() == word).ok_or_else(|| {
        let words = TaskStatus::ALL.map(TaskStatus::as_str).join(", ");
        Refused::new(Code::Invalid, format!("the task status {word:?} does not exist"))
            .hint(format!("use one of {words}"))
    })
}
