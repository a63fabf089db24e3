//! The OpenAPI description: up to date, complete and consistent.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::support::TestHub;
use crate::support::openapi_check::{check_document, description, operations};

// Fails under: a route, field or limit that changed without `cargo xtask openapi`.
#[test]
fn the_checked_in_description_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/quorate.json");
    let generated = quorate_server::openapi();
    if std::env::var_os("QUORATE_WRITE_OPENAPI").is_some() {
        std::fs::write(&file, generated).expect("openapi/quorate.json can be written");
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == generated, "openapi/quorate.json is out of date: run `cargo xtask openapi`");
}

// Fails under: a request body without an example, or with one that the hub rejects.
#[test]
fn every_request_body_has_a_valid_example() {
    for (_, _, operation) in operations() {
        let Some(content) = operation["requestBody"]["content"].get("application/json") else { continue };
        let example = content.get("example");
        let example = example.unwrap_or_else(|| panic!("{} has no example", operation["operationId"]));
        check_document(&content["schema"], example);
    }
}

// Fails under: an effect of the event stream without a schema.
#[test]
fn every_effect_has_a_schema() {
    let mapping = &description()["components"]["schemas"]["Effect"]["discriminator"]["mapping"];
    let verbs = quorate_core::Verb::ALL.iter().map(|verb| verb.as_str());
    let names: BTreeSet<&str> = quorate_core::Effect::NAMES.iter().copied().chain(verbs).collect();
    let described: BTreeSet<&str> =
        mapping.as_object().expect("a mapping").keys().map(String::as_str).collect();
    assert_eq!(names, described);
}

// Fails under: an operation without a name, summary or response; a parameter without a description.
#[test]
fn every_operation_is_described_in_full() {
    let mut ids = BTreeSet::new();
    for (_, path, operation) in operations() {
        let id = operation["operationId"].as_str().expect("a name");
        assert!(ids.insert(id), "two operations are called {id}");
        assert!(
            id.split_once('.').is_some_and(|(resource, verb)| !resource.is_empty() && !verb.is_empty()),
            "{id}"
        );
        let about = operation["summary"].as_str().expect("a summary");
        assert!(about.ends_with('.') && about.len() < 120, "{id}: {about}");
        let answers = operation["responses"].as_object().expect("answers");
        assert!(
            answers.keys().any(|status| status.starts_with('2') || status == "101"),
            "{id} never ends well"
        );
        let parameters: Vec<_> = operation["parameters"].as_array().expect("parameters").iter().collect();
        for name in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
            assert!(
                parameters.iter().any(|parameter| parameter["in"] == "path" && parameter["name"] == name),
                "{id}: {name}"
            );
        }
        for parameter in parameters {
            let parameter = resolved(parameter);
            let about = parameter["description"].as_str().unwrap_or_default();
            assert!(
                about.len() > 5 && about.ends_with('.'),
                "{id}: {} has no description",
                parameter["name"]
            );
        }
        let is_open = operation["security"].as_array().is_some_and(Vec::is_empty);
        let roles = operation["x-quorate-roles"].as_array().map_or(0, Vec::len);
        assert!(is_open != (roles > 0), "{id} either lists its roles or is public");
    }
}

fn resolved(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(reference) => description().pointer(reference.trim_start_matches('#')).expect("a definition"),
        None => value,
    }
}

// Fails under: a resource that can be read but not listed, or vice versa.
#[test]
fn every_resource_has_list_and_get() {
    // Singletons, views of other resources, and unbounded sets have no list.
    const WITHOUT_LIST: &[&str] =
        &["policy", "state", "status", "inbox", "outbox", "violations", "subscriptions", "traces"];
    let ids: BTreeSet<_> =
        operations().filter_map(|(_, _, operation)| operation["operationId"].as_str()).collect();
    for id in &ids {
        let (resource, verb) = id.split_once('.').expect("resource.verb");
        let other = match verb {
            "get" => "list",
            "list" => "get",
            _ => continue,
        };
        assert_ne!(
            ids.contains(format!("{resource}.{other}").as_str()),
            WITHOUT_LIST.contains(&resource),
            "{id}"
        );
    }
    for resource in [
        "agents",
        "messages",
        "requests",
        "dead-letters",
        "context",
        "snapshots",
        "tasks",
        "locks",
        "sessions",
        "procedures",
        "approvals",
        "budgets",
        "tokens",
        "spaces",
    ] {
        assert!(ids.contains(format!("{resource}.get").as_str()), "{resource}");
    }
}

// Fails under: two types with the same name (the second gets a number); a dangling reference.
#[test]
fn every_schema_name_is_unique() {
    let schemas = description()["components"]["schemas"].as_object().expect("schemas");
    for name in schemas.keys() {
        assert!(!name.ends_with(|c: char| c.is_ascii_digit()), "two types are called {name}");
    }
    let mut missing = Vec::new();
    for_each_reference(description(), &mut |reference| {
        if description().pointer(reference.trim_start_matches('#')).is_none() {
            missing.push(reference.to_owned());
        }
    });
    assert!(missing.is_empty(), "{missing:?}");
}

fn for_each_reference(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                found(reference);
            }
            fields.values().for_each(|value| for_each_reference(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| for_each_reference(value, found)),
        _ => {}
    }
}

// Fails under: a list without paging, unless its size is bounded.
#[test]
fn i21_every_list_has_pages_or_is_bounded() {
    let bounded = [
        "inbox.claim",
        "messages.send",
        "tasks.claim",
        "violations.list",
        "subscriptions.list",
        "dialects.send",
        "dialects.inbox",
    ];
    for (_, _, operation) in operations() {
        let id = operation["operationId"].as_str().expect("a name");
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        let lists = schema["properties"]
            .as_object()
            .is_some_and(|all| all.values().any(|field| field["type"] == "array"));
        let has_limit = operation["parameters"]
            .as_array()
            .expect("parameters")
            .iter()
            .any(|parameter| parameter["name"] == "limit" && parameter["schema"]["maximum"] == 1000);
        assert!(!lists || has_limit || bounded.contains(&id), "{id} has no limit");
    }
}

#[tokio::test]
async fn the_description_is_public() {
    let hub = TestHub::new().await;
    let response = hub.get("", "/v1/openapi.json").await.ok(200);
    assert_eq!(response["openapi"], "3.1.0");
    assert_eq!(&response, description());
}
