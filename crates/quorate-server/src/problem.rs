//! API errors: `application/problem+json` (RFC 9457) with the same codes as the library.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use quorate_api::problem::{MergeConflict, ProblemDetails};
use quorate_core::{Code, Facts, Refused, StaleReference, redact_tokens};
use quorate_engine::Error;
use serde_json::value::RawValue;

use crate::dialect::merge::Conflict;
use crate::observe::Unobserved;

/// Maximum number of merge conflicts listed in one response.
const CONFLICTS_MAX: usize = 32;

/// Response extension with the error, for logs and metrics.
#[derive(Clone)]
pub(crate) struct ReportedError {
    pub(crate) code: Code,
    pub(crate) detail: String,
}

/// An API error.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    code: Code,
    detail: String,
    hint: String,
    /// `false` if it is unknown whether the call took effect.
    nothing_applied: bool,
    facts: Box<Facts>,
    /// HTTP status that overrides the status of the code.
    own_status: Option<StatusCode>,
    /// Merge conflicts.
    conflicts: Vec<Conflict>,
}

impl Problem {
    /// Creates the error for a failure of the hub after the change of a call may have been committed.
    pub(crate) fn unknown_outcome(detail: impl Into<String>) -> Self {
        let refused = Refused::new(Code::Unavailable, detail)
            .hint("read the current state, then retry with the same idempotency key");
        Self { nothing_applied: false, ..Self::from(refused) }
    }

    /// Returns the error code.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Returns the HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        self.own_status.unwrap_or_else(|| status_of(self.code))
    }

    /// Whether only the caller may learn of the error.
    pub(crate) fn is_private(&self) -> bool {
        self.facts.private
    }

    /// Whether the same call may succeed later.
    fn is_retryable(&self) -> bool {
        self.code.retryable() || self.facts.retryable || self.facts.retry_after_ms.is_some()
    }

    /// Overrides the HTTP status.
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { own_status: Some(status), ..self }
    }

    /// Replaces the hint.
    pub(crate) fn with_hint(self, hint: &str) -> Self {
        Self { hint: hint.to_owned(), ..self }
    }

    /// Attaches merge conflicts, truncated to [`CONFLICTS_MAX`].
    pub(crate) fn with_conflicts(mut self, mut conflicts: Vec<Conflict>) -> Self {
        conflicts.truncate(CONFLICTS_MAX);
        self.conflicts = conflicts;
        self
    }

    /// Returns all stale items.
    pub(crate) fn stale(&self) -> impl Iterator<Item = &StaleReference> {
        self.facts.stale.iter()
    }

    /// Returns the response body as JSON, without access tokens that the caller sent in the wrong place.
    pub(crate) fn to_text(&self) -> String {
        let body = serde_json::to_value(self.to_body()).unwrap_or_default();
        redact_tokens(&body.to_string()).into_owned()
    }

    fn applied(&self) -> &'static str {
        match (&self.facts.sent_request, self.nothing_applied) {
            (Some(_), _) => "yes",
            (None, true) => "no",
            (None, false) => "unknown",
        }
    }

    fn to_body(&self) -> ProblemDetails {
        let facts = &self.facts;
        ProblemDetails {
            kind: format!("urn:quorate:error:{}", self.code),
            title: title_of(self.code),
            status: self.status().as_u16(),
            detail: self.detail.clone(),
            code: self.code.as_str().into(),
            hint: self.hint.clone(),
            retryable: self.is_retryable(),
            applied: self.applied().into(),
            asked: facts.sent_request.clone(),
            op: facts.op,
            current_version: facts.current_version,
            current_epoch: facts.current_epoch,
            current_fence: facts.current_fence,
            limit: facts.limit,
            rule: facts.rule.clone(),
            place: facts.field.clone(),
            offset: facts.offset,
            retry_after_ms: facts.retry_after_ms,
            ended_by: facts.ended_by.map(|seq| seq.0),
            ended_request: facts.ended_request.as_ref().map(Into::into),
            stale: facts.stale.iter().map(Into::into).collect(),
            cycle: facts.cycle.iter().map(Into::into).collect(),
            conflicts: self.conflicts.iter().map(merge_conflict).collect(),
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
            // The internal cause belongs in the operator's log; callers get its consequence.
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
        let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, content_type, self.to_text()).into_response();
        if self.facts.private {
            response.extensions_mut().insert(Unobserved);
        }
        response
            .extensions_mut()
            .insert(ReportedError { code: self.code, detail: redact_tokens(&self.detail).into_owned() });
        if status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Some(wait_ms) = self.facts.retry_after_ms {
            // HTTP allows whole seconds only; the body has milliseconds.
            response.headers_mut().insert(header::RETRY_AFTER, wait_ms.div_ceil(1_000).into());
        }
        response
    }
}

