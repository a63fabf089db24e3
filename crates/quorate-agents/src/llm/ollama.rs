//! Ollama's chat API, which accepts a JSON Schema as `format`.

use serde_json::{Value, json};

use super::provider_model::StructuredOutput;
use super::{AgentFailure, Completion, Prompt, missing_field, token_count};

pub(super) const PATH: &str = "/api/chat";

/// Builds the request body.
pub(super) fn build_request(model: &str, prompt: &Prompt, structure: StructuredOutput) -> Value {
    let mut messages = vec![json!({ "role": "system", "content": prompt.system })];
    for (index, text) in prompt.turns.iter().enumerate() {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        messages.push(json!({ "role": role, "content": text }));
    }
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": false,
        "options": { "num_predict": prompt.answer_tokens_max },
    });
    match (structure, &prompt.schema) {
        (StructuredOutput::Schema, Some(schema)) => body["format"] = schema.clone(),
        (StructuredOutput::Json, Some(_)) => body["format"] = "json".into(),
        _ => {}
    }
    body
}

/// Parses the response body.
pub(super) fn parse_response(body: &Value) -> Result<Completion, AgentFailure> {
    let text = body.pointer("/message/content").and_then(Value::as_str);
    Ok(Completion {
        text: text.ok_or_else(|| missing_field("message.content"))?.to_owned(),
        input_tokens: token_count(body, "/prompt_eval_count"),
        output_tokens: token_count(body, "/eval_count"),
        cut: body["done_reason"] == "length",
        calls: 1,
        notes: Vec::new(),
    })
}
