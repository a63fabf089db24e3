//! Conduct flags: private reports to the moderators. Only moderators read them.

use quorate_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::json::RawJson;
#[cfg(feature = "schema")]
use crate::schema;

/// A conduct flag.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Flag {
    pub id: String,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub state: FlagState,
    /// `agent:ID`, `operator:NAME` and so on; empty once erased.
    pub raised_by: String,
    pub raised_at: Timestamp,
    /// Content as submitted; `null` once erased.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Any"))]
    pub flag: Option<RawJson>,
    pub resolution: Option<FlagResolution>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum FlagState {
    Open,
    Resolved,
}

impl FlagState {
    /// Returns the name used in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Resolved => "resolved",
        }
    }
}

/// Resolution of a flag.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct FlagResolution {
    pub by: String,
    pub at: Timestamp,
    pub note: String,
}

/// Resolution of a flag.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResolveFlag {
    /// Action taken, in a sentence or two.
    #[serde(default)]
    pub note: String,
}

/// Filter and page of a list of flags.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlagListQuery {
    /// Only flags in this state.
    pub state: Option<FlagState>,
    /// Maximum number of items in a page; 100 by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    /// Cursor of the previous page; omit it for the first page.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}
