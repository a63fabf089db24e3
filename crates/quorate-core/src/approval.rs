//! Approvals: proposed actions that need a human decision. A decision names the SHA-256 of the action's canonical JSON, so
//! that it applies to exactly those bytes. See `docs/decisions/0021-approvals.md`.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::hex;
use crate::ids::{AgentId, AgentNo, ApprovalId, Seq};
use crate::item::ItemTimer;
use crate::limits::{APPROVAL_BYTES_MAX, APPROVAL_FOLLOW_UPS_MAX, APPROVAL_MS_MAX, APPROVAL_MS_MIN};
use crate::message::{Payload, Priority, check_label, check_reason};
use crate::refused::{Code, Refused};
use crate::task::PartRef;
use crate::time::Timestamp;

/// SHA-256 of the canonical bytes of an action, without a salt, so that anyone with the bytes can compute it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ActionDigest(pub [u8; 32]);

impl ActionDigest {
    /// Computes the digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for ActionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for ActionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

crate::text_serde::serde_text!(ActionDigest, { "type": "string", "pattern": "^[0-9a-fA-F]{64}$" });

impl FromStr for ActionDigest {
    type Err = Refused;
    fn from_str(text: &str) -> Result<Self, Refused> {
        hex::decode(text).map(Self).ok_or_else(|| {
            Refused::new(Code::Invalid, "invalid digest: expected a SHA-256 in hexadecimal")
                .hint("copy the 64 hexadecimal digits of the approval's digest")
        })
    }
}

/// A decision on an approval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The deciding principal, as in the log.
    pub by: String,
    /// Time of the decision.
    pub at: Timestamp,
    /// The record of the decision.
    pub seq: Seq,
    /// Reason; never empty for a rejection.
    pub reason: String,
}

/// The state of an approval. A decision is final.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApprovalState {
    /// Not decided yet.
    Pending,
    /// The action is approved as proposed.
    Approved(Decision),
    /// The action is rejected.
    Rejected(Decision),
    /// The action is approved with a modification.
    Modified {
        /// The decision.
        decision: Decision,
        /// The modification, as JSON Patch.
        patch: PartRef,
        /// Canonical bytes of the modified action.
        action: PartRef,
        /// Digest of the modified action.
        digest: ActionDigest,
    },
    /// Expired without a decision; not a rejection.
    Expired {
        /// The record of the expiry.
        seq: Seq,
        /// Time of the expiry.
        at: Timestamp,
    },
}

impl ApprovalState {
    /// The names of all states, in display order.
    pub const NAMES: [&'static str; 5] = ["pending", "approved", "rejected", "modified", "expired"];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved(_) => "approved",
            Self::Rejected(_) => "rejected",
            Self::Modified { .. } => "modified",
            Self::Expired { .. } => "expired",
        }
    }

    /// The decision, if there is one.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Approved(decision) | Self::Rejected(decision) | Self::Modified { decision, .. } => {
                Some(decision)
            }
            Self::Pending | Self::Expired { .. } => None,
        }
    }

    /// The record that ended it, if it has ended.
    #[must_use]
    pub fn ended_in(&self) -> Option<Seq> {
        match self {
            Self::Pending => None,
            Self::Expired { seq, .. } => Some(*seq),
            other => other.decision().map(|decision| decision.seq),
        }
    }
}

/// A follow-up message that the hub sends in the commit that approves the action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApprovalFollowUp {
    /// Recipient.
    pub to: AgentNo,
    /// Action of the message.
    pub action: String,
}

/// A proposed action and its decision.
#[derive(Clone, PartialEq, Debug)]
pub struct Approval {
    /// Id of the approval.
    pub id: ApprovalId,
    /// The requesting agent; `None` if it is not an agent.
    pub agent: Option<AgentNo>,
    /// The requesting principal, as in the log: the agent itself, or an operator on its behalf.
    pub requested_by: String,
    /// Time of the request.
    pub requested_at: Timestamp,
    /// The record of the request.
    pub seq: Seq,
    /// Kind of the action, as a short label.
    pub action: String,
    /// Canonical bytes of the action.
    pub document: PartRef,
    /// Digest of those bytes, which a decision must name.
    pub digest: ActionDigest,
    /// Rationale of the requester.
    pub rationale: String,
    /// Confidence of the requester, 0 to 1.
    pub confidence: Option<f64>,
    /// Urgency.
    pub priority: Priority,
    /// Time at which it expires undecided.
    pub expires_at: Timestamp,
    /// The requester's fallback if it expires undecided; may be empty.
    pub default: String,
    /// Session that it belongs to.
    pub session: Option<String>,
    /// Follow-up messages on approval.
    pub follow_ups: Vec<ApprovalFollowUp>,
    /// Current state.
    pub state: ApprovalState,
}

