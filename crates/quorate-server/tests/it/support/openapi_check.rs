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
pub(crate) fn check_response(method: &str, path: &str, status: u16, content_type: Option<&str>, text: &str) {
    let Some((template, operation)) = operation_of(method, path) else {
        assert!(matches!(status, 403..=405), "{method} {path} is not described, but answers {status}");
        return;
    };
    let response = &operation["responses"][status.to_string()];
    let response = match response["$ref"].as_str() {
        Some(reference) => description().pointer(reference.trim_start_matches('#')).expect("a response"),
        None => response,
    };
    assert!(response.is_object(), "{method} {template}: {status} is not described: {text}");
    let Some(content) = response["content"].as_object() else { return };
    let content_type = content_type.unwrap_or_default();
    let media_type = content
        .get(content_type)
        .unwrap_or_else(|| panic!("{method} {template}: {content_type} is not described"));
    if content_type == "application/jsonl" {
        // Formats other than the default are line-based.
        let is_record = |line: &Value| line.get("effects").is_some();
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        lines
            .filter(is_record)
            .for_each(|line| check_document(&media_type["schema"]["contentSchema"], &line));
        return;
    }
    if !content_type.contains("json") {
        return;
    }
    let value: Value = serde_json::from_str(text).expect("JSON");
    let violations = errors(format!("{method} {template} {status}"), &media_type["schema"], &value);
    // Every rejection has a hint.
    let hint = value["hint"].as_str().unwrap_or_default();
    assert!(content_type != PROBLEM || hint.len() > 5, "{method} {template} {status} has no hint: {text}");
    assert!(
        violations.is_empty(),
        "{method} {template} {status} is not as described: {violations:#?}\n{text}"
    );
}

/// Panics if a document of a stream does not match its schema.
pub(crate) fn check_document(schema: &Value, document: &Value) {
    assert!(schema.is_object(), "the documents of the stream are not described");
    let violations = errors(schema.to_string(), schema, document);
    assert!(violations.is_empty(), "not as described: {violations:#?}\n{document}");
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
    let mut candidates: Vec<_> = operations()
        .filter(|(operation_method, template, _)| *operation_method == method && fits(template))
        .collect();
    // The path template with the most literal segments.
    candidates.sort_by_key(|(_, template, _)| (template.matches('{').count(), usize::MAX - template.len()));
    candidates.first().map(|(_, template, operation)| (*template, *operation))
}

fn fits(template: &str, path: &str) -> bool {
    // Keys of the shared memory can contain slashes.
    if template == "/v1/context/{key}" {
        return path.starts_with("/v1/context/") && !path.ends_with("/history");
    }
    if template == "/v1/context/{key}/history" {
        return path.starts_with("/v1/context/") && path.ends_with("/history");
    }
    let (segments, path_segments): (Vec<_>, Vec<_>) =
        (template.split('/').collect(), path.split('/').collect());
    segments.len() == path_segments.len()
        && segments
            .iter()
            .zip(path_segments)
            .all(|(segment, part)| segment.starts_with('{') || *segment == part)
}

thread_local! {
    static VALIDATORS: RefCell<HashMap<String, Rc<Validator>>> = RefCell::default();
}

fn validator_of(name: String, schema: &Value) -> Rc<Validator> {
    VALIDATORS.with_borrow_mut(|validators| {
        let validator = validators.entry(name).or_insert_with(|| Rc::new(closed_validator(schema)));
        Rc::clone(validator)
    })
}

/// Responses may get more fields in later versions; for now they must have exactly the documented ones.
fn closed_validator(schema: &Value) -> Validator {
    let mut schemas: Map<String, Value> =
        description()["components"]["schemas"].as_object().expect("schemas").clone();
    schemas.values_mut().for_each(close);
    let mut closed = schema.clone();
    close(&mut closed);
    closed["components"] = json!({"schemas": schemas});
    jsonschema::draft202012::new(&closed).expect("a schema")
}

fn close(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let is_open = !fields.contains_key("additionalProperties");
    let has_fields = ["properties", "oneOf", "anyOf"].iter().any(|keyword| fields.contains_key(*keyword));
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(close);
    }
    if let Some(items) = fields.get_mut("items") {
        close(items);
    }
    let is_value = fields.get("anyOf").is_some_and(|variants| variants.to_string().contains("\"null\""));
    if is_open && has_fields && !is_value {
        fields.insert("unevaluatedProperties".to_owned(), false.into());
    }
}
