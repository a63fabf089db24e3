//! Errors as callers see them: `application/problem+json`, with the same codes as in the library.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use quorate_core::{Code, Facts, Refused};
use quorate_engine::Error;
use serde_json::{Map, Value, json};

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
}

impl Problem {
    /// Its code.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// The status under which it is told.
    pub(crate) fn status(&self) -> StatusCode {
        status_of(self.code)
    }

    /// What is stale, by name.
    pub(crate) fn stale(&self) -> impl Iterator<Item = &str> {
        self.facts.stale.iter().map(|one| one.item.as_str())
    }

    /// What the caller is told, as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut told = json!({
            "type": format!("urn:quorate:error:{}", self.code),
            "title": title_of(self.code),
            "status": status_of(self.code).as_u16(),
            "detail": self.detail,
            "code": self.code.as_str(),
            "hint": self.hint,
            "retryable": self.code.retryable(),
            "applied": if self.nothing_applied { "no" } else { "unknown" },
        });
        if let Some(told) = told.as_object_mut() {
            add_facts(told, &self.facts);
        }
        told
    }
}

fn add_facts(told: &mut Map<String, Value>, facts: &Facts) {
    let mut add = |name: &str, fact: Option<Value>| {
        if let Some(fact) = fact {
            told.insert(name.to_owned(), fact);
        }
    };
    add("op", facts.op.map(Value::from));
    add("currentVersion", facts.current_version.map(Value::from));
    add("currentEpoch", facts.current_epoch.map(Value::from));
    add("currentFence", facts.current_fence.map(Value::from));
    add("limit", facts.limit.map(Value::from));
    add("rule", facts.rule.clone().map(Value::from));
    add("place", facts.place.clone().map(Value::from));
    add("offset", facts.offset.map(Value::from));
    let stale = facts.stale.iter();
    let stale = stale.map(|one| json!({"op": one.op, "item": one.item, "code": one.code.as_str()}));
    add("stale", (!facts.stale.is_empty()).then(|| stale.collect()));
    let cycle = facts.cycle.iter().map(|one| json!({"agent": one.agent, "waitsFor": one.waits_for}));
    add("cycle", (!facts.cycle.is_empty()).then(|| cycle.collect()));
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let Refused { code, detail, hint, facts } = refused;
        Self { code, detail, hint, nothing_applied: true, facts }
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
                Self { code, detail: error.to_string(), hint, nothing_applied, facts: Box::default() }
            }
            Error::Remote(remote) => {
                Self { code, detail: remote.detail, hint, nothing_applied, facts: Box::default() }
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = status_of(self.code);
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, kind, self.to_json().to_string()).into_response();
        response.extensions_mut().insert(Told { code: self.code, detail: self.detail });
        if status == StatusCode::UNAUTHORIZED {
            let how = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        response
    }
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

    #[test]
    fn every_code_has_a_status_of_an_error() {
        assert!(Code::ALL.iter().all(|code| status_of(*code).as_u16() >= 400));
    }
}
