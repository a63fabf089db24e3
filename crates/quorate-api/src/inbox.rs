//! Inboxes, outboxes and dead letters.

use quorate_core::{DeliveryId, MessageId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

/// An open delivery in an inbox.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InboxDelivery {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message that it delivers.
    pub message_id: MessageId,
    /// Delivery attempts so far.
    pub attempt: u16,
    /// When its lease expires; `null` if nobody holds it.
    pub lease_until: Option<Timestamp>,
}

/// A message in an outbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OutboxMessage {
    /// The message.
    pub message_id: MessageId,
}

/// A dead letter: a delivery that was given up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message that it was to deliver.
    pub message_id: MessageId,
    /// The recipient: an agent, or `can:CAPABILITY` if no agent claimed it.
    pub agent: String,
    /// Delivery attempts.
    pub attempts: u16,
    /// Why it was given up.
    pub reason: String,
    /// When it was given up.
    pub at: Timestamp,
}

/// A dead letter that is delivered again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Redriven {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The record.
    pub seq: Option<Seq>,
}
