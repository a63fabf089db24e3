//! OpenAPI 3.1 document, generated from the route table and the request and response types. It is only generated to
//! be written to `openapi/quorate.json` and compared with it: the hub serves that file.

use std::sync::LazyLock;

use quorate_api::problem::ProblemDetails;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::schema::{HeaderId, Number};
use super::type_schema::TypeSchema;
use super::{Access, Operation};
use crate::problem;
use crate::routes;

/// Error statuses of every authenticated operation.
const PROBLEMS: &[u16] = &[400, 401, 403, 404, 408, 413, 429, 500, 503];
/// Additional error statuses of operations that write.
const PROBLEMS_OF_CHANGES: &[u16] = &[409, 422, 507];
/// Additional error statuses of conditional requests (`If-Match`).
const PROBLEMS_OF_CONDITIONS: &[u16] = &[412, 428];

/// Example request body of each operation that has one, by operation id.
static EXAMPLES: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).unwrap_or_default());

/// Returns the OpenAPI document as checked in.
pub(crate) fn openapi_text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let mut text = serde_json::to_string_pretty(&document()).unwrap_or_default();
        text.push('\n');
        text
    });
    &TEXT
}

/// Schema generators. Requests and responses need one each: a field that is optional in a request is always present
/// in a response.
struct Schemas {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            requests: settings().for_deserialize().into_generator(),
            responses: settings().for_serialize().into_generator(),
        }
    }

    /// Returns all named schemas. A type used in requests and responses must have the same schema in both.
    fn named(&mut self) -> Map<String, Value> {
        let mut all = self.requests.take_definitions(true);
        all.extend(self.responses.take_definitions(true));
        all.values_mut().for_each(without_defaults);
        all
    }
}

/// Removes `default` from all fields: client generators treat a field with a default as required. Defaults are part
/// of the field descriptions.
fn without_defaults(schema: &mut Value) {
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for field in fields.values_mut() {
            if let Some(field) = field.as_object_mut() {
                field.remove("default");
            }
        }
    }
}

fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for operation in routes::route_table().into_iter().flat_map(|route| route.operations) {
        let rendered = operation_object(&operation, &mut schemas);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = rendered;
    }
    let problem = schemas.responses.subschema_for::<ProblemDetails>();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Quorate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.named(),
            "parameters": headers(),
            "responses": problems(&problem),
            "securitySchemes": {"token": {
                "type": "http", "scheme": "bearer", "bearerFormat": "qrt_…",
                "description": "An access token of this hub. The token of an agent can act only as that agent.",
            }},
        },
    })
}

const DESCRIPTION: &str = "Coordination hub for AI agents: durable messages, tasks, shared memory, locks and sessions. \
    Every change is written to disk before it is acknowledged. Errors are `application/problem+json` with a stable `code`. \
    `x-quorate-roles` lists the token roles that are allowed to call an operation. If `x-quorate-itself` is true, an agent \
    can call it only for itself. `x-quorate-no-key` states why an operation other than `GET` accepts no `Idempotency-Key`. \
    Responses may gain new fields at any time; unknown fields in requests are rejected.";

fn operation_object(operation: &Operation, schemas: &mut Schemas) -> Value {
    let writes = operation.method != "get";
    let tag = operation.id.split('.').next().unwrap_or_default();
    let mut rendered = json!({
        "operationId": operation.id,
        "summary": operation.documentation.summary,
        "tags": [tag],
        "parameters": parameters(operation, schemas),
        "responses": responses(operation, schemas),
    });
    match operation.access {
        Access::Public => rendered["security"] = json!([]),
        Access::Requires(permission) => {
            rendered["x-quorate-roles"] = permission.roles().collect();
            rendered["x-quorate-itself"] = operation.own_agent_only.into();
        }
    }
    if let Some(body) = &operation.documentation.body {
        let schema = body.generate(&mut schemas.requests);
        let required = is_body_required(&schema.clone().to_value(), &schemas.requests);
        let mut content = json!({"application/json": {"schema": schema}});
        if let Some(example) = EXAMPLES.get(operation.id) {
            content["application/json"]["example"] = example.clone();
        }
        if let Some(media_type) = operation.documentation.additional_media_type {
            content[media_type] = json!({"schema": schema});
        }
        rendered["requestBody"] = json!({"required": required, "content": content});
    }
    if writes && operation.access != Access::Public {
        let reference = |name: &str| json!({"$ref": format!("#/components/parameters/{name}")});
        if let Some(parameters) = rendered["parameters"].as_array_mut() {
            let key = operation.documentation.no_key_reason.is_none().then(|| reference("Idempotency-Key"));
            parameters.extend(key.into_iter().chain([reference("Quorate-Epoch")]));
        }
    }
    if let Some(reason) = operation.documentation.no_key_reason {
        rendered["x-quorate-no-key"] = reason.into();
    }
    rendered
}

/// Whether the body is required, that is, whether an empty object would be rejected.
fn is_body_required(schema: &Value, schemas: &SchemaGenerator) -> bool {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return schemas
            .definitions()
            .get(name)
            .is_some_and(|definition| is_body_required(definition, schemas));
    }
    let variants = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    match variants {
        // An empty object selects none of several variants.
        Some(_) => true,
        None => {
            schema["type"] != "object" || schema["required"].as_array().is_some_and(|all| !all.is_empty())
        }
    }
}

