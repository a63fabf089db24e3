//! Items: resources that are stored as one row each. An item changes by a single effect, `Changed`, which contains its
//! complete new state and a verb for the kind of change; applying it replaces the stored state.
//!
//! A kind of item consists of a struct with its state, its encoding in `codec/item/`, its indexes in `working/` and its
//! rules in `decide/`. Stores know none of that: they store bytes under a kind and an id.

use std::sync::Arc;

use crate::access_token::{AccessToken, TokenState};
use crate::approval::Approval;
use crate::budget::Budget;
use crate::lock::Lock;
use crate::policy::ActivePolicy;
use crate::pool::Pool;
use crate::procedure::Procedure;
use crate::request::Request;
use crate::session::Session;
use crate::snapshot::{Snapshot, SnapshotState};
use crate::subscription::{Subscription, SubscriptionState};
use crate::task::Task;
use crate::time::Timestamp;

/// The kind of an item. The numbers never change: they are part of the log and of row keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ItemKind {
    /// Policy of the space.
    Policy,
    /// Request: a message whose sender waits for replies.
    Request,
    /// Task for an agent or a capability.
    Task,
    /// Lock with fencing tokens.
    Lock,
    /// Session.
    Session,
    /// Budget of a chain of messages.
    Budget,
    /// Subscription of an agent to topics.
    Subscription,
    /// Pool: the shared queue of a capability.
    Pool,
    /// Named position in the history of the shared memory.
    Snapshot,
    /// Access token.
    Token,
    /// Procedure: a protocol of several steps.
    Procedure,
    /// Approval of a proposed action.
    Approval,
}

impl ItemKind {
    /// All kinds.
    pub const ALL: &[Self] = &[
        Self::Policy,
        Self::Lock,
        Self::Session,
        Self::Task,
        Self::Snapshot,
        Self::Budget,
        Self::Subscription,
        Self::Pool,
        Self::Request,
        Self::Token,
        Self::Procedure,
        Self::Approval,
    ];

    /// The stored number. Never changes.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Policy => 1,
            Self::Lock => 5,
            Self::Session => 6,
            Self::Task => 4,
            Self::Snapshot => 8,
            Self::Budget => 7,
            Self::Subscription => 2,
            Self::Pool => 12,
            Self::Request => 3,
            Self::Token => 9,
            Self::Procedure => 10,
            Self::Approval => 11,
        }
    }

    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.number() == number)
    }

    /// The name in exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Lock => "lock",
            Self::Session => "session",
            Self::Task => "task",
            Self::Snapshot => "snapshot",
            Self::Budget => "budget",
            Self::Subscription => "subscription",
            Self::Pool => "pool",
            Self::Request => "request",
            Self::Token => "token",
            Self::Procedure => "procedure",
            Self::Approval => "approval",
        }
    }
}

// By number, the order of row keys.
impl Ord for ItemKind {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.number().cmp(&other.number())
    }
}

impl PartialOrd for ItemKind {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Key of an item. Ids are unique within a kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemKey {
    /// Kind of the item.
    pub kind: ItemKind,
    /// Id within the kind.
    pub id: Arc<str>,
}

impl ItemKey {
    /// Creates a key.
    #[must_use]
    pub fn new(kind: ItemKind, id: impl Into<Arc<str>>) -> Self {
        Self { kind, id: id.into() }
    }
}

/// The state of an item.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// Policy of the space.
    Policy(ActivePolicy),
    /// Lock with fencing tokens.
    Lock(Lock),
    /// Session.
    Session(Session),
    /// Task for an agent or a capability.
    Task(Task),
    /// Named position in the history of the shared memory.
    Snapshot(Snapshot),
    /// Budget of a chain of messages.
    Budget(Budget),
    /// Subscription of an agent to topics.
    Subscription(Box<Subscription>),
    /// Pool: the shared queue of a capability.
    Pool(Pool),
    /// Request: a message whose sender waits for replies.
    Request(Request),
    /// Access token.
    Token(Arc<AccessToken>),
    /// Procedure: a protocol of several steps.
    Procedure(Procedure),
    /// Approval of a proposed action.
    Approval(Box<Approval>),
}

/// Retention of an item's current state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retention {
    /// In memory and in its row, because decisions need it.
    InMemory,
    /// In its row only: it has ended and is looked up on demand.
    RowOnly,
    /// In the log only; its row is deleted.
    LogOnly,
}

/// A timer after which an item changes by itself. `part` distinguishes several timers of one item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ItemTimer {
    /// Fires at a wall-clock time.
    At {
        /// Identifies the timer within the item.
        part: u64,
        /// Time at which it fires.
        time: Timestamp,
    },
    /// Fires a fixed duration after it was started, by the monotonic clock; a restart of the hub restarts it in full.
    After {
        /// Lease or fencing token; a new token starts a new timer.
        part: u64,
        /// Duration.
        length_ms: u64,
    },
}

