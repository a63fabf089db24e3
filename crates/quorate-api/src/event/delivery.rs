//! Effects on messages and deliveries.

use quorate_core::{
    AgentId, AgentNo, DeliveryId, DeliveryNo, DeliveryOrigin, Effect as CoreEffect, LeaseToken, LoggedLease,
    MessageId, NewDelivery, PartRef, PoolNo, Recipient, Record, RecordedMessage, ReturnOutcome, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::{Effect, PayloadLocation, effect_names};
use crate::id_resolver::IdResolver;
use crate::message::Envelope;

effect_names!(
    /// A message was sent.
    MessageEffectName { Sent = "message.sent" }
);

/// A message was sent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageEffect {
    /// Name of the effect.
    pub effect: MessageEffectName,
    /// Message, without its payload.
    pub message: Envelope,
    /// Deliveries, one per recipient. Only those that the caller is allowed to see.
    pub deliveries: Vec<SentDelivery>,
    /// Storage location of the payload.
    pub payloads: Vec<PayloadLocation>,
}

/// Delivery of a new message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SentDelivery {
    /// Delivery ID.
    pub delivery_id: DeliveryId,
    /// Recipient. For a delivery from a pool, the agent that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Pool in which the delivery waits for an agent with the capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolNo>,
    /// Lease token, if the delivery was handed to a waiting consumer immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<LeaseToken>,
    /// Duration of that lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

effect_names!(
    /// Effects on several deliveries.
    DeliveriesEffectName {
        Leased = "delivery.leased",
        LeasedFromPool = "delivery.leasedFromPool",
        AckedMany = "delivery.ackedMany",
        Backfilled = "delivery.backfilled",
    }
);

/// Several deliveries changed: they were leased by their recipient, taken from a pool, acked, or created for a new
/// subscriber.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveriesEffect {
    /// Name of the effect.
    pub effect: DeliveriesEffectName,
    /// Agent that took the deliveries, or subscribed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Duration of the leases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// Deliveries. Only those that the caller is allowed to see.
    pub deliveries: Vec<DeliveryRef>,
}

/// Delivery with its message and recipient.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveryRef {
    /// Delivery ID.
    pub delivery_id: DeliveryId,
    /// Message ID.
    pub message_id: MessageId,
    /// Recipient. For a delivery from a pool, the agent that held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Pool that the delivery came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolNo>,
    /// Lease token under which the delivery was held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<LeaseToken>,
}

effect_names!(
    /// Effects on a single delivery.
    DeliveryEffectName {
        Acked = "delivery.acked",
        Returned = "delivery.returned",
        Expired = "delivery.expired",
        Redriven = "delivery.redriven",
        Purged = "delivery.purged",
        Denied = "delivery.denied",
    }
);

/// A delivery was acked, returned, expired, purged, dead-lettered by the policy, or redriven.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveryEffect {
    /// Name of the effect.
    pub effect: DeliveryEffectName,
    /// The delivery.
    #[serde(flatten)]
    pub delivery: DeliveryRef,
    /// Cause of a return: `nacked`, `lapsed`, `epoch ended`, `released`, `offline` or `restored`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Reason given by the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// State of the delivery after a return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextState>,
    /// Time of the scheduled redelivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// Agent that the delivery is redirected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    /// Priority of a redriven delivery, from 0 (low) to 3 (urgent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Maximum number of attempts of a redriven delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u16>,
    /// Time at which a redriven delivery expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// State of a delivery after a return.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum NextState {
    /// Available for a claim.
    Ready,
    /// Redelivered at the time in `due`, at the earliest.
    Scheduled,
    /// Failed permanently: a dead letter, which can be redriven.
    Dead,
    /// The message expired.
    Expired,
    /// Moved to the agent in `to`.
    Redirected,
}

fn agent(to: Recipient, ids: &IdResolver<'_>) -> Option<AgentId> {
    to.agent_no().and_then(|agent| ids.agent_id(agent))
}

fn delivery_ref(
    delivery: DeliveryNo,
    token: Option<LeaseToken>,
    origin: DeliveryOrigin,
    ids: &IdResolver<'_>,
) -> DeliveryRef {
    DeliveryRef {
        delivery_id: ids.delivery_id(delivery),
        message_id: ids.message_id(origin.seq, origin.n),
        agent: agent(origin.to, ids),
        pool: origin.to.pool_no(),
        // A delivery that was redirected while it was queued had no lease.
        lease_token: token.filter(|token| token.0 > 0),
    }
}

