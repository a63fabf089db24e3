//! Effects on messages and deliveries.

use quorate_core::{
    AgentId, AgentNo, DeliveryId, DeliveryNo, Effect as CoreEffect, Holding, Letter, MessageId, NewDelivery,
    Next, Origin, PartRef, PoolNo, Recipient, Record, Timestamp, Token,
};
use serde::{Deserialize, Serialize};

use super::{Effect, PayloadLocation, effect_names};
use crate::message::Envelope;
use crate::names::Names;

effect_names!(
    /// A message was sent.
    MessageEffectName { Sent = "message.sent" }
);

/// A message was sent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageEffect {
    /// What happened.
    pub effect: MessageEffectName,
    /// The message, without its payload.
    pub message: Envelope,
    /// Its deliveries, one for each recipient; only those that the reader may see.
    pub deliveries: Vec<SentDelivery>,
    /// Where the payload is stored.
    pub payloads: Vec<PayloadLocation>,
}

/// A delivery of a new message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SentDelivery {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The recipient; of a delivery from a pool, the agent that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The pool in which it waits for an agent with the capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolNo>,
    /// The lease, if a waiting recipient got it at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<Token>,
    /// The length of that lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

effect_names!(
    /// What happened to several deliveries.
    DeliveriesEffectName {
        Leased = "delivery.leased",
        Taken = "delivery.taken",
        AckedMany = "delivery.ackedMany",
        Brought = "delivery.brought",
    }
);

/// Several deliveries changed at once: leased by their recipient, taken from a pool, acked, or created for a new subscriber.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveriesEffect {
    /// What happened.
    pub effect: DeliveriesEffectName,
    /// The agent that took them, or subscribed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The length of the leases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// The deliveries; only those that the reader may see.
    pub deliveries: Vec<DeliveryRef>,
}

/// A delivery: of which message, and for whom.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveryRef {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message.
    pub message_id: MessageId,
    /// The recipient; of a delivery from a pool, the agent that held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The pool that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolNo>,
    /// The lease under which it was held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<Token>,
}

effect_names!(
    /// What happened to a delivery.
    DeliveryEffectName {
        Acked = "delivery.acked",
        Returned = "delivery.returned",
        Expired = "delivery.expired",
        Redriven = "delivery.redriven",
        Purged = "delivery.purged",
        Barred = "delivery.barred",
    }
);

/// A delivery was acked, returned, expired, purged, moved to the dead letters by the policy, or redriven from there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeliveryEffect {
    /// What happened.
    pub effect: DeliveryEffectName,
    /// The delivery.
    #[serde(flatten)]
    pub delivery: DeliveryRef,
    /// Why a delivery came back: `nacked`, `lapsed`, `epoch ended`, `released`, `offline` or `restored`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The reason that its holder gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The state of a delivery that came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextState>,
    /// When it is delivered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// The agent that it is redirected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    /// The priority of a redriven delivery, from 0 (low) to 3 (urgent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The attempts of a redriven delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u16>,
    /// When a redriven delivery expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The state of a delivery that came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the words are documented in the guide on messages")]
pub enum NextState {
    Ready,
    Scheduled,
    Dead,
    Expired,
    Redirected,
}

fn agent(to: Recipient, names: &Names<'_>) -> Option<AgentId> {
    to.agent_no().and_then(|agent| names.agent(agent))
}

fn delivery_ref(
    delivery: DeliveryNo,
    token: Option<Token>,
    origin: Origin,
    names: &Names<'_>,
) -> DeliveryRef {
    DeliveryRef {
        delivery_id: names.delivery(delivery),
        message_id: names.message(origin.seq, origin.n),
        agent: agent(origin.to, names),
        pool: origin.to.pool_no(),
        // A delivery that was redirected while it waited had no lease.
        lease_token: token.filter(|token| token.0 > 0),
    }
}

