//! Approvals: propose an action, look at it, decide about it. No payload, no decision: a decision names the digest of what
//! was looked at.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::canonical::action_document;
use quorate_core::limits::{APPROVAL_MS_DEFAULT, APPROVAL_MS_MAX, APPROVAL_MS_MIN};
use quorate_core::{
    ActionDigest, AgentId, Approval, ApprovalId, ApprovalState, Code, DecideApproval, Deed, Op, OpResult,
    Priority, Refused, RequestApproval, Seq, Verdict,
};
use quorate_engine::ApprovalView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::inbox::checked_wait;
use super::requests::{WhyOut, why_shown};
use super::{checked_limit, waits_for_the_past};
use crate::api::{Route, get, post, words};
use crate::body;
use crate::call::{Answer, Call, answer, ok, page};
use crate::problem::Problem;
use crate::wire::message::PriorityIn;
use crate::wire::{self, Raw, Sealing, time};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/approvals", "approvals.request", "Proposes an action that a person has to approve.")
            .body::<RequestIn<'_>>()
            .answers::<ApprovalOut>(201, "It is pending.")
            .to(request),
        get(
            "/v1/approvals",
            "approvals.list",
            "The approvals, by id, without the actions; an agent sees its own.",
        )
        .query::<Filter>()
        .lists::<ApprovalFields>("approvals")
        .bulk(list),
        get(
            "/v1/approvals/{id}",
            "approvals.get",
            "An approval with the exact action, as it is or was; waits for its end if asked to.",
        )
        .path::<words::Id>("id")
        .query::<When>()
        .answers::<ApprovalOut>(200, "The approval.")
        .to(show),
        post(
            "/v1/approvals/{id}/decision",
            "approvals.decide",
            "Approves, rejects or modifies a proposed action; never for whoever asked.",
        )
        .is(Deed::Approve)
        .path::<words::Id>("id")
        .body::<DecisionIn<'_>>()
        .answers::<ApprovalOut>(200, "It is decided, and whoever asked is told in the same commit.")
        .to(decide),
        get(
            "/v1/approvals/{id}/why",
            "approvals.why",
            "Who waits for whom, until when, and what happens then.",
        )
        .path::<words::Id>("id")
        .answers::<WhyOut>(200, "Why.")
        .to(why),
    ]
}

/// An action as a caller proposes it.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewApproval")]
pub(crate) struct RequestIn<'a> {
    /// The caller's own id; the hub makes one if nothing is said.
    #[schemars(with = "Option<words::Id>")]
    id: Option<String>,
    /// For which agent; an agent asks for itself.
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
    /// What kind of action it is, as a word.
    #[schemars(with = "words::Id")]
    action: String,
    /// What exactly shall happen: any JSON with one meaning. With the action it is at most 256 KB in its canonical form.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    payload: Option<&'a RawValue>,
    #[schemars(with = "Option<words::Sentence>")]
    rationale: Option<String>,
    #[schemars(range(min = 0.0, max = 1.0))]
    confidence: Option<f64>,
    priority: Option<PriorityIn>,
    /// How long a person has; 72 hours if nothing is said. Then it is `expired`, and nobody rejected it.
    #[schemars(range(min = APPROVAL_MS_MIN, max = APPROVAL_MS_MAX))]
    timeout_ms: Option<u64>,
    /// What whoever asks shall do if nobody decides.
    #[serde(default)]
    #[schemars(with = "words::Sentence")]
    default: String,
    #[schemars(with = "Option<words::Id>")]
    session_id: Option<String>,
    /// To whom the approved action is sent, in the very commit that approves it.
    #[serde(default)]
    #[schemars(length(max = 16))]
    then: Vec<ThenIn>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ThenSend")]
struct ThenIn {
    /// An agent.
    #[schemars(with = "words::Id")]
    to: String,
    /// The action of that message.
    #[schemars(length(max = 128))]
    action: String,
}

