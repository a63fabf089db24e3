//! Filter of the event stream.

use serde::Deserialize;

#[cfg(feature = "schema")]
use crate::schema;

/// First record and filter of an event stream.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventStreamQuery {
    /// Sequence number of the first record; by default the next one that is written.
    pub from: Option<u64>,
    /// Effect names to include, separated by commas.
    pub kind: Option<String>,
    /// Include only effects that concern this agent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub agent: Option<String>,
    /// Include only effects of this session.
    pub session: Option<String>,
}
