//! Whether an answer has the shape that was asked for, and what is wrong with it in words that its writer can act upon.

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::question::{Failure, Kind, quote};

/// How many faults of an answer are told at a time.
const FAULTS_MAX: usize = 5;

/// The shape that was asked for.
pub(crate) struct Shape {
    validator: Option<Validator>,
}

/// An answer that fits.
pub(crate) struct Fits {
    pub(crate) body: Value,
    pub(crate) note: Option<String>,
}

/// An answer that does not.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It is no JSON at all.
    Text,
    /// It is JSON of another shape.
    Wrong(String),
}

impl Unfit {
    /// What is wrong, for whoever is asked again.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Text => "the answer holds no JSON object".to_owned(),
            Self::Wrong(why) => why.clone(),
        }
    }
}

impl Shape {
    /// Reads a JSON Schema. Nothing is fetched: a `$ref` to elsewhere is an error.
    pub(crate) fn new(schema: Option<&Value>) -> Result<Self, Failure> {
        let compile = |schema: &Value| {
            jsonschema::validator_for(schema).map_err(|error| {
                let what = format!("is no JSON Schema: {}", quote(&error.to_string()));
                Failure::new(Kind::Misdeclared, "the schema of the answer", what)
                    .hint("mend the schema, or leave it out and take any answer")
            })
        };
        Ok(Self { validator: schema.map(compile).transpose()? })
    }

    /// Whether there is something to fit.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.validator.is_some()
    }

    /// Takes the JSON out of what somebody wrote and checks it.
    pub(crate) fn read(&self, text: &str) -> Result<Fits, Unfit> {
        let (body, note) = match serde_json::from_str(text.trim()) {
            Ok(body) => (body, None),
            Err(_) => {
                let body = taken_out(text).ok_or(Unfit::Text)?;
                (body, Some("the JSON was taken out of the text around it".to_owned()))
            }
        };
        self.check(&body)?;
        // A bare text or number is JSON by accident: what people write in plain words.
        if !self.is_asked_for() && !body.is_object() && !body.is_array() {
            return Err(Unfit::Text);
        }
        Ok(Fits { body, note })
    }

    /// Checks JSON.
    pub(crate) fn check(&self, body: &Value) -> Result<(), Unfit> {
        let Some(validator) = &self.validator else { return Ok(()) };
        let mut faults = Vec::new();
        for error in validator.iter_errors(body).take(FAULTS_MAX) {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the answer".to_owned() } else { place };
            faults.push(format!("{place}: {}", quote(&error.to_string())));
        }
        if faults.is_empty() { Ok(()) } else { Err(Unfit::Wrong(faults.join("; "))) }
    }
}

/// Plain text as an answer: nothing is known of its confidence.
pub(crate) fn plain(text: &str) -> Value {
    json!({ "text": text.trim(), "confidence": null })
}

/// A JSON object inside a text: in a fence, or from the first brace to the last.
fn taken_out(text: &str) -> Option<Value> {
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
    fn json_is_found_in_prose_and_fences() {
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
    fn what_does_not_fit_is_named_with_its_place() {
        let Err(Unfit::Wrong(why)) = shape().read(r#"{"summary": 3, "confidence": 7}"#) else { panic!() };
        assert!(why.contains("/summary") && why.contains("/confidence") && why.contains('7'), "{why}");
        assert!(matches!(shape().read("3"), Err(Unfit::Wrong(_))));
    }

    #[test]
    fn without_a_shape_any_object_will_do_and_prose_stays_prose() {
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
