//! Records and effects. The log stores the effects of each commit; replaying them rebuilds the state at any record.

use std::sync::Arc;

use bytes::Bytes;

use crate::ids::{
    AgentNo, DeliveryNo, Generation, Key, LeaseToken, ScopeNo, Seq, SessionId, SpaceId, SpaceName, Version,
};
use crate::item::{Item, Verb};
use crate::message::{Message, Priority};
use crate::presence::Presence;
use crate::recipient::Recipient;
use crate::registry::Agent;
use crate::session::ContributionKind;
use crate::subscription::RecordedMessage;
use crate::time::Timestamp;

/// Kind of a record. The numbers are part of the hash input and must never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// The first record of a space.
    Genesis,
    /// A commit of a client or of the hub.
    Commit,
    /// A sweep: the effects of timeouts.
    Sweep,
    /// The first record after a restore from a backup.
    Restore,
}

impl RecordKind {
    /// Returns the stable number of the kind.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Genesis => 1,
            Self::Commit => 2,
            Self::Sweep => 3,
            Self::Restore => 4,
        }
    }

    /// Returns the name used in exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Genesis => "genesis",
            Self::Commit => "commit",
            Self::Sweep => "sweep",
            Self::Restore => "restore",
        }
    }

    /// Returns the kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Genesis, Self::Commit, Self::Sweep, Self::Restore]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

/// One record of the log, as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Sequence number.
    pub seq: Seq,
    /// Time of the decision.
    pub at: Timestamp,
    /// Format version of the body.
    pub format: u8,
    /// Number of the [`RecordKind`].
    pub kind: u8,
    /// Text form of the principal that acted.
    pub principal: String,
    /// Head of the hash chain after this record.
    pub hash: [u8; 32],
    /// The encoded effects.
    pub body: Vec<u8>,
    /// Concatenated salts of the payload parts; zeros where erased.
    pub salts: Vec<u8>,
    /// Concatenated payload parts; zeros where erased.
    pub payload: Bytes,
}

/// The decoded body of a record.
#[derive(Clone, PartialEq, Debug)]
pub struct Body {
    /// Length and salted digest of each payload part.
    pub parts: Vec<(u64, [u8; 32])>,
    /// The effects, in order.
    pub effects: Vec<Effect>,
}

/// The final state of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndState {
    /// Acknowledged by its recipient.
    Acked,
    /// Dead-lettered, for example after the last attempt; can be redriven.
    Dead,
    /// Its message expired.
    Expired,
    /// Purged from its inbox.
    Purged,
}

impl EndState {
    /// Returns the stable number of the state.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Acked => 1,
            Self::Dead => 2,
            Self::Expired => 3,
            Self::Purged => 4,
        }
    }

    /// Returns the state with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Acked, Self::Dead, Self::Expired, Self::Purged]
            .into_iter()
            .find(|state| state.number() == number)
    }

    /// Returns the name used on the wire.
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

/// Cause of an [`Effect::Returned`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReturnCause {
    /// Its holder nacked it.
    Nacked,
    /// Its lease expired.
    LeaseExpired,
    /// Its holder registered again under a new epoch, or was removed.
    EpochEnded,
    /// Its holder released it without an attempt.
    Released,
    /// Its recipient is offline, and it must not be queued. In older logs also: its holder went offline.
    Offline,
    /// The space was restored from a backup. In the lost history its lease may have ended or expired.
    Restored,
}

impl ReturnCause {
    /// Returns the name used in exports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nacked => "nacked",
            Self::LeaseExpired => "lapsed",
            Self::EpochEnded => "epoch ended",
            Self::Released => "released",
            Self::Offline => "offline",
            Self::Restored => "restored",
        }
    }
}

/// State of a delivery after it was returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReturnOutcome {
    /// Ready for redelivery.
    Ready,
    /// Redelivered at this time at the earliest.
    Scheduled(Timestamp),
    /// Dead-lettered.
    Dead,
    /// Ended, because its message has expired.
    Expired,
    /// Moved to another agent, because its recipient is unavailable. A scheduled delivery stays scheduled.
    Redirected(AgentNo),
}

