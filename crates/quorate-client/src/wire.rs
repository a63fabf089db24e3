//! Conversions between the JSON types of `quorate-api` and the types of the library.

pub(crate) mod message;
pub(crate) mod op;
pub(crate) mod task;

use quorate::{Code, Error, Refused, RemoteError};
use quorate_core::extract_refusal;
use serde::Deserialize;

/// Returns the error for a response that a hub of the same version does not send.
pub(crate) fn unexpected_response(problem: &dyn std::fmt::Display) -> Error {
    let text = problem.to_string();
    let problem = extract_refusal(&text).map_or(text, |refused| refused.detail);
    RemoteError {
        code: Code::Unavailable,
        detail: format!("unexpected response from the hub: {problem}"),
        hint: "check that the hub and this program have the same version".to_owned(),
        nothing_applied: false,
    }
    .into()
}

/// Parses JSON.
pub(crate) fn parse_json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| unexpected_response(&error))
}

/// Serializes JSON.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| {
        Refused::new(Code::Invalid, format!("the request cannot be serialized as JSON: {error}")).into()
    })
}
