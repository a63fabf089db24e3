//! Approvals: proposed actions that await a human decision.

use quorate_core::limits::APPROVAL_MS_DEFAULT;
#[cfg(feature = "schema")]
use quorate_core::limits::{APPROVAL_MS_MAX, APPROVAL_MS_MIN};
use quorate_core::{
    ActionDigest, AgentId, Approval as CoreApproval, ApprovalId, Code, DecideApproval, Payload, Priority,
    Refused, RequestApproval, Seq, Timestamp, Verdict,
};
use serde::{Deserialize, Serialize};

use crate::canonical::action_document;
use crate::id_resolver::AgentIds;
use crate::json::{Json, RawJson, deserialize_in_two_passes};
use crate::page::Order;
use crate::parse_context::{ParseContext, path_or_body};
use crate::payload;
use crate::priority::MessagePriority;
#[cfg(feature = "schema")]
use crate::schema;

/// Action to submit for approval.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewApproval<'a> {
    /// Client-assigned ID; the hub assigns one by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ApprovalId>,
    /// Agent that will execute the action. An agent can only name itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Kind of action.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub action: String,
    /// Exact action: JSON with a canonical form. At most 256 KB together with the kind of action.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json<'a>>,
    /// Reason for the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::ReasonText>"))]
    pub rationale: Option<String>,
    /// Confidence of the requester, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub confidence: Option<f64>,
    /// Priority of the decision; `normal` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<MessagePriority>,
    /// Time to decide; 72 hours by default. Afterwards the approval is `expired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = APPROVAL_MS_MIN, max = APPROVAL_MS_MAX)))]
    pub timeout_ms: Option<u64>,
    /// Fallback that the requester announces in case no decision is made.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "schema::ReasonText"))]
    pub default: String,
    /// Session that this belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub session_id: Option<String>,
    /// Messages to send with the approved action once it is approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub then: Vec<FollowUp>,
}

/// Message that is sent with the approved action.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FollowUp {
    /// Recipient.
    pub to: AgentId,
    /// Action of the message.
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub action: String,
}

impl NewApproval<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the payload has no canonical form.
    pub fn into_core(self, context: &ParseContext<'_>) -> Result<RequestApproval, Refused> {
        let payload = self.payload.as_ref().map_or("null", Json::get);
        let document = action_document(&self.action, payload.as_bytes())?;
        Ok(RequestApproval {
            id: self.id,
            agent: self.agent,
            action: self.action,
            document: context.seal.seal(document),
            rationale: self.rationale,
            confidence: self.confidence,
            priority: self.priority.map_or(Priority::NORMAL, |priority| priority.0),
            timeout_ms: self.timeout_ms.unwrap_or(APPROVAL_MS_DEFAULT),
            default: self.default,
            session: self.session_id,
            follow_ups: self.then.into_iter().map(|follow_up| (follow_up.to, follow_up.action)).collect(),
        })
    }

    /// Creates the request body that a client sends. The hub derives the canonical bytes from the payload again.
    ///
    /// # Errors
    /// `INVALID` if the document is not a valid action.
    pub fn new(request: &RequestApproval) -> Result<NewApproval<'static>, Refused> {
        #[derive(Deserialize)]
        struct Document {
            payload: Box<serde_json::value::RawValue>,
        }
        let document: Document = serde_json::from_slice(&request.document.bytes)
            .map_err(|_| Refused::new(Code::Invalid, "the document of the approval is not a valid action"))?;
        Ok(NewApproval {
            id: request.id.clone(),
            agent: request.agent.clone(),
            action: request.action.clone(),
            payload: Some(document.payload.into()),
            rationale: request.rationale.clone(),
            confidence: request.confidence,
            priority: Some(MessagePriority(request.priority)),
            timeout_ms: Some(request.timeout_ms),
            default: request.default.clone(),
            session_id: request.session.clone(),
            then: request
                .follow_ups
                .iter()
                .map(|(to, action)| FollowUp { to: to.clone(), action: action.clone() })
                .collect(),
        })
    }
}

