//! What a hub returns to the library and to the network client: deliveries, answers and changes with their messages as the
//! core knows them.

use std::sync::Arc;

use quorate_core::{
    DeliveryId, Key, LeaseRef, Message, MessageId, Payload, Seq, Timestamp, TraceContext, Version,
};

/// Which message a delivery brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageRef {
    /// One that is in the log.
    Durable(MessageId),
    /// One that lives in memory only.
    Ephemeral(u64),
    /// One that was raised as a conduct flag: it has no id that anybody may know.
    Flag,
}

impl From<MessageId> for MessageRef {
    fn from(id: MessageId) -> Self {
        Self::Durable(id)
    }
}

impl std::fmt::Display for MessageRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Durable(id) => id.fmt(f),
            Self::Ephemeral(number) => write!(f, "eph_{number}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// A message in the hands of its recipient.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The lease under which it is held; `None` for an ephemeral message, which nobody needs to ack.
    pub lease: Option<LeaseRef>,
    /// How long the lease lasts.
    pub lease_ms: u64,
    /// The how many-th try this is, counted from 1.
    pub attempt: u16,
    /// Which message.
    pub id: MessageRef,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// The message.
    pub message: Arc<Message>,
}

impl Delivery {
    /// Its span; of a message in memory only, which has none, the one that led to it.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        match self.id {
            MessageRef::Durable(id) => TraceContext::of(id, &self.message),
            MessageRef::Ephemeral(_) | MessageRef::Flag => TraceContext::parent_of(&self.message),
        }
    }
}

impl Delivery {
    /// The id of the delivery, if it is a durable one.
    #[must_use]
    pub fn delivery_id(&self) -> Option<DeliveryId> {
        self.lease.map(|lease| lease.delivery)
    }
}

/// An answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its id.
    pub id: MessageRef,
    /// When it was given.
    pub at: Timestamp,
    /// The answer.
    pub message: Arc<Message>,
}

/// One change of a memory entry.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The record that made it.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// Who made it.
    pub author: String,
    /// Which entry.
    pub key: Key,
    /// Its version since then.
    pub version: Version,
    /// The content; `None` if it was deleted.
    pub content: Option<Payload>,
}