/// One delivery of a new message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewDelivery {
    /// The recipient; for a pool, also the agent that the delivery is leased to on creation.
    pub to: Recipient,
    /// The lease, if the delivery is leased on creation: token and duration in milliseconds.
    pub lease: Option<(LeaseToken, u64)>,
}

/// The message and the recipient of a delivery. Effects repeat them for each delivery, so that a single record can be
/// interpreted without other state: no other table keeps them after the delivery has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliveryOrigin {
    /// The recipient; for a pool, also the agent that held the lease, if any.
    pub to: Recipient,
    /// The record that contains the message.
    pub seq: Seq,
    /// Index of the message within that record.
    pub n: u32,
}

impl DeliveryOrigin {
    /// Returns the position of the message: its record, and its index within that record.
    #[must_use]
    pub fn message_position(self) -> (Seq, u32) {
        (self.seq, self.n)
    }
}

/// A lease of a delivery, as stored in an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggedLease {
    /// Number of the delivery.
    pub delivery: DeliveryNo,
    /// The lease token.
    pub token: LeaseToken,
    /// Message and recipient, as of before the lease.
    pub origin: DeliveryOrigin,
}

/// An earlier version of an entry that a rollback restores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestoredVersion {
    /// The record that contains the content.
    pub seq: Seq,
    /// Number of the earlier version.
    pub version: Version,
}

