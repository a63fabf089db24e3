//! Deliveries in JSON: what is claimed, and what is said of it afterwards.

use quorate_core::{
    DeliveryId, EndState, Extend, LeaseRef, Nack, NackThen, Op, OpenState, Refused, Timestamp, Token,
};
use quorate_engine::{Delivery, DeliveryState, DeliveryView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message::MessageOut;
use super::time;
use super::told::Told;
use crate::api::words;
use crate::settings::Times;

/// A delivery and its lease, and what is said of it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HeldDelivery")]
pub(crate) struct LeaseIn {
    #[schemars(with = "words::DeliveryId")]
    delivery_id: String,
    /// As the claim told.
    lease_token: u64,
    /// Of a nack: how long to wait before the next try.
    #[schemars(range(max = 86_400_000))]
    delay_ms: Option<u64>,
    /// Of a nack: why.
    #[schemars(with = "Option<words::Sentence>")]
    reason: Option<String>,
    /// Of an extension: how long from now; 30 s if nothing is said.
    #[schemars(with = "Option<words::LeaseMs>")]
    lease_ms: Option<u64>,
    /// Of a nack: it was not tried at all.
    #[serde(default)]
    untried: bool,
    /// Of a nack: another try would not help.
    #[serde(default)]
    hopeless: bool,
}

/// What is done with held deliveries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settle {
    Ack,
    Nack,
    Extend,
}

impl LeaseIn {
    pub(crate) fn lease(&self) -> Result<LeaseRef, Refused> {
        let delivery: DeliveryId = self.delivery_id.parse()?;
        Ok(LeaseRef { delivery, token: Token(self.lease_token) })
    }

    pub(crate) fn read(self, what: Settle, times: &Times) -> Result<Op, Refused> {
        let lease = self.lease()?;
        Ok(match what {
            Settle::Ack => Op::Ack(lease),
            Settle::Extend => {
                Op::Extend(Extend { lease, lease_ms: self.lease_ms.unwrap_or(times.lease_ms()) })
            }
            Settle::Nack => {
                let then = match (self.hopeless, self.untried) {
                    (true, _) => NackThen::Dead,
                    (false, true) => NackThen::Release,
                    (false, false) => NackThen::Retry { delay_ms: self.delay_ms.unwrap_or(0) },
                };
                Op::Nack(Nack { lease, then, reason: self.reason.unwrap_or_default() })
            }
        })
    }
}

/// A delivery in the hands of its recipient.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Delivery")]
pub(crate) struct DeliveryOut {
    /// `null` for an ephemeral message: nobody needs to ack it.
    #[schemars(with = "Option<words::DeliveryId>")]
    delivery_id: Option<String>,
    lease_token: Option<u64>,
    /// Counted from 1.
    attempt: u16,
    #[schemars(with = "Option<words::Time>")]
    lease_until: Option<String>,
    #[schemars(with = "MessageOut")]
    message: Told,
}

impl DeliveryOut {
    pub(crate) fn new(delivery: &Delivery, now: Timestamp) -> Self {
        Self::with(delivery, Told::fresh(delivery), now)
    }

    /// A delivery whose message is in JSON already.
    pub(crate) fn with(delivery: &Delivery, message: Told, now: Timestamp) -> Self {
        let Held { delivery_id, lease_token, attempt, lease_until } = Held::new(delivery, now);
        Self { delivery_id, lease_token, attempt, lease_until, message }
    }
}

/// How a delivery is held, whatever the shape of its message.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Held {
    /// `null` for an ephemeral message: nobody needs to ack it.
    #[schemars(with = "Option<words::DeliveryId>")]
    delivery_id: Option<String>,
    lease_token: Option<u64>,
    /// Counted from 1.
    attempt: u16,
    #[schemars(with = "Option<words::Time>")]
    lease_until: Option<String>,
}

impl Held {
    pub(crate) fn new(delivery: &Delivery, now: Timestamp) -> Self {
        let held = delivery.lease;
        Self {
            delivery_id: held.map(|lease| lease.delivery.to_string()),
            lease_token: held.map(|lease| lease.token.0),
            attempt: delivery.attempt,
            lease_until: held.map(|_| time::shown(now.plus_ms(delivery.lease_ms))),
        }
    }
}

/// Where a delivery is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeliveryState")]
pub(crate) struct StateOut {
    #[schemars(with = "words::DeliveryId")]
    delivery_id: String,
    /// Whose it is: an agent, or `can:CAPABILITY` until somebody takes it.
    agent: String,
    #[schemars(extend("enum" = ["ready", "scheduled", "leased", "acked", "dead", "expired", "purged"]))]
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<words::Time>")]
    due: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The record that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_by: Option<u64>,
}

impl StateOut {
    pub(crate) fn new(view: &DeliveryView) -> Self {
        let out = |state| Self {
            delivery_id: view.id.to_string(),
            agent: view.agent.to_string(),
            state,
            attempt: None,
            due: None,
            reason: None,
            ended_by: None,
        };
        match view.state {
            DeliveryState::Open { state, attempt } => {
                let (word, due, reason) = match state {
                    OpenState::Ready { .. } => ("ready", None, None),
                    OpenState::Scheduled { due } => ("scheduled", Some(time::shown(due)), None),
                    OpenState::Held { .. } => ("scheduled", None, Some("paused")),
                    OpenState::Leased { .. } => ("leased", None, None),
                };
                Self { attempt: Some(attempt), due, reason, ..out(word) }
            }
            DeliveryState::Ended { state, seq } => {
                let word = match state {
                    EndState::Acked => "acked",
                    EndState::Dead => "dead",
                    EndState::Expired => "expired",
                    EndState::Purged => "purged",
                };
                Self { ended_by: Some(seq.0), ..out(word) }
            }
        }
    }
}
