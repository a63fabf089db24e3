//! An agent's inbox: claim, ack, nack, extend.

use std::time::Duration;

use axum::extract::Path;
use quorate_api::claim::InboxClaim;
use quorate_api::delivery::{AckDelivery, Delivery, ExtendLease, List, NackDelivery};
use quorate_api::result::Changed;
use quorate_core::{AgentId, Code, Op, Refused, Timestamp};
use quorate_engine::views;
use serde::de::DeserializeOwned;

use crate::api::{Route, post, words};
use crate::body;
use crate::call::{Answer, Call, Listed, ok};
use crate::settings::{Times, whole_ms};

pub(crate) fn routes() -> Vec<Route> {
    let settle = |path, id, about| {
        post(path, id, about).path::<words::Id>("id").for_itself().answers::<Changed>(200, "All of them.")
    };
    vec![
        post(
            "/v1/agents/{id}/inbox/claim",
            "inbox.claim",
            "Takes deliveries under a lease, and waits for one if asked to.",
        )
        .path::<words::Id>("id")
        .for_itself()
        .body::<InboxClaim>()
        .lists_all::<Delivery>("deliveries")
        .to(claim),
        settle("/v1/agents/{id}/inbox/ack", "inbox.ack", "Is done with deliveries.")
            .body::<List<AckDelivery>>()
            .to(ack),
        settle("/v1/agents/{id}/inbox/nack", "inbox.nack", "Gives deliveries back.")
            .body::<List<NackDelivery>>()
            .to(nack),
        settle("/v1/agents/{id}/inbox/extend", "inbox.extend", "Keeps deliveries for longer.")
            .body::<List<ExtendLease>>()
            .without_key("It leaves no record: once more, and they are held from then on.")
            .to(extend),
    ]
}

pub(crate) async fn claim(Path(id): Path<String>, call: Call) -> Answer {
    let agent = AgentId::new(id)?;
    let asked: InboxClaim = body::parse(&call.body)?;
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
    let items = deliveries.iter().map(|delivery| shown(delivery, since)).collect();
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

fn shown(delivery: &quorate_engine::Delivery, since: Timestamp) -> Delivery {
    views::delivery(delivery, since, views::message(delivery.id, delivery.sent_at, &delivery.message))
}

pub(crate) async fn ack(Path(id): Path<String>, call: Call) -> Answer {
    settle(&id, &call, |one: AckDelivery| Op::Ack(one.lease())).await
}

pub(crate) async fn nack(Path(id): Path<String>, call: Call) -> Answer {
    settle(&id, &call, NackDelivery::read).await
}

pub(crate) async fn extend(Path(id): Path<String>, call: Call) -> Answer {
    let reading = call.reading();
    settle(&id, &call, |one: ExtendLease| one.read(&reading)).await
}

/// All of them or none: whichever is stale is named.
async fn settle<T: DeserializeOwned>(id: &str, call: &Call, op: impl Fn(T) -> Op) -> Answer {
    let agent = AgentId::new(id)?;
    if call.space.published().agents.number(&agent).is_none() {
        return Err(Refused::new(Code::NotFound, format!("there is no agent {agent}"))
            .hint("register it first, or look at the list of agents")
            .into());
    }
    let List { deliveries } = body::parse::<List<T>>(&call.body)?;
    let ops = deliveries.into_iter().map(op).collect();
    let receipt = call.commit(ops).await?;
    ok(&Changed::from(&receipt))
}
