//! Approvals: propose an action, look at it, decide about it. No payload, no decision: a decision names the digest of what
//! was looked at.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::approval::{
    Approval as ShownApproval, ApprovalAction, ApprovalWithAction, Decision, NewApproval,
};
use quorate_api::page::Order;
use quorate_api::payload;
use quorate_api::why::Why;
use quorate_core::{Approval, ApprovalId, ApprovalState, Code, Deed, Op, OpResult, Refused, Seq};
use quorate_engine::{ApprovalView, Noun as _};
use schemars::JsonSchema;
use serde::Deserialize;

use super::inbox::checked_wait;
use super::{Listing, waits_for_the_past};
use crate::api::{Route, get, post, words};
use crate::body;
use crate::call::{Answer, Call, answer, ok};
use crate::problem::Problem;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/approvals", "approvals.request", "Proposes an action that a person has to approve.")
            .body::<NewApproval<'_>>()
            .answers::<ApprovalWithAction>(201, "It is pending.")
            .to(request),
        get(
            "/v1/approvals",
            "approvals.list",
            "List approvals, newest first, without the actions; an agent sees its own.",
        )
        .query::<Filter>()
        .lists::<ShownApproval>("approvals")
        .bulk(list),
        get(
            "/v1/approvals/{id}",
            "approvals.get",
            "An approval with the exact action, as it is or was; waits for its end if asked to.",
        )
        .path::<words::Id>("id")
        .query::<When>()
        .answers::<ApprovalWithAction>(200, "The approval.")
        .to(show),
        post(
            "/v1/approvals/{id}/decision",
            "approvals.decide",
            "Approves, rejects or modifies a proposed action; never for whoever asked.",
        )
        .is(Deed::Approve)
        .path::<words::Id>("id")
        .body::<Decision<'_>>()
        .answers::<ApprovalWithAction>(200, "It is decided, and whoever asked is told in the same commit.")
        .to(decide),
        get(
            "/v1/approvals/{id}/why",
            "approvals.why",
            "Who waits for whom, until when, and what happens then.",
        )
        .path::<words::Id>("id")
        .answers::<Why>(200, "Why.")
        .to(why),
    ]
}

pub(crate) async fn request(call: Call) -> Answer {
    let ask = body::parse::<NewApproval<'_>>(&call.body)?.read(&call.reading())?;
    let receipt = call.commit(vec![Op::RequestApproval(Box::new(ask))]).await?;
    match receipt.results.first() {
        Some(OpResult::ApprovalRequested { id, .. }) => {
            let approval = after(&call, id, receipt.seq).await?;
            shown(&call, StatusCode::CREATED, approval).await
        }
        _ => Err(Refused::new(Code::Unavailable, "the approval was not answered").into()),
    }
}

pub(crate) async fn decide(Path(id): Path<String>, call: Call) -> Answer {
    let decide =
        body::parse::<Decision<'_>>(&call.body)?.read(&call.reading(), Some(ApprovalId::new(id)?))?;
    let id = decide.approval.clone();
    let receipt = call.commit(vec![Op::DecideApproval(Box::new(decide))]).await?;
    let approval = after(&call, &id, receipt.seq).await?;
    shown(&call, StatusCode::OK, approval).await
}

/// As a record left it: asked again under the same key, the answer is the same.
async fn after(call: &Call, id: &ApprovalId, at: Option<Seq>) -> Result<Approval, Problem> {
    let approval: Approval = call.space.item(id).await?;
    Ok(match at {
        Some(at) => approval.at(at).ok_or_else(|| Approval::not_found(id))?,
        None => approval,
    })
}

/// As it is, as it will be, or as it was.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct When {
    /// The record after which, by its number; or a time. The newest one if nothing is said.
    at: Option<String>,
    /// The newest record at a time.
    #[schemars(with = "Option<words::Time>")]
    time: Option<String>,
    /// How long to wait until it is decided or expired; then it is shown as it is. Not together with `at`.
    #[schemars(range(max = 60_000))]
    wait_ms: Option<u64>,
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let When { at, time, wait_ms } = call.query()?;
    let at = call.past(at.as_deref(), time.as_deref()).await?;
    let wait = checked_wait(call.times(), wait_ms)?;
    let approval = seen(&call, &ApprovalId::new(id)?).await?;
    let id = approval.id.clone();
    let approval = match at {
        Some(_) if wait_ms.is_some() => return Err(waits_for_the_past().into()),
        Some(at) => approval.at(at).ok_or_else(|| Approval::not_found(&id))?,
        None if wait.is_zero() => approval,
        None => call.waiting(call.space.approval_over(&id, wait)).await?,
    };
    shown(&call, StatusCode::OK, approval).await
}

pub(crate) async fn why(Path(id): Path<String>, call: Call) -> Answer {
    let approval = seen(&call, &ApprovalId::new(id)?).await?;
    ok(&Why::from(&call.space.why(approval.id.as_str()).await?))
}

/// An approval that whoever asks may see; for others it is not there.
async fn seen(call: &Call, id: &ApprovalId) -> Result<Approval, Problem> {
    let approval = call.space.item(id).await?;
    if is_for(call, &approval) { Ok(approval) } else { Err(Approval::not_found(id).into()) }
}

/// An agent sees what it asked for itself, and what shall be sent to it.
pub(super) fn is_for(call: &Call, approval: &Approval) -> bool {
    let Some(by) = call.by() else { return true };
    let Some(number) = call.space.published().agents.number(by) else { return false };
    approval.agent == Some(number) || approval.then.iter().any(|then| then.to == number)
}

async fn shown(call: &Call, status: StatusCode, approval: Approval) -> Answer {
    let ApprovalView { approval, action, modification, modified } =
        call.space.approval_view(approval).await?;
    let shown = ShownApproval::new(&call.space.published().agents, &approval);
    let [document, modification, approved_document] =
        [action, modification, modified].map(|payload| payload.map(|payload| payload::shown(&payload, None)));
    let more = ApprovalAction { document, modification, approved_document };
    answer(status, &ApprovalWithAction { approval: shown, more })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    #[schemars(with = "Option<words::ApprovalWord>")]
    state: Option<String>,
    #[schemars(with = "Option<words::Order>")]
    order: Option<Order>,
    #[schemars(with = "Option<words::Limit>")]
    limit: Option<usize>,
    #[schemars(with = "Option<words::Cursor>")]
    cursor: Option<String>,
}

pub(crate) async fn list(call: Call) -> Answer {
    let filter: Filter = call.query()?;
    if let Some(word) = filter.state.as_deref().filter(|word| !ApprovalState::WORDS.contains(word)) {
        return Err(Refused::new(Code::Invalid, format!("there is no approval state {word:?}"))
            .hint(format!("say one of {}", ApprovalState::WORDS.join(", ")))
            .into());
    }
    let wanted = |approval: &Approval| {
        filter.state.as_deref().is_none_or(|word| word == approval.state.as_str()) && is_for(&call, approval)
    };
    let listing = Listing { order: filter.order, limit: filter.limit, cursor: filter.cursor.clone() };
    let agents = &call.space.published().agents;
    super::list(&call, "approvals", listing, wanted, |one| ShownApproval::new(agents, one)).await
}
