//! Drafts of tasks.

use std::time::Duration;

use quorate_api::Error;
use quorate_core::{
    AgentId, Dependency, EscalateTo, NewTask, OnDependencyFailure, Priority, Refused, TaskId,
};
use serde::Serialize;

use crate::agent::to_json;

/// Draft of a task. Pass it to [`Agent::create_task`](crate::Agent::create_task) or
/// [`Agent::create_tasks`](crate::Agent::create_tasks).
#[derive(Clone, Debug)]
#[must_use = "a draft has no effect until it is passed to `create_task`"]
pub struct TaskDraft {
    task: NewTask,
    input: Result<Vec<u8>, Error>,
    /// First invalid value that was set, reported when the task is created.
    invalid: Option<Refused>,
}

impl TaskDraft {
    /// Creates a draft of a task of this type. Agents with the capability of the same name can claim it.
    pub fn new(task_type: impl Into<String>, input: impl Serialize) -> Self {
        Self { task: NewTask::new(task_type), input: to_json(input), invalid: None }
    }

    fn set<T>(mut self, value: Result<T, Refused>, set: impl FnOnce(&mut NewTask, T)) -> Self {
        match value {
            Ok(value) => set(&mut self.task, value),
            Err(refused) => drop(self.invalid.get_or_insert(refused)),
        }
        self
    }

    /// Sets the task id. It must be unique in the space; other tasks can depend on it before it is created. Generated
    /// by default.
    pub fn id(self, id: impl AsRef<str>) -> Self {
        self.set(TaskId::new(id), |task, id| task.id = Some(id))
    }

    /// Assigns the task to one agent. By default any agent with the capability can claim it.
    pub fn for_agent(self, agent: impl AsRef<str>) -> Self {
        self.set(AgentId::new(agent), |task, agent| task.agent = Some(agent))
    }

    /// Adds dependencies by task id.
    pub fn depends_on<T: AsRef<str>>(self, ids: impl IntoIterator<Item = T>) -> Self {
        let ids = ids.into_iter().map(TaskId::new).collect::<Result<Vec<_>, _>>();
        self.set(ids, |task, ids| task.depends_on.extend(ids.into_iter().map(Dependency::Task)))
    }

    /// Adds dependencies by index into the list of tasks that are created together, starting at 0.
    pub fn depends_on_index(mut self, indices: impl IntoIterator<Item = u32>) -> Self {
        self.task.depends_on.extend(indices.into_iter().map(Dependency::Index));
        self
    }

    /// Sets what happens if a dependency does not complete. By default the task fails.
    pub fn on_dependency_failure(mut self, action: OnDependencyFailure) -> Self {
        self.task.on_dependency_failure = action;
        self
    }

    /// Sets the priority, from 1 to 10.
    pub fn priority(self, priority: u8) -> Self {
        self.set(Priority::from_ten_scale(priority), |task, priority| task.priority = priority)
    }

    /// Sets the maximum duration of one attempt. Unlimited by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.task.timeout_ms = Some(to_millis(timeout));
        self
    }

    /// Sets the maximum number of attempts. Defaults to 4.
    pub fn max_attempts(mut self, attempts: u16) -> Self {
        self.task.attempts_max = attempts;
        self
    }

    /// Sets the delay after the first failed attempt. Defaults to 1 s. It doubles with each further attempt, up to 16
    /// times the initial delay.
    pub fn backoff(mut self, backoff: Duration) -> Self {
        self.task.backoff_ms = to_millis(backoff);
        self
    }

    /// Sets the agent to notify when the task has failed permanently. Defaults to the coordinators.
    pub fn escalate_to(self, agent: impl AsRef<str>) -> Self {
        self.set(AgentId::new(agent), |task, agent| task.escalate_to = EscalateTo::Agent(agent))
    }

    /// Disables the notification of a permanent failure.
    pub fn no_escalation(mut self) -> Self {
        self.task.escalate_to = EscalateTo::Nobody;
        self
    }

    /// Sets the session to which the task belongs.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.task.session = Some(session.into());
        self
    }

    pub(super) fn into_parts(self) -> Result<(NewTask, Option<Vec<u8>>), Error> {
        match self.invalid {
            Some(refused) => Err(refused.into()),
            None => Ok((self.task, Some(self.input?))),
        }
    }
}

fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
