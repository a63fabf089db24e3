//! Tasks: work for one agent, or for whoever has a capability.
//!
//! A task is open (blocked, ready, scheduled, leased, awaiting approval) or over (done, partial, failed, cancelled,
//! escalated). It is worked on under a lease whose token is above every earlier one, so at most one end of it is ever
//! accepted. What was asked for never changes and is shared; what became of it is one of [`TaskState`].

mod counts;
mod ops;
mod why;

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;

use crate::ids::{AgentNo, MessageId, Seq, TaskId, Token};
use crate::item::Alarm;
use crate::message::Priority;
use crate::time::Timestamp;

pub use counts::{TaskCounts, TaskStatus};
pub use ops::{
    AwaitTask, CancelTask, ClaimTasks, CompleteTask, CreateTasks, Dependency, EscalateTo, FailTask,
    HeartbeatTask, NewTask, TaskLeaseRef,
};
pub use why::{TaskNext, TaskWaitsFor, TaskWhy};

/// The place of a task in the order in which tasks were made: its record, and which task of that record it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskNo {
    /// The record that made it.
    pub seq: Seq,
    /// Which task of that record, counted from 0.
    pub n: u32,
}

/// Who may take a task.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TaskTarget {
    /// Whoever has this capability.
    Can(Arc<str>),
    /// This agent only.
    Agent(AgentNo),
}

/// What a task does when one that it needs ends other than done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnDependencyFailure {
    /// It fails at once, naming the dependency, and so do those that need it.
    #[default]
    Fail,
    /// The dependency counts no longer: the task starts when all the others have ended, and says what is missing.
    Skip,
    /// It stays blocked, and says on what, until somebody cancels it.
    Wait,
}

crate::text_serde::serde_words!(OnDependencyFailure);

impl OnDependencyFailure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fail, Self::Skip, Self::Wait];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Skip => "skip",
            Self::Wait => "wait",
        }
    }
}

/// Who is told when a task is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Escalate {
    /// Nobody: the task fails.
    Nobody,
    /// Every agent whose role is coordinator. Without one, the task fails.
    #[default]
    Coordinators,
    /// This agent; the coordinators if it was removed meanwhile.
    To(AgentNo),
}

/// Where the input of a task lies within the record that made the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskInput {
    /// Which payload part. One part holds the inputs of all tasks that were made by one operation.
    pub part: u32,
    /// The first byte of the part.
    pub start: u64,
    /// How many bytes.
    pub length: u64,
}

/// A payload part of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartRef {
    /// The record.
    pub seq: Seq,
    /// Which part of it.
    pub part: u32,
}

/// What was asked for. Never changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskSpec {
    /// Its id, unique in the space for ever.
    pub id: TaskId,
    /// Its place in the order in which tasks were made.
    pub no: TaskNo,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it; `None` is the hub.
    pub creator: Option<AgentNo>,
    /// What it is about: the capability that it needs. May be empty if an agent is named.
    pub task_type: Arc<str>,
    /// The only agent that may take it.
    pub agent: Option<AgentNo>,
    /// Where its input lies; `None` if it has none.
    pub input: Option<TaskInput>,
    /// What the bytes of the input are; `None` is JSON.
    pub content_type: Option<String>,
    /// Which goes first.
    pub priority: Priority,
    /// What must be done before, each once, in the order named.
    pub depends_on: Vec<TaskId>,
    /// How long one try may take in all, however often its holder says that it is alive.
    pub timeout_ms: Option<NonZeroU64>,
    /// How long a lease lasts if the claim says nothing.
    pub lease_ms: NonZeroU64,
    /// How often it is tried.
    pub attempts_max: u16,
    /// How long to wait after the first failed try; twice as long after each further one, 16 times at most.
    pub backoff_ms: u64,
    /// What happens when a dependency ends other than done.
    pub on_dependency_failure: OnDependencyFailure,
    /// Who is told when it is given up.
    pub escalate: Escalate,
    /// The session it belongs to.
    pub session: Option<String>,
}

impl TaskSpec {
    /// Who may take it.
    #[must_use]
    pub fn target(&self) -> TaskTarget {
        match self.agent {
            Some(agent) => TaskTarget::Agent(agent),
            None => TaskTarget::Can(Arc::clone(&self.task_type)),
        }
    }

