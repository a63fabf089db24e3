//! Error responses: `application/problem+json` (RFC 9457) with the same codes as the library.

use std::borrow::Cow;

use quorate_core::{Code, Facts, LeaseToken, Refused, Seq, StaleReference, WaitEdge};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::delivery::EndedRequest;
use crate::error::{Error, RemoteError};
#[cfg(feature = "schema")]
use crate::schema;

/// Error response. Optional fields are present where they apply.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Problem"))]
#[serde(rename_all = "camelCase")]
pub struct ProblemDetails {
    /// `urn:quorate:error:CODE`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Human-readable form of the code.
    #[serde(default)]
    pub title: String,
    /// HTTP status of the response.
    #[serde(default)]
    pub status: u16,
    /// Description of the error: what is wrong, where and why.
    #[serde(default)]
    pub detail: String,
    /// Stable error code. `quorate explain CODE` describes it.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = schema::generate::code_names())))]
    pub code: Cow<'static, str>,
    /// What to do next.
    #[serde(default)]
    pub hint: String,
    /// Whether the same call may succeed later.
    #[serde(default)]
    pub retryable: bool,
    /// `no`: nothing was changed. `yes`: the request was sent; only the wait for its answers ended. `unknown`: the
    /// call may have taken effect; repeat it with the same idempotency key.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["no", "yes", "unknown"])))]
    pub applied: Cow<'static, str>,
    /// Id of the request that was sent and has no answer yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Index of the failed operation in the commit, starting at 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<usize>,
    /// Current version of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_version: Option<u64>,
    /// Current epoch of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_epoch: Option<u64>,
    /// Current fencing token of the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_fence: Option<u64>,
    /// The limit that was exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The policy rule that refused the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Path of the offending field in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Byte offset in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// Milliseconds to wait before retrying.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Sequence number of the record that acked the delivery, or ended the task, with the same lease token. If that
    /// was your own commit, it was applied and only its response was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<u64>,
    /// The request whose end ended the lease: nobody needs the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_request: Option<EndedRequest>,
    /// All stale items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<StaleItem>,
    /// Cycle in the wait-for graph, for a deadlock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycle: Vec<DeadlockedWait>,
    /// Values that both the request and another writer changed, differently.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<MergeConflict>,
}

/// A value that two writers changed differently. An omitted value is absent: removed, or never set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MergeConflict {
    /// JSON pointer of the value.
    pub pointer: String,
    /// Value in the version named by `If-Match`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Any>"))]
    pub base: Option<Value>,
    /// Current value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Any>"))]
    pub current: Option<Value>,
    /// Value in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Any>"))]
    pub yours: Option<Value>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct StaleItem {
    pub op: usize,
    pub item: String,
    pub code: Cow<'static, str>,
    /// Stale lease token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<u64>,
    /// Sequence number of the record in which this lease ended successfully.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<u64>,
    /// The request whose end ended this lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_request: Option<EndedRequest>,
}

impl From<&StaleReference> for StaleItem {
    fn from(stale: &StaleReference) -> Self {
        let StaleReference { op, item, code, token, ended_by, ended_request } = stale;
        Self {
            op: *op,
            item: item.clone(),
            code: code.as_str().into(),
            lease_token: token.map(|token| token.0),
            ended_by: ended_by.map(|seq| seq.0),
            ended_request: ended_request.as_ref().map(EndedRequest::from),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct DeadlockedWait {
    pub agent: String,
    pub waits_for: String,
}

impl From<&WaitEdge> for DeadlockedWait {
    fn from(edge: &WaitEdge) -> Self {
        Self { agent: edge.agent.clone(), waits_for: edge.waits_for.clone() }
    }
}

impl From<ProblemDetails> for Error {
    fn from(mut problem: ProblemDetails) -> Self {
        let code = code_of(&problem.code, problem.status);
        // Never return an error without a text.
        if problem.detail.is_empty() {
            problem.detail = format!("the hub returned {code} without details");
        }
        if problem.applied != "no" && problem.asked.is_none() {
            return RemoteError { code, detail: problem.detail, hint: problem.hint, nothing_applied: false }
                .into();
        }
        let stale = problem.stale.into_iter();
        let stale = stale.map(|item| StaleReference {
            op: item.op,
            item: item.item,
            code: code_of(&item.code, problem.status),
            token: item.lease_token.map(LeaseToken),
            ended_by: item.ended_by.map(Seq),
            ended_request: item.ended_request.map(|ended| ended.into_core(problem.status)),
        });
        let cycle = problem.cycle.into_iter();
        let facts = Facts {
            op: problem.op,
            current_version: problem.current_version,
            limit: problem.limit,
            current_epoch: problem.current_epoch,
            ended_by: problem.ended_by.map(Seq),
            ended_request: problem.ended_request.map(|ended| ended.into_core(problem.status)),
            stale: stale.collect(),
            current_fence: problem.current_fence,
            cycle: cycle.map(|wait| WaitEdge { agent: wait.agent, waits_for: wait.waits_for }).collect(),
            rule: problem.rule,
            field: problem.place,
            offset: problem.offset,
            retry_after_ms: problem.retry_after_ms,
            sent_request: problem.asked,
            retryable: code == Code::LimitExceeded && problem.retryable,
            private: false,
        };
        Refused { code, detail: problem.detail, hint: problem.hint, facts: Box::new(facts) }.into()
    }
}

/// Parses an error code. An unknown code of a newer hub is mapped to the closest one by status.
#[must_use]
pub fn code_of(text: &str, status: u16) -> Code {
    let parsed = Code::ALL.iter().find(|code| code.as_str() == text);
    parsed.copied().unwrap_or(match status {
        401 => Code::Unauthenticated,
        403 => Code::Forbidden,
        404 => Code::NotFound,
        408 => Code::Timeout,
        409 => Code::Conflict,
        413 => Code::TooLarge,
        429 => Code::LimitExceeded,
        507 => Code::StorageFull,
        500 | 502.. => Code::Unavailable,
        _ => Code::Invalid,
    })
}
