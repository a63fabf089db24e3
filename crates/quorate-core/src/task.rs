//! Tasks: work for one agent, or for any agent with a capability.
//!
//! A task is open (blocked, ready, scheduled, leased, awaiting approval) or ended (done, partial, failed, cancelled,
//! escalated). Work on it requires a lease whose token is higher than every earlier one, so at most one completion is
//! accepted. The specification is immutable and shared; the progress is a [`TaskState`].

mod ops;
mod status;
mod why;

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;

use crate::ids::{AgentNo, LeaseToken, MessageId, Seq, TaskId};
use crate::item::ItemTimer;
use crate::message::Priority;
use crate::time::Timestamp;

pub use ops::{
    AwaitTask, CancelTask, ClaimTasks, CompleteTask, CreateTasks, Dependency, EscalateTo, FailTask,
    HeartbeatTask, NewTask, TaskLeaseRef,
};
pub use status::{TaskCounts, TaskStatus};
pub use why::{TaskNext, TaskWaitsFor, TaskWhy};

/// The position of a task in creation order: its record, and its index within the record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskNo {
    /// The record that created it.
    pub seq: Seq,
    /// Index within the record, starting at 0.
    pub n: u32,
}

/// The agents that may claim a task.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TaskTarget {
    /// Any agent with this capability.
    Can(Arc<str>),
    /// This agent only.
    Agent(AgentNo),
}

/// Behaviour of a task when one of its dependencies ends in a state other than done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnDependencyFailure {
    /// Fail immediately, naming the dependency; its own dependents fail likewise.
    #[default]
    Fail,
    /// Ignore the dependency: start when all others have ended, and list it as missing.
    Skip,
    /// Stay blocked until cancelled.
    Wait,
}

crate::text_serde::serde_names!(OnDependencyFailure);

impl OnDependencyFailure {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Fail, Self::Skip, Self::Wait];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Skip => "skip",
            Self::Wait => "wait",
        }
    }
}

/// The recipients of an escalation when a task fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EscalationTarget {
    /// No escalation: the task fails.
    Nobody,
    /// Every agent with role coordinator. If there is none, the task fails.
    #[default]
    Coordinators,
    /// This agent; the coordinators if it has been removed.
    Agent(AgentNo),
}

/// Location of a task's input within the record that created the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskInput {
    /// Index of the payload part. One part contains the inputs of all tasks created by one operation.
    pub part: u32,
    /// Offset of the first byte.
    pub start: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Reference to a payload part of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartRef {
    /// Sequence number of the record.
    pub seq: Seq,
    /// Index of the part.
    pub part: u32,
}

/// The immutable specification of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskSpec {
    /// Id, unique in the space forever.
    pub id: TaskId,
    /// Position in creation order.
    pub number: TaskNo,
    /// Time of creation.
    pub created_at: Timestamp,
    /// The creating agent; `None` is the hub.
    pub creator: Option<AgentNo>,
    /// Task type. A claim without types matches it by the capabilities of the agent. May be empty if an agent is named.
    pub task_type: Arc<str>,
    /// The only agent that may claim it.
    pub agent: Option<AgentNo>,
    /// Location of its input, if it has one.
    pub input: Option<TaskInput>,
    /// Media type of the input; `None` is JSON.
    pub content_type: Option<String>,
    /// Order among ready tasks.
    pub priority: Priority,
    /// Tasks that must be done first, without duplicates, in the given order.
    pub depends_on: Vec<TaskId>,
    /// Maximum duration of one attempt, regardless of heartbeats.
    pub timeout_ms: Option<NonZeroU64>,
    /// Default lease duration, unless the claim specifies one.
    pub lease_ms: NonZeroU64,
    /// Maximum number of attempts.
    pub attempts_max: u16,
    /// Backoff after the first failed attempt; doubles with each further one, up to 16 times.
    pub backoff_ms: u64,
    /// Behaviour when a dependency ends in a state other than done.
    pub on_dependency_failure: OnDependencyFailure,
    /// Recipients of the escalation when it fails.
    pub escalate: EscalationTarget,
    /// Session that it belongs to.
    pub session: Option<String>,
}

impl TaskSpec {
    /// Returns the agents that may claim it.
    #[must_use]
    pub fn target(&self) -> TaskTarget {
        match self.agent {
            Some(agent) => TaskTarget::Agent(agent),
            None => TaskTarget::Can(Arc::clone(&self.task_type)),
        }
    }

    /// Returns the backoff after this many attempts: 1, 2, 4, 8, 16 times the first.
    #[must_use]
    pub fn backoff_after(&self, attempt: u16) -> u64 {
        self.backoff_ms << attempt.saturating_sub(1).min(4)
    }
}