    /// How long to wait after so many tries: 1, 2, 4, 8, 16 times the first wait.
    #[must_use]
    pub fn backoff_after(&self, attempt: u16) -> u64 {
        self.backoff_ms << attempt.saturating_sub(1).min(4)
    }
}

/// A task: what was asked for, and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    /// What was asked for.
    pub spec: Arc<TaskSpec>,
    /// How often it was taken, without those who gave it back untouched.
    pub attempt: u16,
    /// Where it is.
    pub state: TaskState,
    /// How the last try ended that came to nothing.
    pub setback: Option<Box<Setback>>,
    /// What its holders had so far, oldest first; the newest few.
    pub partials: Vec<TaskPartial>,
    /// Dependencies that it had to do without.
    pub missing: Vec<TaskId>,
}

/// Where a task is. A task that is worked on always has a lease that ends.
#[derive(Clone, PartialEq, Debug)]
pub enum TaskState {
    /// Waits for others.
    Blocked {
        /// Dependencies that ended other than done and that it waits for nevertheless. Empty while one is still open.
        held_by: Vec<TaskId>,
    },
    /// Waiting to be taken.
    Ready {
        /// Since when.
        since: Timestamp,
    },
    /// Waiting for its time.
    Scheduled {
        /// Until when.
        due: Timestamp,
    },
    /// Worked on.
    Leased(TaskLease),
    /// Waits for a person. Nothing leads here yet.
    AwaitingApproval {
        /// The approval that it waits for.
        approval: String,
    },
    /// Done.
    Done(Box<Completion>),
    /// Ended with a part of the result. For those that need it, it is not done.
    Partial(Box<Completion>),
    /// Given up.
    Failed(GivenUp),
    /// Called off.
    Cancelled(Box<Cancellation>),
    /// Given up, and somebody was told.
    Escalated(Escalation),
}

/// The right to end a task, for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskLease {
    /// Who holds it.
    pub by: AgentNo,
    /// Its token: above every earlier one of the space.
    pub token: Token,
    /// How long it lasts, and each heartbeat anew. The deadline itself is kept in memory.
    pub length_ms: NonZeroU64,
    /// Since when the task had been ready.
    pub ready_since: Timestamp,
    /// Since when it is held.
    pub since: Timestamp,
}

/// An accepted end with a result.
#[derive(Clone, PartialEq, Debug)]
pub struct Completion {
    /// Who ended it.
    pub by: AgentNo,
    /// Under which lease: the one token that was accepted.
    pub token: Token,
    /// By which record.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// The result.
    pub result: Option<PartRef>,
    /// What the bytes of the result are; `None` is JSON.
    pub content_type: Option<String>,
    /// How sure its author is, 0 to 1.
    pub confidence: Option<f64>,
    /// Why its author says so.
    pub rationale: Option<String>,
}

/// The end of a task that came to nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenUp {
    /// By which record.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// The dependency because of which; `None` if its own tries came to nothing.
    pub because_of: Option<TaskId>,
}

/// A task that somebody called off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cancellation {
    /// By which record.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// Who called it off; `None` is the hub.
    pub by: Option<AgentNo>,
    /// Why.
    pub reason: String,
    /// The lease that it ended, so that its holder is told what happened.
    pub token: Option<Token>,
}

/// A task that was handed to a coordinator or a person, as a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Escalation {
    /// When.
    pub at: Timestamp,
    /// The message, in the record that gave the task up.
    pub message: MessageId,
}

/// Why a try came to nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetbackKind {
    /// Its holder failed; another try may help.
    Failed,
    /// Its holder failed, and another try would not help.
    Hopeless,
    /// It took longer than a try may take.
    TimedOut,
    /// Its lease ran out.
    Lapsed,
    /// Its holder was started again, removed, or went offline.
    HolderGone,
}

impl SetbackKind {
    /// The word in exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Hopeless => "hopeless",
            Self::TimedOut => "timed out",
            Self::Lapsed => "lapsed",
            Self::HolderGone => "holder gone",
        }
    }
}

/// A try that came to nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setback {
    /// Why.
    pub kind: SetbackKind,
    /// Whose try it was: the next one should be somebody else's.
    pub by: AgentNo,
    /// Under which lease; 0 once a later one was given back untouched: then nobody may say the same again.
    pub token: Token,
    /// The how many-th try it was.
    pub attempt: u16,
    /// By which record.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// What its holder said.
    pub reason: String,
    /// What its holder left for whoever looks into it.
    pub details: Option<PartRef>,
}

