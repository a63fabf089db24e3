//! Tasks.

use std::collections::BTreeSet;

use bytes::Bytes;
use quorate::link::HeldTask;
use quorate::{Error, TaskInfo, TaskPage, TaskStatus, TaskView};
use quorate_core::{
    AgentId, CreateTasks, Dependency, EscalateTo, NewTask, OnDependencyFailure, TaskId, TaskLeaseRef,
    Timestamp, Token,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::message::priority_of;
use super::{At, Text, all, named, payload, raw};

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
    /// Tasks as they are. One that another of them needs by its place gets an id of the key under which they are made.
    pub(crate) fn new(create: &CreateTasks, key: &str) -> Result<Self, Error> {
        let needs = create.tasks.iter().flat_map(|task| &task.depends_on);
        let needed: BTreeSet<u32> = needs
            .filter_map(|needed| match needed {
                Dependency::Nth(place) => Some(*place),
                Dependency::Task(_) => None,
            })
            .collect();
        let id = |(place, task): (usize, &NewTask)| match &task.id {
            Some(id) => Some(id.to_string()),
            None => needed.contains(&(place as u32)).then(|| format!("task-{key}-{place}")),
        };
        let ids: Vec<_> = create.tasks.iter().enumerate().map(id).collect();
        let tasks =
            create.tasks.iter().zip(&ids).map(|(task, id)| TaskOut::new(create, task, id.clone(), &ids));
        Ok(Self { op: None, tasks: tasks.collect::<Result<_, _>>()? })
    }

    pub(crate) fn as_op(create: &CreateTasks, key: &str) -> Result<Self, Error> {
        Ok(Self { op: Some("task.create"), ..Self::new(create, key)? })
    }
}

impl TaskOut {
    fn new(
        create: &CreateTasks,
        task: &NewTask,
        id: Option<String>,
        ids: &[Option<String>],
    ) -> Result<Self, Error> {
        let needs = task.depends_on.iter().map(|needed| match needed {
            Dependency::Task(id) => id.to_string(),
            // What is not among them has no id; the hub says so.
            Dependency::Nth(place) => ids.get(*place as usize).cloned().flatten().unwrap_or_default(),
        });
        let input = create.input_of(task);
        let input = input.map(|bytes| raw(&bytes, task.content_type.as_deref())).transpose()?;
        let priority = match (task.priority.level, task.priority.rank) {
            (_, ten @ 1..) => Urgency::Ten(ten),
            (level, 0) => Urgency::Word(["low", "normal", "high", "urgent"][usize::from(level.min(3))]),
        };
        Ok(Self {
            id,
            task_type: task.task_type.clone(),
            agent: task.agent.as_ref().map(ToString::to_string),
            input,
            content_type: task.content_type.clone(),
            priority: Some(priority),
            depends_on: needs.collect(),
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
    pub(crate) tasks: Vec<HeldIn<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HeldIn<'a> {
    lease_token: u64,
    lease_until: At,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    content_type: Option<String>,
    #[serde(flatten)]
    task: TaskIn,
}

impl HeldIn<'_> {
    /// The task in somebody's hands. Nobody tells how long a lease lasts, but how long it will last from now; clocks may
    /// differ by a little.
    pub(crate) fn read(self, now: Timestamp, lease_ms: Option<u64>) -> Result<HeldTask, Error> {
        let input = match self.input {
            Some(_) => payload(self.input, self.content_type.as_deref())?.bytes,
            None => Bytes::new(),
        };
        let lease_ms = lease_ms.unwrap_or_else(|| self.lease_until.0.0.saturating_sub(now.0).max(1));
        let task = self.task.read()?;
        let lease = TaskLeaseRef { task: task.id.clone(), token: Token(self.lease_token) };
        Ok(HeldTask { lease, lease_ms, task, input })
    }
}

/// A task as it is shown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskIn {
    id: Text<TaskId>,
    #[serde(rename = "type")]
    task_type: String,
    agent: Option<Text<AgentId>>,
    status: String,
    priority: String,
    attempt: u16,
    max_attempts: u16,
    depends_on: Vec<Text<TaskId>>,
    created_at: At,
    creator: Option<Text<AgentId>>,
    holder: Option<Text<AgentId>>,
    accepted_token: Option<u64>,
    confidence: Option<f64>,
    rationale: Option<String>,
    reason: Option<String>,
    session_id: Option<String>,
    #[serde(default)]
    missing: Vec<Text<TaskId>>,
}

impl TaskIn {
    pub(crate) fn read(self) -> Result<TaskInfo, Error> {
        Ok(TaskInfo {
            id: self.id.0,
            task_type: self.task_type,
            agent: self.agent.map(|agent| agent.0),
            status: named(&TaskStatus::ALL, TaskStatus::as_str, &self.status)?,
            priority: priority_of(&self.priority)?,
            attempt: self.attempt,
            attempts_max: self.max_attempts,
            depends_on: all(self.depends_on),
            created_at: self.created_at.0,
            creator: self.creator.map(|agent| agent.0),
            holder: self.holder.map(|agent| agent.0),
            accepted_token: self.accepted_token.map(Token),
            confidence: self.confidence,
            rationale: self.rationale,
            reason: self.reason,
            session: self.session_id,
            missing: all(self.missing),
        })
    }
}

/// A task with all that is known of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WholeIn<'a> {
    #[serde(flatten)]
    task: TaskIn,
    blocked_on: Vec<Text<TaskId>>,
    lease_until: Option<At>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    content_type: Option<String>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    result_content_type: Option<String>,
    #[serde(borrow)]
    partials: Vec<&'a RawValue>,
    #[serde(borrow)]
    details: Option<&'a RawValue>,
}

impl WholeIn<'_> {
    pub(crate) fn read(self) -> Result<TaskView, Error> {
        let json = |raw: &RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
        let bytes = |raw: Option<&RawValue>, content_type: Option<&str>| {
            raw.map(|raw| payload(Some(raw), content_type).map(|payload| payload.bytes)).transpose()
        };
        let input = bytes(self.input, self.content_type.as_deref())?;
        let result = bytes(self.result, self.result_content_type.as_deref())?;
        Ok(TaskView {
            task: self.task.read()?,
            blocked_on: all(self.blocked_on),
            lease_until: self.lease_until.map(|at| at.0),
            input,
            result,
            partials: self.partials.into_iter().map(json).collect(),
            failure_details: self.details.map(json),
        })
    }
}

#[derive(Deserialize)]
pub(crate) struct PageIn {
    tasks: Vec<TaskIn>,
    cursor: Option<Text<TaskId>>,
}

impl PageIn {
    pub(crate) fn read(self) -> Result<TaskPage, Error> {
        let tasks = self.tasks.into_iter().map(TaskIn::read).collect::<Result<_, _>>()?;
        Ok(TaskPage { tasks, cursor: self.cursor.map(|id| id.0) })
    }
}
