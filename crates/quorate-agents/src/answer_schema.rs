//! Extracts the JSON from an answer and validates it against the schema of the question.

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::question::{AgentFailure, FailureKind, quote};

/// Maximum number of validation errors in a message.
const ERRORS_MAX: usize = 5;

/// The JSON Schema of an answer, if one was requested.
pub(crate) struct AnswerSchema {
    validator: Option<Validator>,
}

/// A valid answer.
pub(crate) struct ValidAnswer {
    pub(crate) body: Value,
    pub(crate) note: Option<String>,
}

/// An invalid answer.
#[derive(Debug)]
pub(crate) enum InvalidAnswer {
    /// The answer contains no JSON.
    NotJson,
    /// The JSON does not match the schema.
    SchemaMismatch(String),
}

impl InvalidAnswer {
    /// Description of the error, for the second attempt.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::NotJson => "the answer holds no JSON object".to_owned(),
            Self::SchemaMismatch(reason) => reason.clone(),
        }
    }
}

impl AnswerSchema {
    /// Compiles a JSON Schema. Nothing is fetched: a remote `$ref` is an error.
    pub(crate) fn new(schema: Option<&Value>) -> Result<Self, AgentFailure> {
        let compile = |schema: &Value| {
            jsonschema::validator_for(schema).map_err(|error| {
                let message = format!("is not a valid JSON Schema: {}", quote(&error.to_string()));
                AgentFailure::new(FailureKind::Misdeclared, "answer schema", message)
                    .hint("fix the schema, or omit it to accept any answer")
            })
        };
        Ok(Self { validator: schema.map(compile).transpose()? })
    }

    /// Whether a schema was requested.
    pub(crate) fn is_present(&self) -> bool {
        self.validator.is_some()
    }

    /// Extracts the JSON from a text and validates it.
    pub(crate) fn parse(&self, text: &str) -> Result<ValidAnswer, InvalidAnswer> {
        let (body, note) = match serde_json::from_str(text.trim()) {
            Ok(body) => (body, None),
            Err(_) => {
                let body = extract_json(text).ok_or(InvalidAnswer::NotJson)?;
                (body, Some("the JSON was extracted from surrounding text".to_owned()))
            }
        };
        self.validate(&body)?;
        // Without a schema, a bare string or number is treated as plain text.
        if !self.is_present() && !body.is_object() && !body.is_array() {
            return Err(InvalidAnswer::NotJson);
        }
        Ok(ValidAnswer { body, note })
    }

    /// Validates JSON.
    pub(crate) fn validate(&self, body: &Value) -> Result<(), InvalidAnswer> {
        let Some(validator) = &self.validator else { return Ok(()) };
        let mut errors = Vec::new();
        for error in validator.iter_errors(body).take(ERRORS_MAX) {
            let path = error.instance_path().to_string();
            let path = if path.is_empty() { "the answer".to_owned() } else { path };
            errors.push(format!("{path}: {}", quote(&error.to_string())));
        }
        if errors.is_empty() { Ok(()) } else { Err(InvalidAnswer::SchemaMismatch(errors.join("; "))) }
    }
}

/// Wraps plain text as an answer of unknown confidence.
pub(crate) fn text_answer(text: &str) -> Value {
    json!({ "text": text.trim(), "confidence": null })
}

/// Extracts a JSON object from a text: in a code fence, or from the first brace to the last.
fn extract_json(text: &str) -> Option<Value> {
    let fenced = text.split("```").nth(1).map(|block| block.strip_prefix("json").unwrap_or(block));
    let braced = text.find('{').zip(text.rfind('}')).and_then(|(start, end)| text.get(start..=end));
    [fenced, braced]
        .into_iter()
        .flatten()
        .filter_map(|candidate| serde_json::from_str::<Value>(candidate.trim()).ok())
        .find(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_schema() -> AnswerSchema {
        let schema = json!({
            "type": "object", "required": ["summary"], "additionalProperties": false,
            "properties": { "summary": { "type": "string" }, "confidence": { "type": "number", "maximum": 1 } }
        });
        AnswerSchema::new(Some(&schema)).unwrap()
    }

    #[test]
    fn json_is_extracted_from_prose_and_fences() {
        for text in [
            r#" {"summary": "x"} "#,
            "Here you are:\n```json\n{\"summary\": \"x\"}\n```\nAnything else?",
            r#"Sure! {"summary": "x"} Bye."#,
        ] {
            assert_eq!(answer_schema().parse(text).unwrap().body, json!({ "summary": "x" }), "{text}");
        }
        assert!(matches!(answer_schema().parse("I think it is fine."), Err(InvalidAnswer::NotJson)));
    }

    #[test]
    fn validation_errors_name_the_path() {
        let Err(InvalidAnswer::SchemaMismatch(reason)) =
            answer_schema().parse(r#"{"summary": 3, "confidence": 7}"#)
        else {
            panic!()
        };
        assert!(
            reason.contains("/summary") && reason.contains("/confidence") && reason.contains('7'),
            "{reason}"
        );
        assert!(matches!(answer_schema().parse("3"), Err(InvalidAnswer::SchemaMismatch(_))));
    }

    #[test]
    fn without_a_schema_any_object_is_accepted_and_prose_stays_text() {
        let any = AnswerSchema::new(None).unwrap();
        assert_eq!(any.parse(r#"{"a": 1}"#).unwrap().body, json!({ "a": 1 }));
        assert!(matches!(any.parse("42"), Err(InvalidAnswer::NotJson)));
    }

    #[test]
    fn a_schema_that_fetches_is_refused() {
        let remote = json!({ "$ref": "http://127.0.0.1:9/schema.json" });
        assert_eq!(AnswerSchema::new(Some(&remote)).err().unwrap().kind, FailureKind::Misdeclared);
    }
}
