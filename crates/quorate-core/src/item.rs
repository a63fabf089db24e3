//! Items: the nouns that are kept as one row each. An item changes by one effect, `Changed`, which holds its whole new
//! state and a verb that says what happened to it; folding it is putting it in its place.
//!
//! A noun is: a struct with its state, its bytes in `codec/item/`, its indexes in `working/`, its rules in `decide/`.
//! A store knows none of that: it keeps bytes under a kind and an id.

use std::sync::Arc;

use crate::approval::Approval;
use crate::budget::Budget;
use crate::lock::Lock;
use crate::policy::InForce;
use crate::pool::Pool;
use crate::procedure::Procedure;
use crate::request::Request;
use crate::session::Session;
use crate::snapshot::{Snapshot, SnapshotState};
use crate::subscription::{Subscription, SubscriptionState};
use crate::task::Task;
use crate::time::Timestamp;
use crate::token::{AccessToken, TokenState};

/// What kind of noun an item is. The numbers are frozen: they are in the log and in keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ItemKind {
    /// The rules of the space.
    Policy,
    /// A message whose sender waits for the answer.
    Request,
    /// Work for an agent or a capability.
    Task,
    /// A lock.
    Lock,
    /// A piece of common work.
    Session,
    /// What a chain may spend.
    Budget,
    /// Which agent wants the messages of which topics.
    Subscription,
    /// Where messages for whoever can do something wait.
    Pool,
    /// A named position in the history of the shared memory.
    Snapshot,
    /// What lets somebody in.
    Token,
    /// A protocol of several steps.
    Procedure,
    /// A proposed action.
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

    /// The frozen number.
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

    /// The word in exports.
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

// By number, as in the keys of a store.
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

/// Which item. Ids are unique within a kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ItemKey {
    /// What kind of noun.
    pub kind: ItemKind,
    /// Its id.
    pub id: Arc<str>,
}

impl ItemKey {
    /// The key of an item.
    #[must_use]
    pub fn new(kind: ItemKind, id: impl Into<Arc<str>>) -> Self {
        Self { kind, id: id.into() }
    }
}

/// The state of an item.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// The rules of the space.
    Policy(InForce),
    /// A lock.
    Lock(Lock),
    /// A piece of common work.
    Session(Session),
    /// Work for an agent or a capability.
    Task(Task),
    /// A named position in the history of the shared memory.
    Snapshot(Snapshot),
    /// What a chain may spend.
    Budget(Budget),
    /// Which agent wants the messages of which topics.
    Subscription(Box<Subscription>),
    /// Where messages for whoever can do something wait.
    Pool(Pool),
    /// A message whose sender waits for the answer.
    Request(Request),
    /// What lets somebody in.
    Token(Arc<AccessToken>),
    /// A protocol of several steps.
    Procedure(Procedure),
    /// A proposed action.
    Approval(Box<Approval>),
}

/// Where an item is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// In memory and in its row: decisions need it.
    AtHand,
    /// In its row only: it is over, and looked up when somebody names it.
    Stored,
    /// Nowhere: the log alone remembers it.
    Gone,
}

/// When time alone will change an item. `part` tells several alarms of one item apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alarm {
    /// At a time of day.
    At {
        /// Which part of the item.
        part: u64,
        /// When.
        time: Timestamp,
    },
    /// So long after this part of the item began, by the monotonic clock; after a restart it runs its full length again.
    After {
        /// Which part of the item: a token or a fence, so that a new one starts anew.
        part: u64,
        /// How long.
        length_ms: u64,
    },
}

