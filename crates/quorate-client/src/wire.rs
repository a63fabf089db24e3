//! From the JSON types of `quorate-api` to those of the library, and back.

pub(crate) mod message;
pub(crate) mod op;
pub(crate) mod task;

use quorate::{Code, Error, Refused, Remote};
use quorate_core::refusal_in;
use serde::Deserialize;

/// The error for an answer that a hub of this release does not give.
pub(crate) fn strange(what: &dyn std::fmt::Display) -> Error {
    let text = what.to_string();
    let what = refusal_in(&text).map_or(text, |refused| refused.detail);
    Remote {
        code: Code::Unavailable,
        detail: format!("the hub's answer is not understood: {what}"),
        hint: "check that the hub is of the same release as this program".to_owned(),
        nothing_applied: false,
    }
    .into()
}

/// Parses JSON of a known form.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| strange(&error))
}

/// Writes JSON.
pub(crate) fn write(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Refused::new(Code::Invalid, format!("the request has no JSON form: {error}")).into())
}
