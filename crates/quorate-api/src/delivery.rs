//! Deliveries: leases held by recipients, and the acks, nacks and extensions of those leases.

use quorate_core::{
    DeliveryId, EndState, Extend, LeaseRef, LeaseToken, MessageId, Nack, NackAction, Op, Refused, RequestEnd,
    Seq, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::message::Message;
use crate::parse_context::ParseContext;
use crate::problem::code_of;
use crate::result::ChangeReceipt;
#[cfg(feature = "schema")]
use crate::schema;

/// Acknowledges a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AckDelivery {
    /// Delivery ID.
    pub delivery_id: DeliveryId,
    /// Lease token, returned by the claim.
    pub lease_token: LeaseToken,
}

impl AckDelivery {
    /// Returns the lease that the ack ends.
    #[must_use]
    pub fn lease(&self) -> LeaseRef {
        LeaseRef { delivery: self.delivery_id, token: self.lease_token }
    }
}

impl From<&LeaseRef> for AckDelivery {
    fn from(lease: &LeaseRef) -> Self {
        Self { delivery_id: lease.delivery, lease_token: lease.token }
    }
}

/// Result of extending the leases of deliveries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExtendedLeases {
    /// Sequence number of the record; `null`, because extensions are not recorded.
    #[serde(flatten)]
    pub receipt: ChangeReceipt,
    /// Deliveries that ended together with their request, without an answer of the holder: stop working on them. Their
    /// leases are not extended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_requests: Vec<EndedRequest>,
}

/// Delivery of a request that has ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EndedRequest {
    /// Delivery ID.
    pub delivery_id: DeliveryId,
    /// ID of the request.
    pub message_id: MessageId,
    /// Error code with which the request ended, such as `CANCELLED`; `CONFLICT` if another agent has answered it.
    pub code: String,
}

impl From<&RequestEnd> for EndedRequest {
    fn from(ended: &RequestEnd) -> Self {
        let RequestEnd { delivery, request, code } = ended;
        Self { delivery_id: *delivery, message_id: *request, code: code.as_str().to_owned() }
    }
}

impl EndedRequest {
    /// Converts it to the core type. `status` is that of the response, for a code of a newer hub.
    pub(crate) fn into_core(self, status: u16) -> RequestEnd {
        RequestEnd { delivery: self.delivery_id, request: self.message_id, code: code_of(&self.code, status) }
    }
}

/// Rejects a delivery, so that it is redelivered or dead-lettered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NackDelivery {
    /// Delivery ID.
    pub delivery_id: DeliveryId,
    /// Lease token, returned by the claim.
    pub lease_token: LeaseToken,
    /// Delay before redelivery. By default 1, 2, 4, 8, then 16 s, doubling with each attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 86_400_000)))]
    pub delay_ms: Option<u64>,
    /// Reason for the rejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::ReasonText>"))]
    pub reason: Option<String>,
    /// Set to true if processing was not attempted. The attempt then does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untried: bool,
    /// Set to true if another attempt would not help. The delivery is dead-lettered immediately.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hopeless: bool,
}

impl NackDelivery {
    /// Converts the request into an operation.
    #[must_use]
    pub fn into_core(self) -> Op {
        let action = match (self.hopeless, self.untried) {
            (true, _) => NackAction::DeadLetter,
            (false, true) => NackAction::Release,
            (false, false) => NackAction::Retry { delay_ms: self.delay_ms },
        };
        let lease = LeaseRef { delivery: self.delivery_id, token: self.lease_token };
        Op::Nack(Nack { lease, action, reason: self.reason.unwrap_or_default() })
    }
}

impl From<&Nack> for NackDelivery {
    fn from(nack: &Nack) -> Self {
        Self {
            delivery_id: nack.lease.delivery,
            lease_token: nack.lease.token,
            delay_ms: match nack.action {
                NackAction::Retry { delay_ms } => delay_ms,
                NackAction::Release | NackAction::DeadLetter => None,
            },
            reason: (!nack.reason.is_empty()).then(|| nack.reason.clone()),
            untried: nack.action == NackAction::Release,
            hopeless: nack.action == NackAction::DeadLetter,
        }
    }
}

/// Extends the lease of a delivery, counted from now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtendLease {
    /// Delivery ID.
    pub delivery_id: DeliveryId,
    /// Lease token, returned by the claim.
    pub lease_token: LeaseToken,
    /// New lease duration; 30 s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub lease_ms: Option<u64>,
}

