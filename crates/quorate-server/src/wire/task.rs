//! Tasks in JSON.

use std::borrow::Cow;
use std::num::NonZeroU64;

use crate::wire::Raw;
use bytes::Bytes;
use quorate_core::{
    AgentId, Agents, CancelTask, Code, CompleteTask, Dependency, Escalate, EscalateTo, FailTask,
    HeartbeatTask, NewTask, OnDependencyFailure, Op, Priority, Refused, Task, TaskId, TaskLeaseRef,
    TaskState, TaskStatus, Timestamp, Token,
};
use quorate_engine::{Space, TaskInHand, TaskView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::entry::FenceIn;
use super::message::PriorityWord;
use super::{Sealing, time};
use crate::api::words;
use crate::body::Fields;
use crate::settings::Times;

/// A graph of tasks: all of it or nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TaskGraph")]
pub(crate) struct GraphIn<'a> {
    #[serde(borrow, deserialize_with = "crate::object::objects")]
    #[schemars(length(min = 1, max = 10_000))]
    pub(crate) tasks: Vec<TaskIn<'a>>,
}

/// A task and the bytes of its input.
type WithInput = (NewTask, Option<Vec<u8>>);

/// One task or a graph of them: which one it is is told by the field `tasks`.
pub(crate) fn new(fields: Fields<'_>, times: &Times) -> Result<Vec<WithInput>, Refused> {
    all(if fields.has("tasks") { fields.read::<GraphIn<'_>>()?.tasks } else { vec![fields.read()?] }, times)
}

/// The tasks of a graph.
pub(crate) fn all(tasks: Vec<TaskIn<'_>>, times: &Times) -> Result<Vec<WithInput>, Refused> {
    tasks.into_iter().map(|task| task.read(times)).collect()
}

/// A task as a caller writes it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewTask")]
pub(crate) struct TaskIn<'a> {
    /// The caller's own id; the hub makes one if nothing is said.
    #[schemars(with = "Option<words::Id>")]
    id: Option<String>,
    /// The capability that it needs; or name an agent.
    #[serde(rename = "type", default)]
    #[schemars(length(max = 128))]
    task_type: String,
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
    /// Any JSON, kept byte for byte; with a `contentType`, a text in base64.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    input: Option<&'a RawValue>,
    #[schemars(length(max = 128))]
    content_type: Option<String>,
    priority: Option<TaskPriorityIn>,
    /// Tasks that must be done before it is given out.
    #[serde(default)]
    #[schemars(length(max = 10_000), with = "Vec<words::Id>")]
    depends_on: Vec<String>,
    /// How long one try may take.
    #[schemars(range(min = 1_000, max = 604_800_000))]
    timeout_ms: Option<u64>,
    #[schemars(with = "Option<words::LeaseMs>")]
    lease_ms: Option<u64>,
    retry: Option<RetryIn>,
    /// What becomes of it if something that it needs fails.
    #[serde(default)]
    on_dependency_failure: OnFailureIn,
    /// Who hears of it when it is given up: `coordinators` (the default), `nobody`, or an agent.
    #[schemars(with = "Option<words::Id>")]
    escalate_to: Option<String>,
    #[schemars(length(max = 128))]
    session_id: Option<String>,
}

/// How often and how fast a task is tried again.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Retry")]
struct RetryIn {
    #[schemars(range(min = 1, max = 100))]
    max_attempts: Option<u16>,
    /// The wait after the first failed try; then 2, 4, 8, 16 times as long.
    #[schemars(range(max = 3_600_000))]
    backoff_ms: Option<u64>,
}

#[derive(Deserialize, Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum OnFailureIn {
    #[default]
    Fail,
    Skip,
    Wait,
}

/// How urgent a task is: a word, or seed C's number from 1 to 10.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "takes low, normal, high, urgent, or a number from 1 to 10")]
#[schemars(rename = "TaskPriority")]
enum TaskPriorityIn {
    Word(PriorityWord),
    Ten(#[schemars(range(min = 1, max = 10))] u8),
}

impl TaskIn<'_> {
    /// The task and its input.
    pub(crate) fn read(self, times: &Times) -> Result<(NewTask, Option<Vec<u8>>), Refused> {
        let mut task = NewTask::new(self.task_type);
        task.id = self.id.map(TaskId::new).transpose()?;
        task.agent = self.agent.map(AgentId::new).transpose()?;
        task.priority = match self.priority {
            None => Priority::default(),
            Some(TaskPriorityIn::Word(word)) => word.read(),
            Some(TaskPriorityIn::Ten(number)) => Priority::from_ten(number)?,
        };
        let depends_on = self.depends_on.into_iter().map(|id| TaskId::new(id).map(Dependency::Task));
        task.depends_on = depends_on.collect::<Result<_, _>>()?;
        task.timeout_ms = self.timeout_ms;
        task.lease_ms = self.lease_ms.unwrap_or(times.lease_ms());
        if let Some(retry) = self.retry {
            task.attempts_max = retry.max_attempts.unwrap_or(task.attempts_max);
            task.backoff_ms = retry.backoff_ms.unwrap_or(task.backoff_ms);
        }
        task.on_dependency_failure = match self.on_dependency_failure {
            OnFailureIn::Fail => OnDependencyFailure::Fail,
            OnFailureIn::Skip => OnDependencyFailure::Skip,
            OnFailureIn::Wait => OnDependencyFailure::Wait,
        };
        task.escalate_to = match self.escalate_to.as_deref() {
            None | Some("coordinators") => EscalateTo::Coordinators,
            Some("nobody") => EscalateTo::Nobody,
            Some(agent) => EscalateTo::Agent(AgentId::new(agent)?),
        };
        task.session = self.session_id;
        let input = match (self.input, &self.content_type) {
            (None, _) => None,
            (Some(raw), None) => Some(raw.get().as_bytes().to_vec()),
            (Some(raw), Some(_)) => Some(super::decode(raw.get())?),
        };
        task.content_type = self.content_type;
        Ok((task, input))
    }
}

