//! Conversion of requests and tasks to questions for declared agents, with the instructions of the known actions.
//!
//! The contract is the same for every request and task. If its payload is a JSON object, two of its fields are for the worker:
//! `instructions`, a text, and `answer`, the JSON Schema of the answer. Both are removed and passed to the agent separately, so
//! that models and programs do not get them twice.

use std::time::Duration;

use quorate_procedures::deliberation::{ANALYSE, DISCUSS};
use quorate_procedures::proposal::REVISE;
use serde_json::Value;

use crate::question::AgentQuestion;

/// Instructions for `analyse`, unless the request has its own.
const TO_ANALYSE: &str = "\
You are one of several analysts who examine the same input independently. Read `input` and answer the question in `subject` from the
perspective of your field. Answer with one finding: `summary` is your conclusion in two sentences, `confidence` the probability, from 0
to 1, that it is right. List in `issues` only problems that the text supports: quote the text in `evidence`, and state in `advice` what
to do about it. Put values that other analysts may read differently (numbers, dates, names) into `facts`. If the request contains `wrong`,
your previous answer was rejected for that reason: correct it.";
/// Instructions for `discuss`, unless the request has its own.
const TO_DISCUSS: &str = "\
Other analysts disagree with you about `conflict`. Compare `your_position` with `other_positions` and read `input` again. Change your
position if their reasons are better than yours, but not because more analysts hold theirs; keep it if the text supports it.
`revised_position` is your position now. Set `agrees_with_peer` to true only if another analyst holds exactly that position. Quote in
`reasoning` the words of the text that decide the question. Answer the `questions` to you in `clarification`. If the request contains
`wrong`, your previous answer was rejected for that reason: correct it.";

/// Instructions for `revise`, unless the request has its own.
const TO_REVISE: &str = "\
A person rejected the proposal in `letter` or `payload`, which you and other agents made, for the reason in `reason`. Return it revised
and complete, in the same field. Change what the reason concerns, and keep the rest. State in `rationale` what you changed, and in
`confidence` the probability, from 0 to 1, that the revision satisfies the reason.";

/// Converts a request or task to a question for a declared agent. The agent gets slightly less than the timeout, so that a
/// failure is reported before the request or task expires.
#[must_use]
pub fn question(action: &str, mut payload: Value, timeout: Duration) -> AgentQuestion {
    let (mut schema, mut instructions) = (None, default_instructions(action).to_owned());
    if let Some(fields) = payload.as_object_mut() {
        // A field of another type is a part of the payload.
        if fields.get("answer").is_some_and(Value::is_object) {
            schema = fields.remove("answer");
        }
        if fields.get("instructions").is_some_and(Value::is_string)
            && let Some(Value::String(own)) = fields.remove("instructions")
        {
            instructions = own;
        }
    }
    let timeout = timeout - timeout / 20;
    AgentQuestion { schema, timeout, instructions, ..AgentQuestion::new(action, payload) }
}

fn default_instructions(action: &str) -> &'static str {
    match action {
        ANALYSE => TO_ANALYSE,
        DISCUSS => TO_DISCUSS,
        REVISE => TO_REVISE,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    // Fails under: fields that stay in the payload; instructions that replace nothing; a timeout that leaves no time to report.
    #[test]
    fn instructions_and_schema_are_separated_from_the_payload() {
        let payload = json!({ "text": "a", "instructions": "Be brief.", "answer": { "type": "object" } });
        let asked = question("summarize", payload, MINUTE);
        assert_eq!(asked.payload, json!({ "text": "a" }));
        assert_eq!((asked.action.as_str(), asked.instructions.as_str()), ("summarize", "Be brief."));
        assert_eq!(asked.schema, Some(json!({ "type": "object" })));
        assert_eq!(asked.timeout, Duration::from_secs(57));
    }

    // Fails under: an empty prompt for a known action; a known prompt for another action, or in place of the request's own.
    #[test]
    fn known_actions_have_instructions_of_their_own() {
        let instructions = |action: &str, payload| question(action, payload, MINUTE).instructions;
        assert_eq!(instructions(ANALYSE, json!({})), TO_ANALYSE);
        assert_eq!(instructions(DISCUSS, Value::Null), TO_DISCUSS);
        assert_eq!(instructions(REVISE, Value::Null), TO_REVISE);
        assert_eq!(instructions(ANALYSE, json!({ "instructions": "Look." })), "Look.");
        assert_eq!(instructions("summarize", json!({})), "");
    }

    // Fails under: data of a payload that is taken for instructions or a schema.
    #[test]
    fn fields_of_other_types_are_part_of_the_payload() {
        for payload in [json!({ "instructions": 7, "answer": "yes" }), json!(["answer"]), json!("text")] {
            let asked = question("summarize", payload.clone(), MINUTE);
            assert_eq!((asked.payload, asked.schema), (payload, None));
        }
    }
}
