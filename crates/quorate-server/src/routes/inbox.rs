//! Inbox of an agent: claim, ack, nack, extend.

use std::time::Duration;

use axum::extract::Path;
use quorate_api::claim::InboxClaim;
use quorate_api::delivery::{
    AckDelivery, Delivery, DeliveryList, EndedRequest, ExtendLease, ExtendedLeases, NackDelivery,
};
use quorate_api::result::ChangeReceipt;
use quorate_core::{AgentId, Code, Op, Refused, Timestamp};
use quorate_engine::{Error, views};
use serde::de::DeserializeOwned;

use crate::api::{Route, post, schema};
use crate::body;
use crate::call::{ApiResult, Call, NamedList, ok_response};
use crate::problem::Problem;
use crate::settings::{Durations, whole_ms};

pub(crate) fn routes() -> Vec<Route> {
    let settle = |path, id, summary| {
        post(path, id, summary)
            .path_parameter::<schema::Id>("id", "Agent ID.")
            .own_agent_only()
            .returns::<ChangeReceipt>(200, "All deliveries are changed.")
    };
    vec![
        post(
            "/v1/agents/{id}/inbox/claim",
            "inbox.claim",
            "Claim deliveries under a lease. Set `waitMs` to wait for one.",
        )
        .path_parameter::<schema::Id>("id", "Agent ID.")
        .own_agent_only()
        .request_body::<InboxClaim>()
        .returns_list::<Delivery>("deliveries")
        .handled_by(claim),
        settle("/v1/agents/{id}/inbox/ack", "inbox.ack", "Acknowledge deliveries.")
            .request_body::<DeliveryList<AckDelivery>>()
            .handled_by(ack),
        settle(
            "/v1/agents/{id}/inbox/nack",
            "inbox.nack",
            "Return deliveries (nack), for redelivery or as dead letters.",
        )
        .request_body::<DeliveryList<NackDelivery>>()
        .handled_by(nack),
        post("/v1/agents/{id}/inbox/extend", "inbox.extend", "Extend the leases of deliveries.")
            .path_parameter::<schema::Id>("id", "Agent ID.")
            .own_agent_only()
            .returns::<ExtendedLeases>(
                200,
                "All leases are extended, except those that ended with their request.",
            )
            .request_body::<DeliveryList<ExtendLease>>()
            .without_key("Extensions are not recorded; repeating one extends the leases again.")
            .handled_by(extend),
    ]
}

pub(crate) async fn claim(Path(id): Path<String>, call: Call) -> ApiResult {
    let agent = AgentId::new(id)?;
    let request: InboxClaim = body::parse(&call.body)?;
    let durations = call.durations();
    let wait = check_wait(durations, request.wait_ms)?;
    let (max, lease_ms) = (request.max.unwrap_or(1), request.lease_ms.unwrap_or(durations.lease_ms()));
    let (deliveries, since) = match &call.key {
        Some(_) => {
            let make_commit = |ops| call.new_commit(ops);
            call.wait(call.space.claim_idempotent(&make_commit, &agent, max, lease_ms, wait)).await?
        }
        None => {
            let claimed = call.space.claim(&call.principal, call.epoch, &agent, max, lease_ms, wait);
            (call.wait(claimed).await?, call.app.engine().clock().now().wall)
        }
    };
    deliveries
        .iter()
        .for_each(|delivery| call.app.telemetry().trace_cache.insert(call.space.number(), delivery));
    let items = deliveries.iter().map(|delivery| render(delivery, since)).collect();
    ok_response(&NamedList { name: "deliveries", items })
}

/// Validates `waitMs`.
pub(crate) fn check_wait(durations: &Durations, wait_ms: Option<u64>) -> Result<Duration, Refused> {
    let max = whole_ms(durations.wait_max);
    match wait_ms.unwrap_or(0) {
        wait if wait <= max => Ok(Duration::from_millis(wait)),
        wait => Err(Refused::new(Code::LimitExceeded, format!("waitMs={wait} exceeds the maximum"))
            .limit(max)
            .hint(format!("wait at most {max} ms, then call again"))),
    }
}

fn render(delivery: &quorate_engine::ReceivedDelivery, since: Timestamp) -> Delivery {
    views::delivery(delivery, since, views::message(delivery.id, delivery.sent_at, &delivery.message))
}

pub(crate) async fn ack(Path(id): Path<String>, call: Call) -> ApiResult {
    settle(&id, &call, |ack: AckDelivery| Op::Ack(ack.lease())).await
}

pub(crate) async fn nack(Path(id): Path<String>, call: Call) -> ApiResult {
    settle(&id, &call, NackDelivery::into_core).await
}

pub(crate) async fn extend(Path(id): Path<String>, call: Call) -> ApiResult {
    let context = call.parse_context();
    let mut ops = settle_ops(&id, &call, |extension: ExtendLease| extension.into_core(&context))?;
    let mut ended_requests = Vec::new();
    let mut commit = call.new_commit(ops.clone());
    loop {
        let refused = match call.space.commit(commit).await {
            Ok(receipt) => {
                let receipt = ChangeReceipt::from(&receipt);
                return ok_response(&ExtendedLeases { receipt, ended_requests });
            }
            Err(Error::Refused(refused)) => refused,
            Err(error) => return Err(error.into()),
        };
        // A poller learns here that an answer is not needed any more. That does not affect its other leases.
        let stale = refused.facts.stale.iter();
        let ended: Vec<_> = stale.filter_map(|stale| stale.ended_request.as_ref()).collect();
        if ended.is_empty() {
            return Err(refused.into());
        }
        let has_ended = |op: &Op| match op {
            Op::Extend(extend) => ended.iter().any(|ended| ended.delivery == extend.lease.delivery),
            _ => false,
        };
        ops.retain(|op| !has_ended(op));
        ended_requests.extend(ended.into_iter().map(EndedRequest::from));
        if ops.is_empty() {
            return ok_response(&ExtendedLeases { receipt: ChangeReceipt { seq: None }, ended_requests });
        }
        // An idempotency key belongs to the extension of all leases.
        commit = call.unkeyed_commit(ops.clone());
    }
}

/// Applies an operation to all deliveries atomically. Stale leases are listed in the error.
async fn settle<T: DeserializeOwned>(id: &str, call: &Call, op: impl Fn(T) -> Op) -> ApiResult {
    let receipt = call.commit(settle_ops(id, call, op)?).await?;
    ok_response(&ChangeReceipt::from(&receipt))
}

fn settle_ops<T: DeserializeOwned>(id: &str, call: &Call, op: impl Fn(T) -> Op) -> Result<Vec<Op>, Problem> {
    let agent = AgentId::new(id)?;
    if call.space.published().agents.number(&agent).is_none() {
        return Err(Refused::new(Code::NotFound, format!("there is no agent {agent}"))
            .hint("register it first, or list agents with GET /v1/agents")
            .into());
    }
    let DeliveryList { deliveries } = body::parse::<DeliveryList<T>>(&call.body)?;
    Ok(deliveries.into_iter().map(op).collect())
}
