//! Choice of the protocol for a communication between agents.

use serde::{Deserialize, Serialize};

/// How agents communicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// One agent passes its work on to the next one.
    Handoff,
    /// All agents get the same information.
    Broadcast,
    /// An agent asks another one for specific information.
    Query,
}

/// Reason of a communication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// A phase depends on the one before.
    SequentialPhases,
    /// Several agents work on the same phase in parallel and need the same context.
    ParallelAgents,
    /// An agent lacks specific information that another one has.
    MissingInformation,
    /// A preference of the user changed, which affects all agents.
    PreferenceChange,
    /// An agent failed; its error handler takes over.
    AgentError,
}

impl Scenario {
    /// Returns the protocol for this scenario.
    #[must_use]
    pub fn protocol(self) -> Protocol {
        match self {
            Self::SequentialPhases | Self::AgentError => Protocol::Handoff,
            Self::ParallelAgents | Self::PreferenceChange => Protocol::Broadcast,
            Self::MissingInformation => Protocol::Query,
        }
    }
}
