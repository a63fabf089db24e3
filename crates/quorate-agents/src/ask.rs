//! The question as programs and servers get it: one JSON object.
//!
//! ```json
//! {
//!   "quorate": 1,
//!   "action": "analyse",
//!   "instructions": "…",
//!   "payload": { "…": "…" },
//!   "schema": { "type": "object", "…": "…" },
//!   "limits": { "milliseconds": 60000, "tokens": 2000 },
//!   "again": { "wrong": "/confidence: 7 is greater than the maximum of 1", "answered": "{…}" }
//! }
//! ```
//!
//! `again` is there only when the agent is asked a second time.

use serde_json::{Value, json};

use crate::clock::millis;
use crate::question::{Failure, Kind, Question, quote};
use crate::shape::Unfit;

/// The question as JSON; the second time with what was wrong with the first answer.
pub(crate) fn question(question: &Question, again: Option<(&Unfit, &str)>) -> Value {
    let mut asked = json!({
        "quorate": 1,
        "action": question.action,
        "instructions": question.instructions,
        "payload": question.payload,
        "schema": question.schema,
        "limits": { "milliseconds": millis(question.within), "tokens": question.answer_tokens_max },
    });
    if let Some((unfit, answered)) = again {
        let wrong = format!("{}. Answer with one JSON object that fits `schema`.", unfit.why());
        asked["again"] = json!({ "wrong": wrong, "answered": quote(answered) });
    }
    asked
}

/// The answer has another shape, also the second time.
pub(crate) fn wrong_shape(place: &str, unfit: &Unfit) -> Failure {
    let what = format!("the answer has another shape than was asked for, twice: {}", unfit.why());
    Failure::new(Kind::WrongShape, place, what)
        .hint("answer with one JSON object that fits `schema` of the question")
}
