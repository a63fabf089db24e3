//! Errors as callers see them: `application/problem+json`, with the same codes as in the library.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use quorate_core::{Code, Facts, Refused, Stale};
use quorate_engine::Error;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::words;
use crate::dialect::merge::Conflict;
use crate::observe::Unobserved;

/// Conflicts that one answer names.
const CONFLICTS_MAX: usize = 32;

/// Goes with the response of an error, for those who watch the hub.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) code: Code,
    pub(crate) detail: String,
}

/// An error on its way out.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    code: Code,
    detail: String,
    hint: String,
    /// `false` if nobody knows whether it took effect.
    nothing_applied: bool,
    facts: Box<Facts>,
    /// The status, where HTTP has one of its own for this.
    own_status: Option<StatusCode>,
    /// What could not be merged.
    conflicts: Vec<Conflict>,
}

impl Problem {
    /// Its code.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// The status under which it is told.
    pub(crate) fn status(&self) -> StatusCode {
        self.own_status.unwrap_or_else(|| status_of(self.code))
    }

    /// Whether nobody but the caller may learn of it.
    pub(crate) fn is_private(&self) -> bool {
        self.facts.private
    }

    /// Whether the same call may succeed later.
    fn may_pass(&self) -> bool {
        self.code.retryable() || self.facts.passes || self.facts.retry_after_ms.is_some()
    }

    /// Told under a status that HTTP has for just this.
    pub(crate) fn under(self, status: StatusCode) -> Self {
        Self { own_status: Some(status), ..self }
    }

    /// Names what could not be merged: the first of it, if it is a lot.
    pub(crate) fn with_conflicts(mut self, mut conflicts: Vec<Conflict>) -> Self {
        conflicts.truncate(CONFLICTS_MAX);
        self.conflicts = conflicts;
        self
    }

    /// Every item that is stale.
    pub(crate) fn stale(&self) -> impl Iterator<Item = &Stale> {
        self.facts.stale.iter()
    }

    /// What the caller is told, as JSON.
    pub(crate) fn to_json(&self) -> Value {
        serde_json::to_value(self.told()).unwrap_or_default()
    }

    fn applied(&self) -> &'static str {
        match (&self.facts.asked, self.nothing_applied) {
            (Some(_), _) => "yes",
            (None, true) => "no",
            (None, false) => "unknown",
        }
    }

    fn told(&self) -> ProblemOut {
        let facts = &self.facts;
        let stale = facts.stale.iter();
        let cycle = facts.cycle.iter();
        ProblemOut {
            kind: format!("urn:quorate:error:{}", self.code),
            title: title_of(self.code),
            status: self.status().as_u16(),
            detail: self.detail.clone(),
            code: self.code.as_str(),
            hint: self.hint.clone(),
            // What was asked is asked twice if it is asked again.
            retryable: self.may_pass(),
            applied: self.applied(),
            asked: facts.asked.clone(),
            op: facts.op,
            current_version: facts.current_version,
            current_epoch: facts.current_epoch,
            current_fence: facts.current_fence,
            limit: facts.limit,
            rule: facts.rule.clone(),
            place: facts.place.clone(),
            offset: facts.offset,
            retry_after_ms: facts.retry_after_ms,
            ended_by: facts.ended_by.map(|seq| seq.0),
            stale: stale.map(StaleOut::from).collect(),
            cycle: cycle
                .map(|one| WaitOut { agent: one.agent.clone(), waits_for: one.waits_for.clone() })
                .collect(),
            conflicts: self.conflicts.iter().map(ConflictOut::new).collect(),
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let Refused { code, detail, hint, facts } = refused;
        Self { code, detail, hint, nothing_applied: true, facts, own_status: None, conflicts: Vec::new() }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let nothing_applied = error.nothing_applied();
        let (code, hint) = (error.code(), error.hint().to_owned());
        match error {
            Error::Refused(refused) => refused.into(),
            // What broke inside is for the operator's log; callers learn what it means for them.
            Error::Store(error) => {
                let detail = error.to_string();
                Self {
                    code,
                    detail,
                    hint,
                    nothing_applied,
                    facts: Box::default(),
                    own_status: None,
                    conflicts: Vec::new(),
                }
            }
            Error::Remote(remote) => {
                let detail = remote.detail;
                Self {
                    code,
                    detail,
                    hint,
                    nothing_applied,
                    facts: Box::default(),
                    own_status: None,
                    conflicts: Vec::new(),
                }
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, kind, self.to_json().to_string()).into_response();
        if self.facts.private {
            response.extensions_mut().insert(Unobserved);
        }
        response.extensions_mut().insert(Told { code: self.code, detail: self.detail });
        if status == StatusCode::UNAUTHORIZED {
            let how = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        if let Some(wait_ms) = self.facts.retry_after_ms {
            // In whole seconds, as HTTP has it; the body is more exact.
            response.headers_mut().insert(header::RETRY_AFTER, wait_ms.div_ceil(1_000).into());
        }
        response
    }
}

/// The codes that are told under a status. Statuses of preconditions have no code of their own.
pub(crate) fn codes_of(status: u16) -> impl Iterator<Item = &'static str> {
    let own = matches!(status, 412 | 428).then_some(Code::VersionConflict);
    let codes = Code::ALL.iter().copied().filter(move |code| status_of(*code).as_u16() == status);
    codes.chain(own).map(Code::as_str)
}

/// A problem as it is described. The facts of the case are there when it has them.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemOut {
    /// `urn:quorate:error:CODE`.
    #[serde(rename = "type")]
    kind: String,
    /// The code in words.
    title: String,
    /// The status of the answer.
    status: u16,
    /// What is wrong, where and why.
    detail: String,
    /// Stable: `quorate explain CODE` says more.
    #[schemars(extend("enum" = Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>()))]
    code: &'static str,
    /// What to do next.
    hint: String,
    /// Whether the same call may succeed later.
    retryable: bool,
    /// `no`: nothing was changed. `yes`: the question was asked, only the wait for its answer is over. `unknown`: nobody
    /// knows; repeat it under the same key.
    #[schemars(extend("enum" = ["no", "yes", "unknown"]))]
    applied: &'static str,
    /// The question that was asked and has no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<String>,
    /// Which operation of a commit it is about, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<usize>,
    /// The version that the entry has.
    #[serde(skip_serializing_if = "Option::is_none")]
    current_version: Option<u64>,
    /// The start of the agent that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    current_epoch: Option<u64>,
    /// The fence under which the lock is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    current_fence: Option<u64>,
    /// How much is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// Which rule said no.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// Where in what was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// At which byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<usize>,
    /// After how many milliseconds the same call may be let through.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The record that acked the delivery, or accepted the end of the task, under the same lease token. If it is your own
    /// commit, it was applied and only its answer was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_by: Option<u64>,
    /// Everything that is stale.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stale: Vec<StaleOut>,
    /// Who waits for whom, in a circle.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cycle: Vec<WaitOut>,
    /// Everything that you and others changed differently.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<ConflictOut>,
}

