//! The domain says no. A refusal is definite: nothing was changed, or the one thing that was is named.

use std::fmt;

use crate::ids::{Seq, Token};

/// The stable code of a refusal or an error. Each has a page in `docs/errors/`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Code {
    /// The request is not well formed.
    Invalid,
    /// Nobody knows who asks.
    Unauthenticated,
    /// The principal may not do this.
    Forbidden,
    /// The rules of the space do not let this through.
    PolicyViolation,
    /// What the request names does not exist.
    NotFound,
    /// A message is addressed to an agent that is not registered.
    UnknownRecipient,
    /// Nothing came in time.
    Timeout,
    /// The state of the thing does not allow this.
    Conflict,
    /// The entry is at another version than expected.
    VersionConflict,
    /// The lease token is not the current one.
    StaleLease,
    /// The agent was started again since.
    StaleEpoch,
    /// The id or key was used for something else.
    Duplicate,
    /// The session is over and takes nothing more.
    SessionClosed,
    /// The work was called off.
    Cancelled,
    /// It is past its time.
    Expired,
    /// Larger than allowed.
    TooLarge,
    /// A text holds what looks like a secret.
    SecretDetected,
    /// More than allowed.
    LimitExceeded,
    /// The recipient's inbox is full.
    QueueFull,
    /// The hub could not store it and stopped; the outcome is unknown.
    StorageFailed,
    /// The hub cannot serve this now.
    Unavailable,
    /// Too much work is waiting; nothing was changed.
    Overloaded,
    /// The disk is full; nothing was changed.
    StorageFull,
    /// The lock was given to somebody else since.
    StaleFence,
    /// The wait could never have ended: those it waits for wait for it.
    Deadlock,
    /// The messages of this chain go round in a circle.
    LoopRefused,
    /// The chain has used up what it may.
    BudgetExceeded,
}

impl Code {
    /// All codes, in the order of their status.
    pub const ALL: &[Code] = &[
        Self::Invalid,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::PolicyViolation,
        Self::NotFound,
        Self::UnknownRecipient,
        Self::Timeout,
        Self::Conflict,
        Self::VersionConflict,
        Self::StaleLease,
        Self::StaleEpoch,
        Self::Duplicate,
        Self::SessionClosed,
        Self::Cancelled,
        Self::Expired,
        Self::TooLarge,
        Self::SecretDetected,
        Self::LimitExceeded,
        Self::QueueFull,
        Self::StorageFailed,
        Self::Unavailable,
        Self::Overloaded,
        Self::StorageFull,
        Self::StaleFence,
        Self::Deadlock,
        Self::LoopRefused,
        Self::BudgetExceeded,
    ];