/// Decision about a proposed action.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "NewDecision"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewDecision<'a> {
    /// Approval ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// Kind of decision.
    pub decision: DecisionKind,
    /// Digest of the reviewed action.
    pub digest: ActionDigest,
    /// Reason for the decision. Required to reject.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "schema::ReasonText"))]
    pub reason: String,
    /// JSON Patch (RFC 6902) of the payload. Required for `modify`.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub modification: Option<Json<'a>>,
}

/// Kinds of decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum DecisionKind {
    Approve,
    Reject,
    Modify,
}

impl NewDecision<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the approval is missing, or the modification is inconsistent with the decision.
    pub fn into_core(
        self,
        context: &ParseContext<'_>,
        path: Option<ApprovalId>,
    ) -> Result<DecideApproval, Refused> {
        let approval = path_or_body("approval", path, self.approval)?;
        let verdict = match (self.decision, &self.modification) {
            (DecisionKind::Approve, None) => Verdict::Approve,
            (DecisionKind::Reject, None) => Verdict::Reject,
            (DecisionKind::Modify, Some(patch)) => {
                Verdict::Modify { patch: context.payload(Some(patch), None)?, document: None }
            }
            (DecisionKind::Modify, None) => {
                return Err(Refused::new(Code::Invalid, "modification is missing")
                    .hint("send a JSON Patch of the payload, or approve the action unchanged"));
            }
            (DecisionKind::Approve | DecisionKind::Reject, Some(_)) => {
                return Err(Refused::new(Code::Invalid, "modification is only allowed with decision modify")
                    .hint("set decision to modify to approve the modified action"));
            }
        };
        Ok(DecideApproval { approval, verdict, digest: self.digest, reason: self.reason })
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the modification is not JSON.
    pub fn new(decide: &DecideApproval) -> Result<NewDecision<'static>, Refused> {
        let (decision, patch) = match &decide.verdict {
            Verdict::Approve => (DecisionKind::Approve, None),
            Verdict::Reject => (DecisionKind::Reject, None),
            Verdict::Modify { patch, .. } => (DecisionKind::Modify, Some(patch)),
        };
        Ok(NewDecision {
            approval: Some(decide.approval.clone()),
            decision,
            digest: decide.digest,
            reason: decide.reason.clone(),
            modification: patch.map(|patch| payload::encode(&patch.bytes, None)).transpose()?,
        })
    }
}

/// A proposed action and the decision about it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Unique identifier.
    pub id: ApprovalId,
    /// Current state.
    pub state: ApprovalStatus,
    /// Kind of action.
    pub action: String,
    /// SHA-256 digest of the canonical action. A decision must include it.
    pub digest: ActionDigest,
    /// Agent that will execute the action.
    pub agent: Option<AgentId>,
    /// Principal that requested the approval.
    pub asked_by: String,
    /// Time of the request.
    pub asked_at: Timestamp,
    /// Time at which the approval expires.
    pub expires_at: Timestamp,
    /// Reason for the action.
    pub rationale: String,
    /// Confidence of the requester, from 0 to 1.
    pub confidence: Option<f64>,
    /// Priority of the decision.
    #[cfg_attr(feature = "schema", schemars(with = "schema::PriorityName"))]
    pub priority: String,
    /// Fallback that the requester announced in case no decision is made.
    pub default: String,
    /// Session that this belongs to.
    pub session_id: Option<String>,
    /// Messages to send with the approved action once it is approved.
    pub then: Vec<FollowUp>,
    /// Principal that decided.
    pub decided_by: Option<String>,
    /// Time of the decision.
    pub decided_at: Option<Timestamp>,
    /// Reason for the decision.
    pub reason: Option<String>,
    /// SHA-256 digest of the approved action; `null` unless it was approved.
    pub approved_digest: Option<ActionDigest>,
    /// Sequence number of the record of the last change of state.
    pub seq: Seq,
}

/// States of an approval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum ApprovalStatus {
    Pending,
    Approved,
    Rejected,
    Modified,
    Expired,
}

impl ApprovalStatus {
    /// Returns the name used in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Modified => "modified",
            Self::Expired => "expired",
        }
    }
}

