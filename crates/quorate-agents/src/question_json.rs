//! The JSON form of a question for programs and HTTP agents:
//!
//! ```json
//! {
//!   "quorate": 1,
//!   "action": "analyse",
//!   "instructions": "…",
//!   "payload": { "…": "…" },
//!   "schema": { "type": "object", "…": "…" },
//!   "limits": { "milliseconds": 60000, "tokens": 2000 },
//!   "retry": { "error": "/confidence: 7 is greater than the maximum of 1", "previous_answer": "{…}" }
//! }
//! ```
//!
//! `retry` is present only in the second attempt. A task that was tried before, or that has dependencies, also has `context`, with
//! `partials`, `last_failure` and `dependencies`.

use serde_json::{Value, json};

use crate::answer_schema::InvalidAnswer;
use crate::clock::millis;
use crate::question::{AgentFailure, AgentQuestion, FailureKind, quote};

/// Renders the question as JSON; in the second attempt with the error of the first answer.
pub(crate) fn question_to_json(question: &AgentQuestion, retry: Option<(&InvalidAnswer, &str)>) -> Value {
    let mut body = json!({
        "quorate": 1,
        "action": question.action,
        "instructions": question.instructions,
        "payload": question.payload,
        "schema": question.schema,
        "limits": { "milliseconds": millis(question.timeout), "tokens": question.answer_tokens_max },
    });
    if let Some(context) = &question.context {
        body["context"] = context.clone();
    }
    if let Some((invalid, previous_answer)) = retry {
        let error = format!("{}. Answer with one JSON object that fits `schema`.", invalid.reason());
        body["retry"] = json!({ "error": error, "previous_answer": quote(previous_answer) });
    }
    body
}

/// Failure for an answer that does not match the schema in both attempts.
pub(crate) fn schema_mismatch(target: &str, invalid: &InvalidAnswer) -> AgentFailure {
    let message =
        format!("the answer does not match the schema, also in the second attempt: {}", invalid.reason());
    AgentFailure::new(FailureKind::SchemaMismatch, target, message)
        .hint("answer with one JSON object that matches the `schema` of the question")
}
