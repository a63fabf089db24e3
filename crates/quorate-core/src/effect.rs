//! What a commit did. Effects are what the log holds: folding them rebuilds the state at any record.

use std::sync::Arc;

use bytes::Bytes;

use crate::ids::{
    AgentNo, DeliveryNo, Generation, Key, Seq, SessionId, SessionNo, SpaceId, SpaceName, Token, Version,
};
use crate::item::{Item, Verb};
use crate::message::{Message, Priority};
use crate::presence::Presence;
use crate::recipient::Recipient;
use crate::registry::Agent;
use crate::session::AddKind;
use crate::subscription::Letter;
use crate::time::Timestamp;

/// What a record is. The numbers are frozen: they are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// The first record of a space.
    Genesis,
    /// A commit by somebody.
    Commit,
    /// A commit by time.
    Sweep,
    /// The first record after a restore from a backup.
    Restore,
}

impl RecordKind {
    /// The frozen number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Genesis => 1,
            Self::Commit => 2,
            Self::Sweep => 3,
            Self::Restore => 4,
        }
    }

    /// The word in exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Genesis => "genesis",
            Self::Commit => "commit",
            Self::Sweep => "sweep",
            Self::Restore => "restore",
        }
    }

    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Genesis, Self::Commit, Self::Sweep, Self::Restore]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

/// One row of the log, as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its position.
    pub seq: Seq,
    /// When it was decided.
    pub at: Timestamp,
    /// The format of the body.
    pub format: u8,
    /// The number of its kind.
    pub kind: u8,
    /// Who acted, as text.
    pub principal: String,
    /// The chain up to here.
    pub hash: [u8; 32],
    /// The effects, encoded.
    pub body: Vec<u8>,
    /// The salts of the payload parts, one after the other; zeros where erased.
    pub salts: Vec<u8>,
    /// The payload parts, one after the other; zeros where erased.
    pub payload: Bytes,
}

/// A decoded body.
#[derive(Clone, PartialEq, Debug)]
pub struct Body {
    /// Length and digest of each payload part.
    pub parts: Vec<(u64, [u8; 32])>,
    /// What happened, in order.
    pub effects: Vec<Effect>,
}

/// The last state of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndState {
    /// Done.
    Acked,
    /// Given up after the last try; can be redriven.
    Dead,
    /// Its message expired first.
    Expired,
    /// Ended by an operator.
    Purged,
}

impl EndState {
    /// The frozen number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Acked => 1,
            Self::Dead => 2,
            Self::Expired => 3,
            Self::Purged => 4,
        }
    }

    /// The state with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Acked, Self::Dead, Self::Expired, Self::Purged]
            .into_iter()
            .find(|state| state.number() == number)
    }

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acked => "acked",
            Self::Dead => "dead",
            Self::Expired => "expired",
            Self::Purged => "purged",
        }
    }
}

/// Why a leased delivery came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReturnCause {
    /// Its holder gave it back.
    Nacked,
    /// Its lease ran out.
    Lapsed,
    /// Its holder was started again.
    EpochEnded,
    /// Its holder never tried it.
    Released,
    /// Its recipient is offline; also of a delivery that nobody held yet.
    Offline,
    /// The space goes on from a backup: whoever held it may have ended it, or lost it, in the history after that.
    Restored,
}

impl ReturnCause {
    /// The word in exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nacked => "nacked",
            Self::Lapsed => "lapsed",
            Self::EpochEnded => "epoch ended",
            Self::Released => "released",
            Self::Offline => "offline",
            Self::Restored => "restored",
        }
    }
}

/// Where a delivery that came back goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// To be given out again.
    Ready,
    /// To be given out again, not before then.
    Scheduled(Timestamp),
    /// To the dead letters.
    Dead,
    /// Its message expired meanwhile.
    Expired,
    /// To another agent, since its recipient cannot be reached. One that waits for its time goes on waiting for it.
    Redirected(AgentNo),
}

/// One delivery of a new message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewDelivery {
    /// The recipient; from a pool also who holds it, if it is leased in the very insert.
    pub to: Recipient,
    /// Leased in the very insert: token and length in milliseconds.
    pub lease: Option<(Token, u64)>,
}

/// Where a delivery comes from: which message, and for whom. An effect says it of each delivery that it names, so that whoever
/// reads one record knows whom it concerns: of a delivery that has ended nothing else does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The recipient; from a pool also who held it, if anybody did.
    pub to: Recipient,
    /// The record that holds the message.
    pub seq: Seq,
    /// Which message of that record.
    pub n: u32,
}

impl Origin {
    /// Where the message lies.
    #[must_use]
    pub fn place(self) -> (Seq, u32) {
        (self.seq, self.n)
    }
}

/// A delivery under a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// Which one.
    pub delivery: DeliveryNo,
    /// The lease.
    pub token: Token,
    /// Whose it is, before it was taken.
    pub origin: Origin,
}

