//! The description of the interface: OpenAPI 3.1, made from the table of routes and the types that are read and written.

use std::sync::LazyLock;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::words::{HeaderId, Number};
use super::{Operation, Shape, Who};
use crate::problem::{self, ProblemOut};
use crate::routes;

/// What may go wrong with any call that bears a token, by status.
const PROBLEMS: &[u16] = &[400, 401, 403, 404, 408, 413, 429, 500, 503];
/// And with one that changes something.
const PROBLEMS_OF_CHANGES: &[u16] = &[409, 422, 507];
/// And with one that names the state it is based on.
const PROBLEMS_OF_CONDITIONS: &[u16] = &[412, 428];

/// A request body for each operation that has one.
static EXAMPLES: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).unwrap_or_default());

/// The description, as it is served and checked in.
pub(crate) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let mut text = serde_json::to_string_pretty(&whole()).unwrap_or_default();
        text.push('\n');
        text
    });
    &TEXT
}

/// `GET /v1/openapi.json`: for everybody who reaches the hub; it says nothing that is not in the source.
pub(crate) async fn about_the_hub() -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], text()).into_response()
}

/// What goes in and what comes out differ: a field that may be left out by a caller is always there in an answer.
struct Shapes {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Shapes {
    fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            read: settings().for_deserialize().into_generator(),
            written: settings().for_serialize().into_generator(),
        }
    }

    /// All that have a name. One that is read and written under the same name must be the same.
    fn named(&mut self) -> Map<String, Value> {
        let mut all = self.read.take_definitions(true);
        all.extend(self.written.take_definitions(true));
        all.values_mut().for_each(without_defaults);
        all
    }
}

/// Generators of clients take a field with a default for one that must be given. The descriptions name the defaults.
fn without_defaults(schema: &mut Value) {
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for field in fields.values_mut() {
            if let Some(field) = field.as_object_mut() {
                field.remove("default");
            }
        }
    }
}

fn whole() -> Value {
    let mut shapes = Shapes::new();
    let mut paths: Map<String, Value> = Map::new();
    for operation in routes::rooms().into_iter().flat_map(|route| route.operations) {
        let told = of(&operation, &mut shapes);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = told;
    }
    let problem = shapes.written.subschema_for::<ProblemOut>();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Quorate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": shapes.named(),
            "parameters": headers(),
            "responses": problems(&problem),
            "securitySchemes": {"token": {
                "type": "http", "scheme": "bearer", "bearerFormat": "qrt_…",
                "description": "A token of this hub. An agent's token acts as that agent and as nobody else.",
            }},
        },
    })
}

const ABOUT: &str = "Where agents work together: durable messages, tasks, shared memory, locks, sessions. \
    Whatever changes is on disk before it is acknowledged. Errors are `application/problem+json` with a stable `code`. \
    `x-quorate-roles` lists the roles of tokens that may make a call; where `x-quorate-itself` is true, an agent may make it \
    for itself only. `x-quorate-no-key` says why a call that is no `GET` takes no `Idempotency-Key`. \
    Answers may get more fields; fields that a call does not know are refused.";

fn of(operation: &Operation, shapes: &mut Shapes) -> Value {
    let writes = operation.method != "get";
    let noun = operation.id.split('.').next().unwrap_or_default();
    let mut told = json!({
        "operationId": operation.id,
        "summary": operation.about,
        "tags": [noun],
        "parameters": parameters(operation, shapes),
        "responses": answers(operation, shapes),
    });
    match operation.who {
        Who::Everybody => told["security"] = json!([]),
        Who::Holders(deed) => {
            told["x-quorate-roles"] = deed.roles().collect();
            told["x-quorate-itself"] = operation.itself.into();
        }
    }
    if let Some(body) = &operation.body {
        let schema = body(&mut shapes.read);
        let required = needs_something(&schema.clone().to_value(), &shapes.read);
        let mut content = json!({"application/json": {"schema": schema}});
        if let Some(example) = EXAMPLES.get(operation.id) {
            content["application/json"]["example"] = example.clone();
        }
        if let Some(kind) = operation.also_as {
            content[kind] = json!({"schema": schema});
        }
        told["requestBody"] = json!({"required": required, "content": content});
    }
    if writes && operation.who != Who::Everybody {
        let named = |name: &str| json!({"$ref": format!("#/components/parameters/{name}")});
        if let Some(list) = told["parameters"].as_array_mut() {
            let key = operation.without_key.is_none().then(|| named("Idempotency-Key"));
            list.extend(key.into_iter().chain([named("Quorate-Epoch")]));
        }
    }
    if let Some(reason) = operation.without_key {
        told["x-quorate-no-key"] = reason.into();
    }
    told
}

