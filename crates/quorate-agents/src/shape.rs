//! Extracts the JSON from an answer and validates it against the schema of the question.

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::question::{Failure, Kind, quote};

/// Maximum number of validation errors in a message.
const FAULTS_MAX: usize = 5;

/// The JSON Schema of an answer, if one was requested.
pub(crate) struct Shape {
    validator: Option<Validator>,
}

/// A valid answer.
pub(crate) struct Fits {
    pub(crate) body: Value,
    pub(crate) note: Option<String>,
}

/// An invalid answer.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The answer contains no JSON.
    Text,
    /// The JSON does not match the schema.
    Wrong(String),
}

impl Unfit {
    /// Description of the error, for the second attempt.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Text => "the answer holds no JSON object".to_owned(),
            Self::Wrong(why) => why.clone(),
        }
    }
}

impl Shape {
    /// Compiles a JSON Schema. Nothing is fetched: a remote `$ref` is an error.
    pub(crate) fn new(schema: Option<&Value>) -> Result<Self, Failure> {
        let compile = |schema: &Value| {
            jsonschema::validator_for(schema).map_err(|error| {
                let what = format!("is not a valid JSON Schema: {}", quote(&error.to_string()));
                Failure::new(Kind::Misdeclared, "answer schema", what)
                    .hint("fix the schema, or omit it to accept any answer")
            })
        };
        Ok(Self { validator: schema.map(compile).transpose()? })
    }

    /// Whether a schema was requested.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.validator.is_some()
    }

    /// Extracts the JSON from a text and validates it.
    pub(crate) fn read(&self, text: &str) -> Result<Fits, Unfit> {
        let (body, note) = match serde_json::from_str(text.trim()) {
            Ok(body) => (body, None),
            Err(_) => {
                let body = extract_json(text).ok_or(Unfit::Text)?;
                (body, Some("the JSON was extracted from surrounding text".to_owned()))
            }
        };
        self.check(&body)?;
        // Without a schema, a bare string or number is treated as plain text.
        if !self.is_asked_for() && !body.is_object() && !body.is_array() {
            return Err(Unfit::Text);
        }
        Ok(Fits { body, note })
    }

    /// Validates JSON.
    pub(crate) fn check(&self, body: &Value) -> Result<(), Unfit> {
        let Some(validator) = &self.validator else { return Ok(()) };
        let mut faults = Vec::new();
        for error in validator.iter_errors(body).take(FAULTS_MAX) {
            let path = error.instance_path().to_string();
            let path = if path.is_empty() { "the answer".to_owned() } else { path };
            faults.push(format!("{path}: {}", quote(&error.to_string())));
        }
        if faults.is_empty() { Ok(()) } else { Err(Unfit::Wrong(faults.join("; "))) }
    }
}

/// Wraps plain text as an answer of unknown confidence.
pub(crate) fn plain(text: &str) -> Value {
    json!({ "text": text.trim(), "confidence": null })
}

/// Extracts a JSON object from a text: in a code fence, or from the first brace to the last.
fn extract_json(text: &str) -> Option<Value> {
    let fenced = text.split("```").nth(1).map(|block| block.strip_prefix("json").unwrap_or(block));
    let braced = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to));
    [fenced, braced]
        .into_iter()
        .flatten()
        .filter_map(|candidate| serde_json::from_str::<Value>(candidate.trim()).ok())
        .find(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        let schema = json!({
            "type": "object", "required": ["summary"], "additionalProperties": false,
            "properties": { "summary": { "type": "string" }, "confidence": { "type": "number", "maximum": 1 } }
        });
        Shape::new(Some(&schema)).unwrap()
    }

    #[test]
    fn json_is_extracted_from_prose_and_fences() {
        for text in [
            r#" {"summary": "x"} "#,
            "Here you are:\n```json\n{\"summary\": \"x\"}\n```\nAnything else?",
            r#"Sure! {"summary": "x"} Bye."#,
        ] {
            assert_eq!(shape().read(text).unwrap().body, json!({ "summary": "x" }), "{text}");
        }
        assert!(matches!(shape().read("I think it is fine."), Err(Unfit::Text)));
    }

    #[test]
    fn validation_errors_name_the_path() {
        let Err(Unfit::Wrong(why)) = shape().read(r#"{"summary": 3, "confidence": 7}"#) else { panic!() };
        assert!(why.contains("/summary") && why.contains("/confidence") && why.contains('7'), "{why}");
        assert!(matches!(shape().read("3"), Err(Unfit::Wrong(_))));
    }

    #[test]
    fn without_a_schema_any_object_is_accepted_and_prose_stays_text() {
        let any = Shape::new(None).unwrap();
        assert_eq!(any.read(r#"{"a": 1}"#).unwrap().body, json!({ "a": 1 }));
        assert!(matches!(any.read("42"), Err(Unfit::Text)));
    }

    #[test]
    fn a_schema_that_fetches_is_refused() {
        let elsewhere = json!({ "$ref": "http://127.0.0.1:9/schema.json" });
        assert_eq!(Shape::new(Some(&elsewhere)).err().unwrap().kind, Kind::Misdeclared);
    }
}
