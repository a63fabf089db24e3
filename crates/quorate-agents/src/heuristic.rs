//! Adapter between questions and the rule-based analysts of quorate-contracts: no model, no key, no network.

use quorate_contracts::Heuristic;
use serde_json::Value;

use crate::question::{AgentFailure, AgentQuestion, AgentReply, FailureKind, Usage};

/// Answers the actions `analyse` and `discuss`.
pub(crate) fn answer(analyst: Heuristic, question: &AgentQuestion) -> Result<AgentReply, AgentFailure> {
    let fail = |message: String, hint: &str| {
        AgentFailure::new(FailureKind::InvalidQuestion, format!("heuristic:{}", analyst.name()), message)
            .hint(hint)
    };
    let text = text(&question.payload).unwrap_or_default();
    if text.trim().is_empty() {
        let hint =
            "pass the contract as `input`: a string, or an object with `text`, `contract` or `document`";
        return Err(fail("the question contains no contract text".into(), hint));
    }
    let body = match question.action.as_str() {
        "analyse" => analyst.analyse(text),
        "discuss" => analyst.discuss(text, &question.payload),
        other => {
            return Err(fail(format!("unknown action `{other}`"), "use `analyse` or `discuss`"));
        }
    };
    Ok(AgentReply { body, usage: Usage::calls(1), notes: Vec::new() })
}

/// Extracts the contract text from a payload.
fn text(payload: &Value) -> Option<&str> {
    let input = payload.get("input").unwrap_or(payload);
    let named = ["text", "contract", "document"].iter().find_map(|name| input.get(name)?.as_str());
    input.as_str().or(named)
}

#[cfg(test)]
mod tests;