pub(super) fn sent_effect(effect: &CoreEffect, record: &Record, n: u32, ids: &IdResolver<'_>) -> Effect {
    let CoreEffect::Sent { message, part, first, deliveries } = effect else {
        return Effect::from_name(effect.as_str(), String::new());
    };
    let id = ids.message_id(record.seq, n);
    let deliveries =
        deliveries.iter().zip(first.0..).map(|(delivery, number): (&NewDelivery, u64)| SentDelivery {
            delivery_id: ids.delivery_id(DeliveryNo(number)),
            agent: agent(delivery.to, ids),
            pool: delivery.to.pool_no(),
            lease_token: delivery.lease.map(|(token, _)| token),
            lease_ms: delivery.lease.map(|(_, lease_ms)| lease_ms),
        });
    MessageEffect {
        effect: MessageEffectName::Sent,
        message: Envelope::new(id.to_string(), Some(id), record.at, message),
        deliveries: deliveries.collect(),
        payloads: vec![PayloadLocation::new("payload", PartRef { seq: record.seq, part: *part })],
    }
    .into()
}

/// Creates the effect for deliveries that were leased, taken from pools, or acked.
pub(super) fn deliveries_effect(
    effect: &CoreEffect,
    deliveries: &[LoggedLease],
    ids: &IdResolver<'_>,
) -> Effect {
    let (effect, agent, lease_ms) = match effect {
        CoreEffect::Leased { lease_ms, .. } => (DeliveriesEffectName::Leased, None, Some(*lease_ms)),
        CoreEffect::LeasedFromPool { agent, lease_ms, .. } => {
            (DeliveriesEffectName::LeasedFromPool, ids.agent_id(*agent), Some(*lease_ms))
        }
        _ => (DeliveriesEffectName::AckedMany, None, None),
    };
    let deliveries =
        deliveries.iter().map(|held| delivery_ref(held.delivery, Some(held.token), held.origin, ids));
    DeliveriesEffect { effect, agent, lease_ms, deliveries: deliveries.collect() }.into()
}

/// Creates the effect for earlier messages that are delivered to a new subscriber.
pub(super) fn backfill_effect<'a>(
    agent: AgentNo,
    messages: impl Iterator<Item = (&'a RecordedMessage, DeliveryNo)>,
    ids: &IdResolver<'_>,
) -> Effect {
    let deliveries = messages.map(|(message, delivery)| {
        let origin = DeliveryOrigin { to: Recipient::agent(agent), seq: message.seq, n: message.n };
        delivery_ref(delivery, None, origin, ids)
    });
    DeliveriesEffect {
        effect: DeliveriesEffectName::Backfilled,
        agent: ids.agent_id(agent),
        lease_ms: None,
        deliveries: deliveries.collect(),
    }
    .into()
}

/// Creates the effect for a single delivery.
pub(super) fn delivery_effect(effect: &CoreEffect, ids: &IdResolver<'_>) -> Effect {
    let base = |name, delivery, token, origin| DeliveryEffect {
        effect: name,
        delivery: delivery_ref(delivery, token, origin, ids),
        cause: None,
        reason: None,
        next: None,
        due: None,
        to: None,
        priority: None,
        max_attempts: None,
        expires_at: None,
    };
    match effect {
        CoreEffect::Acked { delivery, token, origin } => {
            base(DeliveryEffectName::Acked, *delivery, Some(*token), *origin)
        }
        CoreEffect::Expired { delivery, origin } => {
            base(DeliveryEffectName::Expired, *delivery, None, *origin)
        }
        CoreEffect::Purged { delivery, origin } => base(DeliveryEffectName::Purged, *delivery, None, *origin),
        CoreEffect::DeniedByPolicy { delivery, origin } => {
            base(DeliveryEffectName::Denied, *delivery, None, *origin)
        }
        CoreEffect::Redriven { delivery, to, seq, n, priority, attempts_max, expires_at, .. } => {
            let origin = DeliveryOrigin { to: *to, seq: *seq, n: *n };
            DeliveryEffect {
                priority: Some(priority.level),
                max_attempts: Some(*attempts_max),
                expires_at: *expires_at,
                ..base(DeliveryEffectName::Redriven, *delivery, None, origin)
            }
        }
        CoreEffect::Returned { delivery, token, cause, reason, next, origin } => {
            let (next, due, to) = match *next {
                ReturnOutcome::Ready => (NextState::Ready, None, None),
                ReturnOutcome::Scheduled(due) => (NextState::Scheduled, Some(due), None),
                ReturnOutcome::Dead => (NextState::Dead, None, None),
                ReturnOutcome::Expired => (NextState::Expired, None, None),
                ReturnOutcome::Redirected(agent) => (NextState::Redirected, None, ids.agent_id(agent)),
            };
            DeliveryEffect {
                cause: Some(cause.as_str().to_owned()),
                reason: Some(reason.clone()).filter(|reason| !reason.is_empty()),
                next: Some(next),
                due,
                to,
                ..base(DeliveryEffectName::Returned, *delivery, Some(*token), *origin)
            }
        }
        other => return Effect::from_name(other.as_str(), String::new()),
    }
    .into()
}
