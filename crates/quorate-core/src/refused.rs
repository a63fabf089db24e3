//! Refusals: domain errors with a stable code, a detail and a hint. Unless [`Facts::sent_request`] is set, a
//! refused commit changed nothing.

use std::fmt;

use crate::ids::{DeliveryId, LeaseToken, MessageId, Seq};

/// The stable code of a refusal or an error. Each has a page in `docs/errors/`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Code {
    /// The request is not well formed.
    Invalid,
    /// The request carries no valid credential.
    Unauthenticated,
    /// The principal lacks the permission.
    Forbidden,
    /// The policy of the space rejects the request.
    PolicyViolation,
    /// The named resource does not exist.
    NotFound,
    /// A message is addressed to an agent that is not registered.
    UnknownRecipient,
    /// The wait ended before a result arrived.
    Timeout,
    /// The current state of the resource does not allow the operation.
    Conflict,
    /// The entry has a different version than expected (compare-and-set failed).
    VersionConflict,
    /// The lease token is not the current one: the lease expired or the work has ended.
    StaleLease,
    /// The agent has registered again since; its epoch is newer.
    StaleEpoch,
    /// The id or idempotency key was already used with different content.
    Duplicate,
    /// The session is completed or failed and accepts no further changes.
    SessionClosed,
    /// The work was cancelled.
    Cancelled,
    /// The deadline has passed.
    Expired,
    /// A payload or text exceeds its size limit.
    TooLarge,
    /// A text contains something that looks like a secret.
    SecretDetected,
    /// A count or rate limit is exceeded.
    LimitExceeded,
    /// The recipient's inbox is full.
    QueueFull,
    /// The hub failed to write to storage and stopped; whether the request was applied is unknown.
    StorageFailed,
    /// The hub or the recipient is temporarily unavailable.
    Unavailable,
    /// The hub's queue is full (backpressure); nothing was changed.
    Overloaded,
    /// The disk is full; nothing was changed.
    StorageFull,
    /// The fencing token is outdated: its grant has ended, and the lock was granted again.
    StaleFence,
    /// The wait is part of a cycle in the wait-for graph and was broken.
    Deadlock,
    /// The chain of messages exceeds the hop limit or repeats itself.
    LoopRefused,
    /// The budget of the chain is exhausted.
    BudgetExceeded,
}

impl Code {
    /// All codes.
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

    /// The code as it appears in responses.
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

    /// The default hint, used where no more specific one is set.
    #[must_use]
    pub fn default_hint(self) -> &'static str {
        match self {
            Self::Invalid => "fix the field named in the detail and send the request again",
            Self::Unauthenticated => "send a valid access token of this hub",
            Self::Forbidden => "use an access token whose role has this permission",
            Self::PolicyViolation => "follow the policy of the space, or ask an admin to change it",
            Self::NotFound => "check the id; list the resources of this kind to see which exist",
            Self::UnknownRecipient => "register the agent first, or send to a registered agent",
            Self::Timeout => "retry, or use a longer timeout",
            Self::Conflict => "read the current state, then decide whether to retry",
            Self::VersionConflict => "read the entry again and retry with its current version",
            Self::StaleLease => "stop this work: its lease has expired, or it has already ended",
            Self::StaleEpoch => "stop this process: the agent has registered again with a newer epoch",
            Self::Duplicate => "use a new id or idempotency key for new content",
            Self::SessionClosed => "open a new session",
            Self::Cancelled => "submit it again if it is still needed",
            Self::Expired => "submit it again with a later deadline",
            Self::TooLarge => "send less data, or split it into several requests",
            Self::SecretDetected => "remove the secret and send a reference to it instead",
            Self::LimitExceeded => "stay within the limit: split the request, or ask for less",
            Self::QueueFull => "retry later, when the recipient has drained its inbox",
            Self::StorageFailed => "restart the hub, then repeat the request with the same idempotency key",
            Self::Unavailable => "retry in a moment",
            Self::Overloaded => "retry with backoff, at a lower rate",
            Self::StorageFull => "free disk space on the hub's machine, then retry",
            Self::StaleFence => "abandon the work done under this lock and acquire the lock again",
            Self::Deadlock => "release what the other agents wait for, then retry",
            Self::LoopRefused => "stop the loop, or start a new chain",
            Self::BudgetExceeded => "raise the budget, or start a new chain",
        }
    }

    /// Whether the unchanged request may succeed later.
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