/// Whether an empty body would be refused: nothing is an empty object.
fn needs_something(schema: &Value, shapes: &SchemaGenerator) -> bool {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return shapes.definitions().get(name).is_some_and(|found| needs_something(found, shapes));
    }
    let any = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    match any {
        // One of several forms: without any, nothing says which.
        Some(_) => true,
        None => {
            schema["type"] != "object" || schema["required"].as_array().is_some_and(|all| !all.is_empty())
        }
    }
}

fn parameters(operation: &Operation, shapes: &mut Shapes) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for (name, shape) in &operation.in_path {
        all.push(json!({"name": name, "in": "path", "required": true, "schema": shape(&mut shapes.read)}));
    }
    if let Some(shape) = &operation.in_query {
        all.extend(in_query(shape, shapes));
    }
    for (name, shape, about) in &operation.in_headers {
        let schema = shape(&mut shapes.read);
        all.push(
            json!({"name": name, "in": "header", "required": false, "description": about, "schema": schema}),
        );
    }
    if operation.who != Who::Everybody {
        all.push(json!({"$ref": "#/components/parameters/Quorate-Space"}));
    }
    all
}

/// The fields of a type as parameters. None of them is ever `null`: it is there or not.
fn in_query(shape: &Shape, shapes: &mut Shapes) -> Vec<Value> {
    let schema = shape(&mut shapes.read).to_value();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let told = fields.into_iter().map(|(name, schema)| {
        let mut schema = without_null(schema);
        let about = schema.as_object_mut().and_then(|fields| fields.remove("description"));
        let is_required = required.iter().any(|one| *one == name.as_str());
        let mut told = json!({"name": name, "in": "query", "required": is_required, "schema": schema});
        if let Some(about) = about {
            told["description"] = about;
        }
        told
    });
    told.collect()
}

fn without_null(mut schema: Value) -> Value {
    if let Some(types) = schema["type"].as_array_mut() {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            schema["type"] = one.clone();
        }
    }
    if let Some(words) = schema["enum"].as_array_mut() {
        words.retain(|word| !word.is_null());
    }
    if let Some(any) = schema["anyOf"].as_array_mut() {
        any.retain(|one| one["type"] != "null");
        if let [one] = any.as_slice() {
            let (one, about) = (one.clone(), schema["description"].take());
            schema = one;
            if about.is_string() {
                schema["description"] = about;
            }
        }
    }
    // Looking for a word that is not there has put a `null` in its place.
    if let Some(fields) = schema.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    schema
}

fn answers(operation: &Operation, shapes: &mut Shapes) -> Map<String, Value> {
    let mut all = Map::new();
    for answer in &operation.answers {
        if answer.kind == "application/problem+json" {
            let place = format!("#/components/responses/Problem{}", answer.status);
            all.insert(answer.status.to_string(), json!({"$ref": place}));
            continue;
        }
        // The same status may come in several media types.
        let told = all.entry(answer.status.to_string());
        let told = told.or_insert_with(|| json!({"description": answer.about}));
        if let Some(shape) = &answer.shape {
            told["content"][answer.kind] = json!({"schema": shape(&mut shapes.written)});
        } else if !answer.kind.is_empty() {
            told["content"][answer.kind] = json!({"schema": {"type": "string"}});
        }
    }
    // Whoever only asks how the hub is cannot do much wrong.
    let may_be_wrong = operation.who != Who::Everybody || operation.body.is_some();
    let of_changes = if operation.method == "get" { &[] } else { PROBLEMS_OF_CHANGES };
    for status in PROBLEMS.iter().chain(of_changes).filter(|_| may_be_wrong) {
        all.insert(status.to_string(), json!({"$ref": format!("#/components/responses/Problem{status}")}));
    }
    // Whoever is led here by a foreign name or page is refused before anything else.
    all.entry("403").or_insert_with(|| json!({"$ref": "#/components/responses/Problem403"}));
    all
}

fn problems(schema: &schemars::Schema) -> Map<String, Value> {
    let told = |status: &u16| {
        let codes: Vec<&str> = problem::codes_of(*status).collect();
        let answer = json!({
            "description": codes.join(", "),
            "content": {"application/problem+json": {"schema": schema}},
        });
        (format!("Problem{status}"), answer)
    };
    PROBLEMS.iter().chain(PROBLEMS_OF_CHANGES).chain(PROBLEMS_OF_CONDITIONS).map(told).collect()
}

fn headers() -> Value {
    fn told<T: JsonSchema>(name: &str, about: &str) -> Value {
        let schema = T::json_schema(&mut SchemaGenerator::default());
        json!({"name": name, "in": "header", "required": false, "description": about, "schema": schema})
    }
    json!({
        "Quorate-Space": told::<HeaderId>("Quorate-Space", "The space in which an admin of the hub acts; for others, its own."),
        "Quorate-Epoch": told::<Number>("Quorate-Epoch", "The start of the agent that acts; one that is over is refused."),
        "Idempotency-Key": told::<HeaderId>("Idempotency-Key", "Under the same key the same call happens once, for a day."),
    })
}