impl Approval {
    /// Whether it is undecided.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.state == ApprovalState::Pending
    }

    /// The approved canonical bytes and their digest; `None` unless approved.
    #[must_use]
    pub fn approved_action(&self) -> Option<(PartRef, ActionDigest)> {
        match &self.state {
            ApprovalState::Approved(_) => Some((self.document, self.digest)),
            ApprovalState::Modified { action, digest, .. } => Some((*action, *digest)),
            ApprovalState::Pending | ApprovalState::Rejected(_) | ApprovalState::Expired { .. } => None,
        }
    }

    /// Returns the approval as of a record; `None` if it was requested later.
    #[must_use]
    pub fn as_of(self, seq: Seq) -> Option<Self> {
        let has_ended = self.state.ended_in().is_some_and(|ended_in| ended_in <= seq);
        let state = if has_ended { self.state.clone() } else { ApprovalState::Pending };
        (self.seq <= seq).then_some(Self { state, ..self })
    }

    /// Returns its timers.
    pub(crate) fn timers(&self) -> Vec<ItemTimer> {
        match self.is_pending() {
            true => vec![ItemTimer::At { part: 0, time: self.expires_at }],
            false => Vec::new(),
        }
    }
}

/// `approval.request`: requests approval of an action.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestApproval {
    /// Client-chosen id; generated by the hub if omitted.
    pub id: Option<ApprovalId>,
    /// The requesting agent; agents can only name themselves.
    pub agent: Option<AgentId>,
    /// Kind of the action, as a short label.
    pub action: String,
    /// Canonical bytes of the action, validated before the commit.
    pub document: Payload,
    /// Rationale of the requester.
    pub rationale: Option<String>,
    /// Confidence of the requester, 0 to 1.
    pub confidence: Option<f64>,
    /// Urgency.
    pub priority: Priority,
    /// Timeout of the decision.
    pub timeout_ms: u64,
    /// The requester's fallback if it expires undecided; may be empty.
    pub default: String,
    /// Session that it belongs to.
    pub session: Option<String>,
    /// Follow-up messages on approval: recipient and action.
    pub follow_ups: Vec<(AgentId, String)>,
}

/// The verdict on a proposed action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Approve as proposed.
    Approve,
    /// Reject.
    Reject,
    /// Approve with a modification.
    Modify {
        /// The modification, as JSON Patch on the payload.
        patch: Payload,
        /// Canonical bytes of the modified action, computed before the commit; `None` if they could not be computed.
        document: Option<Payload>,
    },
}

/// `approval.decide`: decides an approval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecideApproval {
    /// Id of the approval.
    pub approval: ApprovalId,
    /// The verdict.
    pub verdict: Verdict,
    /// Digest of the reviewed action.
    pub digest: ActionDigest,
    /// Reason; required for a rejection.
    pub reason: String,
}

impl RequestApproval {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        let invalid = |detail: String| Err(Refused::new(Code::Invalid, detail));
        if let Some(id) = self.id.as_ref().filter(|id| id.is_generated()) {
            return Err(Refused::new(
                Code::Invalid,
                format!("invalid approval id {id}: the prefix apr_ is reserved for generated ids"),
            )
            .hint("choose an id that does not start with apr_, or omit it"));
        }
        if self.action.is_empty() {
            return invalid("the action is empty".into());
        }
        check_label("action", &self.action)?;
        check_label("sessionId", self.session.as_deref().unwrap_or(""))?;
        check_document(&self.document)?;
        check_reason("rationale", self.rationale.as_deref().unwrap_or(""))?;
        check_reason("default", &self.default)?;
        if self.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return invalid("invalid confidence: not between 0 and 1".into());
        }
        if self.priority.level > 3 {
            return invalid(format!("invalid priority level {}: not between 0 and 3", self.priority.level));
        }
        if !(APPROVAL_MS_MIN..=APPROVAL_MS_MAX).contains(&self.timeout_ms) {
            return Err(Refused::new(Code::Invalid, format!("invalid timeout: {} ms", self.timeout_ms))
                .limit(APPROVAL_MS_MAX)
                .hint(format!("use {APPROVAL_MS_MIN} to {APPROVAL_MS_MAX} ms")));
        }
        if self.follow_ups.len() > APPROVAL_FOLLOW_UPS_MAX {
            let detail = format!("too many follow-up messages: {}", self.follow_ups.len());
            return Err(Refused::new(Code::LimitExceeded, detail).limit(APPROVAL_FOLLOW_UPS_MAX as u64));
        }
        self.follow_ups.iter().try_for_each(|(_, action)| check_label("action", action))
    }
}

impl DecideApproval {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_reason("reason", &self.reason)?;
        match &self.verdict {
            Verdict::Reject if self.reason.trim().is_empty() => {
                Err(Refused::new(Code::Invalid, "missing reason for the rejection")
                    .hint("set reason to a sentence that explains to the requester what to change"))
            }
            Verdict::Approve | Verdict::Reject => Ok(()),
            Verdict::Modify { patch, document } => {
                patch.check()?;
                patch.check_sealed()?;
                document.as_ref().map_or(Ok(()), check_document)
            }
        }
    }
}

fn check_document(document: &Payload) -> Result<(), Refused> {
    document.check_sealed()?;
    let bytes = document.bytes.len();
    if bytes > APPROVAL_BYTES_MAX {
        return Err(Refused::new(Code::TooLarge, format!("the action is too large: {bytes} bytes"))
            .limit(APPROVAL_BYTES_MAX as u64)
            .hint("store the data elsewhere and propose a reference with its digest"));
    }
    Ok(())
}