    /// The code as users see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "INVALID",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::Forbidden => "FORBIDDEN",
            Self::PolicyViolation => "POLICY_VIOLATION",
            Self::NotFound => "NOT_FOUND",
            Self::UnknownRecipient => "UNKNOWN_RECIPIENT",
            Self::Timeout => "TIMEOUT",
            Self::Conflict => "CONFLICT",
            Self::VersionConflict => "VERSION_CONFLICT",
            Self::StaleLease => "STALE_LEASE",
            Self::StaleEpoch => "STALE_EPOCH",
            Self::Duplicate => "DUPLICATE",
            Self::SessionClosed => "SESSION_CLOSED",
            Self::Cancelled => "CANCELLED",
            Self::Expired => "EXPIRED",
            Self::TooLarge => "TOO_LARGE",
            Self::SecretDetected => "SECRET_DETECTED",
            Self::LimitExceeded => "LIMIT_EXCEEDED",
            Self::QueueFull => "QUEUE_FULL",
            Self::StorageFailed => "STORAGE_FAILED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Overloaded => "OVERLOADED",
            Self::StorageFull => "STORAGE_FULL",
            Self::StaleFence => "STALE_FENCE",
            Self::Deadlock => "DEADLOCK",
            Self::LoopRefused => "LOOP_REFUSED",
            Self::BudgetExceeded => "BUDGET_EXCEEDED",
        }
    }

    /// What to do next where nobody knows better: no refusal is without.
    #[must_use]
    pub fn next_step(self) -> &'static str {
        match self {
            Self::Invalid => "mend what the detail names, and send it again",
            Self::Unauthenticated => "show a token of this hub that is good",
            Self::Forbidden => "ask with a token that may, or let somebody do it who may",
            Self::PolicyViolation => "keep to the rules of the space; an admin can change them",
            Self::NotFound => "check the name; the list of its kind shows what there is",
            Self::UnknownRecipient => "register the agent first, or send to one that is there",
            Self::Timeout => "ask again, or wait for longer",
            Self::Conflict => "look at how it stands now, and decide again",
            Self::VersionConflict => "read the entry again, and write with its version",
            Self::StaleLease => "drop this work: somebody else has it, or it is over",
            Self::StaleEpoch => "stop this one: a newer start of the agent is at work",
            Self::Duplicate => "use a new key or id for something new",
            Self::SessionClosed => "open a new session",
            Self::Cancelled => "ask anew if it is still wanted",
            Self::Expired => "ask anew",
            Self::TooLarge => "send less, or in parts",
            Self::SecretDetected => "keep the secret where it belongs, and send its name",
            Self::LimitExceeded => "stay within the limit: split it, or ask for less",
            Self::QueueFull => "send again later, when the recipient has caught up",
            Self::StorageFailed => "start the hub again, and repeat the call under the same key",
            Self::Unavailable => "try again in a moment",
            Self::Overloaded => "try again in a moment, and more slowly",
            Self::StorageFull => "make room on the disk of the hub, and try again",
            Self::StaleFence => "drop what the lock was for, and take it again",
            Self::Deadlock => "let go of what the others wait for, and try again",
            Self::LoopRefused => "stop the circle, or begin a new chain",
            Self::BudgetExceeded => "raise the budget of the chain, or begin a new one",
        }
    }

    /// Whether the same request may succeed later without a change.
    #[must_use]
    pub fn retryable(self) -> bool {
        matches!(
            self,
            Self::Timeout | Self::QueueFull | Self::Unavailable | Self::Overloaded | Self::StorageFull
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One of several items that a commit named and that was not as expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stale {
    /// The operation that named it, counted from 0.
    pub op: usize,
    /// Which item.
    pub item: String,
    /// Why it was refused.
    pub code: Code,
    /// The token of the lease that is over, if the item is held under one.
    pub token: Option<Token>,
    /// The record in which this very lease ended with success; see [`Facts::ended_by`].
    pub ended_by: Option<Seq>,
}

/// The facts of the case, for programs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// The operation that was refused, counted from 0.
    pub op: Option<usize>,
    /// The version that the entry has now; 0 if there is none.
    pub current_version: Option<u64>,
    /// The limit that was passed.
    pub limit: Option<u64>,
    /// The current epoch of the agent.
    pub current_epoch: Option<u64>,
    /// The record that acked the delivery, or accepted the end of the task, under the token that the refused operation
    /// names. A caller that lost the answer to its commit learns from it that its own step was applied.
    pub ended_by: Option<Seq>,
    /// Every item of the commit that is stale, not only the first.
    pub stale: Vec<Stale>,
    /// The highest fence that was given out for the lock.
    pub current_fence: Option<u64>,
    /// Who waits for whom, in a circle.
    pub cycle: Vec<Waits>,
    /// The rule of the space that said no.
    pub rule: Option<String>,
    /// What the rule is about: a field of the message or of the agent.
    pub place: Option<String>,
    /// Where in that field, in bytes.
    pub offset: Option<usize>,
    /// After how many milliseconds the same request may be let through.
    pub retry_after_ms: Option<u64>,
    /// The question that was asked nevertheless: it stands, only the wait for its answer is over.
    pub asked: Option<String>,
    /// Whether the limit is on what is there at the same time, so that the same request may be let through later. If not, it is
    /// on the request itself.
    pub passes: bool,
    /// Whether it is about what only moderators may know of: no metric, journal line or list of violations mentions it.
    pub private: bool,
}

/// One who waits in a circle: for something that the next one has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waits {
    /// Who waits.
    pub agent: String,
    /// For what.
    pub waits_for: String,
}

/// A definite refusal: what, why, and what to do next. Nothing was changed, unless it is the wait for an answer that ended:
/// then [`Facts::asked`] names the question, which stands.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Refused {
    /// The stable code.
    pub code: Code,
    /// What is wrong, for people.
    pub detail: String,
    /// What to do next.
    pub hint: String,
    /// The facts of the case, for programs.
    pub facts: Box<Facts>,
}

impl Refused {
    /// A refusal with its code and detail; what to do next is said for the code, until somebody says it better.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), hint: code.next_step().to_owned(), facts: Box::default() }
    }

    /// Says what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Names the limit that was passed.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Self {
        self.facts.limit = Some(limit);
        self
    }

    /// Says that the limit is on what is there at the same time: what ends makes room.
    #[must_use]
    pub fn passes(mut self) -> Self {
        self.facts.passes = true;
        self
    }

    /// Says that nobody but the caller may learn of the refusal.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.facts.private = true;
        self
    }

    /// Names the rule of the space that said no, and what it is about.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<String>, place: impl Into<String>) -> Self {
        self.facts.rule = Some(rule.into());
        self.facts.place = Some(place.into());
        self
    }

    /// Names the current version.
    #[must_use]
    pub fn current_version(mut self, version: u64) -> Self {
        self.facts.current_version = Some(version);
        self
    }

    /// Names the record in which the same lease ended with success.
    #[must_use]
    pub fn ended_by(mut self, seq: Seq) -> Self {
        self.facts.ended_by = Some(seq);
        self
    }

    /// Names the question that stands: it was asked, and may have been heard.
    #[must_use]
    pub fn asked(mut self, question: impl fmt::Display) -> Self {
        self.facts.asked = Some(question.to_string());
        self
    }

    /// Names the operation, unless a nearer place did.
    #[must_use]
    pub fn at_op(mut self, op: usize) -> Self {
        self.facts.op.get_or_insert(op);
        self
    }
}
