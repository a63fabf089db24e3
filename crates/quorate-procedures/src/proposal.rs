//! Proposals: agents propose an action, a person approves it, and it is executed once. If the person rejects it with a reason,
//! one of the agents revises it, and the revision is a new approval.
//!
//! What is proposed is the outcome of a deliberation, as a letter, or a payload that the specification contains. An approved
//! action is executed as a task, so it waits for the worker that does it, for as long as necessary.

mod letter;
mod outcome;
mod revision;
mod spec;
mod state;

use quorate_core::{AgentId, ProcedureStatus, TaskStatus};
use serde_json::{Value, json};

use crate::deliberation::Outcome;
use crate::finding::FieldError;
use crate::machine::{
    ApprovalOutput, ChildOutput, Machine, ProcedureContext, ProcedureEvent, ProcedureOutput, Wait,
};
use crate::{DELIBERATION_DRIVER, DELIBERATION_KIND};

pub use letter::{LetterTemplate, is_file_name};
pub use outcome::{ProposalEnd, ProposalOutcome};
pub use revision::REVISE;
pub use spec::{EffectTask, PROPOSAL_TIMEOUT_MS_DEFAULT, ProposalSpec, REVISIONS_MAX, RevisionSpec};
pub use state::{ProposalDecision, ProposalPhase, ProposalState, RevisionFailure, Round};

/// Kind of proposals.
pub const PROPOSAL_KIND: &str = "proposal";
/// Id of the deliberation within the proposal.
const DELIBERATION: &str = "deliberation";
/// Id of the task within the proposal.
const EFFECT: &str = "effect";
/// What happens if nobody decides.
const DEFAULT: &str = "nothing is executed";

/// The proposal procedure.
pub struct ProposalMachine(ProposalSpec);

impl Machine for ProposalMachine {
    const KIND: &'static str = PROPOSAL_KIND;
    const GUIDE: &'static str = "docs/guides/approvals.md";

    type State = ProposalState;

    fn parse(spec: &[u8]) -> Result<Self, FieldError> {
        ProposalSpec::parse(spec).map(Self)
    }

    fn step(
        &self,
        state: &mut ProposalState,
        event: ProcedureEvent,
        context: &ProcedureContext<'_>,
    ) -> Vec<ProcedureOutput> {
        let before = state.phase.clone();
        match (&before, event) {
            (ProposalPhase::New, ProcedureEvent::Started) => self.start(state),
            (ProposalPhase::Deliberating, ProcedureEvent::ChildEnded { status, result, .. }) => {
                self.deliberated(state, status, result.as_deref());
            }
            (
                ProposalPhase::AwaitingApproval,
                ProcedureEvent::Decided { approval, state: decided, reason, action },
            ) if approval == state.approval_name() => {
                let decision = ProposalDecision { state: decided.to_owned(), reason };
                self.decided(state, decision, action.as_deref());
            }
            (ProposalPhase::Revising { .. }, ProcedureEvent::Answered { request, from, body, .. })
                if state.is_revision_request(&request) =>
            {
                match self.revised(state, &body) {
                    Ok(revision) => state.open_round(Round { revised_by: Some(from), ..revision }),
                    Err(reason) => self.revision_failed(state, from, reason),
                }
            }
            (
                ProposalPhase::Revising { agent },
                ProcedureEvent::RequestFailed { request, reason }
                | ProcedureEvent::RequestUnsent { request, reason },
            ) if state.is_revision_request(&request) => {
                self.revision_failed(state, agent.clone(), reason);
            }
            (ProposalPhase::Executing { .. }, ProcedureEvent::TaskEnded { status, result, reason, .. }) => {
                executed(state, status, result.as_deref(), reason);
            }
            (_, ProcedureEvent::Resumed) => return Vec::new(),
            _ => return vec![ProcedureOutput::Ignored("the proposal does not wait for this event".into())],
        }
        self.pending_outputs(state, context)
    }

    fn pending_outputs(&self, state: &ProposalState, context: &ProcedureContext<'_>) -> Vec<ProcedureOutput> {
        let output = match &state.phase {
            ProposalPhase::New => return Vec::new(),
            ProposalPhase::Deliberating => ProcedureOutput::Child(self.child()),
            ProposalPhase::AwaitingApproval => ProcedureOutput::Approval(self.approval(state)),
            ProposalPhase::Revising { agent } => ProcedureOutput::Request(self.revise(state, agent)),
            ProposalPhase::Executing { action, digest } => match &self.0.task {
                Some(task) => {
                    let approval = state.approval_id(context.id.as_str());
                    let input = json!({ "approval": approval, "digest": digest, "action": action });
                    ProcedureOutput::Task(task.output(&input))
                }
                None => return Vec::new(),
            },
            ProposalPhase::Ended { end, result } => {
                let deliberation = self.0.deliberation.as_ref().map(|_| deliberation_id(context.id.as_str()));
                outcome::output(state, *end, result, deliberation, context)
            }
        };
        vec![output]
    }

    fn phase(&self, state: &ProposalState) -> String {
        state.phase.as_str().to_owned()
    }