/// One state change of a commit.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// A space was created.
    SpaceCreated {
        /// Name of the space.
        name: SpaceName,
        /// Id of the space.
        id: SpaceId,
        /// The first generation.
        generation: Generation,
    },
    /// The space was restored from a backup.
    SpaceRestored {
        /// The new generation.
        generation: Generation,
    },
    /// An agent was registered, or its registration changed.
    AgentRegistered {
        /// Number of the agent.
        number: AgentNo,
        /// The registration, with its epoch.
        agent: Agent,
    },
    /// An agent was removed.
    AgentRemoved {
        /// Number of the agent.
        number: AgentNo,
    },
    /// A message was sent; its deliveries are numbered from `first`.
    Sent {
        /// The message. Its payload is stored as a payload part of the record.
        message: Arc<Message>,
        /// Index of that payload part.
        part: u32,
        /// The number of the first delivery.
        first: DeliveryNo,
        /// The deliveries.
        deliveries: Vec<NewDelivery>,
    },
    /// Deliveries were leased to their recipient.
    Leased {
        /// Duration of the leases.
        lease_ms: u64,
        /// The deliveries with their lease tokens.
        deliveries: Vec<LoggedLease>,
    },
    /// A delivery was acknowledged.
    Acked {
        /// Number of the delivery.
        delivery: DeliveryNo,
        /// Token of the lease that ended.
        token: LeaseToken,
        /// Message and recipient.
        origin: DeliveryOrigin,
    },
    /// A lease ended without an ack, or the recipient went offline; `next` is what happened to the delivery.
    Returned {
        /// Number of the delivery.
        delivery: DeliveryNo,
        /// Token of the lease that ended; 0 if it was not leased.
        token: LeaseToken,
        /// Cause of the return.
        cause: ReturnCause,
        /// Reason given by the holder; may be empty.
        reason: String,
        /// State of the delivery after the return.
        next: ReturnOutcome,
        /// Message and recipient, as of before the return.
        origin: DeliveryOrigin,
    },
    /// A delivery expired together with its message: a waiting one, or also a leased one if its request timed out.
    Expired {
        /// Number of the delivery.
        delivery: DeliveryNo,
        /// Message and recipient.
        origin: DeliveryOrigin,
    },
    /// A dead letter was redriven.
    Redriven {
        /// Number of the delivery.
        delivery: DeliveryNo,
        /// The recipient.
        to: Recipient,
        /// The record that contains the message.
        seq: Seq,
        /// Index of the message within that record.
        n: u32,
        /// Priority of the message.
        priority: Priority,
        /// Maximum number of attempts.
        attempts_max: u16,
        /// Expiry time of the message, if any.
        expires_at: Option<Timestamp>,
        /// The scope that the delivery belongs to.
        scope: Option<ScopeNo>,
    },
    /// A delivery was purged.
    Purged {
        /// Number of the delivery.
        delivery: DeliveryNo,
        /// Message and recipient.
        origin: DeliveryOrigin,
    },
    /// A memory entry was written.
    Written {
        /// Key of the entry.
        key: Key,
        /// The new version.
        version: Version,
        /// Type of the entry.
        entry_type: String,
        /// Media type of the content; `None` is JSON.
        content_type: Option<String>,
        /// Index of the payload part that contains the content.
        part: u32,
        /// Entries that it was derived from, with their versions; version 0 = did not exist.
        depends_on: Vec<(Key, Version)>,
        /// The earlier version that it restores. Then `part` is an index into that version's record.
        restores: Option<RestoredVersion>,
    },
    /// A memory entry was deleted.
    Deleted {
        /// Key of the entry.
        key: Key,
        /// The version of the tombstone.
        version: Version,
    },
    /// A payload part of an earlier record was erased.
    Erased {
        /// The record that contains the payload.
        seq: Seq,
        /// Index of the payload part.
        part: u32,
    },
    /// An item changed.
    Changed {
        /// Kind of the change.
        verb: Verb,
        /// The new state of the item.
        item: Item,
    },
    /// A wait was aborted to break a deadlock.
    WaitAborted {
        /// The cycle of the wait-for graph: each agent and the resource that it waited for. The first element is the
        /// wait that was aborted.
        cycle: Vec<(AgentNo, String)>,
    },
    /// A contribution was added to a session.
    ContributionAdded {
        /// The session.
        session: SessionId,
        /// Kind of the contribution.
        kind: ContributionKind,
        /// Number of the contribution within its kind, starting at 1.
        n: u64,
        /// Index of the payload part that contains it.
        part: u32,
        /// Media type of the content; `None` is JSON.
        content_type: Option<String>,
        /// Rationale; may be empty.
        rationale: String,
    },
    /// Several deliveries were acknowledged.
    AckedMany {
        /// The deliveries with the tokens of the ended leases.
        deliveries: Vec<LoggedLease>,
    },
    /// Deliveries from pools were leased to an agent.
    LeasedFromPool {
        /// The agent that holds the leases.
        agent: AgentNo,
        /// Duration of the leases.
        lease_ms: u64,
        /// The deliveries with their lease tokens.
        deliveries: Vec<LoggedLease>,
    },
    /// Earlier messages were delivered to a new subscriber; the deliveries are numbered from `first`.
    Backfilled {
        /// The subscriber.
        agent: AgentNo,
        /// The number of the first delivery.
        first: DeliveryNo,
        /// The messages.
        messages: Vec<RecordedMessage>,
    },
    /// A waiting delivery was dead-lettered, because the policy no longer allows its message.
    DeniedByPolicy {
        /// Number of the delivery.
        delivery: DeliveryNo,
        /// Message and recipient.
        origin: DeliveryOrigin,
    },
    /// The presence of an agent changed: its status, health or availability.
    PresenceChanged {
        /// Number of the agent.
        number: AgentNo,
        /// The new presence.
        presence: Presence,
    },
}

impl Effect {
    /// Pairs each effect of a record with the number of messages before it, which is the index used in message ids.
    pub fn with_message_numbers(effects: &[Self]) -> impl Iterator<Item = (u32, &Self)> {
        let mut next = 0;
        effects.iter().map(move |effect| {
            let n = next;
            next += u32::from(matches!(effect, Self::Sent { .. }));
            (n, effect)
        })
    }

