//! Approvals.

use quorate_core::limits::APPROVAL_MS_DEFAULT;
#[cfg(feature = "schema")]
use quorate_core::limits::{APPROVAL_MS_MAX, APPROVAL_MS_MIN};
use quorate_core::{
    ActionDigest, AgentId, Approval as CoreApproval, ApprovalId, Code, DecideApproval, Payload, Priority,
    Refused, RequestApproval, Seq, Timestamp, Verdict,
};
use serde::{Deserialize, Serialize};

use crate::canonical::action_document;
use crate::json::{Json, Raw, deserialize_in_two_passes};
use crate::names::AgentNames;
use crate::payload;
use crate::priority::MessagePriority;
use crate::reading::{Reading, named};
#[cfg(feature = "schema")]
use crate::schema;

/// An action to be approved.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewApproval<'a> {
    /// The caller's own id; by default the hub assigns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ApprovalId>,
    /// The agent that will act; an agent can name itself only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The kind of the action.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub action: String,
    /// What exactly is to happen: JSON with one meaning. With the action at most 256 KB in canonical form.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json<'a>>,
    /// Why it should happen.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Sentence>"))]
    pub rationale: Option<String>,
    /// How sure the caller is, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub confidence: Option<f64>,
    /// How urgent the decision is; `normal` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<MessagePriority>,
    /// How long an approver has; 72 hours by default. Afterwards it is `expired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = APPROVAL_MS_MIN, max = APPROVAL_MS_MAX)))]
    pub timeout_ms: Option<u64>,
    /// What the caller will do if nobody decides.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "schema::Sentence"))]
    pub default: String,
    /// The session that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub session_id: Option<String>,
    /// Recipients of the approved action. It is sent in the commit that approves it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub then: Vec<Then>,
}

/// A recipient of an approved action.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Then {
    /// The agent.
    pub to: AgentId,
    /// The action of the message.
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub action: String,
}

impl NewApproval<'_> {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if the payload has no canonical form.
    pub fn read(self, reading: &Reading<'_>) -> Result<RequestApproval, Refused> {
        let payload = self.payload.as_ref().map_or("null", Json::get);
        let document = action_document(&self.action, payload.as_bytes())?;
        Ok(RequestApproval {
            id: self.id,
            agent: self.agent,
            action: self.action,
            document: reading.seal.seal(document),
            rationale: self.rationale,
            confidence: self.confidence,
            priority: self.priority.map_or(Priority::NORMAL, |priority| priority.0),
            timeout_ms: self.timeout_ms.unwrap_or(APPROVAL_MS_DEFAULT),
            default: self.default,
            session: self.session_id,
            then: self.then.into_iter().map(|then| (then.to, then.action)).collect(),
        })
    }

    /// A request as a client sends it. The hub derives the canonical bytes again from the payload.
    ///
    /// # Errors
    /// `INVALID` if the document is not one of an action.
    pub fn new(ask: &RequestApproval) -> Result<NewApproval<'static>, Refused> {
        #[derive(Deserialize)]
        struct Document {
            payload: Box<serde_json::value::RawValue>,
        }
        let document: Document = serde_json::from_slice(&ask.document.bytes).map_err(|_| {
            Refused::new(Code::Invalid, "the document of the approval is not one of an action")
        })?;
        Ok(NewApproval {
            id: ask.id.clone(),
            agent: ask.agent.clone(),
            action: ask.action.clone(),
            payload: Some(document.payload.into()),
            rationale: ask.rationale.clone(),
            confidence: ask.confidence,
            priority: Some(MessagePriority(ask.priority)),
            timeout_ms: Some(ask.timeout_ms),
            default: ask.default.clone(),
            session_id: ask.session.clone(),
            then: ask
                .then
                .iter()
                .map(|(to, action)| Then { to: to.clone(), action: action.clone() })
                .collect(),
        })
    }
}

/// A decision about a proposed action.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "NewDecision"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decision<'a> {
    /// In a commit, also as `id`. In a call of its own the id is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The decision.
    pub decision: DecisionKind,
    /// The digest of the action that was reviewed.
    pub digest: ActionDigest,
    /// Why. Required to reject.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "schema::Sentence"))]
    pub reason: String,
    /// For `modify`: a JSON patch (RFC 6902) of the payload.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub modification: Option<Json<'a>>,
}

/// The kinds of decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the words say it")]
pub enum DecisionKind {
    Approve,
    Reject,
    Modify,
}