    fn waits_for(&self, state: &ProposalState) -> Vec<Wait> {
        match &state.phase {
            ProposalPhase::New | ProposalPhase::Ended { .. } => Vec::new(),
            ProposalPhase::Deliberating => vec![Wait::Child { child: DELIBERATION.into() }],
            ProposalPhase::AwaitingApproval => vec![Wait::Approval { approval: state.approval_name() }],
            ProposalPhase::Revising { agent } => {
                vec![Wait::Answer { request: state.revision_request(), agent: agent.clone() }]
            }
            ProposalPhase::Executing { .. } => vec![Wait::Task { task: EFFECT.into() }],
        }
    }
}

impl ProposalMachine {
    fn start(&self, state: &mut ProposalState) {
        match &self.0.payload {
            Some(payload) => {
                state.revisers =
                    self.0.revise.as_ref().map(|revise| revise.agents.clone()).unwrap_or_default();
                state.open_round(Round {
                    payload: payload.clone(),
                    rationale: self.0.rationale.clone(),
                    confidence: self.0.confidence,
                    ..Round::default()
                });
            }
            None => state.phase = ProposalPhase::Deliberating,
        }
    }

    fn deliberated(&self, state: &mut ProposalState, status: ProcedureStatus, result: Option<&[u8]>) {
        let outcome = match (status, result) {
            (ProcedureStatus::Done, Some(result)) => serde_json::from_slice::<Outcome>(result).ok(),
            _ => None,
        };
        let Some(outcome) = outcome else {
            let result: Value =
                result.and_then(|result| serde_json::from_slice(result).ok()).unwrap_or_default();
            let reason = result["reason"].as_str().map_or(String::new(), |reason| format!(": {reason}"));
            let end = if status == ProcedureStatus::Cancelled { "was cancelled" } else { "failed" };
            return state.fail(format!("the deliberation {end}{reason}"));
        };
        let payload = self.0.letter.as_ref().and_then(|letter| letter.payload(&outcome));
        let Some(payload) = payload else { return state.end(ProposalEnd::NotRequired, Value::Null) };
        state.revisers = match &self.0.revise {
            Some(revise) if !revise.agents.is_empty() => revise.agents.clone(),
            _ => revision::supporters(&outcome),
        };
        let summary = outcome.synthesis.summary.first().map(|sentence| sentence.text.clone());
        let confidence = Some(outcome.synthesis.confidence.unwrap_or(0.0));
        state.recommendation = outcome.synthesis.recommendation;
        state.open_round(Round { payload, rationale: summary, confidence, ..Round::default() });
    }

    fn decided(&self, state: &mut ProposalState, decision: ProposalDecision, action: Option<&[u8]>) {
        let end = ProposalEnd::of_decision(&decision.state);
        let is_rejected = end == ProposalEnd::Rejected;
        if let Some(round) = state.rounds.last_mut() {
            round.decision = Some(decision);
        }
        let may_revise = is_rejected && state.revisions() < self.0.revisions_max();
        match (action, state.revisers.first()) {
            (Some(action), _) if self.0.task.is_some() => state.execute(action),
            (None, Some(agent)) if may_revise => {
                state.phase = ProposalPhase::Revising { agent: agent.clone() };
            }
            _ => state.end(end, Value::Null),
        }
    }

    /// Asks the next agent for the revision; without one, the rejection is final.
    fn revision_failed(&self, state: &mut ProposalState, agent: String, reason: String) {
        let Some(round) = state.rounds.last_mut() else { return };
        round.failures.push(RevisionFailure { agent, reason });
        let asked = round.failures.len();
        match state.revisers.get(asked) {
            Some(agent) => state.phase = ProposalPhase::Revising { agent: agent.clone() },
            None => state.end(ProposalEnd::Rejected, Value::Null),
        }
    }

    fn child(&self) -> ChildOutput {
        ChildOutput {
            id: DELIBERATION.into(),
            kind: DELIBERATION_KIND.into(),
            driver: AgentId::new(DELIBERATION_DRIVER).ok(),
            spec: json_bytes(&json!(self.0.deliberation)),
        }
    }

    fn approval(&self, state: &ProposalState) -> ApprovalOutput {
        let round = state.rounds.last().cloned().unwrap_or_default();
        ApprovalOutput {
            id: state.approval_name(),
            action: self.0.action.clone(),
            payload: round.payload,
            rationale: round.rationale.map(quorate_core::truncate_reason),
            confidence: round.confidence,
            default: DEFAULT.to_owned(),
            timeout_ms: self.0.timeout_ms,
        }
    }
}

/// Returns the id of the deliberation of the proposal with this id.
#[must_use]
pub fn deliberation_id(proposal: &str) -> String {
    format!("{proposal}:{DELIBERATION}")
}

fn executed(state: &mut ProposalState, status: TaskStatus, result: Option<&[u8]>, reason: Option<String>) {
    if status == TaskStatus::Done {
        let result = result.and_then(|result| serde_json::from_slice(result).ok()).unwrap_or_default();
        let decision = state.rounds.last().and_then(|round| round.decision.as_ref());
        let end =
            decision.map_or(ProposalEnd::Approved, |decision| ProposalEnd::of_decision(&decision.state));
        return state.end(end, result);
    }
    let reason =
        reason.filter(|reason| !reason.is_empty()).map_or(String::new(), |reason| format!(": {reason}"));
    let end = match status {
        TaskStatus::Cancelled => "was cancelled",
        TaskStatus::Escalated => "failed and was escalated",
        _ => "failed",
    };
    state.fail(format!("the task of the approved action {end}{reason}"));
}

fn json_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests;
