//! Tasks as everybody sees them.

use std::borrow::Cow;

use bytes::Bytes;
use quorate_core::{AgentId, Agents, Priority, Task, TaskId, TaskState, TaskStatus, Timestamp, Token};
use quorate_engine::{Space, TaskView as Kept};

/// A task: what was asked for, and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskInfo {
    /// Its id.
    pub id: TaskId,
    /// What kind of work it is.
    pub task_type: String,
    /// The one agent that it is for, if it names one.
    pub agent: Option<AgentId>,
    /// Where it is.
    pub status: TaskStatus,
    /// Which goes first. Over the network it is told by its level only.
    pub priority: Priority,
    /// How often it was taken, without those who gave it back untouched.
    pub attempt: u16,
    /// How often it is tried.
    pub attempts_max: u16,
    /// What must be done before.
    pub depends_on: Vec<TaskId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it; `None` is the hub.
    pub creator: Option<AgentId>,
    /// Who holds it, or ended it with a result.
    pub holder: Option<AgentId>,
    /// The one token under which its end was accepted.
    pub accepted_token: Option<Token>,
    /// How sure the author of its result is, 0 to 1.
    pub confidence: Option<f64>,
    /// Why its author says so.
    pub rationale: Option<String>,
    /// Why it was called off, or why the last try came to nothing.
    pub reason: Option<String>,
    /// The session that it belongs to.
    pub session: Option<String>,
    /// Dependencies that it had to do without.
    pub missing: Vec<TaskId>,
}

/// A task with all that is known of it.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskView {
    /// The task.
    pub task: TaskInfo,
    /// What it waits for: tasks that it needs and that are not done.
    pub blocked_on: Vec<TaskId>,
    /// When its lease ends at the latest, if it is held.
    pub lease_until: Option<Timestamp>,
    /// The input, byte for byte as it was given.
    pub input: Option<Bytes>,
    /// The result, byte for byte as it was given.
    pub result: Option<Bytes>,
    /// What its holders had so far, oldest first.
    pub partials: Vec<Bytes>,
    /// What the last holder that failed left for whoever looks into it.
    pub failure_details: Option<Bytes>,
}

/// Some tasks, and where to go on.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskPage {
    /// The tasks, by id.
    pub tasks: Vec<TaskInfo>,
    /// Where the next page begins; `None` if there is none.
    pub cursor: Option<TaskId>,
}

impl TaskInfo {
    pub(crate) fn of(agents: &Agents, task: Task) -> Self {
        let name = |number| agents.get(number).map(|agent| agent.id.clone());
        let status = task.status();
        let reason = task.reason().map(Cow::into_owned);
        let (holder, end) = match task.state {
            TaskState::Leased(lease) => (name(lease.by), None),
            TaskState::Done(end) | TaskState::Partial(end) => (name(end.by), Some(*end)),
            _ => (None, None),
        };
        let spec = &task.spec;
        Self {
            id: spec.id.clone(),
            task_type: spec.task_type.to_string(),
            agent: spec.agent.and_then(name),
            status,
            priority: spec.priority,
            attempt: task.attempt,
            attempts_max: spec.attempts_max,
            depends_on: spec.depends_on.clone(),
            created_at: spec.created_at,
            creator: spec.creator.and_then(name),
            holder,
            accepted_token: end.as_ref().map(|end| end.token),
            confidence: end.as_ref().and_then(|end| end.confidence),
            rationale: end.and_then(|end| end.rationale),
            reason,
            session: spec.session.clone(),
            missing: task.missing,
        }
    }
}

impl TaskView {
    pub(crate) fn of(space: &Space, view: Kept) -> Self {
        Self {
            task: TaskInfo::of(&space.published().agents, view.task),
            blocked_on: view.blocked_on,
            lease_until: view.lease_until,
            input: view.input,
            result: view.result,
            partials: view.partials.into_iter().map(|partial| partial.bytes).collect(),
            failure_details: view.failure_details,
        }
    }
}

impl TaskPage {
    pub(crate) fn of(space: &Space, page: quorate_engine::TaskPage) -> Self {
        let agents = &space.published().agents;
        let tasks = page.tasks.into_iter().map(|task| TaskInfo::of(agents, task)).collect();
        Self { tasks, cursor: page.cursor }
    }
}
