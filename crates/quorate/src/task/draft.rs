//! A task that is about to be made, with what may be said of it.

use std::time::Duration;

use quorate_api::Error;
use quorate_core::{
    AgentId, Dependency, EscalateTo, NewTask, OnDependencyFailure, Priority, Refused, TaskId,
};
use serde::Serialize;

use crate::agent::to_json;

/// A task that is about to be made.
#[derive(Clone, Debug)]
#[must_use = "a task is made when an agent creates it"]
pub struct TaskDraft {
    new: NewTask,
    input: Result<Vec<u8>, Error>,
    /// The first thing that was said wrongly.
    wrong: Option<Refused>,
}

impl TaskDraft {
    /// A task for whoever has this capability.
    pub fn new(task_type: impl Into<String>, input: impl Serialize) -> Self {
        Self { new: NewTask::new(task_type), input: to_json(input), wrong: None }
    }

    fn set<T>(mut self, value: Result<T, Refused>, set: impl FnOnce(&mut NewTask, T)) -> Self {
        match value {
            Ok(value) => set(&mut self.new, value),
            Err(refused) => drop(self.wrong.get_or_insert(refused)),
        }
        self
    }

    /// An id of your own: unique in the space, and others can name it before it is made.
    pub fn id(self, id: impl AsRef<str>) -> Self {
        self.set(TaskId::new(id), |new, id| new.id = Some(id))
    }

    /// Only this agent may take it.
    pub fn for_agent(self, agent: impl AsRef<str>) -> Self {
        self.set(AgentId::new(agent), |new, agent| new.agent = Some(agent))
    }

    /// What must be done before, by id.
    pub fn needs<T: AsRef<str>>(self, ids: impl IntoIterator<Item = T>) -> Self {
        let ids = ids.into_iter().map(TaskId::new).collect::<Result<Vec<_>, _>>();
        self.set(ids, |new, ids| new.depends_on.extend(ids.into_iter().map(Dependency::Task)))
    }

    /// What must be done before, by its place among the tasks that are made together, counted from 0.
    pub fn needs_nth(mut self, places: impl IntoIterator<Item = u32>) -> Self {
        self.new.depends_on.extend(places.into_iter().map(Dependency::Nth));
        self
    }

    /// What happens when one that it needs ends other than done; it fails if nothing is said.
    pub fn if_a_dependency_fails(mut self, then: OnDependencyFailure) -> Self {
        self.new.on_dependency_failure = then;
        self
    }

    /// Which goes first, on a scale of 1 to 10.
    pub fn priority(self, ten: u8) -> Self {
        self.set(Priority::from_ten(ten), |new, priority| new.priority = priority)
    }

    /// How long one try may take in all.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.new.timeout_ms = Some(ms(timeout));
        self
    }

    /// How often it is tried; four times if nothing is said.
    pub fn attempts(mut self, attempts: u16) -> Self {
        self.new.attempts_max = attempts;
        self
    }

    /// How long to wait after the first failed try; a second if nothing is said, then 2, 4, 8, 16 times as long.
    pub fn backoff(mut self, backoff: Duration) -> Self {
        self.new.backoff_ms = ms(backoff);
        self
    }

    /// Who is told when it is given up; the coordinators if nobody is named.
    pub fn escalate_to(self, agent: impl AsRef<str>) -> Self {
        self.set(AgentId::new(agent), |new, agent| new.escalate_to = EscalateTo::Agent(agent))
    }

    /// Nobody is told when it is given up.
    pub fn escalate_to_nobody(mut self) -> Self {
        self.new.escalate_to = EscalateTo::Nobody;
        self
    }

    /// The session it belongs to.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.new.session = Some(session.into());
        self
    }

    pub(super) fn into_parts(self) -> Result<(NewTask, Option<Vec<u8>>), Error> {
        match self.wrong {
            Some(refused) => Err(refused.into()),
            None => Ok((self.new, Some(self.input?))),
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
