//! An agent's inbox: claim, ack, nack, extend.

use std::time::Duration;

use axum::extract::Path;
use quorate_core::{AgentId, Code, Refused};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::{Route, post, words};
use crate::body;
use crate::call::{Answer, Call, Listed, ok};
use crate::settings::{Times, whole_ms};
use crate::wire::delivery::{DeliveryOut, LeaseIn, Settle};
use crate::wire::result::Changed;

pub(crate) fn routes() -> Vec<Route> {
    let settle = |path, id, about| {
        post(path, id, about)
            .path::<words::Id>("id")
            .for_itself()
            .body::<Leases>()
            .answers::<Changed>(200, "All of them.")
    };
    vec![
        post(
            "/v1/agents/{id}/inbox/claim",
            "inbox.claim",
            "Takes deliveries under a lease, and waits for one if asked to.",
        )
        .path::<words::Id>("id")
        .for_itself()
        .body::<ClaimIn>()
        .lists_all::<DeliveryOut>("deliveries")
        .to(claim),
        settle("/v1/agents/{id}/inbox/ack", "inbox.ack", "Is done with deliveries.").to(ack),
        settle("/v1/agents/{id}/inbox/nack", "inbox.nack", "Gives deliveries back.").to(nack),
        settle("/v1/agents/{id}/inbox/extend", "inbox.extend", "Keeps deliveries for longer.")
            .without_key("It leaves no record: once more, and they are held from then on.")
            .to(extend),
    ]
}

/// How much to take.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "InboxClaim")]
struct ClaimIn {
    /// How many at most; 1 if nothing is said.
    #[schemars(range(min = 1, max = 256))]
    max: Option<u32>,
    /// How long to wait if there is none.
    #[schemars(range(max = 60_000))]
    wait_ms: Option<u64>,
    /// How long each is held; 30 s if nothing is said.
    #[schemars(with = "Option<words::LeaseMs>")]
    lease_ms: Option<u64>,
}

pub(crate) async fn claim(Path(id): Path<String>, call: Call) -> Answer {
    let agent = AgentId::new(id)?;
    let asked: ClaimIn = body::parse(&call.body)?;
    let times = call.times();
    let wait = checked_wait(times, asked.wait_ms)?;
    let (max, lease_ms) = (asked.max.unwrap_or(1), asked.lease_ms.unwrap_or(times.lease_ms()));
    let (deliveries, since) = match &call.key {
        Some(_) => {
            let asker = |ops| call.as_commit(ops);
            call.waiting(call.space.claim_once(&asker, &agent, max, lease_ms, wait)).await?
        }
        None => {
            let claimed = call.space.claim(&call.principal, call.epoch, &agent, max, lease_ms, wait);
            (call.waiting(claimed).await?, call.app.engine().clock().now().wall)
        }
    };
    deliveries.iter().for_each(|delivery| call.app.observed().handed.note(call.space.number(), delivery));
    let items = deliveries.iter().map(|delivery| DeliveryOut::new(delivery, since)).collect();
    ok(&Listed { name: "deliveries", items })
}

/// How long somebody wants to wait.
pub(crate) fn checked_wait(times: &Times, wait_ms: Option<u64>) -> Result<Duration, Refused> {
    let max = whole_ms(times.wait_max);
    match wait_ms.unwrap_or(0) {
        wait if wait <= max => Ok(Duration::from_millis(wait)),
        wait => Err(Refused::new(Code::LimitExceeded, format!("waitMs: {wait}"))
            .limit(max)
            .hint(format!("wait at most {max} ms, and ask again"))),
    }
}

/// Deliveries that somebody holds.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HeldDeliveries")]
struct Leases {
    #[serde(deserialize_with = "crate::object::objects")]
    #[schemars(length(min = 1, max = 256))]
    deliveries: Vec<LeaseIn>,
}

pub(crate) async fn ack(Path(id): Path<String>, call: Call) -> Answer {
    settle(&id, &call, Settle::Ack).await
}

pub(crate) async fn nack(Path(id): Path<String>, call: Call) -> Answer {
    settle(&id, &call, Settle::Nack).await
}

pub(crate) async fn extend(Path(id): Path<String>, call: Call) -> Answer {
    settle(&id, &call, Settle::Extend).await
}

/// All of them or none: whichever is stale is named.
async fn settle(id: &str, call: &Call, what: Settle) -> Answer {
    let agent = AgentId::new(id)?;
    if call.space.published().agents.number(&agent).is_none() {
        return Err(Refused::new(Code::NotFound, format!("there is no agent {agent}"))
            .hint("register it first, or look at the list of agents")
            .into());
    }
    let leases: Leases = body::parse(&call.body)?;
    let ops = leases
        .deliveries
        .into_iter()
        .map(|lease| lease.read(what, call.times()))
        .collect::<Result<Vec<_>, _>>()?;
    let receipt = call.commit(ops).await?;
    ok(&Changed::of(&receipt))
}