/// What the holder of a task says of it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SaidOfTask")]
pub(crate) struct HolderIn<'a> {
    /// In a commit, also as `id`; in a call of its own it stands in the path.
    #[serde(alias = "id")]
    #[schemars(with = "Option<words::Id>")]
    task: Option<String>,
    /// As the claim told. Needed by all but `cancel`.
    lease_token: Option<u64>,
    /// Of `complete`: any JSON, kept byte for byte; with a `contentType`, a text in base64.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    result: Option<&'a RawValue>,
    /// Of `heartbeat`: what there is so far.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    partial: Option<&'a RawValue>,
    /// Of `fail`: what went wrong.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    details: Option<&'a RawValue>,
    #[schemars(length(max = 128))]
    content_type: Option<String>,
    #[schemars(range(min = 0, max = 1))]
    confidence: Option<f64>,
    #[schemars(with = "Option<words::Sentence>")]
    rationale: Option<String>,
    status: Option<EndIn>,
    #[schemars(with = "Option<words::Sentence>")]
    reason: Option<String>,
    /// Of `fail`: whether another try may help; yes if nothing is said.
    recoverable: Option<bool>,
    fence: Option<FenceIn>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum EndIn {
    Done,
    Partial,
}

/// What is said.
#[derive(Clone, Copy)]
pub(crate) enum Say {
    Heartbeat,
    Complete,
    Fail,
    Release,
    Cancel,
}

impl HolderIn<'_> {
    pub(crate) fn read(self, say: Say, sealing: &Sealing<'_>, path: Option<&str>) -> Result<Op, Refused> {
        let named = path.map(str::to_owned).or(self.task);
        let task = TaskId::new(
            named.ok_or_else(|| Refused::new(Code::Invalid, "task is missing").hint("say which task"))?,
        )?;
        let reason = self.reason.unwrap_or_default();
        if let Say::Cancel = say {
            return Ok(Op::CancelTask(CancelTask { task, reason }));
        }
        let token = self.lease_token.map(Token).ok_or_else(|| {
            Refused::new(Code::Invalid, "leaseToken is missing")
                .hint("say under which lease, as the claim told")
        })?;
        let lease = TaskLeaseRef { task, token };
        let seal = |raw: Option<&RawValue>, content_type: Option<&str>| {
            raw.map(|raw| sealing.payload(Some(raw), content_type)).transpose()
        };
        Ok(match say {
            Say::Heartbeat => Op::HeartbeatTask(HeartbeatTask { lease, partial: seal(self.partial, None)? }),
            Say::Fail => Op::FailTask(FailTask {
                lease,
                reason,
                details: seal(self.details, None)?,
                recoverable: self.recoverable.unwrap_or(true),
            }),
            Say::Release | Say::Cancel => Op::ReleaseTask(lease),
            Say::Complete => Op::CompleteTask(CompleteTask {
                lease,
                status: match self.status {
                    None | Some(EndIn::Done) => TaskStatus::Done,
                    Some(EndIn::Partial) => TaskStatus::Partial,
                },
                result: seal(self.result, self.content_type.as_deref())?,
                content_type: self.content_type,
                confidence: self.confidence,
                rationale: self.rationale,
                fence: self.fence.map(FenceIn::read).transpose()?,
            }),
        })
    }
}

/// A task as it is shown.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Task")]
pub(crate) struct TaskOut {
    id: String,
    #[serde(rename = "type")]
    task_type: String,
    agent: Option<String>,
    #[schemars(with = "words::TaskWord")]
    status: &'static str,
    #[schemars(with = "words::Urgency")]
    priority: &'static str,
    attempt: u16,
    max_attempts: u16,
    depends_on: Vec<String>,
    #[schemars(with = "words::Time")]
    created_at: String,
    creator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted_token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rationale: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<String>,
    #[serde(flatten)]
    more: Option<MoreOut>,
}

