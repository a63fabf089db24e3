//! Tasks.

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use quorate::link::TaskInHand;
use quorate::{Code, Error, Refused};
use quorate_core::{
    AgentNo, CreateTasks, Dependency, Escalate, EscalateTo, NewTask, OnDependencyFailure, Seq, Task, TaskId,
    TaskInput, TaskLease, TaskLeaseRef, TaskNo, TaskSpec, TaskState, Timestamp, Token,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::message::priority_of;
use super::{payload, raw, time_in};

/// Tasks on their way out, all or none.
#[derive(Serialize)]
pub(crate) struct TasksOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<&'static str>,
    tasks: Vec<TaskOut>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type")]
    task_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Urgency>,
    depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    lease_ms: u64,
    retry: RetryOut,
    on_dependency_failure: &'static str,
    escalate_to: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
}

/// A number from 1 to 10, or a word.
#[derive(Serialize)]
#[serde(untagged)]
enum Urgency {
    Ten(u8),
    Word(&'static str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RetryOut {
    max_attempts: u16,
    backoff_ms: u64,
}

impl TasksOut {
    pub(crate) fn new(create: &CreateTasks) -> Result<Self, Error> {
        let ids: Vec<_> = create.tasks.iter().map(|task| task.id.as_ref()).collect();
        let tasks = create.tasks.iter().map(|task| TaskOut::new(create, task, &ids));
        Ok(Self { op: None, tasks: tasks.collect::<Result<_, _>>()? })
    }

    pub(crate) fn as_op(create: &CreateTasks) -> Result<Self, Error> {
        Ok(Self { op: Some("task.create"), ..Self::new(create)? })
    }
}

impl TaskOut {
    fn new(create: &CreateTasks, task: &NewTask, ids: &[Option<&TaskId>]) -> Result<Self, Error> {
        let needs = task.depends_on.iter().map(|needed| match needed {
            Dependency::Task(id) => Ok(id.to_string()),
            Dependency::Nth(place) => {
                let id = ids.get(*place as usize).copied().flatten().map(ToString::to_string);
                id.ok_or_else(|| {
                    Refused::new(Code::Invalid, format!("task {place} of these has no id of its own"))
                        .hint("over the network, give an id to every task that another one needs")
                })
            }
        });
        let input = create.input_of(task);
        let input = input.map(|bytes| raw(&bytes, task.content_type.as_deref())).transpose()?;
        let priority = match (task.priority.level, task.priority.rank) {
            (_, ten @ 1..) => Urgency::Ten(ten),
            (level, 0) => Urgency::Word(["low", "normal", "high", "urgent"][usize::from(level.min(3))]),
        };
        Ok(Self {
            id: task.id.as_ref().map(ToString::to_string),
            task_type: task.task_type.clone(),
            agent: task.agent.as_ref().map(ToString::to_string),
            input,
            content_type: task.content_type.clone(),
            priority: Some(priority),
            depends_on: needs.collect::<Result<_, _>>()?,
            timeout_ms: task.timeout_ms,
            lease_ms: task.lease_ms,
            retry: RetryOut { max_attempts: task.attempts_max, backoff_ms: task.backoff_ms },
            on_dependency_failure: match task.on_dependency_failure {
                OnDependencyFailure::Fail => "fail",
                OnDependencyFailure::Skip => "skip",
                OnDependencyFailure::Wait => "wait",
            },
            escalate_to: match &task.escalate_to {
                EscalateTo::Nobody => "nobody".to_owned(),
                EscalateTo::Coordinators => "coordinators".to_owned(),
                EscalateTo::Agent(agent) => agent.to_string(),
            },
            session_id: task.session.clone(),
        })
    }
}

/// Tasks that were made.
#[derive(Deserialize)]
pub(crate) struct MadeIn {
    pub(crate) tasks: Vec<IdIn>,
}

#[derive(Deserialize)]
pub(crate) struct IdIn {
    pub(crate) id: String,
}

/// Tasks that were taken.
#[derive(Deserialize)]
pub(crate) struct TakenIn<'a> {
    #[serde(borrow)]
    pub(crate) tasks: Vec<InHandIn<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InHandIn<'a> {
    lease_token: u64,
    lease_until: String,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    content_type: Option<String>,
    id: String,
    #[serde(rename = "type")]
    task_type: String,
    priority: String,
    attempt: u16,
    max_attempts: u16,
    depends_on: Vec<String>,
    created_at: String,
    session_id: Option<String>,
    #[serde(default)]
    missing: Vec<String>,
}

impl InHandIn<'_> {
    /// The task as far as a claim tells of it. Numbers that only the hub itself knows are 0.
    pub(crate) fn read(self, now: Timestamp, lease_ms: Option<u64>) -> Result<TaskInHand, Error> {
        let ids = |list: Vec<String>| list.into_iter().map(TaskId::new).collect::<Result<Vec<_>, _>>();
        let (id, token) = (TaskId::new(self.id)?, Token(self.lease_token));
        let input = match self.input {
            Some(_) => payload(self.input, self.content_type.as_deref())?.bytes,
            None => Bytes::new(),
        };
        // Nobody tells how long a lease lasts, but how long it will last from now; clocks may differ by a little.
        let left_ms = lease_ms
            .unwrap_or_else(|| time_in(&self.lease_until).map_or(0, |until| until.0.saturating_sub(now.0)));
        let length_ms = NonZeroU64::new(left_ms.max(1)).unwrap_or(NonZeroU64::MIN);
        let spec = TaskSpec {
            id: id.clone(),
            no: TaskNo { seq: Seq(0), n: 0 },
            created_at: time_in(&self.created_at)?,
            creator: None,
            task_type: Arc::from(self.task_type),
            agent: None,
            input: None::<TaskInput>,
            content_type: self.content_type,
            priority: priority_of(&self.priority)?,
            depends_on: ids(self.depends_on)?,
            timeout_ms: None,
            lease_ms: length_ms,
            attempts_max: self.max_attempts,
            backoff_ms: 0,
            on_dependency_failure: OnDependencyFailure::default(),
            escalate: Escalate::Nobody,
            session: self.session_id,
        };
        let lease = TaskLease { by: AgentNo(0), token, length_ms, ready_since: now, since: now };
        let task = Task {
            spec: Arc::new(spec),
            attempt: self.attempt,
            state: TaskState::Leased(lease),
            setback: None,
            partials: Vec::new(),
            missing: ids(self.missing)?,
        };
        Ok(TaskInHand { lease: TaskLeaseRef { task: id, token }, task, input })
    }
}