fn parameters(operation: &Operation, schemas: &mut Schemas) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for (name, schema, description) in &operation.documentation.path_parameters {
        let schema = schema.generate(&mut schemas.requests);
        all.push(
            json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema}),
        );
    }
    if let Some(query) = &operation.documentation.query {
        all.extend(query_parameters(query, schemas));
    }
    for (name, schema, description) in &operation.documentation.header_parameters {
        let schema = schema.generate(&mut schemas.requests);
        all.push(
            json!({"name": name, "in": "header", "required": false, "description": description, "schema": schema}),
        );
    }
    if operation.access != Access::Public {
        all.push(json!({"$ref": "#/components/parameters/Quorate-Space"}));
    }
    all
}

/// Returns the fields of a type as query parameters. A query parameter is present or absent, never `null`.
fn query_parameters(query: &TypeSchema, schemas: &mut Schemas) -> Vec<Value> {
    let schema = query.generate(&mut schemas.requests).to_value();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let rendered = fields.into_iter().map(|(name, schema)| {
        let mut schema = without_null(schema);
        let description = schema.as_object_mut().and_then(|fields| fields.remove("description"));
        let is_required = required.iter().any(|field| *field == name.as_str());
        let mut rendered = json!({"name": name, "in": "query", "required": is_required, "schema": schema});
        if let Some(description) = description {
            rendered["description"] = description;
        }
        rendered
    });
    rendered.collect()
}

fn without_null(mut schema: Value) -> Value {
    if let Some(types) = schema["type"].as_array_mut() {
        types.retain(|name| name != "null");
        if let [name] = types.as_slice() {
            schema["type"] = name.clone();
        }
    }
    if let Some(values) = schema["enum"].as_array_mut() {
        values.retain(|value| !value.is_null());
    }
    if let Some(variants) = schema["anyOf"].as_array_mut() {
        variants.retain(|variant| variant["type"] != "null");
        if let [variant] = variants.as_slice() {
            let (variant, description) = (variant.clone(), schema["description"].take());
            schema = variant;
            if description.is_string() {
                schema["description"] = description;
            }
        }
    }
    // Indexing an absent key mutably has inserted `null`.
    if let Some(fields) = schema.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    schema
}

fn responses(operation: &Operation, schemas: &mut Schemas) -> Map<String, Value> {
    let mut all = Map::new();
    for response in &operation.documentation.responses {
        if response.media_type == "application/problem+json" {
            let reference = format!("#/components/responses/Problem{}", response.status);
            all.insert(response.status.to_string(), json!({"$ref": reference}));
            continue;
        }
        // One status may have several media types.
        let rendered = all.entry(response.status.to_string());
        let rendered = rendered.or_insert_with(|| json!({"description": response.description}));
        if let Some(schema) = &response.schema {
            let schema = schema.generate(&mut schemas.responses);
            rendered["content"][response.media_type] = json!({"schema": schema});
        } else if !response.media_type.is_empty() {
            rendered["content"][response.media_type] = json!({"schema": {"type": "string"}});
        }
    }
    // Public operations without a body cannot fail with most errors.
    let can_fail = operation.access != Access::Public || operation.documentation.body.is_some();
    let write_problems = if operation.method == "get" { &[] } else { PROBLEMS_OF_CHANGES };
    for status in PROBLEMS.iter().chain(write_problems).filter(|_| can_fail) {
        all.insert(status.to_string(), json!({"$ref": format!("#/components/responses/Problem{status}")}));
    }
    // Any request may be refused because of its `Host` or `Origin` header.
    all.entry("403").or_insert_with(|| json!({"$ref": "#/components/responses/Problem403"}));
    all
}

fn problems(schema: &schemars::Schema) -> Map<String, Value> {
    let render = |status: &u16| {
        let codes: Vec<&str> = problem::codes_for_status(*status).collect();
        let response = json!({
            "description": codes.join(", "),
            "content": {"application/problem+json": {"schema": schema}},
        });
        (format!("Problem{status}"), response)
    };
    PROBLEMS.iter().chain(PROBLEMS_OF_CHANGES).chain(PROBLEMS_OF_CONDITIONS).map(render).collect()
}

fn headers() -> Value {
    fn header_parameter<T: JsonSchema>(name: &str, description: &str) -> Value {
        let schema = T::json_schema(&mut SchemaGenerator::default());
        json!({"name": name, "in": "header", "required": false, "description": description, "schema": schema})
    }
    json!({
        "Quorate-Space": header_parameter::<HeaderId>(
            "Quorate-Space",
            "Space to act in. Only hub admins may name a space other than the token's own.",
        ),
        "Quorate-Epoch": header_parameter::<Number>(
            "Quorate-Epoch",
            "Epoch of the calling agent. Calls with a stale epoch are rejected.",
        ),
        "Idempotency-Key": header_parameter::<HeaderId>(
            "Idempotency-Key",
            "Makes the call safe to retry: within 24 hours, a repeat with the same key returns the first response and \
             has no further effect.",
        ),
    })
}