/// An earlier version that a new one brings back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The record that holds the content.
    pub seq: Seq,
    /// Which version of the entry it was.
    pub version: Version,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// The space began.
    SpaceCreated {
        /// Its name.
        name: SpaceName,
        /// Its identity.
        id: SpaceId,
        /// Its first generation.
        generation: Generation,
    },
    /// The space goes on from a backup.
    Restored {
        /// The new generation.
        generation: Generation,
    },
    /// An agent is known, with its epoch.
    AgentRegistered {
        /// Its number.
        number: AgentNo,
        /// What it said of itself, and its epoch.
        agent: Agent,
    },
    /// An agent is gone.
    AgentRemoved {
        /// Its number.
        number: AgentNo,
    },
    /// A message and its deliveries, numbered from `first`.
    Sent {
        /// The message. Its payload is a part of the record.
        message: Arc<Message>,
        /// Which part.
        part: u32,
        /// The number of the first delivery.
        first: DeliveryNo,
        /// The deliveries.
        deliveries: Vec<NewDelivery>,
    },
    /// Deliveries were taken.
    Leased {
        /// How long the leases last.
        lease_ms: u64,
        /// Which deliveries, each with its token.
        deliveries: Vec<Holding>,
    },
    /// A delivery is done with.
    Acked {
        /// Which one.
        delivery: DeliveryNo,
        /// The lease under which it was.
        token: Token,
        /// Whose it was.
        origin: Origin,
    },
    /// A leased delivery came back.
    Returned {
        /// Which one.
        delivery: DeliveryNo,
        /// The lease under which it was.
        token: Token,
        /// Why.
        cause: ReturnCause,
        /// What its holder said.
        reason: String,
        /// Where it goes.
        next: Next,
        /// Whose it was until then.
        origin: Origin,
    },
    /// A waiting delivery is past its message's time.
    Expired {
        /// Which one.
        delivery: DeliveryNo,
        /// Whose it was.
        origin: Origin,
    },
    /// A dead letter is given out again.
    Redriven {
        /// Which one.
        delivery: DeliveryNo,
        /// The recipient.
        to: Recipient,
        /// The record that holds the message.
        seq: Seq,
        /// Which message of that record.
        n: u32,
        /// Its priority.
        priority: Priority,
        /// Its tries.
        attempts_max: u16,
        /// When its message expires, if ever.
        expires_at: Option<Timestamp>,
        /// The session that its message belongs to.
        session: Option<SessionNo>,
    },
    /// A delivery was ended by an operator.
    Purged {
        /// Which one.
        delivery: DeliveryNo,
        /// Whose it was.
        origin: Origin,
    },
    /// A memory entry was written.
    Written {
        /// Which entry.
        key: Key,
        /// Its version now.
        version: Version,
        /// What kind of thing it holds.
        entry_type: String,
        /// What the bytes are; `None` is JSON.
        content_type: Option<String>,
        /// Which part of the record holds the content.
        part: u32,
        /// What it was built on; version 0 = not there at the time.
        depends_on: Vec<(Key, Version)>,
        /// An earlier version that it brings back: then the content lies there.
        restores: Option<Restored>,
    },
    /// A memory entry was ended.
    Deleted {
        /// Which entry.
        key: Key,
        /// The version of the tombstone.
        version: Version,
    },
    /// A payload part of an earlier record was blanked.
    Erased {
        /// The record.
        seq: Seq,
        /// Which part of it.
        part: u32,
    },
    /// Something happened to an item.
    Changed {
        /// What.
        verb: Verb,
        /// Its state now.
        item: Item,
    },
    /// Somebody's wait was called off: it could never have ended.
    WaitAborted {
        /// Who waited for what, in a circle; the first is the one whose wait was called off.
        cycle: Vec<(AgentNo, String)>,
    },
    /// Something was added to a session.
    SessionAdded {
        /// Which session.
        session: SessionId,
        /// What it is.
        kind: AddKind,
        /// The how many-th of its kind it is, counted from 1.
        n: u64,
        /// Which part of the record holds it.
        part: u32,
        /// What the bytes are; `None` is JSON.
        content_type: Option<String>,
        /// Why; may be empty.
        rationale: String,
    },
    /// Deliveries are done with.
    AckedMany {
        /// Which ones, each with the lease under which it was.
        deliveries: Vec<Holding>,
    },
    /// Deliveries were taken from pools.
    Taken {
        /// By whom.
        agent: AgentNo,
        /// How long the leases last.
        lease_ms: u64,
        /// Which deliveries, each with its token.
        deliveries: Vec<Holding>,
    },
    /// Earlier messages are delivered to a new subscriber as well, numbered from `first`.
    Brought {
        /// The subscriber.
        agent: AgentNo,
        /// The number of the first delivery.
        first: DeliveryNo,
        /// The messages.
        letters: Vec<Letter>,
    },
    /// A waiting delivery is a dead letter, because the policy does not let its message through any more.
    Barred {
        /// Which one.
        delivery: DeliveryNo,
        /// Whose it was.
        origin: Origin,
    },
    /// An agent can be reached or not, or says something else of itself.
    AgentStatus {
        /// Its number.
        number: AgentNo,
        /// How it is now.
        presence: Presence,
    },
}

