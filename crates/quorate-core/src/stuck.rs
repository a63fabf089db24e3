//! Work that waits for agents that are gone, or that do not exist.

use crate::ids::{AgentId, LockName, TaskId};
use crate::time::Timestamp;
use crate::why::format_time_of_day;

/// Work that no agent will do soon, with the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StuckWork {
    /// What waits.
    pub subject: StuckSubject,
    /// Number of tasks, messages or requests that wait.
    pub waiting: usize,
    /// Since when the first of them waits, if known.
    pub since: Option<Timestamp>,
    /// The agents that could do the work, or that hold the lock, and are gone. Empty if there are none.
    pub absent: Vec<AbsentAgent>,
}

/// What waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StuckSubject {
    /// Ready tasks of a type that no agent can do.
    TaskType {
        /// The type, which is the required capability.
        capability: String,
        /// The oldest of the tasks.
        first: TaskId,
    },
    /// Ready tasks for an agent that is gone.
    TasksOfAgent {
        /// The agent.
        agent: AgentId,
        /// The oldest of the tasks.
        first: TaskId,
    },
    /// Messages for a capability that no agent has.
    Capability(String),
    /// Messages in the inbox of an agent that is gone.
    Inbox(AgentId),
    /// Requests for a lock whose holders are all gone.
    Lock {
        /// Name of the lock.
        name: LockName,
        /// Time at which the first grant ends.
        until: Option<Timestamp>,
    },
}

/// An agent that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AbsentAgent {
    /// The agent.
    pub agent: AgentId,
    /// Time at which its last connection was closed, if it is not offline yet.
    pub disconnected_at: Option<Timestamp>,
}

impl AbsentAgent {
    /// Describes how the agent is gone, such as `bob disconnected 14 s ago`.
    #[must_use]
    pub fn describe(&self, now: Timestamp) -> String {
        match self.disconnected_at {
            Some(at) => format!("{} disconnected {} s ago", self.agent, now.0.saturating_sub(at.0) / 1000),
            None => format!("{} is offline", self.agent),
        }
    }
}

impl StuckWork {
    /// The name of the subject, such as `task type review` or `lock web`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.subject {
            StuckSubject::TaskType { capability, .. } => format!("task type {capability}"),
            StuckSubject::TasksOfAgent { agent, .. } => format!("tasks of {agent}"),
            StuckSubject::Capability(capability) => format!("can:{capability}"),
            StuckSubject::Inbox(agent) => agent.to_string(),
            StuckSubject::Lock { name, .. } => format!("lock {name}"),
        }
    }

    /// Describes what waits, and why.
    #[must_use]
    pub fn reason(&self, now: Timestamp) -> String {
        let count = |noun: &str| {
            let plural = if self.waiting == 1 { " waits" } else { "s wait" };
            format!("{} {noun}{plural}", self.waiting)
        };
        let absent: Vec<_> = self.absent.iter().map(|absent| absent.describe(now)).collect();
        let absent = absent.join(", ");
        let nobody = |capability: &str| match self.absent.is_empty() {
            true => format!("no agent has the capability {capability}"),
            false => absent.clone(),
        };
        match &self.subject {
            StuckSubject::TaskType { capability, .. } => {
                format!("{}, {}", nobody(capability), count("task"))
            }
            StuckSubject::Capability(capability) => format!("{}, {}", nobody(capability), count("message")),
            StuckSubject::TasksOfAgent { .. } => format!("{absent}, {}", count("task")),
            StuckSubject::Inbox(_) => format!("{absent}, {}", count("message")),
            StuckSubject::Lock { until, .. } => {
                let until = until.map_or(String::new(), |until| {
                    format!("; its grant ends at {} unless it is renewed", format_time_of_day(until, now))
                });
                format!("its holder {absent}, {}{until}", count("request"))
            }
        }
    }
}
