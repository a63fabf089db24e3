//! Inboxes, outboxes and dead letters.

use quorate_core::{DeliveryId, MessageId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::schema;

/// Open delivery in an inbox.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InboxDelivery {
    /// Delivery ID.
    pub delivery_id: DeliveryId,
    /// ID of the delivered message.
    pub message_id: MessageId,
    /// Number of delivery attempts so far.
    pub attempt: u16,
    /// Time at which the lease expires; `null` if the delivery is not leased.
    pub lease_until: Option<Timestamp>,
}

/// Message in an outbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OutboxMessage {
    /// Message ID.
    pub message_id: MessageId,
}

/// Dead letter: a delivery that failed permanently.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// Delivery ID.
    pub delivery_id: DeliveryId,
    /// ID of the undelivered message.
    pub message_id: MessageId,
    /// Recipient: an agent, or `can:CAPABILITY` if no agent claimed the delivery.
    pub agent: String,
    /// Number of delivery attempts.
    pub attempts: u16,
    /// Reason for dead-lettering.
    pub reason: String,
    /// Time at which the delivery was dead-lettered.
    pub at: Timestamp,
}

/// Result of redriving a dead letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RedrivenDelivery {
    /// Delivery ID.
    pub delivery_id: DeliveryId,
    /// Sequence number of the record.
    pub seq: Option<Seq>,
}

/// Filter and page of a list of dead letters.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeadLetterListQuery {
    /// Only dead letters of this agent. Agents see only their own.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub agent: Option<String>,
    /// Maximum number of items in a page; 100 by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    /// Cursor of the previous page; omit it for the first page.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}