/// An item that a commit names under a lease or version that is no longer current.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaleReference {
    /// Index of the operation that names it, starting at 0.
    pub op: usize,
    /// Id of the item.
    pub item: String,
    /// Reason of the refusal.
    pub code: Code,
    /// Token of the expired or ended lease, if the item is held under one.
    pub token: Option<LeaseToken>,
    /// The record in which this lease ended successfully; see [`Facts::ended_by`].
    pub ended_by: Option<Seq>,
    /// The request whose end ended this lease; see [`Facts::ended_request`].
    pub ended_request: Option<RequestEnd>,
}

/// The end of a request before the holder of its delivery answered it. The delivery and its lease ended with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestEnd {
    /// Id of the delivery.
    pub delivery: DeliveryId,
    /// Id of the request.
    pub request: MessageId,
    /// Code with which it ended; `CONFLICT` if another agent has answered it.
    pub code: Code,
}

/// Machine-readable details of a refusal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Index of the refused operation, starting at 0.
    pub op: Option<usize>,
    /// Current version of the entry; 0 if it does not exist.
    pub current_version: Option<u64>,
    /// The limit that was exceeded.
    pub limit: Option<u64>,
    /// Current epoch of the agent.
    pub current_epoch: Option<u64>,
    /// The record that acked the delivery, or accepted the end of the task, under the token of the refused operation. A
    /// caller that lost the response to its commit can tell from it that the commit was applied.
    pub ended_by: Option<Seq>,
    /// The request whose end ended the lease of the refused operation: the answer is not needed any more.
    pub ended_request: Option<RequestEnd>,
    /// All stale items of the commit, not only the first.
    pub stale: Vec<StaleReference>,
    /// Highest fencing token issued for the lock.
    pub current_fence: Option<u64>,
    /// The cycle in the wait-for graph.
    pub cycle: Vec<WaitEdge>,
    /// The policy rule that was violated.
    pub rule: Option<String>,
    /// The field of the message or agent that violates the rule.
    pub field: Option<String>,
    /// Byte offset within that field.
    pub offset: Option<usize>,
    /// Milliseconds after which the same request may be accepted.
    pub retry_after_ms: Option<u64>,
    /// Id of the request that was sent nevertheless: only the wait for its reply ended.
    pub sent_request: Option<String>,
    /// Whether the limit applies to concurrent work or to a rate, so that the same request may be accepted later. Otherwise
    /// the request itself is over the limit.
    pub retryable: bool,
    /// Whether only moderators may learn of it: no metric, log event or list of violations mentions it.
    pub private: bool,
}

/// An edge of a cycle in the wait-for graph: the agent waits for something that the agent of the next edge holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitEdge {
    /// The waiting agent.
    pub agent: String,
    /// The resource it waits for.
    pub waits_for: String,
}

/// A refusal: the request was not applied. If only the wait for a reply failed, [`Facts::sent_request`] names the
/// request, which remains sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Refused {
    /// Stable error code.
    pub code: Code,
    /// Human-readable description of the problem.
    pub detail: String,
    /// The suggested next step.
    pub hint: String,
    /// Machine-readable details.
    pub facts: Box<Facts>,
}

impl Refused {
    /// Creates a refusal with the default hint of its code.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), hint: code.default_hint().to_owned(), facts: Box::default() }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Sets the limit that was exceeded.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Self {
        self.facts.limit = Some(limit);
        self
    }

    /// Marks the limit as one on concurrent work or a rate: capacity frees up over time, so the caller may retry.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.facts.retryable = true;
        self
    }

    /// Marks the refusal as visible to the caller only.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.facts.private = true;
        self
    }

    /// Sets the violated policy rule and the field that violates it.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<String>, field: impl Into<String>) -> Self {
        self.facts.rule = Some(rule.into());
        self.facts.field = Some(field.into());
        self
    }

    /// Sets the current version of the entry.
    #[must_use]
    pub fn current_version(mut self, version: u64) -> Self {
        self.facts.current_version = Some(version);
        self
    }

    /// Sets the record in which the same lease ended successfully.
    #[must_use]
    pub fn ended_by(mut self, seq: Seq) -> Self {
        self.facts.ended_by = Some(seq);
        self
    }

    /// Sets the request whose end ended the lease.
    #[must_use]
    pub fn ended_request(mut self, ended: RequestEnd) -> Self {
        self.facts.ended_request = Some(ended);
        self
    }

    /// Sets the id of the request that remains sent and may have been delivered.
    #[must_use]
    pub fn sent_request(mut self, request_id: impl fmt::Display) -> Self {
        self.facts.sent_request = Some(request_id.to_string());
        self
    }

    /// Sets the index of the operation, unless it is already set.
    #[must_use]
    pub fn at_op(mut self, op: usize) -> Self {
        self.facts.op.get_or_insert(op);
        self
    }
}
