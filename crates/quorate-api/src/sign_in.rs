//! Sign-in to the web UI: single-use codes, and the access tokens that they are exchanged for.

use std::borrow::Cow;

use quorate_core::Timestamp;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::schema;

/// A sign-in code.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SignInCode {
    pub code: String,
    pub expires_at: Timestamp,
}

/// A sign-in code as typed by a person.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// Upper or lower case, with or without hyphens.
    pub code: String,
}

/// Access token and principal of a web session.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct SignedIn {
    pub id: String,
    /// The secret. Returned only once.
    pub token: String,
    #[cfg_attr(feature = "schema", schemars(with = "schema::TokenRoleName"))]
    pub role: Cow<'static, str>,
    #[cfg_attr(feature = "schema", schemars(with = "schema::TokenNameText"))]
    pub name: String,
    pub expires_at: Timestamp,
}
