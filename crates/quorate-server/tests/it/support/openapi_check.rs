//! Validates every response of the tests against the OpenAPI description: an undocumented status, field or type fails
//! the test.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

static DESCRIPTION: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(quorate_server::openapi()).expect("JSON"));

/// Content type of problem responses.
const PROBLEM: &str = "application/problem+json";

/// The OpenAPI description.
pub(crate) fn description() -> &'static Value {
    &DESCRIPTION
}

/// The operations: method, path and description.
pub(crate) fn operations() -> impl Iterator<Item = (&'static str, &'static str, &'static Value)> {
    let paths = description()["paths"].as_object().expect("paths");
    paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods");
        methods.iter().map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
    })
}

/// Panics if a response does not match its description. A path without an operation must return 404 or 405.
pub(crate) fn check_response(method: &str, path: &str, status: u16, kind: Option<&str>, text: &str) {
    let Some((template, operation)) = operation_of(method, path) else {
        assert!(matches!(status, 403..=405), "{method} {path} is not described, but answers {status}");
        return;
    };
    let answer = &operation["responses"][status.to_string()];
    let answer = match answer["$ref"].as_str() {
        Some(place) => description().pointer(place.trim_start_matches('#')).expect("a response"),
        None => answer,
    };
    assert!(answer.is_object(), "{method} {template}: {status} is not described: {text}");
    let Some(content) = answer["content"].as_object() else { return };
    let kind = kind.unwrap_or_default();
    let shape = content.get(kind).unwrap_or_else(|| panic!("{method} {template}: {kind} is not described"));
    if kind == "application/jsonl" {
        // Formats other than the default are line-based.
        let is_record = |line: &Value| line.get("effects").is_some();
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        lines.filter(is_record).for_each(|line| check_document(&shape["schema"]["contentSchema"], &line));
        return;
    }
    if !kind.contains("json") {
        return;
    }
    let value: Value = serde_json::from_str(text).expect("JSON");
    let wrong = errors(format!("{method} {template} {status}"), &shape["schema"], &value);
    // Every rejection has a hint.
    let hint = value["hint"].as_str().unwrap_or_default();
    assert!(kind != PROBLEM || hint.len() > 5, "{method} {template} {status} has no hint: {text}");
    assert!(wrong.is_empty(), "{method} {template} {status} is not as described: {wrong:#?}\n{text}");
}

/// Panics if a document of a stream does not match its schema.
pub(crate) fn check_document(schema: &Value, document: &Value) {
    assert!(schema.is_object(), "the documents of the stream are not described");
    let wrong = errors(schema.to_string(), schema, document);
    assert!(wrong.is_empty(), "not as described: {wrong:#?}\n{document}");
}

/// Panics if an event does not match its schema.
pub(crate) fn check_event(event: &Value) {
    let path = "/paths/~1v1~1events/get/responses/200/content/text~1event-stream/schema/contentSchema";
    check_document(description().pointer(path).expect("a schema"), event);
}

fn errors(name: String, schema: &Value, value: &Value) -> Vec<String> {
    let validator = validator_of(name, schema);
    validator.iter_errors(value).map(|error| format!("{error} at {}", error.instance_path())).collect()
}

fn operation_of(method: &str, path: &str) -> Option<(&'static str, &'static Value)> {
    let fits = |template: &str| fits(template, path);
    let mut all: Vec<_> =
        operations().filter(|(one, template, _)| *one == method && fits(template)).collect();
    // The path template with the most literal segments.
    all.sort_by_key(|(_, template, _)| (template.matches('{').count(), usize::MAX - template.len()));
    all.first().map(|(_, template, operation)| (*template, *operation))
}

fn fits(template: &str, path: &str) -> bool {
    // Keys of the shared memory can contain slashes.
    if template == "/v1/context/{key}" {
        return path.starts_with("/v1/context/") && !path.ends_with("/history");
    }
    if template == "/v1/context/{key}/history" {
        return path.starts_with("/v1/context/") && path.ends_with("/history");
    }
    let (one, other): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    one.len() == other.len()
        && one.iter().zip(other).all(|(word, part)| word.starts_with('{') || *word == part)
}

thread_local! {
    static VALIDATORS: RefCell<HashMap<String, Rc<Validator>>> = RefCell::default();
}

fn validator_of(name: String, schema: &Value) -> Rc<Validator> {
    VALIDATORS.with_borrow_mut(|all| {
        let made = all.entry(name).or_insert_with(|| Rc::new(closed_validator(schema)));
        Rc::clone(made)
    })
}

/// Responses may get more fields in later versions; for now they must have exactly the documented ones.
fn closed_validator(schema: &Value) -> Validator {
    let mut schemas: Map<String, Value> =
        description()["components"]["schemas"].as_object().expect("schemas").clone();
    schemas.values_mut().for_each(close);
    let mut whole = schema.clone();
    close(&mut whole);
    whole["components"] = json!({"schemas": schemas});
    jsonschema::draft202012::new(&whole).expect("a schema")
}

fn close(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let is_open = !fields.contains_key("additionalProperties");
    let has_fields = ["properties", "oneOf", "anyOf"].iter().any(|word| fields.contains_key(*word));
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(close);
    }
    if let Some(items) = fields.get_mut("items") {
        close(items);
    }
    let is_value = fields.get("anyOf").is_some_and(|any| any.to_string().contains("\"null\""));
    if is_open && has_fields && !is_value {
        fields.insert("unevaluatedProperties".to_owned(), false.into());
    }
}
