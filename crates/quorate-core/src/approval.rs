//! Approvals: a proposed action that only a person lets happen. What is approved is bound to the SHA-256 of its canonical
//! bytes, so that a decision is about these very bytes and no others. See `docs/decisions/0021-approvals.md`.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::hex;
use crate::ids::{AgentId, AgentNo, ApprovalId, Seq};
use crate::item::Alarm;
use crate::limits::{APPROVAL_BYTES_MAX, APPROVAL_MS_MAX, APPROVAL_MS_MIN, APPROVAL_THEN_MAX};
use crate::message::{Payload, Priority, check_reason, check_word};
use crate::refused::{Code, Refused};
use crate::task::PartRef;
use crate::time::Timestamp;

/// The SHA-256 of the canonical bytes of an action, without a salt: whoever has the bytes can compute it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ActionDigest(pub [u8; 32]);

impl ActionDigest {
    /// Of these bytes.
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
            Refused::new(Code::Invalid, "the digest is not a SHA-256 in hexadecimal")
                .hint("give the 64 letters and digits that the approval shows")
        })
    }
}

/// What a person said, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Who, as it stands in the log.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// By which record.
    pub seq: Seq,
    /// Why; never empty where it was rejected.
    pub reason: String,
}

/// Where an approval is. What is decided never changes again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApprovalState {
    /// Nobody has decided.
    Pending,
    /// The action may happen as it was proposed.
    Approved(Decision),
    /// The action may not happen.
    Rejected(Decision),
    /// The action may happen as a person changed it.
    Modified {
        /// Who said so.
        decision: Decision,
        /// The change, as JSON patch.
        patch: PartRef,
        /// The canonical bytes that may happen.
        action: PartRef,
        /// Their digest.
        digest: ActionDigest,
    },
    /// Nobody decided in time. That is no refusal by anybody.
    Expired {
        /// By which record.
        seq: Seq,
        /// When.
        at: Timestamp,
    },
}

impl ApprovalState {
    /// All words, in the order in which they are told.
    pub const WORDS: [&'static str; 5] = ["pending", "approved", "rejected", "modified", "expired"];

    /// The word on the wire.
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

    /// What a person said, if one did.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Approved(decision) | Self::Rejected(decision) | Self::Modified { decision, .. } => {
                Some(decision)
            }
            Self::Pending | Self::Expired { .. } => None,
        }
    }

    /// The record since which it is over.
    #[must_use]
    pub fn over_since(&self) -> Option<Seq> {
        match self {
            Self::Pending => None,
            Self::Expired { seq, .. } => Some(*seq),
            other => other.decision().map(|decision| decision.seq),
        }
    }
}

/// What the hub sends in the very commit in which an action is approved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Then {
    /// To whom.
    pub to: AgentNo,
    /// The action of that message.
    pub action: String,
}

/// A proposed action, and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// The agent that asks; `None` if it is no agent.
    pub agent: Option<AgentNo>,
    /// Who asked, as it stands in the log: the agent itself, or whoever did it for it.
    pub asked_by: String,
    /// When.
    pub asked_at: Timestamp,
    /// By which record.
    pub seq: Seq,
    /// What kind of action it is, as a word.
    pub action: String,
    /// Its canonical bytes.
    pub document: PartRef,
    /// Their digest: what a decision has to name.
    pub digest: ActionDigest,
    /// Why it should happen.
    pub rationale: String,
    /// How sure whoever asks is, 0 to 1.
    pub confidence: Option<f64>,
    /// How urgent it is.
    pub priority: Priority,
    /// When it expires, if nobody decides.
    pub expires_at: Timestamp,
    /// What whoever asks shall do if nobody decides; may be empty.
    pub default: String,
    /// The session it belongs to.
    pub session: Option<String>,
    /// What is sent when it is approved.
    pub then: Vec<Then>,
    /// Where it is.
    pub state: ApprovalState,
}

