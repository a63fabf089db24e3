//! Why a task is where it is: what it waits for, what happens next, and when.

use std::sync::Arc;

use crate::ids::{AgentNo, TaskId};
use crate::task::{Task, TaskState, TaskStatus, TaskTarget};
use crate::time::Timestamp;

/// Why a task is where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskWhy {
    /// Where it is.
    pub status: TaskStatus,
    /// What it waits for.
    pub waits_for: TaskWaitsFor,
    /// What happens next if nobody does anything else.
    pub next: TaskNext,
    /// When that happens at the latest; `None` if it is not a matter of time.
    pub at: Option<Timestamp>,
}

/// What a task waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskWaitsFor {
    /// Nothing: it is over.
    Nothing,
    /// These tasks, which are open, or were given up and are waited for nevertheless.
    Tasks(Vec<TaskId>),
    /// Somebody with this capability to take it.
    Capability(Arc<str>),
    /// This agent to take it, or to end what it took.
    Agent(AgentNo),
    /// Its time.
    Time,
    /// A person's decision.
    Approval(String),
}

/// What happens next to a task if nobody does anything else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskNext {
    /// Nothing more.
    Nothing,
    /// It starts when all it waits for is done.
    Starts,
    /// It stays where it is until somebody cancels it.
    Stays,
    /// Whoever may take it takes it.
    IsTaken,
    /// It can be taken from then on.
    BecomesReady,
    /// It is given out again.
    ComesBack,
    /// It is given up: this is its last try.
    IsGivenUp,
}

impl Task {
    /// Why it is where it is. `blocked_on` are the tasks it needs that are not done, as far as they are waited for.
    #[must_use]
    pub fn why(&self, blocked_on: Vec<TaskId>, now: Timestamp) -> TaskWhy {
        let (waits_for, next, at) = match &self.state {
            TaskState::Blocked { held_by } if held_by.is_empty() => {
                (TaskWaitsFor::Tasks(blocked_on), TaskNext::Starts, None)
            }
            TaskState::Blocked { held_by } => (TaskWaitsFor::Tasks(held_by.clone()), TaskNext::Stays, None),
            TaskState::Ready { .. } => {
                let whom = match self.spec.target() {
                    TaskTarget::Can(capability) => TaskWaitsFor::Capability(capability),
                    TaskTarget::Agent(agent) => TaskWaitsFor::Agent(agent),
                };
                (whom, TaskNext::IsTaken, None)
            }
            TaskState::Scheduled { due } => (TaskWaitsFor::Time, TaskNext::BecomesReady, Some(*due)),
            TaskState::Leased(lease) => {
                let last = self.attempt >= self.spec.attempts_max;
                let next = if last { TaskNext::IsGivenUp } else { TaskNext::ComesBack };
                (TaskWaitsFor::Agent(lease.by), next, self.lease_until(now))
            }
            TaskState::AwaitingApproval { approval } => {
                (TaskWaitsFor::Approval(approval.clone()), TaskNext::Stays, None)
            }
            TaskState::Done(_)
            | TaskState::Partial(_)
            | TaskState::Failed(_)
            | TaskState::Cancelled(_)
            | TaskState::Escalated(_) => (TaskWaitsFor::Nothing, TaskNext::Nothing, None),
        };
        TaskWhy { status: self.status(), waits_for, next, at }
    }

    /// When its lease ends at the latest, if its holder says nothing more. A heartbeat leaves no record, so a lease that
    /// should be over and is not was prolonged: then at most by its whole length from now.
    #[must_use]
    pub fn lease_until(&self, now: Timestamp) -> Option<Timestamp> {
        let lease = self.lease()?;
        let until = lease.since.plus_ms(lease.length_ms.get());
        Some(if until > now { until } else { now.plus_ms(lease.length_ms.get()) })
    }
}

#[cfg(test)]
mod tests;