impl Effect {
    /// The effects of a record, each with the number of messages that the record holds before it: a part of message ids.
    pub fn with_message_numbers(effects: &[Self]) -> impl Iterator<Item = (u32, &Self)> {
        let mut next = 0;
        effects.iter().map(move |effect| {
            let n = next;
            next += u32::from(matches!(effect, Self::Sent { .. }));
            (n, effect)
        })
    }

    /// How this effect ended that delivery, and under which lease, if it did.
    #[must_use]
    pub fn ended(&self, number: DeliveryNo) -> Option<(EndState, Token)> {
        match self {
            Self::Acked { delivery, token, .. } if *delivery == number => Some((EndState::Acked, *token)),
            Self::Returned { delivery, token, next: Next::Dead, .. } if *delivery == number => {
                Some((EndState::Dead, *token))
            }
            Self::Returned { delivery, token, next: Next::Expired, .. } if *delivery == number => {
                Some((EndState::Expired, *token))
            }
            Self::Expired { delivery, .. } if *delivery == number => Some((EndState::Expired, Token(0))),
            Self::Purged { delivery, .. } if *delivery == number => Some((EndState::Purged, Token(0))),
            Self::Barred { delivery, .. } if *delivery == number => Some((EndState::Dead, Token(0))),
            Self::AckedMany { deliveries } => {
                let acked = deliveries.iter().find(|held| held.delivery == number);
                acked.map(|held| (EndState::Acked, held.token))
            }
            _ => None,
        }
    }

    /// The deliveries that this effect ended, each as [`Effect::ended`] says.
    pub fn ends(&self) -> impl Iterator<Item = (DeliveryNo, EndState, Token)> {
        let (one, many): (_, &[Holding]) = match self {
            Self::Acked { delivery, .. }
            | Self::Returned { delivery, .. }
            | Self::Expired { delivery, .. }
            | Self::Purged { delivery, .. }
            | Self::Barred { delivery, .. } => (Some(*delivery), &[]),
            Self::AckedMany { deliveries } => (None, deliveries),
            _ => (None, &[]),
        };
        let one = one.and_then(|number| self.ended(number).map(|(state, token)| (number, state, token)));
        one.into_iter().chain(many.iter().map(|held| (held.delivery, EndState::Acked, held.token)))
    }

    /// The deliveries that this effect is about, each with whose it is. Not those that it makes.
    pub fn origins(&self) -> impl Iterator<Item = (DeliveryNo, Origin)> {
        let one = match self {
            Self::Acked { delivery, origin, .. }
            | Self::Returned { delivery, origin, .. }
            | Self::Expired { delivery, origin }
            | Self::Purged { delivery, origin }
            | Self::Barred { delivery, origin } => Some((*delivery, *origin)),
            Self::Redriven { delivery, to, seq, n, .. } => {
                Some((*delivery, Origin { to: *to, seq: *seq, n: *n }))
            }
            _ => None,
        };
        let many = match self {
            Self::Leased { deliveries, .. }
            | Self::Taken { deliveries, .. }
            | Self::AckedMany { deliveries } => deliveries.as_slice(),
            _ => &[],
        };
        one.into_iter().chain(many.iter().map(|held| (held.delivery, held.origin)))
    }

    /// The words in exports, but for those of [`crate::Verb`].
    pub const NAMES: &'static [&'static str] = &[
        "space.created",
        "space.restored",
        "agent.registered",
        "agent.removed",
        "message.sent",
        "delivery.leased",
        "delivery.acked",
        "delivery.returned",
        "delivery.expired",
        "delivery.redriven",
        "delivery.purged",
        "entry.written",
        "entry.deleted",
        "payload.erased",
        "wait.aborted",
        "session.added",
        "delivery.ackedMany",
        "delivery.taken",
        "delivery.brought",
        "delivery.barred",
        "agent.status",
    ];

    /// The word in exports.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::SpaceCreated { .. } => "space.created",
            Self::Restored { .. } => "space.restored",
            Self::AgentRegistered { .. } => "agent.registered",
            Self::AgentRemoved { .. } => "agent.removed",
            Self::Sent { .. } => "message.sent",
            Self::Leased { .. } => "delivery.leased",
            Self::Acked { .. } => "delivery.acked",
            Self::Returned { .. } => "delivery.returned",
            Self::Expired { .. } => "delivery.expired",
            Self::Redriven { .. } => "delivery.redriven",
            Self::Purged { .. } => "delivery.purged",
            Self::Written { .. } => "entry.written",
            Self::Deleted { .. } => "entry.deleted",
            Self::Erased { .. } => "payload.erased",
            Self::Changed { verb, .. } => verb.as_str(),
            Self::WaitAborted { .. } => "wait.aborted",
            Self::SessionAdded { .. } => "session.added",
            Self::AckedMany { .. } => "delivery.ackedMany",
            Self::Taken { .. } => "delivery.taken",
            Self::Brought { .. } => "delivery.brought",
            Self::Barred { .. } => "delivery.barred",
            Self::AgentStatus { .. } => "agent.status",
        }
    }
}