/// What the holder of a task had at some point of its try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskPartial {
    /// Whose try: the how many-th.
    pub attempt: u16,
    /// When.
    pub at: Timestamp,
    /// Where it lies.
    pub part: PartRef,
}

/// A task as it is handed over, leased.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskHanded {
    /// The task. Its state is the lease.
    pub task: Task,
    /// Its input, if it is at hand; else it is read from the log.
    pub input: Option<Bytes>,
}

/// Why the holder of a task holds it no longer, without having ended it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskLoss {
    /// The task was called off.
    Cancelled,
    /// The try took too long.
    TimedOut,
    /// The lease ran out.
    Lapsed,
    /// The holder was started again, removed, or went offline.
    HolderGone,
}

/// Tells the alarm of a whole try from the alarm of its lease, both of which belong to one token.
pub(crate) const TRY_ALARM: u64 = 1 << 63;

impl Task {
    /// Where it is, as a word.
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        self.state.status()
    }

    /// The lease under which it is held.
    #[must_use]
    pub fn lease(&self) -> Option<&TaskLease> {
        match &self.state {
            TaskState::Leased(lease) => Some(lease),
            _ => None,
        }
    }

    /// The one token under which its end was accepted.
    #[must_use]
    pub fn accepted_token(&self) -> Option<Token> {
        match &self.state {
            TaskState::Done(end) | TaskState::Partial(end) => Some(end.token),
            _ => None,
        }
    }

    /// Why it got no further: why it was called off, what it needs and will not get, or what became of its last try.
    #[must_use]
    pub fn reason(&self) -> Option<Cow<'_, str>> {
        let said = match &self.state {
            TaskState::Cancelled(end) => &end.reason,
            TaskState::Failed(GivenUp { because_of: Some(id), .. }) => {
                return Some(format!("it needs {id}, which came to nothing").into());
            }
            _ => &self.setback.as_ref()?.reason,
        };
        (!said.is_empty()).then_some(Cow::Borrowed(said))
    }

    /// Who should not be the next to try, if there is anybody else.
    pub(crate) fn avoids(&self) -> Option<AgentNo> {
        self.setback.as_ref().map(|setback| setback.by)
    }

    /// When time alone will change it.
    pub(crate) fn alarms(&self) -> Vec<Alarm> {
        match &self.state {
            TaskState::Scheduled { due } => vec![Alarm::At { part: 0, time: *due }],
            TaskState::Leased(lease) => {
                let token = lease.token.0;
                let mut alarms = vec![Alarm::After { part: token, length_ms: lease.length_ms.get() }];
                alarms.extend(
                    self.spec
                        .timeout_ms
                        .map(|timeout| Alarm::After { part: token | TRY_ALARM, length_ms: timeout.get() }),
                );
                alarms
            }
            TaskState::Blocked { .. }
            | TaskState::Ready { .. }
            | TaskState::AwaitingApproval { .. }
            | TaskState::Done(_)
            | TaskState::Partial(_)
            | TaskState::Failed(_)
            | TaskState::Cancelled(_)
            | TaskState::Escalated(_) => Vec::new(),
        }
    }
}

impl TaskState {
    /// The word for it.
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        match self {
            Self::Blocked { .. } => TaskStatus::Blocked,
            Self::Ready { .. } => TaskStatus::Ready,
            Self::Scheduled { .. } => TaskStatus::Scheduled,
            Self::Leased(_) => TaskStatus::Leased,
            Self::AwaitingApproval { .. } => TaskStatus::AwaitingApproval,
            Self::Done(_) => TaskStatus::Done,
            Self::Partial(_) => TaskStatus::Partial,
            Self::Failed(_) => TaskStatus::Failed,
            Self::Cancelled(_) => TaskStatus::Cancelled,
            Self::Escalated(_) => TaskStatus::Escalated,
        }
    }
}

impl TaskHanded {
    /// The lease under which it is held.
    #[must_use]
    pub fn lease_ref(&self) -> TaskLeaseRef {
        let token = self.task.lease().map_or(Token(0), |lease| lease.token);
        TaskLeaseRef { task: self.task.spec.id.clone(), token }
    }
}

impl TaskLoss {
    /// What happened, in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed out",
            Self::Lapsed => "lapsed",
            Self::HolderGone => "holder gone",
        }
    }
}
