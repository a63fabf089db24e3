//! Guidance: instructions by a person to the agents of a session.

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::schema;

/// An instruction to agents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct NewGuidance {
    #[cfg_attr(feature = "schema", schemars(with = "schema::ReasonText"))]
    pub text: String,
    /// Recipients; all participants by default.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 256), with = "Vec<schema::Id>"))]
    pub to: Vec<String>,
}

/// Result of giving guidance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Guidance {
    pub seq: Option<u64>,
    /// Key of the entry in the shared memory. Its history contains all guidance of the session.
    pub key: String,
    pub version: Option<u64>,
    /// Id of the message sent to the recipients; `null` if there are none.
    pub message: Option<String>,
}