    /// Returns the final state and the lease token, if this effect ended the delivery.
    #[must_use]
    pub fn ended(&self, number: DeliveryNo) -> Option<(EndState, LeaseToken)> {
        match self {
            Self::Acked { delivery, token, .. } if *delivery == number => Some((EndState::Acked, *token)),
            Self::Returned { delivery, token, next: ReturnOutcome::Dead, .. } if *delivery == number => {
                Some((EndState::Dead, *token))
            }
            Self::Returned { delivery, token, next: ReturnOutcome::Expired, .. } if *delivery == number => {
                Some((EndState::Expired, *token))
            }
            Self::Expired { delivery, .. } if *delivery == number => Some((EndState::Expired, LeaseToken(0))),
            Self::Purged { delivery, .. } if *delivery == number => Some((EndState::Purged, LeaseToken(0))),
            Self::DeniedByPolicy { delivery, .. } if *delivery == number => {
                Some((EndState::Dead, LeaseToken(0)))
            }
            Self::AckedMany { deliveries } => {
                let acked = deliveries.iter().find(|lease| lease.delivery == number);
                acked.map(|lease| (EndState::Acked, lease.token))
            }
            _ => None,
        }
    }

    /// Returns the deliveries that this effect ended, each with its final state, lease token and origin.
    pub fn ended_deliveries(
        &self,
    ) -> impl Iterator<Item = (DeliveryNo, EndState, LeaseToken, DeliveryOrigin)> {
        let (single, batch): (_, &[LoggedLease]) = match self {
            Self::Acked { delivery, origin, .. }
            | Self::Returned { delivery, origin, .. }
            | Self::Expired { delivery, origin }
            | Self::Purged { delivery, origin }
            | Self::DeniedByPolicy { delivery, origin } => (Some((*delivery, *origin)), &[]),
            Self::AckedMany { deliveries } => (None, deliveries),
            _ => (None, &[]),
        };
        let single = single.and_then(|(number, origin)| {
            self.ended(number).map(|(state, token)| (number, state, token, origin))
        });
        let acked = |lease: &LoggedLease| (lease.delivery, EndState::Acked, lease.token, lease.origin);
        single.into_iter().chain(batch.iter().map(acked))
    }

    /// Returns the existing deliveries that this effect concerns, with message and recipient; no new deliveries.
    pub fn affected_deliveries(&self) -> impl Iterator<Item = (DeliveryNo, DeliveryOrigin)> {
        let single = match self {
            Self::Acked { delivery, origin, .. }
            | Self::Returned { delivery, origin, .. }
            | Self::Expired { delivery, origin }
            | Self::Purged { delivery, origin }
            | Self::DeniedByPolicy { delivery, origin } => Some((*delivery, *origin)),
            Self::Redriven { delivery, to, seq, n, .. } => {
                Some((*delivery, DeliveryOrigin { to: *to, seq: *seq, n: *n }))
            }
            _ => None,
        };
        let batch = match self {
            Self::Leased { deliveries, .. }
            | Self::LeasedFromPool { deliveries, .. }
            | Self::AckedMany { deliveries } => deliveries.as_slice(),
            _ => &[],
        };
        single.into_iter().chain(batch.iter().map(|lease| (lease.delivery, lease.origin)))
    }

    /// Names used in exports, except those of [`crate::Verb`].
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
        "delivery.leasedFromPool",
        "delivery.backfilled",
        "delivery.denied",
        "agent.status",
    ];

    /// Returns the name used in exports.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::SpaceCreated { .. } => "space.created",
            Self::SpaceRestored { .. } => "space.restored",
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
            Self::ContributionAdded { .. } => "session.added",
            Self::AckedMany { .. } => "delivery.ackedMany",
            Self::LeasedFromPool { .. } => "delivery.leasedFromPool",
            Self::Backfilled { .. } => "delivery.backfilled",
            Self::DeniedByPolicy { .. } => "delivery.denied",
            Self::PresenceChanged { .. } => "agent.status",
        }
    }
}