impl RequestIn<'_> {
    pub(crate) fn read(self, sealing: &Sealing<'_>) -> Result<RequestApproval, Refused> {
        let payload = self.payload.map_or("null", RawValue::get);
        let document = action_document(&self.action, payload.as_bytes())?;
        let then = |ThenIn { to, action }| Ok((AgentId::new(to)?, action));
        Ok(RequestApproval {
            id: self.id.map(ApprovalId::new).transpose()?,
            agent: self.agent.map(AgentId::new).transpose()?,
            action: self.action,
            document: sealing.space.seal(document),
            rationale: self.rationale,
            confidence: self.confidence,
            priority: self.priority.map_or(Ok(Priority::NORMAL), |priority| priority.read())?,
            timeout_ms: self.timeout_ms.unwrap_or(APPROVAL_MS_DEFAULT),
            default: self.default,
            session: self.session_id,
            then: self.then.into_iter().map(then).collect::<Result<_, Refused>>()?,
        })
    }
}

/// What somebody says of a proposed action.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Decision")]
pub(crate) struct DecisionIn<'a> {
    /// In a commit, also as `id`; in a call of its own it stands in the path.
    #[serde(alias = "id")]
    #[schemars(with = "Option<words::Id>")]
    approval: Option<String>,
    decision: VerdictIn,
    /// The digest of what was looked at.
    #[schemars(with = "words::Sha256")]
    digest: String,
    /// Needed to reject.
    #[serde(default)]
    #[schemars(with = "words::Sentence")]
    reason: String,
    /// With `modify`: a JSON patch (RFC 6902) of the payload.
    #[serde(borrow)]
    #[schemars(with = "Option<words::Any>")]
    modification: Option<&'a RawValue>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum VerdictIn {
    Approve,
    Reject,
    Modify,
}

impl DecisionIn<'_> {
    pub(crate) fn read(self, sealing: &Sealing<'_>, path: Option<&str>) -> Result<DecideApproval, Refused> {
        let approval = match (path, self.approval) {
            (Some(path), Some(body)) if path != body => {
                return Err(Refused::new(Code::Invalid, format!("the path names {path}, the body {body}"))
                    .hint("name it in the path only"));
            }
            (Some(path), _) => ApprovalId::new(path)?,
            (None, body) => ApprovalId::new(body.unwrap_or_default())?,
        };
        let verdict = match (self.decision, self.modification) {
            (VerdictIn::Approve, None) => Verdict::Approve,
            (VerdictIn::Reject, None) => Verdict::Reject,
            (VerdictIn::Modify, Some(patch)) => {
                Verdict::Modify { patch: sealing.payload(Some(patch), None)?, document: None }
            }
            (VerdictIn::Modify, None) => {
                return Err(Refused::new(Code::Invalid, "modification is missing")
                    .hint("give a JSON patch of the payload, or approve it as it is"));
            }
            (VerdictIn::Approve | VerdictIn::Reject, Some(_)) => {
                return Err(Refused::new(Code::Invalid, "a modification is no part of this decision")
                    .hint("say modify to approve the action as modified"));
            }
        };
        Ok(DecideApproval { approval, verdict, digest: self.digest.parse()?, reason: self.reason })
    }
}

pub(crate) async fn request(call: Call) -> Answer {
    let ask = body::parse::<RequestIn<'_>>(&call.body)?.read(&call.sealing())?;
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
    let decide = body::parse::<DecisionIn<'_>>(&call.body)?.read(&call.sealing(), Some(&id))?;
    let id = decide.approval.clone();
    let receipt = call.commit(vec![Op::DecideApproval(Box::new(decide))]).await?;
    let approval = after(&call, &id, receipt.seq).await?;
    shown(&call, StatusCode::OK, approval).await
}

