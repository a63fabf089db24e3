//! Work that waits for agents that are gone, or that do not exist.

use crate::ids::{AgentId, LockName, ProcedureId, TaskId};
use crate::presence::AbsentAgent;
use crate::time::Timestamp;
use crate::why::format_time_of_day;

/// Work that no agent will do soon, with the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StuckWork {
    /// What waits.
    pub subject: StuckSubject,
    /// Number of tasks, messages, locks, requests or procedures.
    pub waiting: usize,
    /// Since when the first of them waits, if known.
    pub since: Option<Timestamp>,
    /// The agents that could do the work, or that hold it, and are gone. Empty if there are none.
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
    /// Tasks that stay blocked until they are cancelled, because a dependency did not succeed.
    Dependency {
        /// The dependency.
        task: TaskId,
        /// The oldest of the blocked tasks.
        first: TaskId,
    },
    /// Running procedures whose driver is gone.
    Procedures {
        /// The driver.
        driver: AgentId,
        /// The first of the procedures, by id.
        first: ProcedureId,
    },
    /// Running procedures that wait for an answer or a task of an agent that is gone, or of a capability that no agent has.
    ProcedureWaits {
        /// The agent, or a capability such as `can:sum`.
        on: String,
        /// The first of the procedures, by id.
        first: ProcedureId,
    },
    /// What an agent holds that is gone, except locks with a queue, which are listed by name.
    Held {
        /// The holder.
        agent: AgentId,
        /// How much of what it holds.
        count: HeldCount,
        /// The oldest of the tasks.
        first_task: Option<TaskId>,
        /// The first of the locks, by name.
        first_lock: Option<LockName>,
        /// Time at which the first lease or grant ends, unless there are too many to say.
        until: Option<Timestamp>,
    },
}

/// How many tasks, messages and locks an agent holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeldCount {
    /// Number of tasks.
    pub tasks: usize,
    /// Number of messages.
    pub messages: usize,
    /// Number of locks.
    pub locks: usize,
}

impl HeldCount {
    /// The sum.
    #[must_use]
    pub fn total(self) -> usize {
        self.tasks + self.messages + self.locks
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
            StuckSubject::Dependency { task, .. } => format!("dependency {task}"),
            StuckSubject::Procedures { driver, .. } => format!("procedures of {driver}"),
            StuckSubject::ProcedureWaits { on, .. } => format!("procedures that wait for {on}"),
            StuckSubject::Held { agent, .. } => format!("held by {agent}"),
        }
    }

    /// Time at which the first lease or grant ends, if it is known and the work waits for that.
    #[must_use]
    pub fn until(&self) -> Option<Timestamp> {
        match &self.subject {
            StuckSubject::Lock { until, .. } | StuckSubject::Held { until, .. } => *until,
            StuckSubject::TaskType { .. }
            | StuckSubject::TasksOfAgent { .. }
            | StuckSubject::Capability(_)
            | StuckSubject::Inbox(_)
            | StuckSubject::Dependency { .. }
            | StuckSubject::Procedures { .. }
            | StuckSubject::ProcedureWaits { .. } => None,
        }
    }

    /// The oldest of the tasks.
    #[must_use]
    pub fn first_task(&self) -> Option<&TaskId> {
        match &self.subject {
            StuckSubject::TaskType { first, .. }
            | StuckSubject::TasksOfAgent { first, .. }
            | StuckSubject::Dependency { first, .. } => Some(first),
            StuckSubject::Held { first_task, .. } => first_task.as_ref(),
            StuckSubject::Capability(_)
            | StuckSubject::Inbox(_)
            | StuckSubject::Lock { .. }
            | StuckSubject::Procedures { .. }
            | StuckSubject::ProcedureWaits { .. } => None,
        }
    }

    /// The first of the procedures, by id.
    #[must_use]
    pub fn first_procedure(&self) -> Option<&ProcedureId> {
        match &self.subject {
            StuckSubject::Procedures { first, .. } | StuckSubject::ProcedureWaits { first, .. } => {
                Some(first)
            }
            StuckSubject::TaskType { .. }
            | StuckSubject::TasksOfAgent { .. }
            | StuckSubject::Capability(_)
            | StuckSubject::Inbox(_)
            | StuckSubject::Lock { .. }
            | StuckSubject::Dependency { .. }
            | StuckSubject::Held { .. } => None,
        }
    }

    /// Describes what waits, and why.
    #[must_use]
    pub fn reason(&self, now: Timestamp) -> String {
        let absent: Vec<_> = self.absent.iter().map(|absent| absent.describe_with_age(now)).collect();
        let absent = absent.join(", ");
        let nobody = |capability: &str| match self.absent.is_empty() {
            true => format!("no agent has the capability {capability}"),
            false => absent.clone(),
        };
        let waiting = |noun: &str| {
            let plural = if self.waiting == 1 { " waits" } else { "s wait" };
            format!("{} {noun}{plural}", self.waiting)
        };
        match &self.subject {
            StuckSubject::TaskType { capability, .. } => {
                format!("{}, {}", nobody(capability), waiting("task"))
            }
            StuckSubject::Capability(capability) => format!("{}, {}", nobody(capability), waiting("message")),
            StuckSubject::TasksOfAgent { .. } => format!("{absent}, {}", waiting("task")),
            StuckSubject::Inbox(_) => format!("{absent}, {}", waiting("message")),
            StuckSubject::Lock { until, .. } => {
                let until = until.map_or(String::new(), |until| {
                    format!("; its grant ends at {} unless it is renewed", format_time_of_day(until, now))
                });
                format!("its holder {absent}, {}{until}", waiting("request"))
            }
            StuckSubject::Dependency { task, .. } => {
                let stay = if self.waiting == 1 { "task stays" } else { "tasks stay" };
                format!("{task} did not succeed, {} {stay} blocked until cancelled", self.waiting)
            }
            StuckSubject::Procedures { .. } => format!("{absent}, {}", waiting("procedure")),
            StuckSubject::ProcedureWaits { on, first } => {
                let capability = on.strip_prefix("can:").unwrap_or(on);
                let others = if self.waiting == 1 { "" } else { ", the first is" };
                format!("{}, {}{others} {first}", nobody(capability), waiting("procedure"))
            }
            StuckSubject::Held { count, first_lock, .. } => {
                let held = describe_held(*count, first_lock.as_ref());
                let first = if self.waiting == 1 { "" } else { ", the first" };
                let until = self.until();
                let until = until.map_or(String::new(), |until| {
                    format!("{first} until {}", format_time_of_day(until, now))
                });
                format!("{absent}, holds {held}{until}")
            }
        }
    }
}

/// Describes what an agent holds, such as `2 tasks, 1 message and lock web`.
fn describe_held(count: HeldCount, first_lock: Option<&LockName>) -> String {
    let counted = |count: usize, noun: &str| match count {
        0 => None,
        1 => Some(format!("1 {noun}")),
        count => Some(format!("{count} {noun}s")),
    };
    let locks = match (count.locks, first_lock) {
        (1, Some(name)) => Some(format!("lock {name}")),
        (count, _) => counted(count, "lock"),
    };
    let mut parts: Vec<_> = [counted(count.tasks, "task"), counted(count.messages, "message"), locks]
        .into_iter()
        .flatten()
        .collect();
    let last = parts.pop().unwrap_or_default();
    if parts.is_empty() { last } else { format!("{} and {last}", parts.join(", ")) }
}
