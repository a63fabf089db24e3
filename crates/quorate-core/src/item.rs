//! Items: the nouns that are kept as one row each. An item changes by one effect, `Changed`, which holds its whole new
//! state and a verb that says what happened to it; folding it is putting it in its place.
//!
//! A noun is: a struct with its state, its bytes in `codec/item/`, its indexes in `working/`, its rules in `decide/`.
//! A store knows none of that: it keeps bytes under a kind and an id.

use std::sync::Arc;

use crate::lock::Lock;
use crate::policy::Policy;
use crate::request::Request;
use crate::session::Session;
use crate::time::Timestamp;

/// What kind of noun an item is. The numbers are frozen: they are in the log and in keys. Listed by number, so that items
/// have the same order here and in a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ItemKind {
    /// The rules of the space.
    Policy,
    /// A message whose sender waits for the answer.
    Request,
    /// A lock.
    Lock,
    /// A piece of common work.
    Session,
}

impl ItemKind {
    /// All kinds.
    pub const ALL: &[Self] = &[Self::Policy, Self::Request, Self::Lock, Self::Session];

    /// The frozen number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Policy => 1,
            Self::Lock => 5,
            Self::Session => 6,
            Self::Request => 3,
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
            Self::Request => "request",
        }
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
    Policy(Policy),
    /// A lock.
    Lock(Lock),
    /// A piece of common work.
    Session(Session),
    /// A message whose sender waits for the answer.
    Request(Request),
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
            Self::Policy(_) => ItemKey::new(ItemKind::Policy, Policy::ID),
            Self::Lock(lock) => ItemKey::new(ItemKind::Lock, lock.name.as_str()),
            Self::Session(session) => ItemKey::new(ItemKind::Session, session.id.as_str()),
            Self::Request(request) => ItemKey::new(ItemKind::Request, request.id.to_string()),
        }
    }

    /// Where it is kept.
    #[must_use]
    pub fn keep(&self) -> Keep {
        match self {
            Self::Policy(_) => Keep::AtHand,
            Self::Lock(lock) if lock.is_free() => Keep::Stored,
            Self::Lock(_) => Keep::AtHand,
            Self::Session(session) if session.status.is_closed() => Keep::Stored,
            Self::Session(_) => Keep::AtHand,
            Self::Request(request) => request.keep(),
        }
    }

    /// When time alone will change it.
    #[must_use]
    pub fn alarms(&self) -> Vec<Alarm> {
        match self {
            Self::Lock(lock) => lock.alarms(),
            Self::Request(request) => request.alarms(),
            Self::Policy(_) | Self::Session(_) => Vec::new(),
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
        Self::RequestMade,
        Self::RequestAnswered,
        Self::RequestTimedOut,
        Self::RequestCancelled,
        Self::RequestFailed,
        Self::RequestRedirected,
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
            Self::RequestMade => 30,
            Self::RequestAnswered => 31,
            Self::RequestTimedOut => 32,
            Self::RequestCancelled => 33,
            Self::RequestFailed => 34,
            Self::RequestRedirected => 35,
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
            Self::RequestMade => "request.made",
            Self::RequestAnswered => "request.answered",
            Self::RequestTimedOut => "request.timed-out",
            Self::RequestCancelled => "request.cancelled",
            Self::RequestFailed => "request.failed",
            Self::RequestRedirected => "request.redirected",
        }
    }
}