/// Returns the codes of a status, for the OpenAPI document. 412 and 428 are alternative statuses of `VERSION_CONFLICT`.
#[cfg(feature = "schema")]
pub(crate) fn codes_for_status(status: u16) -> impl Iterator<Item = &'static str> {
    let own = matches!(status, 412 | 428).then_some(Code::VersionConflict);
    let codes = Code::ALL.iter().copied().filter(move |code| status_of(*code).as_u16() == status);
    codes.chain(own).map(Code::as_str)
}

fn merge_conflict(conflict: &Conflict) -> MergeConflict {
    let value = |raw: &Option<Box<RawValue>>| {
        raw.as_ref().map(|raw| serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().into()))
    };
    MergeConflict {
        pointer: conflict.pointer.clone(),
        base: value(&conflict.base),
        current: value(&conflict.current),
        yours: value(&conflict.submitted),
    }
}

/// Returns the HTTP status of a code.
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

/// Returns the code as a title: `VERSION_CONFLICT` becomes "Version conflict".
fn title_of(code: Code) -> String {
    let words = code.as_str().to_lowercase().replace('_', " ");
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use quorate_core::{Code, Refused};

    use super::{Problem, status_of};

    fn json(problem: Problem) -> serde_json::Value {
        serde_json::from_str(&problem.to_text()).expect("JSON")
    }

    #[test]
    fn a_refusal_is_rendered_with_its_facts() {
        let refused = Refused::new(Code::VersionConflict, "plan is at version 3")
            .hint("read it again")
            .current_version(3)
            .at_op(1);
        let body = json(Problem::from(refused));
        assert_eq!(body["status"], 409);
        assert_eq!(body["code"], "VERSION_CONFLICT");
        assert_eq!(body["title"], "Version conflict");
        assert_eq!((&body["currentVersion"], &body["op"]), (&3.into(), &1.into()));
        assert_eq!((&body["applied"], &body["retryable"]), (&"no".into(), &false.into()));
        assert!(body.get("limit").is_none());
    }

    // Fails under: a failure after a commit reported as a refusal, of which nothing was applied.
    #[test]
    fn a_missing_result_leaves_the_outcome_unknown() {
        let body = json(Problem::unknown_outcome("the token creation returned no result"));
        assert_eq!((&body["status"], &body["code"]), (&503.into(), &"UNAVAILABLE".into()));
        assert_eq!((&body["applied"], &body["retryable"]), (&"unknown".into(), &true.into()));
    }

    // Fails under: a permanent limit reported as retryable, or a temporary one as permanent.
    #[test]
    fn a_limit_states_whether_it_is_retryable() {
        let refused = || Refused::new(Code::LimitExceeded, "too much").limit(3);
        let status = |refused: Refused| {
            let body = json(Problem::from(refused));
            (body["status"].as_u64().unwrap_or_default(), body["retryable"].as_bool().unwrap_or_default())
        };
        assert_eq!(status(refused()), (429, false));
        assert_eq!(status(refused().retryable()), (429, true));
        let mut rate_limited = refused();
        rate_limited.facts.retry_after_ms = Some(10);
        assert_eq!(status(rate_limited), (429, true));
    }

    #[test]
    fn every_code_has_a_status_of_an_error() {
        assert!(Code::ALL.iter().all(|code| status_of(*code).as_u16() >= 400));
    }
}
