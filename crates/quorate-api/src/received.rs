//! Deliveries, answers and memory changes as the library and the network client receive them: with core types
//! instead of JSON.

use std::sync::Arc;

use quorate_core::{
    DeliveryId, Key, LeaseRef, Message, MessageId, Payload, Seq, Timestamp, TraceContext, Version,
};

/// Reference to a delivered message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageRef {
    /// Message in the log.
    Durable(MessageId),
    /// Message that exists in memory only.
    Ephemeral(u64),
    /// Conduct flag. It has no public ID.
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

/// Delivery of a message to its recipient.
#[derive(Clone, Debug)]
pub struct ReceivedDelivery {
    /// Lease under which it is held; `None` for an ephemeral message, which needs no ack.
    pub lease: Option<LeaseRef>,
    /// Duration of the lease.
    pub lease_ms: u64,
    /// Attempt number, starting at 1.
    pub attempt: u16,
    /// Reference to the message.
    pub id: MessageRef,
    /// Time at which the message was sent.
    pub sent_at: Timestamp,
    /// The message.
    pub message: Arc<Message>,
}

impl ReceivedDelivery {
    /// Returns the span of the message. An ephemeral message has none, so its parent span is returned.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        match self.id {
            MessageRef::Durable(id) => TraceContext::of_message(id, &self.message),
            MessageRef::Ephemeral(_) | MessageRef::Flag => TraceContext::parent_of(&self.message),
        }
    }
}

impl ReceivedDelivery {
    /// Returns the ID of the delivery; `None` for an ephemeral message.
    #[must_use]
    pub fn delivery_id(&self) -> Option<DeliveryId> {
        self.lease.map(|lease| lease.delivery)
    }
}

/// Answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Reference to the message.
    pub id: MessageRef,
    /// Time at which the answer was sent.
    pub at: Timestamp,
    /// The message.
    pub message: Arc<Message>,
}

/// Change of a memory entry.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryEntryChange {
    /// Sequence number of the record.
    pub seq: Seq,
    /// Time of the change.
    pub at: Timestamp,
    /// Principal that made the change.
    pub author: String,
    /// Entry key.
    pub key: Key,
    /// New version number.
    pub version: Version,
    /// New content; `None` if the entry was deleted.
    pub content: Option<Payload>,
}
