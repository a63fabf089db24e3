//! State of a proposal between two steps.

use quorate_core::ActionDigest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::outcome::ProposalEnd;

/// State of a proposal.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposalState {
    /// Current phase.
    pub phase: ProposalPhase,
    /// The proposals, oldest first. Each after the first one revises the one before.
    #[serde(default)]
    pub rounds: Vec<Round>,
    /// Agents that are asked for a revision, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisers: Vec<String>,
    /// Recommendation of the deliberation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<String>,
}

/// Phase of a proposal.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "name")]
pub enum ProposalPhase {
    /// Not started yet.
    #[default]
    New,
    /// Agents deliberate.
    Deliberating,
    /// A person decides on the last round.
    AwaitingApproval,
    /// An agent revises the rejected proposal.
    Revising {
        /// The agent.
        agent: String,
    },
    /// The approved action is executed.
    Executing {
        /// The action.
        action: Value,
        /// Digest of its canonical bytes.
        digest: String,
    },
    /// It has ended.
    Ended {
        /// How it ended.
        end: ProposalEnd,
        /// Result of the task, or the reason of the failure.
        result: Value,
    },
}

/// A proposal and its decision.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// Payload of the action; `null` once there is a later round or a decision to execute. Its approval keeps it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub payload: Value,
    /// Why it is proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Confidence that it is right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// The agent that revised it; `None` for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revised_by: Option<String>,
    /// The decision; `None` while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ProposalDecision>,
    /// Agents that were asked for a revision and did not return one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<RevisionFailure>,
}

/// A decision on a proposal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProposalDecision {
    /// `approved`, `modified`, `rejected` or `expired`.
    pub state: String,
    /// Reason of the person; may be empty.
    pub reason: String,
}

/// Why an agent did not revise a proposal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RevisionFailure {
    /// The agent.
    pub agent: String,
    /// The reason.
    pub reason: String,
}

impl ProposalPhase {
    /// Name of the phase.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Deliberating => "deliberating",
            Self::AwaitingApproval => "awaiting approval",
            Self::Revising { .. } => "revising",
            Self::Executing { .. } => "executing",
            Self::Ended { .. } => "ended",
        }
    }
}

impl ProposalState {
    /// Returns the id of the approval of the last round, for the proposal with this id.
    #[must_use]
    pub fn approval_id(&self, proposal: &str) -> String {
        format!("{proposal}:{}", self.approval_name())
    }

    /// Number of revisions so far.
    #[must_use]
    pub fn revisions(&self) -> usize {
        self.rounds.len().saturating_sub(1)
    }

    /// Id of the approval of the last round within the procedure.
    pub(super) fn approval_name(&self) -> String {
        format!("approval-{}", self.rounds.len())
    }

    /// Id of the current request for a revision within the procedure.
    pub(super) fn revision_request(&self) -> String {
        let asked = self.rounds.last().map_or(0, |round| round.failures.len());
        format!("revise-{}-{}", self.rounds.len(), asked + 1)
    }

    pub(super) fn is_revision_request(&self, request: &str) -> bool {
        self.revision_request() == request
    }

    /// Proposes the next round.
    pub(super) fn open_round(&mut self, round: Round) {
        self.drop_payload();
        self.rounds.push(round);
        self.phase = ProposalPhase::AwaitingApproval;
    }

    /// Executes an approved action.
    pub(super) fn execute(&mut self, bytes: &[u8]) {
        let Ok(action) = serde_json::from_slice(bytes) else {
            return self.fail("the approved action is not JSON".to_owned());
        };
        self.drop_payload();
        self.phase = ProposalPhase::Executing { action, digest: ActionDigest::of(bytes).to_string() };
    }

    /// Keeps the state small: a payload can have 256 KB.
    fn drop_payload(&mut self) {
        if let Some(round) = self.rounds.last_mut() {
            round.payload = Value::Null;
        }
    }

    pub(super) fn end(&mut self, end: ProposalEnd, result: Value) {
        self.drop_payload();
        self.phase = ProposalPhase::Ended { end, result };
    }

    pub(super) fn fail(&mut self, reason: String) {
        self.end(ProposalEnd::Failed, Value::String(reason));
    }
}
