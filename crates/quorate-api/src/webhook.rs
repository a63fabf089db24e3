//! Webhooks: the response to a received event.

use quorate_core::MessageId;
use serde::{Deserialize, Serialize};

use crate::result::FlagReceipt;

/// Result of receiving an event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum WebhookReceipt {
    Message(WebhookMessage),
    Flag(FlagReceipt),
}

/// The message created for an event. Its recipients are not disclosed to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct WebhookMessage {
    pub id: MessageId,
    pub seq: u64,
}
