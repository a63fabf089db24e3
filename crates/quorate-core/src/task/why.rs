//! Explanation of a task's state: what it waits for, what happens next, and when.

use std::sync::Arc;

use crate::ids::{AgentNo, TaskId};
use crate::task::{Task, TaskState, TaskStatus, TaskTarget};
use crate::time::Timestamp;

/// Explanation of a task's state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskWhy {
    /// Current status.
    pub status: TaskStatus,
    /// The condition or agent it waits for.
    pub waits_for: TaskWaitsFor,
    /// The next event if no agent acts.
    pub next: TaskNext,
    /// Latest time of the next event; `None` if no timer triggers it.
    pub at: Option<Timestamp>,
}

/// The condition that a task waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskWaitsFor {
    /// Nothing: it has ended.
    Nothing,
    /// These dependencies, which are open, or failed and still waited for.
    Tasks(Vec<TaskId>),
    /// A claim by an agent with this capability.
    Capability(Arc<str>),
    /// This agent, to claim it or to end it.
    Agent(AgentNo),
    /// Its scheduled time.
    Time,
    /// A decision on this approval.
    Approval(String),
}

/// The next event of a task if no agent acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskNext {
    /// No event is pending.
    Nothing,
    /// It starts when all its dependencies are done.
    Starts,
    /// It stays in this state until cancelled.
    Stays,
    /// An eligible agent claims it.
    IsClaimed,
    /// It becomes ready.
    BecomesReady,
    /// It is redelivered.
    IsRedelivered,
    /// It fails: this is its last attempt.
    Fails,
}

impl Task {
    /// Explains its state. `blocked_on` are the unfinished dependencies that it waits for.
    #[must_use]
    pub fn why(&self, blocked_on: Vec<TaskId>, now: Timestamp) -> TaskWhy {
        let (waits_for, next, at) = match &self.state {
            TaskState::Blocked { held_by } if held_by.is_empty() => {
                (TaskWaitsFor::Tasks(blocked_on), TaskNext::Starts, None)
            }
            TaskState::Blocked { held_by } => (TaskWaitsFor::Tasks(held_by.clone()), TaskNext::Stays, None),
            TaskState::Ready { .. } => {
                let claimant = match self.spec.target() {
                    TaskTarget::Can(capability) => TaskWaitsFor::Capability(capability),
                    TaskTarget::Agent(agent) => TaskWaitsFor::Agent(agent),
                };
                (claimant, TaskNext::IsClaimed, None)
            }
            TaskState::Scheduled { due } => (TaskWaitsFor::Time, TaskNext::BecomesReady, Some(*due)),
            TaskState::Leased(lease) => {
                let last = self.attempt >= self.spec.attempts_max;
                let next = if last { TaskNext::Fails } else { TaskNext::IsRedelivered };
                (TaskWaitsFor::Agent(lease.by), next, self.lease_expires_at(now))
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

    /// Returns the latest expiry of its lease without further heartbeats. Heartbeats write no record, so a lease past its
    /// recorded expiry must have been extended: then it ends at most one lease duration from now.
    #[must_use]
    pub fn lease_expires_at(&self, now: Timestamp) -> Option<Timestamp> {
        let lease = self.lease()?;
        let expires_at = lease.since.plus_ms(lease.length_ms.get());
        Some(if expires_at > now { expires_at } else { now.plus_ms(lease.length_ms.get()) })
    }
}

#[cfg(test)]
mod tests;