/// A task: its specification and its progress.
#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    /// The immutable specification.
    pub spec: Arc<TaskSpec>,
    /// Number of attempts so far; releases do not count.
    pub attempt: u16,
    /// Current state.
    pub state: TaskState,
    /// The last failed attempt.
    pub last_failure: Option<Box<AttemptFailure>>,
    /// The most recent partial results, oldest first.
    pub partials: Vec<TaskPartial>,
    /// Dependencies that were skipped because they failed.
    pub missing: Vec<TaskId>,
}

/// The state of a task. Work on a task always has a lease, which expires.
#[derive(Clone, PartialEq, Debug)]
pub enum TaskState {
    /// Waits for its dependencies.
    Blocked {
        /// Failed dependencies that it keeps waiting for. Empty while a dependency is still open.
        held_by: Vec<TaskId>,
    },
    /// Can be claimed.
    Ready {
        /// Start of this state.
        since: Timestamp,
    },
    /// Waits for its scheduled time.
    Scheduled {
        /// Time at which it becomes ready.
        due: Timestamp,
    },
    /// Claimed by an agent.
    Leased(TaskLease),
    /// Waits for an approval. Not reachable yet.
    AwaitingApproval {
        /// Id of the approval.
        approval: String,
    },
    /// Ended with a result.
    Done(Box<Completion>),
    /// Ended with a partial result. Dependents do not count it as done.
    Partial(Box<Completion>),
    /// Failed: all attempts were used, or a dependency failed.
    Failed(TaskFailure),
    /// Cancelled.
    Cancelled(Box<Cancellation>),
    /// Failed, and a coordinator or agent was notified.
    Escalated(Escalation),
}

/// The exclusive, time-limited right to work on a task and to end it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskLease {
    /// The holder.
    pub by: AgentNo,
    /// Lease token, higher than every earlier one of the space.
    pub token: LeaseToken,
    /// Duration, restarted by each heartbeat. The deadline itself is held in memory.
    pub length_ms: NonZeroU64,
    /// Time at which the task had become ready.
    pub ready_since: Timestamp,
    /// Time of the claim.
    pub since: Timestamp,
}

/// An accepted completion.
#[derive(Clone, PartialEq, Debug)]
pub struct Completion {
    /// The agent that completed it.
    pub by: AgentNo,
    /// Token of the lease under which it was completed.
    pub token: LeaseToken,
    /// The record of this change.
    pub seq: Seq,
    /// Time of this change.
    pub at: Timestamp,
    /// Result, if any.
    pub result: Option<PartRef>,
    /// Media type of the result; `None` is JSON.
    pub content_type: Option<String>,
    /// Confidence of the author, 0 to 1.
    pub confidence: Option<f64>,
    /// Rationale of the author.
    pub rationale: Option<String>,
}

/// The failed end of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskFailure {
    /// The record of this change.
    pub seq: Seq,
    /// Time of this change.
    pub at: Timestamp,
    /// The failed dependency that caused it; `None` if its own attempts failed.
    pub failed_dependency: Option<TaskId>,
}

/// The cancellation of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cancellation {
    /// The record of this change.
    pub seq: Seq,
    /// Time of this change.
    pub at: Timestamp,
    /// The cancelling agent; `None` is the hub.
    pub by: Option<AgentNo>,
    /// Reason given; may be empty.
    pub reason: String,
    /// Token of the lease that it ended, so that the former holder gets a specific error.
    pub token: Option<LeaseToken>,
}

/// The escalation of a failed task to a coordinator or agent by a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Escalation {
    /// Time of this change.
    pub at: Timestamp,
    /// The escalation message, in the record that failed the task.
    pub message: MessageId,
}

/// The cause of a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptFailureKind {
    /// The holder reported a recoverable failure.
    Failed,
    /// The holder reported a permanent failure; it is not retried.
    Permanent,
    /// The attempt exceeded its timeout.
    TimedOut,
    /// The lease expired.
    LeaseExpired,
    /// The holder re-registered or was removed. In older logs also: it went offline.
    HolderGone,
}

impl AttemptFailureKind {
    /// The name in exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Permanent => "hopeless",
            Self::TimedOut => "timed out",
            Self::LeaseExpired => "lapsed",
            Self::HolderGone => "holder gone",
        }
    }
}

/// A failed attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptFailure {
    /// Cause of the failure.
    pub kind: AttemptFailureKind,
    /// The agent that attempted it; another agent is preferred for the next attempt.
    pub by: AgentNo,
    /// Token of its lease; 0 once a later lease was released, so that the report can no longer be replayed.
    pub token: LeaseToken,
    /// Attempt number, starting at 1.
    pub attempt: u16,
    /// The record of this change.
    pub seq: Seq,
    /// Time of this change.
    pub at: Timestamp,
    /// Reason reported by the holder.
    pub reason: String,
    /// Diagnostic details from the holder.
    pub details: Option<PartRef>,
}