impl Decision<'_> {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no approval is named, or the modification does not fit the decision.
    pub fn read(self, reading: &Reading<'_>, path: Option<ApprovalId>) -> Result<DecideApproval, Refused> {
        let approval = named("approval", path, self.approval)?;
        let verdict = match (self.decision, &self.modification) {
            (DecisionKind::Approve, None) => Verdict::Approve,
            (DecisionKind::Reject, None) => Verdict::Reject,
            (DecisionKind::Modify, Some(patch)) => {
                Verdict::Modify { patch: reading.payload(Some(patch), None)?, document: None }
            }
            (DecisionKind::Modify, None) => {
                return Err(Refused::new(Code::Invalid, "modification is missing")
                    .hint("give a JSON patch of the payload, or approve the action as it is"));
            }
            (DecisionKind::Approve | DecisionKind::Reject, Some(_)) => {
                return Err(Refused::new(Code::Invalid, "modification: only modify takes one")
                    .hint("set decision to modify to approve the action with the modification"));
            }
        };
        Ok(DecideApproval { approval, verdict, digest: self.digest, reason: self.reason })
    }

    /// A decision as a client sends it.
    ///
    /// # Errors
    /// `INVALID` if the modification is not JSON.
    pub fn new(decide: &DecideApproval) -> Result<Decision<'static>, Refused> {
        let (decision, patch) = match &decide.verdict {
            Verdict::Approve => (DecisionKind::Approve, None),
            Verdict::Reject => (DecisionKind::Reject, None),
            Verdict::Modify { patch, .. } => (DecisionKind::Modify, Some(patch)),
        };
        Ok(Decision {
            approval: Some(decide.approval.clone()),
            decision,
            digest: decide.digest,
            reason: decide.reason.clone(),
            modification: patch.map(|patch| payload::json_of(&patch.bytes, None)).transpose()?,
        })
    }
}

/// An approval.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// Its state.
    pub state: ApprovalStatus,
    /// The kind of the action.
    pub action: String,
    /// SHA-256 of the canonical action. A decision must name it.
    pub digest: ActionDigest,
    /// The agent that will act.
    pub agent: Option<AgentId>,
    /// The principal that requested it.
    pub asked_by: String,
    /// When.
    pub asked_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Why it should happen.
    pub rationale: String,
    /// How sure the caller is, from 0 to 1.
    pub confidence: Option<f64>,
    /// How urgent the decision is.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Urgency"))]
    pub priority: String,
    /// What the caller will do if nobody decides.
    pub default: String,
    /// The session that it belongs to.
    pub session_id: Option<String>,
    /// Recipients of the approved action.
    pub then: Vec<Then>,
    /// The principal that decided.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<Timestamp>,
    /// Why.
    pub reason: Option<String>,
    /// SHA-256 of the action that may happen; `null` unless it was approved.
    pub approved_digest: Option<ActionDigest>,
    /// The record since which it is in this state.
    pub seq: Seq,
}

/// The states of an approval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the words say it")]
pub enum ApprovalStatus {
    Pending,
    Approved,
    Rejected,
    Modified,
    Expired,
}

impl ApprovalStatus {
    /// Its name, as it is written.
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
    /// An approval as it is shown.
    #[must_use]
    pub fn new(agents: &dyn AgentNames, approval: &CoreApproval) -> Self {
        let name = |number| agents.agent_id(number);
        let decision = approval.state.decision();
        let then = approval
            .then
            .iter()
            .filter_map(|then| Some(Then { to: name(then.to)?, action: then.action.clone() }));
        Self {
            id: approval.id.clone(),
            state: (&approval.state).into(),
            action: approval.action.clone(),
            digest: approval.digest,
            agent: approval.agent.and_then(name),
            asked_by: approval.asked_by.clone(),
            asked_at: approval.asked_at,
            expires_at: approval.expires_at,
            rationale: approval.rationale.clone(),
            confidence: approval.confidence,
            priority: approval.priority.as_str().to_owned(),
            default: approval.default.clone(),
            session_id: approval.session.clone(),
            then: then.collect(),
            decided_by: decision.map(|decision| decision.by.clone()),
            decided_at: decision.map(|decision| decision.at),
            reason: decision.map(|decision| decision.reason.clone()),
            approved_digest: approval.approved().map(|(_, digest)| digest),
            seq: approval.state.over_since().unwrap_or(approval.seq),
        }
    }
}

/// An approval with the exact bytes of its action.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalWithAction {
    /// The approval.
    #[serde(flatten)]
    pub approval: Approval,
    /// The rest.
    #[serde(flatten)]
    pub more: ApprovalAction,
}

impl ApprovalWithAction {
    /// An approval with its payloads, as it is shown. Erased ones are left out.
    #[must_use]
    pub fn new(
        agents: &dyn AgentNames,
        approval: &CoreApproval,
        action: Option<&Payload>,
        modification: Option<&Payload>,
        approved: Option<&Payload>,
    ) -> Self {
        let more = ApprovalAction {
            document: payload::stored(action),
            modification: payload::stored(modification),
            approved_document: payload::stored(approved),
        };
        Self { approval: Approval::new(agents, approval), more }
    }

    /// The action that may happen, in canonical form; `None` unless it was approved.
    #[must_use]
    pub fn approved_document(&self) -> Option<&Raw> {
        match self.approval.state {
            ApprovalStatus::Approved => self.more.document.as_ref(),
            ApprovalStatus::Modified => self.more.approved_document.as_ref(),
            ApprovalStatus::Pending | ApprovalStatus::Rejected | ApprovalStatus::Expired => None,
        }
    }
}

deserialize_in_two_passes!(ApprovalWithAction { approval, more });

/// The bytes of a proposed action.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalAction {
    /// The proposed action in canonical form, byte for byte: `digest` is the SHA-256 of these bytes.
    pub document: Option<Raw>,
    /// The JSON patch of the approver.
    pub modification: Option<Raw>,
    /// The modified action in canonical form: `approvedDigest` is the SHA-256 of these bytes.
    pub approved_document: Option<Raw>,
}