/// As a record left it: asked again under the same key, the answer is the same.
async fn after(call: &Call, id: &ApprovalId, at: Option<Seq>) -> Result<Approval, Problem> {
    let approval = call.space.approval(id).await?;
    Ok(match at {
        Some(at) => approval.at(at).ok_or_else(|| missing(id))?,
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
        Some(at) => approval.at(at).ok_or_else(|| missing(&id))?,
        None if wait.is_zero() => approval,
        None => call.waiting(call.space.approval_over(&id, wait)).await?,
    };
    shown(&call, StatusCode::OK, approval).await
}

pub(crate) async fn why(Path(id): Path<String>, call: Call) -> Answer {
    let approval = seen(&call, &ApprovalId::new(id)?).await?;
    ok(&why_shown(&call.space.why(approval.id.as_str()).await?))
}

/// An approval that whoever asks may see; for others it is not there.
async fn seen(call: &Call, id: &ApprovalId) -> Result<Approval, Problem> {
    let approval = call.space.approval(id).await?;
    if is_for(call, &approval) { Ok(approval) } else { Err(missing(id).into()) }
}

/// An agent sees what it asked for itself, and what shall be sent to it.
pub(super) fn is_for(call: &Call, approval: &Approval) -> bool {
    let Some(by) = call.by() else { return true };
    let Some(number) = call.space.published().agents.number(by) else { return false };
    approval.agent == Some(number) || approval.then.iter().any(|then| then.to == number)
}

fn missing(id: &ApprovalId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no approval {id}"))
        .hint("check the id; list what is pending")
}

async fn shown(call: &Call, status: StatusCode, approval: Approval) -> Answer {
    let ApprovalView { approval, action, modification, modified } =
        call.space.approval_view(approval).await?;
    let fields = of(call, &approval);
    let [document, modification, approved_document] =
        [action, modification, modified].map(|payload| payload.map(|payload| wire::shown(&payload, None)));
    answer(status, &ApprovalOut { approval: fields, document, modification, approved_document })
}

/// An approval with the exact bytes.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApprovalWithAction")]
struct ApprovalOut {
    #[serde(flatten)]
    approval: ApprovalFields,
    /// What was proposed, in its canonical form, byte for byte: `digest` is the SHA-256 of these bytes.
    document: Option<Raw>,
    /// The JSON patch of whoever modified it.
    modification: Option<Raw>,
    /// What may happen instead, in its canonical form: `approvedDigest` is the SHA-256 of these bytes.
    approved_document: Option<Raw>,
}

/// An approval.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Approval")]
struct ApprovalFields {
    id: String,
    #[schemars(with = "words::ApprovalWord")]
    state: &'static str,
    action: String,
    /// SHA-256 of the canonical action: what a decision has to name.
    digest: String,
    /// The agent that asks.
    agent: Option<String>,
    asked_by: String,
    #[schemars(with = "words::Time")]
    asked_at: String,
    #[schemars(with = "words::Time")]
    expires_at: String,
    rationale: String,
    confidence: Option<f64>,
    #[schemars(with = "words::Urgency")]
    priority: &'static str,
    /// What whoever asks shall do if nobody decides.
    default: String,
    session_id: Option<String>,
    then: Vec<ThenOut>,
    decided_by: Option<String>,
    #[schemars(with = "Option<words::Time>")]
    decided_at: Option<String>,
    reason: Option<String>,
    /// SHA-256 of what may happen; `null` unless somebody approved.
    approved_digest: Option<String>,
    /// The record since which it is as it is.
    seq: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Then")]
struct ThenOut {
    to: String,
    action: String,
}

fn of(call: &Call, approval: &Approval) -> ApprovalFields {
    let agents = &call.space.published().agents;
    let name = |number| agents.get(number).map_or_else(String::new, |agent| agent.id.to_string());
    let decision = approval.state.decision();
    let then = approval.then.iter().map(|then| ThenOut { to: name(then.to), action: then.action.clone() });
    ApprovalFields {
        id: approval.id.to_string(),
        state: approval.state.as_str(),
        action: approval.action.clone(),
        digest: approval.digest.to_string(),
        agent: approval.agent.map(name),
        asked_by: approval.asked_by.clone(),
        asked_at: time::shown(approval.asked_at),
        expires_at: time::shown(approval.expires_at),
        rationale: approval.rationale.clone(),
        confidence: approval.confidence,
        priority: approval.priority.as_str(),
        default: approval.default.clone(),
        session_id: approval.session.clone(),
        then: then.collect(),
        decided_by: decision.map(|decision| decision.by.clone()),
        decided_at: decision.map(|decision| time::shown(decision.at)),
        reason: decision.map(|decision| decision.reason.clone()),
        approved_digest: approval.approved().map(|(_, digest): (_, ActionDigest)| digest.to_string()),
        seq: approval.state.over_since().unwrap_or(approval.seq).0,
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    #[schemars(with = "Option<words::ApprovalWord>")]
    state: Option<String>,
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
    let after = filter.cursor.as_ref().map(ApprovalId::new).transpose()?;
    let found = call.space.approvals(wanted, after.as_ref(), checked_limit(filter.limit)?).await?;
    let items = found.approvals.iter().map(|approval| (approval.id.to_string(), of(&call, approval)));
    page("approvals", items, found.cursor.map(|id| id.to_string()))
}