impl AttemptFailure {
    /// The reason that the holder reported, or else a description of the cause; `None` for a report without a reason.
    #[must_use]
    pub fn explanation(&self, spec: &TaskSpec) -> Option<Cow<'_, str>> {
        if !self.reason.is_empty() {
            return Some(Cow::Borrowed(&self.reason));
        }
        let attempt = self.attempt;
        match self.kind {
            AttemptFailureKind::Failed | AttemptFailureKind::Permanent => None,
            AttemptFailureKind::TimedOut => {
                let limit_ms = spec.timeout_ms.map_or(0, NonZeroU64::get);
                Some(format!("attempt {attempt} exceeded its time limit of {limit_ms} ms").into())
            }
            AttemptFailureKind::LeaseExpired => {
                Some(format!("the lease of attempt {attempt} expired without a heartbeat").into())
            }
            AttemptFailureKind::HolderGone => {
                Some(format!("the holder of attempt {attempt} registered again or was removed").into())
            }
        }
    }
}

/// A partial result reported during an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskPartial {
    /// Attempt number, starting at 1.
    pub attempt: u16,
    /// Time of this change.
    pub at: Timestamp,
    /// Location of the bytes.
    pub part: PartRef,
}

/// A task as delivered to its holder, leased.
#[derive(Clone, PartialEq, Debug)]
pub struct LeasedTask {
    /// The task, in state [`TaskState::Leased`].
    pub task: Task,
    /// Its input if it is in memory; otherwise it is read from the log.
    pub input: Option<Bytes>,
}

/// The reason why a holder lost its lease without ending the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseLoss {
    /// The task was cancelled.
    Cancelled,
    /// The attempt exceeded its timeout.
    TimedOut,
    /// The lease expired.
    LeaseExpired,
    /// The holder re-registered or was removed. In older logs also: it went offline.
    HolderGone,
}

/// Flag that distinguishes the attempt's timer from the lease's timer; both belong to one token.
pub(crate) const ATTEMPT_TIMER: u64 = 1 << 63;

impl Task {
    /// The status of its current state.
    #[must_use]
    pub fn status(&self) -> TaskStatus {
        self.state.status()
    }

    /// The current lease.
    #[must_use]
    pub fn lease(&self) -> Option<&TaskLease> {
        match &self.state {
            TaskState::Leased(lease) => Some(lease),
            _ => None,
        }
    }

    /// The lease token of the accepted completion.
    #[must_use]
    pub fn accepted_token(&self) -> Option<LeaseToken> {
        match &self.state {
            TaskState::Done(end) | TaskState::Partial(end) => Some(end.token),
            _ => None,
        }
    }

    /// The reason why it did not succeed: cancellation, a failed dependency, or the last failed attempt.
    #[must_use]
    pub fn reason(&self) -> Option<Cow<'_, str>> {
        let reason = match &self.state {
            TaskState::Cancelled(end) => &end.reason,
            TaskState::Failed(TaskFailure { failed_dependency: Some(id), .. }) => {
                return Some(format!("its dependency {id} failed").into());
            }
            _ => return self.last_failure.as_ref()?.explanation(&self.spec),
        };
        (!reason.is_empty()).then_some(Cow::Borrowed(reason))
    }

    /// The agent that should not make the next attempt if another is available.
    pub(crate) fn avoided_agent(&self) -> Option<AgentNo> {
        self.last_failure.as_ref().map(|failure| failure.by)
    }

    /// Returns its timers.
    pub(crate) fn timers(&self) -> Vec<ItemTimer> {
        match &self.state {
            TaskState::Scheduled { due } => vec![ItemTimer::At { part: 0, time: *due }],
            TaskState::Leased(lease) => {
                let token = lease.token.0;
                let mut timers = vec![ItemTimer::After { part: token, length_ms: lease.length_ms.get() }];
                timers.extend(self.spec.timeout_ms.map(|timeout| ItemTimer::After {
                    part: token | ATTEMPT_TIMER,
                    length_ms: timeout.get(),
                }));
                timers
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
    /// The status without its data.
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

impl LeasedTask {
    /// The current lease.
    #[must_use]
    pub fn lease_ref(&self) -> TaskLeaseRef {
        let token = self.task.lease().map_or(LeaseToken(0), |lease| lease.token);
        TaskLeaseRef { task: self.task.spec.id.clone(), token }
    }
}

impl LeaseLoss {
    /// The name in exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed out",
            Self::LeaseExpired => "lapsed",
            Self::HolderGone => "holder gone",
        }
    }
}
