//! Result of a proposal.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::json_bytes;
use super::state::{ProposalState, Round};
use crate::machine::{ProcedureContext, ProcedureOutput};

/// How a proposal ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalEnd {
    /// It was approved as proposed, and executed.
    Approved,
    /// It was approved with changes, and executed.
    Modified,
    /// It was rejected, and there is no further revision.
    Rejected,
    /// Nobody decided in time.
    Expired,
    /// The outcome of the deliberation does not require an approval.
    NotRequired,
    /// The deliberation or the task failed.
    Failed,
}

/// Result of a proposal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposalOutcome {
    /// How it ended.
    pub end: ProposalEnd,
    /// Id of the last approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// The proposals with their decisions, oldest first.
    pub rounds: Vec<Round>,
    /// Id of the deliberation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliberation: Option<String>,
    /// Result of the task.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub result: Value,
    /// Reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ProposalEnd {
    /// Returns the end that follows from a decision.
    pub(super) fn of_decision(state: &str) -> Self {
        match state {
            "approved" => Self::Approved,
            "modified" => Self::Modified,
            "expired" => Self::Expired,
            _ => Self::Rejected,
        }
    }
}

/// Returns the output that ends the procedure.
pub(super) fn output(
    state: &ProposalState,
    end: ProposalEnd,
    result: &Value,
    deliberation: Option<String>,
    context: &ProcedureContext<'_>,
) -> ProcedureOutput {
    let has_failed = end == ProposalEnd::Failed;
    let outcome = ProposalOutcome {
        end,
        approval: (!state.rounds.is_empty()).then(|| state.approval_id(context.id.as_str())),
        rounds: state.rounds.clone(),
        deliberation,
        result: if has_failed { Value::Null } else { result.clone() },
        reason: result.as_str().filter(|_| has_failed).map(ToOwned::to_owned),
    };
    let bytes = json_bytes(&json!(outcome));
    if has_failed { ProcedureOutput::Fail(bytes) } else { ProcedureOutput::Finish(bytes) }
}