impl Item {
    /// Its key.
    #[must_use]
    pub fn key(&self) -> ItemKey {
        match self {
            Self::Policy(_) => ItemKey::new(ItemKind::Policy, InForce::ID),
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

    /// Where it is kept.
    #[must_use]
    pub fn keep(&self) -> Keep {
        match self {
            Self::Policy(_) | Self::Pool(_) => Keep::AtHand,
            Self::Lock(lock) if lock.is_free() => Keep::Stored,
            Self::Lock(_) => Keep::AtHand,
            Self::Session(session) if session.status.is_closed() => Keep::Stored,
            Self::Session(_) => Keep::AtHand,
            Self::Task(task) if task.status().is_over() => Keep::Stored,
            Self::Task(_) => Keep::AtHand,
            Self::Snapshot(snapshot) if snapshot.state == SnapshotState::Dropped => Keep::Gone,
            Self::Snapshot(_) => Keep::Stored,
            // There may be one for each chain: looked up when a message names it.
            Self::Budget(_) => Keep::Stored,
            Self::Subscription(subscription) => match subscription.state {
                SubscriptionState::Active | SubscriptionState::CatchingUp(_) => Keep::AtHand,
                SubscriptionState::Ended => Keep::Gone,
            },
            Self::Request(request) => request.keep(),
            Self::Token(token) => match token.state {
                TokenState::Active => Keep::AtHand,
                TokenState::Ended => Keep::Gone,
            },
            Self::Procedure(procedure) if procedure.status.is_over() => Keep::Stored,
            Self::Procedure(_) => Keep::AtHand,
            Self::Approval(approval) if approval.is_pending() => Keep::AtHand,
            Self::Approval(_) => Keep::Stored,
        }
    }

    /// When time alone will change it.
    #[must_use]
    pub fn alarms(&self) -> Vec<Alarm> {
        match self {
            Self::Lock(lock) => lock.alarms(),
            Self::Request(request) => request.alarms(),
            Self::Policy(_)
            | Self::Session(_)
            | Self::Snapshot(_)
            | Self::Budget(_)
            | Self::Subscription(_)
            | Self::Pool(_)
            | Self::Procedure(_) => Vec::new(),
            Self::Task(task) => task.alarms(),
            Self::Token(token) => token.alarms(),
            Self::Approval(approval) => approval.alarms(),
        }
    }
}

/// What happened to an item. The numbers are frozen: they are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// The rules of the space are these from now on.
    PolicySet,
    /// Somebody holds the lock.
    LockGranted,
    /// Its holder gave the lock back.
    LockReleased,
    /// The time of a hold is over.
    LockExpired,
    /// Its holder is gone: started again, removed or offline.
    LockReturned,
    /// A session began.
    SessionOpened,
    /// The last participant takes part.
    SessionJoined,
    /// The last participant takes part no longer.
    SessionLeft,
    /// The messages of a session are held.
    SessionPaused,
    /// The messages of a session go out again.
    SessionResumed,
    /// A session is over, with a result.
    SessionCompleted,
    /// A session is over, without one.
    SessionFailed,
    /// A task was made.
    TaskCreated,
    /// A task can be taken: all it needs is done, or its time has come.
    TaskReady,
    /// A task was taken.
    TaskLeased,
    /// The holder of a task said how far it got.
    TaskProgressed,
    /// A task ended with a result, whole or partial.
    TaskCompleted,
    /// A try came to nothing, and another one follows.
    TaskRetried,
    /// A task was given back untouched.
    TaskReleased,
    /// A task waits for a dependency that was given up.
    TaskHeld,
    /// A task was given up.
    TaskFailed,
    /// A task was given up, and somebody was told.
    TaskEscalated,
    /// A task was called off.
    TaskCancelled,
    /// A position has a name.
    SnapshotMade,
    /// The name is free again.
    SnapshotDropped,
    /// What may be spent on the budget is this from now on.
    BudgetSet,
    /// A message was sent on the budget.
    BudgetSpent,
    /// A message was sent on the budget, and four fifths of it are spent.
    BudgetWarned,
    /// An agent wants the messages of some topics from now on.
    Subscribed,
    /// An agent wants them no more.
    Unsubscribed,
    /// Earlier messages were brought to a subscriber.
    HistoryBrought,
    /// A pool came into being.
    PoolOpened,
    /// Somebody asks and waits.
    RequestMade,
    /// An answer was accepted.
    RequestAnswered,
    /// The time for answers is over.
    RequestTimedOut,
    /// Whoever asked wants no answer any more.
    RequestCancelled,
    /// An answer that was waited for cannot come any more.
    RequestFailed,
    /// Somebody else is asked instead.
    RequestRedirected,
    /// A token lets somebody in.
    TokenCreated,
    /// A token lets nobody in any more.
    TokenRevoked,
    /// The time of a token is over.
    TokenExpired,
    /// A procedure began.
    ProcedureStarted,
    /// Its driver took a step.
    ProcedureStepped,
    /// A procedure is over, with a result.
    ProcedureDone,
    /// A procedure is over, without one.
    ProcedureFailed,
    /// Somebody proposes an action.
    ApprovalRequested,
    /// A person lets it happen.
    ApprovalApproved,
    /// A person does not.
    ApprovalRejected,
    /// A person lets it happen with a change.
    ApprovalModified,
    /// Nobody decided in time.
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
        Self::HistoryBrought,
        Self::PoolOpened,
        Self::RequestMade,
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
        Self::ApprovalRequested,
        Self::ApprovalApproved,
        Self::ApprovalRejected,
        Self::ApprovalModified,
        Self::ApprovalExpired,
    ];

    /// The frozen number. Each noun has a range of its own, in tens.
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
            Self::HistoryBrought => 22,
            Self::PoolOpened => 25,
            Self::RequestMade => 30,
            Self::RequestAnswered => 31,
            Self::RequestTimedOut => 32,
            Self::RequestCancelled => 33,
            Self::RequestFailed => 34,
            Self::RequestRedirected => 35,
            Self::TokenCreated => 100,
            Self::TokenRevoked => 101,
            Self::TokenExpired => 102,
            Self::ProcedureStarted => 110,
            Self::ProcedureStepped => 111,
            Self::ProcedureDone => 112,
            Self::ProcedureFailed => 113,
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

    /// The word in exports.
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
            Self::HistoryBrought => "topic.caughtUp",
            Self::PoolOpened => "pool.opened",
            Self::RequestMade => "request.made",
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
        crate::text_serde::word(deserializer, Self::ALL, |verb| verb.as_str())
    }
}