impl From<&quorate_core::ApprovalState> for ApprovalStatus {
    fn from(state: &quorate_core::ApprovalState) -> Self {
        match state {
            quorate_core::ApprovalState::Pending => Self::Pending,
            quorate_core::ApprovalState::Approved(_) => Self::Approved,
            quorate_core::ApprovalState::Rejected(_) => Self::Rejected,
            quorate_core::ApprovalState::Modified { .. } => Self::Modified,
            quorate_core::ApprovalState::Expired { .. } => Self::Expired,
        }
    }
}

impl Approval {
    /// Creates the API representation of an approval.
    #[must_use]
    pub fn new(agents: &dyn AgentIds, approval: &CoreApproval) -> Self {
        let agent_id = |number| agents.agent_id(number);
        let decision = approval.state.decision();
        let follow_ups = approval.follow_ups.iter().filter_map(|follow_up| {
            Some(FollowUp { to: agent_id(follow_up.to)?, action: follow_up.action.clone() })
        });
        Self {
            id: approval.id.clone(),
            state: (&approval.state).into(),
            action: approval.action.clone(),
            digest: approval.digest,
            agent: approval.agent.and_then(agent_id),
            asked_by: approval.requested_by.clone(),
            asked_at: approval.requested_at,
            expires_at: approval.expires_at,
            rationale: approval.rationale.clone(),
            confidence: approval.confidence,
            priority: approval.priority.as_str().to_owned(),
            default: approval.default.clone(),
            session_id: approval.session.clone(),
            then: follow_ups.collect(),
            decided_by: decision.map(|decision| decision.by.clone()),
            decided_at: decision.map(|decision| decision.at),
            reason: decision.map(|decision| decision.reason.clone()),
            approved_digest: approval.approved_action().map(|(_, digest)| digest),
            seq: approval.state.ended_in().unwrap_or(approval.seq),
        }
    }
}

/// Approval with the exact bytes of its action.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalWithAction {
    /// The approval.
    #[serde(flatten)]
    pub approval: Approval,
    /// Its payloads.
    #[serde(flatten)]
    pub more: ApprovalAction,
}

impl ApprovalWithAction {
    /// Creates the API representation of an approval with its payloads. Erased payloads are omitted.
    #[must_use]
    pub fn new(
        agents: &dyn AgentIds,
        approval: &CoreApproval,
        action: Option<&Payload>,
        modification: Option<&Payload>,
        approved: Option<&Payload>,
    ) -> Self {
        let more = ApprovalAction {
            document: payload::render_stored(action),
            modification: payload::render_stored(modification),
            approved_document: payload::render_stored(approved),
        };
        Self { approval: Approval::new(agents, approval), more }
    }

    /// Returns the approved action in canonical form; `None` unless it was approved.
    #[must_use]
    pub fn approved_document(&self) -> Option<&RawJson> {
        match self.approval.state {
            ApprovalStatus::Approved => self.more.document.as_ref(),
            ApprovalStatus::Modified => self.more.approved_document.as_ref(),
            ApprovalStatus::Pending | ApprovalStatus::Rejected | ApprovalStatus::Expired => None,
        }
    }
}

deserialize_in_two_passes!(ApprovalWithAction { approval, more });

/// Bytes of a proposed action.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalAction {
    /// Proposed action in canonical form, byte for byte. `digest` is the SHA-256 of these bytes.
    pub document: Option<RawJson>,
    /// JSON Patch of the approver.
    pub modification: Option<RawJson>,
    /// Modified action in canonical form. `approvedDigest` is the SHA-256 of these bytes.
    pub approved_document: Option<RawJson>,
}

/// As-of position of an approval, or a wait for its decision.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalGetQuery {
    /// Sequence number of a record, or a time: read the state after it. Current state by default.
    pub at: Option<String>,
    /// Read the state at this time. Cannot be combined with `at`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Time>"))]
    pub time: Option<String>,
    /// How long to wait for the decision or expiry; then the current state is returned. Cannot be combined with `at`.
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
}

/// Filter and page of a list of approvals.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ApprovalListQuery {
    /// Only approvals in this state.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::ApprovalStateName>"))]
    pub state: Option<String>,
    /// Sort order by creation; `newest` by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Order>"))]
    pub order: Option<Order>,
    /// Maximum number of items in a page; 100 by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    /// Cursor of the previous page; omit it for the first page.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}