impl Item {
    /// Returns its key.
    #[must_use]
    pub fn key(&self) -> ItemKey {
        match self {
            Self::Policy(_) => ItemKey::new(ItemKind::Policy, ActivePolicy::ID),
            Self::Lock(lock) => ItemKey::new(ItemKind::Lock, lock.name.as_str()),
            Self::Session(session) => ItemKey::new(ItemKind::Session, session.id.as_str()),
            Self::Task(task) => ItemKey::new(ItemKind::Task, task.spec.id.to_shared()),
            Self::Snapshot(snapshot) => ItemKey::new(ItemKind::Snapshot, snapshot.name.as_str()),
            Self::Budget(budget) => ItemKey::new(ItemKind::Budget, budget.id.as_str()),
            Self::Subscription(subscription) => ItemKey::new(ItemKind::Subscription, subscription.id()),
            Self::Pool(pool) => ItemKey::new(ItemKind::Pool, pool.id()),
            Self::Request(request) => ItemKey::new(ItemKind::Request, request.id.to_string()),
            Self::Token(token) => ItemKey::new(ItemKind::Token, token.id.to_string()),
            Self::Procedure(procedure) => ItemKey::new(ItemKind::Procedure, procedure.id.as_str()),
            Self::Approval(approval) => ItemKey::new(ItemKind::Approval, approval.id.as_str()),
        }
    }

    /// Returns where it is retained.
    #[must_use]
    pub fn retention(&self) -> Retention {
        match self {
            Self::Policy(_) | Self::Pool(_) => Retention::InMemory,
            Self::Lock(lock) if lock.is_free() => Retention::RowOnly,
            Self::Lock(_) => Retention::InMemory,
            Self::Session(session) if session.status.is_closed() => Retention::RowOnly,
            Self::Session(_) => Retention::InMemory,
            Self::Task(task) if task.status().has_ended() => Retention::RowOnly,
            Self::Task(_) => Retention::InMemory,
            Self::Snapshot(snapshot) if snapshot.state == SnapshotState::Dropped => Retention::LogOnly,
            Self::Snapshot(_) => Retention::RowOnly,
            // There may be one per chain, so it is looked up when a message names it.
            Self::Budget(_) => Retention::RowOnly,
            Self::Subscription(subscription) => match subscription.state {
                SubscriptionState::Active | SubscriptionState::CatchingUp(_) => Retention::InMemory,
                SubscriptionState::Ended => Retention::LogOnly,
            },
            Self::Request(request) => request.retention(),
            Self::Token(token) => match token.state {
                TokenState::Active => Retention::InMemory,
                TokenState::Ended => Retention::LogOnly,
            },
            Self::Procedure(procedure) if procedure.status.has_ended() => Retention::RowOnly,
            Self::Procedure(_) => Retention::InMemory,
            Self::Approval(approval) if approval.is_pending() => Retention::InMemory,
            Self::Approval(_) => Retention::RowOnly,
        }
    }

    /// Returns its timers.
    #[must_use]
    pub fn timers(&self) -> Vec<ItemTimer> {
        match self {
            Self::Lock(lock) => lock.timers(),
            Self::Request(request) => request.timers(),
            Self::Policy(_)
            | Self::Session(_)
            | Self::Snapshot(_)
            | Self::Budget(_)
            | Self::Subscription(_)
            | Self::Pool(_)
            | Self::Procedure(_) => Vec::new(),
            Self::Task(task) => task.timers(),
            Self::Token(token) => token.timers(),
            Self::Approval(approval) => approval.timers(),
        }
    }
}

