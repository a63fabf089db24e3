//! `OpenAI`'s Chat Completions API, also supported by Groq and most servers for open models.

use serde_json::{Value, json};

use super::provider_model::StructuredOutput;
use super::{AgentFailure, Completion, Prompt, missing_field, token_count};

pub(super) const PATH: &str = "/chat/completions";

/// Builds the request body.
pub(super) fn build_request(
    model: &str,
    prompt: &Prompt,
    structure: StructuredOutput,
    limit_field: &str,
) -> Value {
    let mut messages = vec![json!({ "role": "system", "content": prompt.system })];
    for (index, text) in prompt.turns.iter().enumerate() {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        messages.push(json!({ "role": role, "content": text }));
    }
    let mut body = json!({ "model": model, "messages": messages });
    body[limit_field] = prompt.answer_tokens_max.into();
    match (structure, &prompt.schema) {
        (StructuredOutput::Schema, Some(schema)) => {
            body["response_format"] = json!({
                "type": "json_schema",
                "json_schema": { "name": "answer", "strict": is_closed(schema), "schema": schema }
            });
        }
        (StructuredOutput::Json, Some(_)) => body["response_format"] = json!({ "type": "json_object" }),
        _ => {}
    }
    body
}

/// Parses the response body.
pub(super) fn parse_response(body: &Value) -> Result<Completion, AgentFailure> {
    let choice = body.pointer("/choices/0").ok_or_else(|| missing_field("choices"))?;
    let content = choice.pointer("/message/content").and_then(Value::as_str);
    let refusal = choice.pointer("/message/refusal").and_then(Value::as_str);
    Ok(Completion {
        text: content.or(refusal).ok_or_else(|| missing_field("choices[0].message.content"))?.to_owned(),
        input_tokens: token_count(body, "/usage/prompt_tokens"),
        output_tokens: token_count(body, "/usage/completion_tokens"),
        cut: choice["finish_reason"] == "length",
        calls: 1,
        notes: Vec::new(),
    })
}

/// Whether all objects of a schema are closed, as strict mode requires.
fn is_closed(schema: &Value) -> bool {
    let own = match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => {
            let required = schema["required"].as_array().map_or(0, Vec::len);
            schema["additionalProperties"] == false && required == properties.len()
        }
        None => schema["type"] != "object",
    };
    own && match schema {
        Value::Object(fields) => fields.values().all(is_closed),
        Value::Array(items) => items.iter().all(is_closed),
        _ => true,
    }
}
