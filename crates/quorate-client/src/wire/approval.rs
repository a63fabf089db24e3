//! Approvals as they are shown.

use quorate::{ActionDigest, ApprovalHead, ApprovalId, ApprovalInfo, ApprovalPage, ApprovalStatus, Decision};
use quorate::{Error, Seq};
use quorate_core::{AgentId, Payload};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::message::priority_of;
use super::{At, Text, payload, strange};

/// An approval; a list shows none of the bytes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApprovalIn<'a> {
    id: Text<ApprovalId>,
    state: String,
    action: String,
    digest: Text<ActionDigest>,
    approved_digest: Option<Text<ActionDigest>>,
    agent: Option<Text<AgentId>>,
    asked_by: String,
    asked_at: At,
    expires_at: At,
    rationale: String,
    confidence: Option<f64>,
    priority: String,
    default: String,
    session_id: Option<String>,
    then: Vec<ThenIn>,
    decided_by: Option<String>,
    decided_at: Option<At>,
    reason: Option<String>,
    seq: u64,
    #[serde(borrow)]
    document: Option<&'a RawValue>,
    #[serde(borrow)]
    approved_document: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ThenIn {
    to: Text<AgentId>,
    action: String,
}

impl ApprovalIn<'_> {
    fn status(&mut self) -> Result<ApprovalStatus, Error> {
        let missing = || strange(&"an approval without who decided it");
        let decision = match (self.decided_by.take(), self.decided_at.take()) {
            (Some(by), Some(at)) => Some(Decision {
                by,
                at: at.0,
                seq: Seq(self.seq),
                reason: self.reason.take().unwrap_or_default(),
            }),
            _ => None,
        };
        Ok(match self.state.as_str() {
            "pending" => ApprovalStatus::Pending,
            "approved" => ApprovalStatus::Approved(decision.ok_or_else(missing)?),
            "rejected" => ApprovalStatus::Rejected(decision.ok_or_else(missing)?),
            "modified" => ApprovalStatus::Modified(decision.ok_or_else(missing)?),
            "expired" => ApprovalStatus::Expired,
            other => return Err(strange(&other)),
        })
    }

    fn head(mut self) -> Result<ApprovalHead, Error> {
        Ok(ApprovalHead {
            status: self.status()?,
            id: self.id.0,
            action: self.action,
            digest: self.digest.0,
            approved_digest: self.approved_digest.map(|digest| digest.0),
            agent: self.agent.map(|agent| agent.0),
            asked_by: self.asked_by,
            asked_at: self.asked_at.0,
            expires_at: self.expires_at.0,
            rationale: self.rationale,
            confidence: self.confidence,
            priority: priority_of(&self.priority)?,
            default: self.default,
            session: self.session_id,
            then: self.then.into_iter().map(|then| (then.to.0, then.action)).collect(),
        })
    }

    pub(crate) fn read(self) -> Result<ApprovalInfo, Error> {
        let bytes = |raw: Option<&RawValue>| -> Result<Option<Payload>, Error> {
            raw.map(|raw| payload(Some(raw), None)).transpose()
        };
        let (document, approved) = (bytes(self.document)?, bytes(self.approved_document)?);
        Ok(ApprovalInfo::new(self.head()?, document, approved))
    }
}

#[derive(Deserialize)]
pub(crate) struct ApprovalsIn<'a> {
    #[serde(borrow)]
    approvals: Vec<ApprovalIn<'a>>,
    cursor: Option<Text<ApprovalId>>,
}

impl ApprovalsIn<'_> {
    pub(crate) fn read(self) -> Result<ApprovalPage, Error> {
        let approvals = self.approvals.into_iter().map(ApprovalIn::head).collect::<Result<_, _>>()?;
        Ok(ApprovalPage { approvals, cursor: self.cursor.map(|id| id.0) })
    }
}