pub(super) fn sent(effect: &CoreEffect, record: &Record, n: u32, names: &Names<'_>) -> Effect {
    let CoreEffect::Sent { message, part, first, deliveries } = effect else {
        return Effect::named(effect.as_str(), String::new());
    };
    let id = names.message(record.seq, n);
    let deliveries =
        deliveries.iter().zip(first.0..).map(|(delivery, number): (&NewDelivery, u64)| SentDelivery {
            delivery_id: names.delivery(DeliveryNo(number)),
            agent: agent(delivery.to, names),
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

/// Deliveries that were leased, taken from pools, or acked.
pub(super) fn held(effect: &CoreEffect, deliveries: &[Holding], names: &Names<'_>) -> Effect {
    let (effect, agent, lease_ms) = match effect {
        CoreEffect::Leased { lease_ms, .. } => (DeliveriesEffectName::Leased, None, Some(*lease_ms)),
        CoreEffect::Taken { agent, lease_ms, .. } => {
            (DeliveriesEffectName::Taken, names.agent(*agent), Some(*lease_ms))
        }
        _ => (DeliveriesEffectName::AckedMany, None, None),
    };
    let deliveries =
        deliveries.iter().map(|held| delivery_ref(held.delivery, Some(held.token), held.origin, names));
    DeliveriesEffect { effect, agent, lease_ms, deliveries: deliveries.collect() }.into()
}

/// Earlier messages that are delivered to a new subscriber.
pub(super) fn backfilled<'a>(
    agent: AgentNo,
    messages: impl Iterator<Item = (&'a Letter, DeliveryNo)>,
    names: &Names<'_>,
) -> Effect {
    let deliveries = messages.map(|(message, delivery)| {
        let origin = Origin { to: Recipient::agent(agent), seq: message.seq, n: message.n };
        delivery_ref(delivery, None, origin, names)
    });
    DeliveriesEffect {
        effect: DeliveriesEffectName::Brought,
        agent: names.agent(agent),
        lease_ms: None,
        deliveries: deliveries.collect(),
    }
    .into()
}

/// What happened to one delivery.
pub(super) fn one(effect: &CoreEffect, names: &Names<'_>) -> Effect {
    let plain = |name, delivery, token, origin| DeliveryEffect {
        effect: name,
        delivery: delivery_ref(delivery, token, origin, names),
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
            plain(DeliveryEffectName::Acked, *delivery, Some(*token), *origin)
        }
        CoreEffect::Expired { delivery, origin } => {
            plain(DeliveryEffectName::Expired, *delivery, None, *origin)
        }
        CoreEffect::Purged { delivery, origin } => {
            plain(DeliveryEffectName::Purged, *delivery, None, *origin)
        }
        CoreEffect::Barred { delivery, origin } => {
            plain(DeliveryEffectName::Barred, *delivery, None, *origin)
        }
        CoreEffect::Redriven { delivery, to, seq, n, priority, attempts_max, expires_at, .. } => {
            let origin = Origin { to: *to, seq: *seq, n: *n };
            DeliveryEffect {
                priority: Some(priority.level),
                max_attempts: Some(*attempts_max),
                expires_at: *expires_at,
                ..plain(DeliveryEffectName::Redriven, *delivery, None, origin)
            }
        }
        CoreEffect::Returned { delivery, token, cause, reason, next, origin } => {
            let (next, due, to) = match *next {
                Next::Ready => (NextState::Ready, None, None),
                Next::Scheduled(due) => (NextState::Scheduled, Some(due), None),
                Next::Dead => (NextState::Dead, None, None),
                Next::Expired => (NextState::Expired, None, None),
                Next::Redirected(agent) => (NextState::Redirected, None, names.agent(agent)),
            };
            DeliveryEffect {
                cause: Some(cause.as_str().to_owned()),
                reason: Some(reason.clone()).filter(|reason| !reason.is_empty()),
                next: Some(next),
                due,
                to,
                ..plain(DeliveryEffectName::Returned, *delivery, Some(*token), *origin)
            }
        }
        other => return Effect::named(other.as_str(), String::new()),
    }
    .into()
}
