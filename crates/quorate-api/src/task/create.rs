//! Requests that create tasks.

use bytes::Bytes;
use quorate_core::{
    AgentId, CreateTasks, Dependency, EscalateTo, NewTask as CoreNewTask, OnDependencyFailure, Op, Priority,
    Refused, TaskId,
};
use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::parse_context::ParseContext;
use crate::payload;
use crate::priority::TaskPriority;
use crate::request_body::RequestFields;
#[cfg(feature = "schema")]
use crate::schema;

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
pub fn parse_create(fields: RequestFields<'_>, context: &ParseContext<'_>) -> Result<Op, Refused> {
    let tasks = match fields.contains("tasks") {
        true => fields.parse_into::<TaskGraph<'_>>()?.tasks,
        false => vec![fields.parse_into()?],
    };
    create_tasks_op(tasks, context)
}

/// Creates the operation that creates tasks.
///
/// # Errors
/// `INVALID` if an input does not match its content type.
pub fn create_tasks_op(tasks: Vec<NewTask<'_>>, context: &ParseContext<'_>) -> Result<Op, Refused> {
    let tasks: Vec<TaskWithInput> =
        tasks.into_iter().map(|task| task.into_core(context)).collect::<Result<_, _>>()?;
    Ok(Op::CreateTasks(CreateTasks::pack(tasks, context.seal.salt())))
}

/// Task to create.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewTask<'a> {
    /// Client-assigned ID; the hub assigns one by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<TaskId>,
    /// Type of the task. A claim names the types it accepts; a claim without `types` accepts those that are capabilities
    /// of the agent. May be empty if `agent` is set.
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
    /// Maximum number of attempts; 4 by default.
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
    pub fn into_core(self, context: &ParseContext<'_>) -> Result<TaskWithInput, Refused> {
        let mut task = CoreNewTask::new(self.task_type);
        task.id = self.id;
        task.agent = self.agent;
        task.priority = self.priority.map_or(Priority::default(), |priority| priority.0);
        task.depends_on = self.depends_on.into_iter().map(Dependency::Task).collect();
        task.timeout_ms = self.timeout_ms;
        task.lease_ms = self.lease_ms.unwrap_or(context.defaults.lease_ms);
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
                EscalateTo::Nobody => "nobody".to_owned(),
                EscalateTo::Coordinators => "coordinators".to_owned(),
                EscalateTo::Agent(agent) => agent.to_string(),
            }),
            session_id: task.session.clone(),
        })
    }
}