impl Approval {
    /// Whether nobody has decided.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.state == ApprovalState::Pending
    }

    /// The canonical bytes that may happen, and their digest; `None` unless somebody approved.
    #[must_use]
    pub fn approved(&self) -> Option<(PartRef, ActionDigest)> {
        match &self.state {
            ApprovalState::Approved(_) => Some((self.document, self.digest)),
            ApprovalState::Modified { action, digest, .. } => Some((*action, *digest)),
            ApprovalState::Pending | ApprovalState::Rejected(_) | ApprovalState::Expired { .. } => None,
        }
    }

    /// The same as it was after a record; `None` if it was not asked for yet.
    #[must_use]
    pub fn at(self, seq: Seq) -> Option<Self> {
        let over = self.state.over_since().is_some_and(|over| over <= seq);
        let state = if over { self.state.clone() } else { ApprovalState::Pending };
        (self.seq <= seq).then_some(Self { state, ..self })
    }

    /// When time alone will change it.
    pub(crate) fn alarms(&self) -> Vec<Alarm> {
        match self.is_pending() {
            true => vec![Alarm::At { part: 0, time: self.expires_at }],
            false => Vec::new(),
        }
    }
}

/// `approval.request`: proposes an action.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestApproval {
    /// The id that the client chose; the hub makes one if there is none.
    pub id: Option<ApprovalId>,
    /// For which agent; an agent asks for itself.
    pub agent: Option<AgentId>,
    /// What kind of action it is, as a word.
    pub action: String,
    /// Its canonical bytes. The door refuses others.
    pub document: Payload,
    /// Why it should happen.
    pub rationale: Option<String>,
    /// How sure whoever asks is, 0 to 1.
    pub confidence: Option<f64>,
    /// How urgent it is.
    pub priority: Priority,
    /// How long to wait for a decision.
    pub timeout_ms: u64,
    /// What whoever asks shall do if nobody decides; may be empty.
    pub default: String,
    /// The session it belongs to.
    pub session: Option<String>,
    /// To whom the approved action is sent, each with the action of that message.
    pub then: Vec<(AgentId, String)>,
}

/// What somebody says of a proposed action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It may happen as it is.
    Approve,
    /// It may not happen.
    Reject,
    /// It may happen with this change.
    Modify {
        /// The change, as JSON patch of the payload.
        patch: Payload,
        /// The canonical bytes that come of it. The door makes them; `None` if nobody could.
        document: Option<Payload>,
    },
}

/// `approval.decide`: says what becomes of a proposed action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecideApproval {
    /// Which one.
    pub approval: ApprovalId,
    /// What is said.
    pub verdict: Verdict,
    /// The digest of what was looked at.
    pub digest: ActionDigest,
    /// Why; needed to reject.
    pub reason: String,
}

impl RequestApproval {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        let invalid = |what: String| Err(Refused::new(Code::Invalid, what));
        if let Some(id) = self.id.as_ref().filter(|id| id.is_made_by_hub()) {
            return Err(Refused::new(
                Code::Invalid,
                format!("the approval id {id} is one that the hub makes"),
            )
            .hint("choose an id that does not start with apr_, or none"));
        }
        if self.action.is_empty() {
            return invalid("the action to be approved has no name".into());
        }
        check_word("action", &self.action)?;
        check_word("sessionId", self.session.as_deref().unwrap_or(""))?;
        check_document(&self.document)?;
        check_reason("rationale", self.rationale.as_deref().unwrap_or(""))?;
        check_reason("default", &self.default)?;
        if self.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return invalid("the confidence is not between 0 and 1".into());
        }
        if self.priority.level > 3 {
            return invalid(format!("priority {} is not between 0 and 3", self.priority.level));
        }
        if !(APPROVAL_MS_MIN..=APPROVAL_MS_MAX).contains(&self.timeout_ms) {
            return Err(Refused::new(Code::Invalid, format!("a timeout of {} ms", self.timeout_ms))
                .limit(APPROVAL_MS_MAX)
                .hint(format!("give a person {APPROVAL_MS_MIN} to {APPROVAL_MS_MAX} ms")));
        }
        if self.then.len() > APPROVAL_THEN_MAX {
            let detail = format!("{} messages are to follow the approval", self.then.len());
            return Err(Refused::new(Code::LimitExceeded, detail).limit(APPROVAL_THEN_MAX as u64));
        }
        self.then.iter().try_for_each(|(_, action)| check_word("action", action))
    }
}

impl DecideApproval {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_reason("reason", &self.reason)?;
        match &self.verdict {
            Verdict::Reject if self.reason.trim().is_empty() => {
                Err(Refused::new(Code::Invalid, "an action is not rejected without a reason")
                    .hint("say in a sentence why: whoever asked has to know what to do now"))
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
        return Err(Refused::new(Code::TooLarge, format!("the action has {bytes} bytes"))
            .limit(APPROVAL_BYTES_MAX as u64)
            .hint(
                "a person has to read it: put the data elsewhere and propose a reference with its digest",
            ));
    }
    Ok(())
}