/// The kind of change to an item. The numbers never change: they are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// The policy was replaced.
    PolicySet,
    /// The lock was granted.
    LockGranted,
    /// Its holder released the lock.
    LockReleased,
    /// A grant of the lock expired.
    LockExpired,
    /// A grant ended because its holder re-registered or was removed.
    LockReturned,
    /// The session was opened.
    SessionOpened,
    /// An agent joined: the last participant in the list.
    SessionJoined,
    /// An agent left: the last participant in the list.
    SessionLeft,
    /// The session was paused; its deliveries are held.
    SessionPaused,
    /// The session was resumed; its deliveries continue.
    SessionResumed,
    /// The session ended successfully.
    SessionCompleted,
    /// The session failed.
    SessionFailed,
    /// The task was created.
    TaskCreated,
    /// The task became ready: its dependencies are done, or its scheduled time has come.
    TaskReady,
    /// The task was claimed.
    TaskLeased,
    /// The holder reported a partial result.
    TaskProgressed,
    /// The task ended with a full or partial result.
    TaskCompleted,
    /// An attempt failed, and another one follows.
    TaskRetried,
    /// The task was released without counting as an attempt.
    TaskReleased,
    /// The task stays blocked on a failed dependency.
    TaskHeld,
    /// The task failed.
    TaskFailed,
    /// The task failed and was escalated.
    TaskEscalated,
    /// The task was cancelled.
    TaskCancelled,
    /// The snapshot was created.
    SnapshotMade,
    /// The snapshot was dropped; its name can be reused.
    SnapshotDropped,
    /// The limits of the budget were set.
    BudgetSet,
    /// A message was charged to the budget.
    BudgetSpent,
    /// A message was charged to the budget, which reached 80 %.
    BudgetWarned,
    /// An agent subscribed.
    Subscribed,
    /// An agent unsubscribed.
    Unsubscribed,
    /// Earlier messages were delivered to a subscriber.
    Backfilled,
    /// The pool was created.
    PoolOpened,
    /// The request was sent.
    RequestMade,
    /// A recipient delegated the answer.
    RequestDelegated,
    /// A reply was accepted.
    RequestAnswered,
    /// The request timed out.
    RequestTimedOut,
    /// The requester cancelled it.
    RequestCancelled,
    /// The request failed: no further reply can arrive.
    RequestFailed,
    /// The request was redirected to another agent.
    RequestRedirected,
    /// The access token was created.
    TokenCreated,
    /// The access token was revoked.
    TokenRevoked,
    /// The access token expired.
    TokenExpired,
    /// The procedure was started.
    ProcedureStarted,
    /// The driver committed a step.
    ProcedureStepped,
    /// The procedure ended with a result.
    ProcedureDone,
    /// The procedure failed.
    ProcedureFailed,
    /// The procedure was paused.
    ProcedurePaused,
    /// The procedure continues after a pause, or after it was stuck.
    ProcedureResumed,
    /// The procedure was cancelled.
    ProcedureCancelled,
    /// The driver parked the procedure with a reason.
    ProcedureStuck,
    /// The approval was requested.
    ApprovalRequested,
    /// The action was approved.
    ApprovalApproved,
    /// The action was rejected.
    ApprovalRejected,
    /// The action was approved with a modification.
    ApprovalModified,
    /// The approval expired undecided.
    ApprovalExpired,
}

impl Verb {
    /// All verbs.
    pub const ALL: &[Self] = &[
        Self::PolicySet,
        Self::LockGranted,
        Self::LockReleased,
        Self::LockExpired,
        Self::LockReturned,
        Self::SessionOpened,
        Self::SessionJoined,
        Self::SessionLeft,
        Self::SessionPaused,
        Self::SessionResumed,
        Self::SessionCompleted,
        Self::SessionFailed,
        Self::TaskCreated,
        Self::TaskReady,
        Self::TaskLeased,
        Self::TaskProgressed,
        Self::TaskCompleted,
        Self::TaskRetried,
        Self::TaskReleased,
        Self::TaskHeld,
        Self::TaskFailed,
        Self::TaskEscalated,
        Self::TaskCancelled,
        Self::SnapshotMade,
        Self::SnapshotDropped,
        Self::BudgetSet,
        Self::BudgetSpent,
        Self::BudgetWarned,
        Self::Subscribed,
        Self::Unsubscribed,
        Self::Backfilled,
        Self::PoolOpened,
        Self::RequestMade,
        Self::RequestDelegated,
        Self::RequestAnswered,
        Self::RequestTimedOut,
        Self::RequestCancelled,
        Self::RequestFailed,
        Self::RequestRedirected,
        Self::TokenCreated,
        Self::TokenRevoked,
        Self::TokenExpired,
        Self::ProcedureStarted,
        Self::ProcedureStepped,
        Self::ProcedureDone,
        Self::ProcedureFailed,
        Self::ProcedurePaused,
        Self::ProcedureResumed,
        Self::ProcedureCancelled,
        Self::ProcedureStuck,
        Self::ApprovalRequested,
        Self::ApprovalApproved,
        Self::ApprovalRejected,
        Self::ApprovalModified,
        Self::ApprovalExpired,
    ];

