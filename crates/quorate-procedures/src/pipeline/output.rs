//! Answers of agents: the output of a phase, a failure, or a request for missing context.

use serde_json::{Map, Value};

use super::handoff::{HandoffError, HandoffRule};
use crate::finding::{ANSWER_BYTES_MAX, FieldError, ROOT_PATH};

/// An answer of an agent.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Answer {
    /// The output of the phase.
    Output(PhaseOutput),
    /// The agent reports a failure: `{"error": "…"}`.
    Failed(String),
    /// The agent lacks information: `{"missing_context": "QUESTION"}`.
    MissingContext(String),
}

/// The output of a phase, as its agent gave it.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct PhaseOutput {
    pub(super) summary: String,
    pub(super) key_findings: Vec<String>,
    pub(super) next_action: String,
    /// All fields.
    pub(super) fields: Map<String, Value>,
}

impl Answer {
    /// Parses an answer. The text of an agent without a schema is an output that has only that text.
    pub(super) fn parse(body: &[u8]) -> Result<Self, FieldError> {
        if body.len() > ANSWER_BYTES_MAX {
            let reason = format!("has {} bytes, at most {ANSWER_BYTES_MAX} are allowed", body.len());
            return Err(FieldError::new(ROOT_PATH, reason));
        }
        let fields = match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => fields,
            Ok(Value::String(text)) => Map::from_iter([("text".to_owned(), Value::String(text))]),
            Ok(_) => return Err(FieldError::new(ROOT_PATH, "expected a JSON object")),
            Err(error) => return Err(FieldError::new(ROOT_PATH, format!("invalid JSON: {error}"))),
        };
        let text =
            |name: &str| fields.get(name).and_then(Value::as_str).map(str::trim).map(ToOwned::to_owned);
        if let Some(reason) = text("error") {
            return Ok(Self::Failed(reason));
        }
        if let Some(question) = text("missing_context") {
            return Ok(Self::MissingContext(question));
        }
        let findings = fields.get("key_findings").and_then(Value::as_array).into_iter().flatten();
        Ok(Self::Output(PhaseOutput {
            summary: text("summary").or_else(|| text("text")).unwrap_or_default(),
            key_findings: findings.filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
            next_action: text("next_action").unwrap_or_default(),
            fields,
        }))
    }
}

impl PhaseOutput {
    /// Checks what the agent itself has to provide for a handoff.
    pub(super) fn check(&self, is_handed_over: bool) -> Result<(), HandoffError> {
        if self.summary.is_empty() {
            return Err(HandoffError::new(HandoffRule::MinimalContext, "there is no `summary`"));
        }
        if is_handed_over && self.next_action.is_empty() {
            return Err(HandoffError::new(HandoffRule::ClearHandoffPoint, "there is no `next_action`"));
        }
        Ok(())
    }
}
