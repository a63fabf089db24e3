//! Every answer that a test gets is held against the description of the interface: a status, a field or a type that is not
//! described fails the test that met it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

static DESCRIPTION: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(quorate_server::openapi()).expect("JSON"));

/// How refusals are told.
const PROBLEM: &str = "application/problem+json";

/// The description.
pub(crate) fn description() -> &'static Value {
    &DESCRIPTION
}

/// The operations: method, path, and what is said of them.
pub(crate) fn operations() -> impl Iterator<Item = (&'static str, &'static str, &'static Value)> {
    let paths = description()["paths"].as_object().expect("paths");
    paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods");
        methods.iter().map(move |(method, told)| (method.as_str(), path.as_str(), told))
    })
}

/// Fails if an answer is not as described. What no operation is described for must be a 404 or a 405.
pub(crate) fn check(method: &str, path: &str, status: u16, kind: Option<&str>, text: &str) {
    let Some((template, told)) = operation_of(method, path) else {
        assert!(matches!(status, 403..=405), "{method} {path} is not described, but answers {status}");
        return;
    };
    let answer = &told["responses"][status.to_string()];
    let answer = match answer["$ref"].as_str() {
        Some(place) => description().pointer(place.trim_start_matches('#')).expect("a response"),
        None => answer,
    };
    assert!(answer.is_object(), "{method} {template}: {status} is not described: {text}");
    let Some(content) = answer["content"].as_object() else { return };
    let kind = kind.unwrap_or_default();
    let shape = content.get(kind).unwrap_or_else(|| panic!("{method} {template}: {kind} is not described"));
    if kind == "application/jsonl" {
        // Other formats than the default have lines of their own.
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
    // Whoever is refused is told what to do next.
    let hint = value["hint"].as_str().unwrap_or_default();
    assert!(kind != PROBLEM || hint.len() > 5, "{method} {template} {status} has no hint: {text}");
    assert!(wrong.is_empty(), "{method} {template} {status} is not as described: {wrong:#?}\n{text}");
}

/// Fails if a document of a stream is not as described.
pub(crate) fn check_document(schema: &Value, document: &Value) {
    assert!(schema.is_object(), "the documents of the stream are not described");
    let wrong = errors(schema.to_string(), schema, document);
    assert!(wrong.is_empty(), "not as described: {wrong:#?}\n{document}");
}

/// Fails if an event is not as described.
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
    // The one with the most plain words.
    all.sort_by_key(|(_, template, _)| (template.matches('{').count(), usize::MAX - template.len()));
    all.first().map(|(_, template, told)| (*template, *told))
}

fn fits(template: &str, path: &str) -> bool {
    // Keys of the shared memory may hold slashes.
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

/// Answers may get more fields later; today they have those that are described.
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