    /// The stored number. Never changes. Each kind has its own range, in steps of ten.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::PolicySet => 10,
            Self::LockGranted => 60,
            Self::LockReleased => 61,
            Self::LockExpired => 62,
            Self::LockReturned => 63,
            Self::SessionOpened => 70,
            Self::SessionJoined => 71,
            Self::SessionLeft => 72,
            Self::SessionPaused => 73,
            Self::SessionResumed => 74,
            Self::SessionCompleted => 75,
            Self::SessionFailed => 76,
            Self::TaskCreated => 40,
            Self::TaskReady => 41,
            Self::TaskLeased => 42,
            Self::TaskProgressed => 43,
            Self::TaskCompleted => 44,
            Self::TaskRetried => 45,
            Self::TaskReleased => 46,
            Self::TaskHeld => 47,
            Self::TaskFailed => 48,
            Self::TaskEscalated => 49,
            Self::TaskCancelled => 50,
            Self::SnapshotMade => 90,
            Self::SnapshotDropped => 91,
            Self::BudgetSet => 80,
            Self::BudgetSpent => 81,
            Self::BudgetWarned => 82,
            Self::Subscribed => 20,
            Self::Unsubscribed => 21,
            Self::Backfilled => 22,
            Self::PoolOpened => 25,
            Self::RequestMade => 30,
            Self::RequestAnswered => 31,
            Self::RequestTimedOut => 32,
            Self::RequestCancelled => 33,
            Self::RequestFailed => 34,
            Self::RequestRedirected => 35,
            Self::RequestDelegated => 36,
            Self::TokenCreated => 100,
            Self::TokenRevoked => 101,
            Self::TokenExpired => 102,
            Self::ProcedureStarted => 110,
            Self::ProcedureStepped => 111,
            Self::ProcedureDone => 112,
            Self::ProcedureFailed => 113,
            Self::ProcedurePaused => 114,
            Self::ProcedureResumed => 115,
            Self::ProcedureCancelled => 116,
            Self::ProcedureStuck => 117,
            Self::ApprovalRequested => 120,
            Self::ApprovalApproved => 121,
            Self::ApprovalRejected => 122,
            Self::ApprovalModified => 123,
            Self::ApprovalExpired => 124,
        }
    }

    /// The verb with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.iter().copied().find(|verb| verb.number() == number)
    }

    /// The name in exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PolicySet => "policy.set",
            Self::LockGranted => "lock.granted",
            Self::LockReleased => "lock.released",
            Self::LockExpired => "lock.expired",
            Self::LockReturned => "lock.returned",
            Self::SessionOpened => "session.opened",
            Self::SessionJoined => "session.joined",
            Self::SessionLeft => "session.left",
            Self::SessionPaused => "session.paused",
            Self::SessionResumed => "session.resumed",
            Self::SessionCompleted => "session.completed",
            Self::SessionFailed => "session.failed",
            Self::TaskCreated => "task.created",
            Self::TaskReady => "task.ready",
            Self::TaskLeased => "task.leased",
            Self::TaskProgressed => "task.progressed",
            Self::TaskCompleted => "task.completed",
            Self::TaskRetried => "task.retried",
            Self::TaskReleased => "task.released",
            Self::TaskHeld => "task.held",
            Self::TaskFailed => "task.failed",
            Self::TaskEscalated => "task.escalated",
            Self::TaskCancelled => "task.cancelled",
            Self::SnapshotMade => "snapshot.made",
            Self::SnapshotDropped => "snapshot.dropped",
            Self::BudgetSet => "budget.set",
            Self::BudgetSpent => "budget.spent",
            Self::BudgetWarned => "budget.warned",
            Self::Subscribed => "topic.subscribed",
            Self::Unsubscribed => "topic.unsubscribed",
            Self::Backfilled => "topic.backfilled",
            Self::PoolOpened => "pool.opened",
            Self::RequestMade => "request.made",
            Self::RequestDelegated => "request.delegated",
            Self::RequestAnswered => "request.answered",
            Self::RequestTimedOut => "request.timedOut",
            Self::RequestCancelled => "request.cancelled",
            Self::RequestFailed => "request.failed",
            Self::RequestRedirected => "request.redirected",
            Self::TokenCreated => "token.created",
            Self::TokenRevoked => "token.revoked",
            Self::TokenExpired => "token.expired",
            Self::ProcedureStarted => "procedure.started",
            Self::ProcedureStepped => "procedure.stepped",
            Self::ProcedureDone => "procedure.done",
            Self::ProcedureFailed => "procedure.failed",
            Self::ProcedurePaused => "procedure.paused",
            Self::ProcedureResumed => "procedure.resumed",
            Self::ProcedureCancelled => "procedure.cancelled",
            Self::ProcedureStuck => "procedure.stuck",
            Self::ApprovalRequested => "approval.requested",
            Self::ApprovalApproved => "approval.approved",
            Self::ApprovalRejected => "approval.rejected",
            Self::ApprovalModified => "approval.modified",
            Self::ApprovalExpired => "approval.expired",
        }
    }
}

impl serde::Serialize for Verb {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for Verb {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text_serde::deserialize_name(deserializer, Self::ALL, |verb| verb.as_str())
    }
}
