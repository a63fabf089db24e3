//! Revisions: the request to an agent to revise a rejected proposal, and its answer.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::ProposalMachine;
use super::spec::PAYLOAD_BYTES_MAX;
use super::state::{ProposalState, Round};
use crate::deliberation::Outcome;
use crate::finding::{TEXT_CHARS_MAX, parse_answer};
use crate::machine::RequestOutput;
use crate::normalise::normalise_words;

/// Action of a request for a revision.
pub const REVISE: &str = "revise";

/// Maximum size of the input of the deliberation that is part of a request. A larger one does not fit next to a large proposal.
const INPUT_BYTES_MAX: usize = 192 * 1024;

/// Answer of an agent.
#[derive(Deserialize)]
struct Revision {
    letter: Option<String>,
    payload: Option<Value>,
    rationale: Option<String>,
    confidence: Option<f64>,
    error: Option<String>,
}

/// Returns the agents that hold the result, the most confident first; without a result, all that answered.
pub(super) fn supporters(outcome: &Outcome) -> Vec<String> {
    let result = outcome.synthesis.recommendation.as_deref().map(normalise_words);
    let is_result =
        |position: &str| result.as_ref().is_none_or(|result| normalise_words(position) == *result);
    let mut agents: Vec<(f64, String)> = match outcome.recommendation_decision() {
        Some(decision) => {
            let ballots = decision.ballots.iter().filter(|ballot| is_result(&ballot.position.to_string()));
            ballots.map(|ballot| (ballot.confidence.unwrap_or(0.0), ballot.agent.clone())).collect()
        }
        None => {
            let findings = outcome.record.findings.iter();
            let findings =
                findings.filter(|(_, finding)| finding.recommendation.as_deref().is_none_or(is_result));
            findings.map(|(agent, finding)| (finding.confidence.unwrap_or(0.0), agent.clone())).collect()
        }
    };
    agents.sort_by(|(one, first), (other, second)| other.total_cmp(one).then_with(|| first.cmp(second)));
    agents.into_iter().map(|(_, agent)| agent).collect()
}

impl ProposalMachine {
    /// Builds the request to an agent to revise the last proposal.
    pub(super) fn revise(&self, state: &ProposalState, agent: &str) -> RequestOutput {
        let round = state.rounds.last().cloned().unwrap_or_default();
        let reason = round.decision.map(|decision| decision.reason).unwrap_or_default();
        let mut payload = Map::new();
        let mut put = |name: &str, value: Value| payload.insert(name.to_owned(), value);
        put("action", self.0.action.as_str().into());
        put("reason", reason.into());
        put("revision", (state.revisions() + 1).into());
        if let Some(deliberation) = &self.0.deliberation {
            put("subject", deliberation.subject.as_str().into());
            if deliberation.input.to_string().len() <= INPUT_BYTES_MAX {
                put("input", deliberation.input.clone());
            }
        }
        if let Some(recommendation) = &state.recommendation {
            put("recommendation", recommendation.as_str().into());
        }
        let (field, schema) = match self.0.letter {
            Some(_) => ("letter", json!({"type": "string"})),
            None => ("payload", json!({})),
        };
        let rejected = if self.0.letter.is_some() { round.payload["letter"].clone() } else { round.payload };
        put(field, rejected);
        put("answer", answer_schema(field, schema));
        RequestOutput {
            id: state.revision_request(),
            agent: agent.to_owned(),
            action: REVISE.to_owned(),
            payload: Value::Object(payload).to_string(),
            timeout_ms: self.0.revise.as_ref().map_or(1, |revise| revise.timeout_ms),
            ..RequestOutput::default()
        }
    }

    /// Parses a revision. The error is the reason why there is none.
    pub(super) fn revised(&self, state: &ProposalState, body: &[u8]) -> Result<Round, String> {
        let answer: Revision = parse_answer(body).map_err(|error| error.to_string())?;
        if let Some(error) = answer.error {
            return Err(error);
        }
        let before = state.rounds.last().map(|round| &round.payload).unwrap_or(&Value::Null);
        let payload = match (&self.0.letter, answer.letter, answer.payload) {
            (Some(template), Some(letter), _) => json!({ "letter": letter, "write": template.write }),
            (None, _, Some(payload)) => payload,
            (Some(_), None, _) => return Err("the answer has no `letter`".to_owned()),
            (None, _, None) => return Err("the answer has no `payload`".to_owned()),
        };
        if payload.to_string().len() > PAYLOAD_BYTES_MAX {
            return Err(format!("the proposal has more than {PAYLOAD_BYTES_MAX} bytes"));
        }
        if payload == *before {
            return Err("the answer does not change the proposal".to_owned());
        }
        let confidence = answer.confidence.filter(|confidence| (0.0..=1.0).contains(confidence));
        let previous = state.rounds.last().and_then(|round| round.confidence);
        let rationale = answer.rationale.map(|text| text.chars().take(TEXT_CHARS_MAX).collect());
        Ok(Round { payload, rationale, confidence: confidence.or(previous), ..Round::default() })
    }
}

fn answer_schema(field: &str, schema: Value) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": [field],
        "properties": {
            field: schema,
            "rationale": {"type": "string"},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        },
    })
}
