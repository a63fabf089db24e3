//! Approvals as everybody sees them, wherever the hub is.

use quorate_core::{
    ActionDigest, AgentId, AgentNo, Agents, Approval, ApprovalId, ApprovalState, Decision, Payload, Priority,
    Timestamp,
};
use quorate_engine::{ApprovalView, Error};
use serde::de::DeserializeOwned;

use crate::agent::from_json;
use crate::link::Space;

/// What became of a proposed action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApprovalStatus {
    /// Nobody has decided.
    Pending,
    /// It may happen as it was proposed.
    Approved(Decision),
    /// It may not happen.
    Rejected(Decision),
    /// It may happen as a person changed it.
    Modified(Decision),
    /// Nobody decided in time. That is no refusal by anybody.
    Expired,
}

impl ApprovalStatus {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved(_) => "approved",
            Self::Rejected(_) => "rejected",
            Self::Modified(_) => "modified",
            Self::Expired => "expired",
        }
    }

    /// Who said so, when and why, if a person did.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Approved(decision) | Self::Rejected(decision) | Self::Modified(decision) => Some(decision),
            Self::Pending | Self::Expired => None,
        }
    }
}

impl From<ApprovalState> for ApprovalStatus {
    fn from(state: ApprovalState) -> Self {
        match state {
            ApprovalState::Pending => Self::Pending,
            ApprovalState::Approved(decision) => Self::Approved(decision),
            ApprovalState::Rejected(decision) => Self::Rejected(decision),
            ApprovalState::Modified { decision, .. } => Self::Modified(decision),
            ApprovalState::Expired { .. } => Self::Expired,
        }
    }
}

/// An approval without the action itself.
#[derive(Clone, PartialEq, Debug)]
pub struct ApprovalHead {
    /// Its id.
    pub id: ApprovalId,
    /// What became of it.
    pub status: ApprovalStatus,
    /// What kind of action it is, as a word.
    pub action: String,
    /// The SHA-256 of what was proposed: what a decision has to name.
    pub digest: ActionDigest,
    /// The SHA-256 of what may happen; `None` unless somebody approved.
    pub approved_digest: Option<ActionDigest>,
    /// The agent that asks; `None` if it is no agent.
    pub agent: Option<AgentId>,
    /// Who asked, as it stands in the log.
    pub asked_by: String,
    /// When.
    pub asked_at: Timestamp,
    /// When it expires, if nobody decides.
    pub expires_at: Timestamp,
    /// Why it should happen.
    pub rationale: String,
    /// How sure whoever asks is, 0 to 1.
    pub confidence: Option<f64>,
    /// How urgent it is.
    pub priority: Priority,
    /// What whoever asks shall do if nobody decides; may be empty.
    pub default: String,
    /// The session it belongs to.
    pub session: Option<String>,
    /// Who gets the approved action, each with the action of that message.
    pub then: Vec<(AgentId, String)>,
}

impl ApprovalHead {
    pub(crate) fn of(agents: &Agents, approval: Approval) -> Self {
        let name = |number: AgentNo| agents.get(number).map(|agent| agent.id.clone());
        let then = approval.then.iter().filter_map(|then| Some((name(then.to)?, then.action.clone())));
        Self {
            then: then.collect(),
            approved_digest: approval.approved().map(|(_, digest)| digest),
            agent: approval.agent.and_then(name),
            id: approval.id,
            status: approval.state.into(),
            action: approval.action,
            digest: approval.digest,
            asked_by: approval.asked_by,
            asked_at: approval.asked_at,
            expires_at: approval.expires_at,
            rationale: approval.rationale,
            confidence: approval.confidence,
            priority: approval.priority,
            default: approval.default,
            session: approval.session,
        }
    }
}

/// Some approvals, and where to go on.
#[derive(Clone, PartialEq, Debug)]
pub struct ApprovalPage {
    /// The approvals, by id.
    pub approvals: Vec<ApprovalHead>,
    /// Where the next page begins; `None` if there is none.
    pub cursor: Option<ApprovalId>,
}

/// An approval with the exact bytes that it is about.
#[derive(Clone, PartialEq, Debug)]
pub struct ApprovalInfo {
    head: ApprovalHead,
    document: Option<Payload>,
    approved: Option<Payload>,
}

#[derive(serde::Deserialize)]
struct Document<T> {
    payload: T,
}

impl ApprovalInfo {
    /// Of its parts: for those who make links. What was erased is not among them.
    #[must_use]
    pub fn new(head: ApprovalHead, document: Option<Payload>, approved: Option<Payload>) -> Self {
        Self { head, document, approved }
    }

    pub(crate) async fn of(space: &Space, approval: Approval) -> Result<Self, Error> {
        let ApprovalView { approval, action, modified, .. } = space.approval_view(approval).await?;
        let there = |payload: Option<Payload>| payload.filter(|payload| !payload.is_erased());
        let head = ApprovalHead::of(&space.published().agents, approval);
        Ok(Self::new(head, there(action), there(modified)))
    }

    /// Where it is.
    #[must_use]
    pub fn approval(&self) -> &ApprovalHead {
        &self.head
    }

    /// What became of it.
    #[must_use]
    pub fn status(&self) -> &ApprovalStatus {
        &self.head.status
    }

    /// Whether nobody has decided.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.head.status == ApprovalStatus::Pending
    }

    /// The canonical bytes that were proposed, of which `digest` is the SHA-256; empty if they were erased.
    #[must_use]
    pub fn document(&self) -> &[u8] {
        self.document.as_ref().map_or(&[], |document| &document.bytes)
    }

    /// The canonical bytes that may happen; `None` unless somebody approved, or if they were erased.
    #[must_use]
    pub fn approved_document(&self) -> Option<&[u8]> {
        let may = match self.head.status {
            ApprovalStatus::Approved(_) => self.document.as_ref(),
            ApprovalStatus::Modified(_) => self.approved.as_ref(),
            ApprovalStatus::Pending | ApprovalStatus::Rejected(_) | ApprovalStatus::Expired => None,
        };
        may.map(|payload| &payload.bytes[..])
    }

    /// The payload that was proposed, typed.
    ///
    /// # Errors
    /// `INVALID` if it is not of that shape, or was erased.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json::<Document<T>>(self.document()).map(|document| document.payload)
    }

    /// The payload that may happen, typed; `None` unless somebody approved.
    ///
    /// # Errors
    /// `INVALID` if it is not of that shape.
    pub fn approved_payload<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let read = |bytes| from_json::<Document<T>>(bytes).map(|document| document.payload);
        self.approved_document().map(read).transpose()
    }
}