/// What is read only when one task is asked for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct MoreOut {
    blocked_on: Vec<String>,
    #[schemars(with = "Option<words::Time>")]
    lease_until: Option<String>,
    input: Option<Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    timeout_ms: Option<u64>,
    lease_ms: u64,
    backoff_ms: u64,
    #[schemars(with = "OnFailureIn")]
    on_dependency_failure: &'static str,
    #[schemars(with = "words::Id")]
    escalate_to: String,
    result: Option<Raw>,
    /// What the result is in base64; left out for JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_content_type: Option<String>,
    partials: Vec<Raw>,
    details: Option<Raw>,
}

impl TaskOut {
    pub(crate) fn new(agents: &Agents, task: &Task) -> Self {
        let name = |number| agents.get(number).map(|agent| agent.id.to_string());
        let ids = |ids: &[TaskId]| ids.iter().map(ToString::to_string).collect();
        let end = match &task.state {
            TaskState::Done(end) | TaskState::Partial(end) => Some(end),
            _ => None,
        };
        Self {
            id: task.spec.id.to_string(),
            task_type: task.spec.task_type.to_string(),
            agent: task.spec.agent.and_then(name),
            status: task.status().as_str(),
            priority: task.spec.priority.as_str(),
            attempt: task.attempt,
            max_attempts: task.spec.attempts_max,
            depends_on: ids(&task.spec.depends_on),
            created_at: time::shown(task.spec.created_at),
            creator: task.spec.creator.and_then(name),
            holder: match &task.state {
                TaskState::Leased(lease) => name(lease.by),
                _ => end.and_then(|end| name(end.by)),
            },
            accepted_token: end.map(|end| end.token.0),
            confidence: end.and_then(|end| end.confidence),
            rationale: end.and_then(|end| end.rationale.clone()),
            reason: task.reason().map(Cow::into_owned),
            session_id: task.spec.session.clone(),
            missing: ids(&task.missing),
            more: None,
        }
    }

    /// With all that is known of it.
    pub(crate) fn whole(agents: &Agents, view: &TaskView) -> Self {
        let json = |bytes: &Bytes| raw(bytes, None);
        let content_type = match &view.task.state {
            TaskState::Done(end) | TaskState::Partial(end) => end.content_type.as_deref(),
            _ => None,
        };
        let spec = &view.task.spec;
        let more = MoreOut {
            blocked_on: view.blocked_on.iter().map(ToString::to_string).collect(),
            lease_until: view.lease_until.map(time::shown),
            input: view.input.as_ref().map(|bytes| raw(bytes, spec.content_type.as_deref())),
            content_type: spec.content_type.clone(),
            timeout_ms: spec.timeout_ms.map(NonZeroU64::get),
            lease_ms: spec.lease_ms.get(),
            backoff_ms: spec.backoff_ms,
            on_dependency_failure: spec.on_dependency_failure.as_str(),
            escalate_to: escalates_to(agents, spec.escalate),
            result: view.result.as_ref().map(|bytes| raw(bytes, content_type)),
            result_content_type: content_type.map(str::to_owned),
            partials: view.partials.iter().map(|partial| json(&partial.bytes)).collect(),
            details: view.failure_details.as_ref().map(json),
        };
        Self { more: Some(more), ..Self::new(agents, &view.task) }
    }
}

/// As a new task says it.
fn escalates_to(agents: &Agents, escalate: Escalate) -> String {
    match escalate {
        Escalate::Nobody => "nobody".to_owned(),
        Escalate::Coordinators => "coordinators".to_owned(),
        Escalate::To(agent) => {
            agents.get(agent).map_or_else(|| "coordinators".to_owned(), |agent| agent.id.to_string())
        }
    }
}

fn raw(bytes: &Bytes, content_type: Option<&str>) -> Raw {
    super::shown(&quorate_core::Payload::unsealed(bytes.clone()), content_type)
}

/// A task in the hands of somebody.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HeldTask")]
pub(crate) struct InHandOut {
    lease_token: u64,
    #[schemars(with = "words::Time")]
    lease_until: String,
    input: Option<Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(flatten)]
    task: TaskOut,
}

impl InHandOut {
    /// As it is held since a time.
    pub(crate) fn new(space: &Space, held: &TaskInHand, since: Timestamp) -> Self {
        let content_type = held.task.spec.content_type.clone();
        let length_ms = match &held.task.state {
            TaskState::Leased(lease) => lease.length_ms.get(),
            _ => 0,
        };
        Self {
            lease_token: held.lease.token.0,
            lease_until: time::shown(since.plus_ms(length_ms)),
            input: held.task.spec.input.map(|_| raw(&held.input, content_type.as_deref())),
            content_type,
            task: TaskOut::new(&space.published().agents, &held.task),
        }
    }
}