/// A part of a document that two writers changed differently. A value that is left out is absent: removed, or never there.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MergeConflict")]
struct ConflictOut {
    /// JSON pointer to it.
    pointer: String,
    /// The value in the state that `If-Match` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<words::Any>")]
    base: Option<Value>,
    /// The value that is there now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<words::Any>")]
    current: Option<Value>,
    /// The value in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<words::Any>")]
    yours: Option<Value>,
}

impl ConflictOut {
    fn new(conflict: &Conflict) -> Self {
        let value = |raw: &Option<Box<RawValue>>| {
            raw.as_ref().map(|raw| serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().into()))
        };
        Self {
            pointer: conflict.pointer.clone(),
            base: value(&conflict.base),
            current: value(&conflict.current),
            yours: value(&conflict.yours),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StaleItem")]
struct StaleOut {
    op: usize,
    item: String,
    code: &'static str,
    /// The token of the lease that is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_token: Option<u64>,
    /// The record in which this very lease ended with success.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_by: Option<u64>,
}

impl From<&Stale> for StaleOut {
    fn from(stale: &Stale) -> Self {
        let Stale { op, item, code, token, ended_by } = stale;
        Self {
            op: *op,
            item: item.clone(),
            code: code.as_str(),
            lease_token: token.map(|token| token.0),
            ended_by: ended_by.map(|seq| seq.0),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeadlockedWait")]
struct WaitOut {
    agent: String,
    waits_for: String,
}

/// The status under which a code is told.
pub(crate) fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Invalid => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Forbidden | Code::PolicyViolation => StatusCode::FORBIDDEN,
        Code::NotFound | Code::UnknownRecipient => StatusCode::NOT_FOUND,
        Code::Timeout => StatusCode::REQUEST_TIMEOUT,
        Code::Conflict
        | Code::VersionConflict
        | Code::StaleLease
        | Code::StaleFence
        | Code::StaleEpoch
        | Code::Duplicate
        | Code::Deadlock
        | Code::LoopRefused
        | Code::SessionClosed
        | Code::Cancelled
        | Code::Expired => StatusCode::CONFLICT,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::SecretDetected => StatusCode::UNPROCESSABLE_ENTITY,
        Code::LimitExceeded | Code::QueueFull | Code::BudgetExceeded => StatusCode::TOO_MANY_REQUESTS,
        Code::StorageFailed => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Unavailable | Code::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        Code::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
    }
}

/// The code in words: `VERSION_CONFLICT` is "Version conflict".
fn title_of(code: Code) -> String {
    let words = code.as_str().to_lowercase().replace('_', " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use quorate_core::{Code, Refused};

    use super::{Problem, status_of};

    #[test]
    fn a_refusal_is_told_with_its_facts() {
        let refused = Refused::new(Code::VersionConflict, "plan is at version 3")
            .hint("read it again")
            .current_version(3)
            .at_op(1);
        let told = Problem::from(refused).to_json();
        assert_eq!(told["status"], 409);
        assert_eq!(told["code"], "VERSION_CONFLICT");
        assert_eq!(told["title"], "Version conflict");
        assert_eq!((&told["currentVersion"], &told["op"]), (&3.into(), &1.into()));
        assert_eq!((&told["applied"], &told["retryable"]), (&"no".into(), &false.into()));
        assert!(told.get("limit").is_none());
    }

    // Fails under: a limit on the request itself that is told as one that passes, or the other way round.
    #[test]
    fn a_limit_says_whether_it_passes() {
        let refused = || Refused::new(Code::LimitExceeded, "too much").limit(3);
        let status = |refused: Refused| {
            let told = Problem::from(refused).to_json();
            (told["status"].as_u64().unwrap_or_default(), told["retryable"].as_bool().unwrap_or_default())
        };
        assert_eq!(status(refused()), (429, false));
        assert_eq!(status(refused().passes()), (429, true));
        let mut often = refused();
        often.facts.retry_after_ms = Some(10);
        assert_eq!(status(often), (429, true));
    }

    #[test]
    fn every_code_has_a_status_of_an_error() {
        assert!(Code::ALL.iter().all(|code| status_of(*code).as_u16() >= 400));
    }
}
