//! Approvals: propose an action, inspect it, decide about it. A decision must state the digest of the inspected
//! action.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::approval::{
    Approval as ShownApproval, ApprovalAction, ApprovalGetQuery, ApprovalListQuery, ApprovalWithAction,
    NewApproval, NewDecision,
};
use quorate_api::page::ListQuery;
use quorate_api::payload;
use quorate_api::why::Explanation;
use quorate_core::{Approval, ApprovalId, ApprovalState, Code, Op, OpResult, Permission, Refused, Seq};
use quorate_engine::{ApprovalView, StoredItem as _};

use super::at_with_wait;
use super::inbox::check_wait;
use crate::api::{Route, get, post, schema};
use crate::body;
use crate::call::{ApiResult, Call, json_response, ok_response};
use crate::problem::Problem;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/approvals", "approvals.request", "Request approval of an action.")
            .request_body::<NewApproval<'_>>()
            .returns::<ApprovalWithAction>(201, "The approval is pending.")
            .handled_by(request),
        get(
            "/v1/approvals",
            "approvals.list",
            "List approvals without their actions, newest first. Agents see only their own.",
        )
        .query_parameters::<ApprovalListQuery>()
        .returns_page::<ShownApproval>("approvals")
        .handled_in_bulk_by(list),
        get(
            "/v1/approvals/{id}",
            "approvals.get",
            "Get an approval with its exact action, optionally as of a past record. Set `waitMs` to wait for the decision.",
        )
        .path_parameter::<schema::Id>("id", "Approval ID.")
        .query_parameters::<ApprovalGetQuery>()
        .returns::<ApprovalWithAction>(200, "The approval.")
        .handled_by(show),
        post(
            "/v1/approvals/{id}/decision",
            "approvals.decide",
            "Approve, reject or modify a proposed action. Requesters cannot decide their own approvals.",
        )
        .requires(Permission::Approve)
        .path_parameter::<schema::Id>("id", "Approval ID.")
        .request_body::<NewDecision<'_>>()
        .returns::<ApprovalWithAction>(200, "The approval is decided, and the requester is notified in the same commit.")
        .handled_by(decide),
        get(
            "/v1/approvals/{id}/why",
            "approvals.why",
            "Explain what an approval waits for, until when, and what happens then.",
        )
        .path_parameter::<schema::Id>("id", "Approval ID.")
        .returns::<Explanation>(200, "The explanation.")
        .handled_by(why),
    ]
}

pub(crate) async fn request(call: Call) -> ApiResult {
    let new_approval = body::parse::<NewApproval<'_>>(&call.body)?.into_core(&call.parse_context())?;
    let receipt = call.commit(vec![Op::RequestApproval(Box::new(new_approval))]).await?;
    match receipt.results.first() {
        Some(OpResult::ApprovalRequested { id, .. }) => {
            let approval = as_of(&call, id, receipt.seq).await?;
            respond(&call, StatusCode::CREATED, approval).await
        }
        _ => Err(Problem::unknown_outcome("the approval request returned no result")),
    }
}

pub(crate) async fn decide(Path(id): Path<String>, call: Call) -> ApiResult {
    let decide = body::parse::<NewDecision<'_>>(&call.body)?
        .into_core(&call.parse_context(), Some(ApprovalId::new(id)?))?;
    let id = decide.approval.clone();
    let receipt = call.commit(vec![Op::DecideApproval(Box::new(decide))]).await?;
    let approval = as_of(&call, &id, receipt.seq).await?;
    respond(&call, StatusCode::OK, approval).await
}

/// Returns the approval as of a record: an idempotent replay returns the same response.
async fn as_of(call: &Call, id: &ApprovalId, at: Option<Seq>) -> Result<Approval, Problem> {
    let approval: Approval = call.space.item(id).await?;
    Ok(match at {
        Some(at) => approval.as_of(at).ok_or_else(|| Approval::not_found(id))?,
        None => approval,
    })
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    let ApprovalGetQuery { at, time, wait_ms } = call.query()?;
    let at = call.as_of(at.as_deref(), time.as_deref()).await?;
    let wait = check_wait(call.durations(), wait_ms)?;
    let approval = visible(&call, &ApprovalId::new(id)?).await?;
    let id = approval.id.clone();
    let approval = match at {
        Some(_) if wait_ms.is_some() => return Err(at_with_wait().into()),
        Some(at) => approval.as_of(at).ok_or_else(|| Approval::not_found(&id))?,
        None if wait.is_zero() => approval,
        None => call.wait(call.space.wait_for_approval(&id, wait)).await?,
    };
    respond(&call, StatusCode::OK, approval).await
}

pub(crate) async fn why(Path(id): Path<String>, call: Call) -> ApiResult {
    let approval = visible(&call, &ApprovalId::new(id)?).await?;
    ok_response(&Explanation::from(&call.space.why(approval.id.as_str()).await?))
}

/// Returns an approval that the caller may see; otherwise not found.
async fn visible(call: &Call, id: &ApprovalId) -> Result<Approval, Problem> {
    let approval = call.space.item(id).await?;
    if is_visible(call, &approval) { Ok(approval) } else { Err(Approval::not_found(id).into()) }
}

/// Whether the caller may see an approval: agents see those they requested and those whose follow-up is sent to them.
pub(super) fn is_visible(call: &Call, approval: &Approval) -> bool {
    let Some(caller) = call.calling_agent() else { return true };
    let Some(number) = call.space.published().agents.number(caller) else { return false };
    approval.agent == Some(number) || approval.follow_ups.iter().any(|follow_up| follow_up.to == number)
}

async fn respond(call: &Call, status: StatusCode, approval: Approval) -> ApiResult {
    let ApprovalView { approval, action, modification, modified } =
        call.space.approval_view(approval).await?;
    let summary = ShownApproval::new(&call.space.published().agents, &approval);
    let [document, modification, approved_document] = [action, modification, modified]
        .map(|payload| payload.map(|payload| payload::render(&payload, None)));
    let more = ApprovalAction { document, modification, approved_document };
    json_response(status, &ApprovalWithAction { approval: summary, more })
}

pub(crate) async fn list(call: Call) -> ApiResult {
    let filter: ApprovalListQuery = call.query()?;
    if let Some(name) = filter.state.as_deref().filter(|name| !ApprovalState::NAMES.contains(name)) {
        return Err(Refused::new(Code::Invalid, format!("unknown approval state {name:?}"))
            .hint(format!("use one of {}", ApprovalState::NAMES.join(", ")))
            .into());
    }
    let matches = |approval: &Approval| {
        filter.state.as_deref().is_none_or(|name| name == approval.state.as_str())
            && is_visible(&call, approval)
    };
    let list_query = ListQuery { order: filter.order, limit: filter.limit, cursor: filter.cursor.clone() };
    let agents = &call.space.published().agents;
    super::list(&call, "approvals", list_query, matches, |approval| ShownApproval::new(agents, approval))
        .await
}