impl ExtendLease {
    /// Converts the request into an operation.
    #[must_use]
    pub fn into_core(self, context: &ParseContext<'_>) -> Op {
        let lease = LeaseRef { delivery: self.delivery_id, token: self.lease_token };
        Op::Extend(Extend { lease, lease_ms: self.lease_ms.unwrap_or(context.defaults.lease_ms) })
    }
}

impl From<&Extend> for ExtendLease {
    fn from(extend: &Extend) -> Self {
        let LeaseRef { delivery, token } = extend.lease;
        Self { delivery_id: delivery, lease_token: token, lease_ms: Some(extend.lease_ms) }
    }
}

/// Batch of delivery operations of the same kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "{T}List"))]
#[serde(deny_unknown_fields)]
pub struct DeliveryList<T> {
    /// Deliveries; at least one.
    #[serde(deserialize_with = "crate::strict::objects", bound(deserialize = "T: Deserialize<'de>"))]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = quorate_core::limits::ACKS_MAX)))]
    pub deliveries: Vec<T>,
}

// `M` is the type of the message, which may be rendered already.
/// Delivery leased to its recipient.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Delivery"))]
#[serde(rename_all = "camelCase")]
pub struct Delivery<M = Message> {
    /// Delivery ID; `null` for an ephemeral message, which needs no ack.
    pub delivery_id: Option<DeliveryId>,
    /// Lease token. Pass it to ack, nack or extend the delivery.
    pub lease_token: Option<LeaseToken>,
    /// Attempt number, starting at 1.
    pub attempt: u16,
    /// Time at which the lease expires.
    pub lease_until: Option<Timestamp>,
    /// The message.
    pub message: M,
}

/// Lease of a delivery, without the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveryLease {
    /// Delivery ID; `null` for an ephemeral message, which needs no ack.
    pub delivery_id: Option<DeliveryId>,
    /// Lease token. Pass it to ack, nack or extend the delivery.
    pub lease_token: Option<LeaseToken>,
    /// Attempt number, starting at 1.
    pub attempt: u16,
    /// Time at which the lease expires.
    pub lease_until: Option<Timestamp>,
}

/// Current state of a delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveryState {
    /// Delivery ID.
    pub delivery_id: DeliveryId,
    /// Recipient: an agent, or `can:CAPABILITY` until an agent claims the delivery.
    pub agent: String,
    /// Delivery state.
    pub state: DeliveryStatus,
    /// Number of the latest attempt, starting at 1; 0 before the first. Omitted once the delivery has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u16>,
    /// Time of a scheduled delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// `paused` if the session or procedure of the message is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Sequence number of the record that ended the delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<Seq>,
}

/// State of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    /// Available for a claim.
    Ready,
    /// Not available before its due time, or while its session or procedure is paused.
    Scheduled,
    /// Claimed by an agent under a lease.
    Leased,
    /// Acknowledged by the recipient.
    Acked,
    /// Failed permanently: a dead letter, which can be redriven.
    Dead,
    /// Not acknowledged before the message expired.
    Expired,
    /// Discarded by a purge.
    Purged,
}

impl From<EndState> for DeliveryStatus {
    fn from(state: EndState) -> Self {
        match state {
            EndState::Acked => Self::Acked,
            EndState::Dead => Self::Dead,
            EndState::Expired => Self::Expired,
            EndState::Purged => Self::Purged,
        }
    }
}

impl DeliveryStatus {
    /// Returns the end state; `None` while the delivery is open.
    #[must_use]
    pub fn end(self) -> Option<EndState> {
        match self {
            Self::Ready | Self::Scheduled | Self::Leased => None,
            Self::Acked => Some(EndState::Acked),
            Self::Dead => Some(EndState::Dead),
            Self::Expired => Some(EndState::Expired),
            Self::Purged => Some(EndState::Purged),
        }
    }
}

/// Creates the operation that acks a batch of deliveries.
///
/// # Errors
/// Never fails. The signature matches that of the other operations.
pub(crate) fn ack_many_op(list: DeliveryList<AckDelivery>) -> Result<Op, Refused> {
    Ok(Op::AckMany(list.deliveries.iter().map(AckDelivery::lease).collect()))
}
