//! Deliveries: what a recipient holds under a lease, and what it does with it.

use quorate_core::{
    DeliveryId, EndState, Extend, LeaseRef, Nack, NackThen, Op, Refused, Seq, Timestamp, Token,
};
use serde::{Deserialize, Serialize};

use crate::message::Message;
use crate::reading::Reading;
#[cfg(feature = "schema")]
use crate::schema;

/// Acknowledges a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AckDelivery {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The token of its lease, from the claim.
    pub lease_token: Token,
}

impl AckDelivery {
    /// The lease that it ends.
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

/// Rejects a delivery, so that it is redelivered or becomes a dead letter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NackDelivery {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The token of its lease, from the claim.
    pub lease_token: Token,
    /// The delay before it is redelivered; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 86_400_000)))]
    pub delay_ms: Option<u64>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Sentence>"))]
    pub reason: Option<String>,
    /// Nothing was tried: the attempt does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untried: bool,
    /// Another attempt would not help: it becomes a dead letter at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hopeless: bool,
}

impl NackDelivery {
    /// The operation.
    #[must_use]
    pub fn read(self) -> Op {
        let then = match (self.hopeless, self.untried) {
            (true, _) => NackThen::Dead,
            (false, true) => NackThen::Release,
            (false, false) => NackThen::Retry { delay_ms: self.delay_ms.unwrap_or(0) },
        };
        let lease = LeaseRef { delivery: self.delivery_id, token: self.lease_token };
        Op::Nack(Nack { lease, then, reason: self.reason.unwrap_or_default() })
    }
}

impl From<&Nack> for NackDelivery {
    fn from(nack: &Nack) -> Self {
        Self {
            delivery_id: nack.lease.delivery,
            lease_token: nack.lease.token,
            delay_ms: match nack.then {
                NackThen::Retry { delay_ms } => Some(delay_ms),
                NackThen::Release | NackThen::Dead => None,
            },
            reason: (!nack.reason.is_empty()).then(|| nack.reason.clone()),
            untried: nack.then == NackThen::Release,
            hopeless: nack.then == NackThen::Dead,
        }
    }
}

/// Extends the lease of a delivery, counted from now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtendLease {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The token of its lease, from the claim.
    pub lease_token: Token,
    /// 30 s by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::LeaseMs>"))]
    pub lease_ms: Option<u64>,
}

impl ExtendLease {
    /// The operation.
    #[must_use]
    pub fn read(self, reading: &Reading<'_>) -> Op {
        let lease = LeaseRef { delivery: self.delivery_id, token: self.lease_token };
        Op::Extend(Extend { lease, lease_ms: self.lease_ms.unwrap_or(reading.defaults.lease_ms) })
    }
}

impl From<&Extend> for ExtendLease {
    fn from(extend: &Extend) -> Self {
        let LeaseRef { delivery, token } = extend.lease;
        Self { delivery_id: delivery, lease_token: token, lease_ms: Some(extend.lease_ms) }
    }
}

/// A list of one kind of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "{T}List"))]
#[serde(deny_unknown_fields)]
pub struct List<T> {
    /// At least one.
    #[serde(deserialize_with = "crate::strict::objects", bound(deserialize = "T: Deserialize<'de>"))]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = quorate_core::limits::ACKS_MAX)))]
    pub deliveries: Vec<T>,
}

/// A delivery that is held by its recipient. `M` is the form of the message, if it is rendered already.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Delivery"))]
#[serde(rename_all = "camelCase")]
pub struct Delivery<M = Message> {
    /// `null` for an ephemeral message, which needs no ack.
    pub delivery_id: Option<DeliveryId>,
    /// Names the lease in an ack.
    pub lease_token: Option<Token>,
    /// The attempt number, starting at 1.
    pub attempt: u16,
    /// When the lease expires.
    pub lease_until: Option<Timestamp>,
    /// The message.
    pub message: M,
}

/// How a delivery is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// `null` for an ephemeral message, which needs no ack.
    pub delivery_id: Option<DeliveryId>,
    /// Names the lease in an ack.
    pub lease_token: Option<Token>,
    /// The attempt number, starting at 1.
    pub attempt: u16,
    /// When the lease expires.
    pub lease_until: Option<Timestamp>,
}

/// The state of a delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveryState {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The recipient: an agent, or `can:CAPABILITY` until an agent claims it.
    pub agent: String,
    /// Its state.
    pub state: DeliveryStatus,
    /// The attempt number, starting at 1; left out once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u16>,
    /// When it is delivered, if that is scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// `paused` if its session is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The record that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<Seq>,
}

/// The state of a delivery, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the words are documented in the guide on messages")]
pub enum DeliveryStatus {
    Ready,
    Scheduled,
    Leased,
    Acked,
    Dead,
    Expired,
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
    /// How it ended, if it did.
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

/// The operation that acks all of a list.
///
/// # Errors
/// None; the form is that of the other lists.
pub(crate) fn ack_many(list: List<AckDelivery>) -> Result<Op, Refused> {
    Ok(Op::AckMany(list.deliveries.iter().map(AckDelivery::lease).collect()))
}
