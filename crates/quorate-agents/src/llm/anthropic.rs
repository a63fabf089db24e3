//! Anthropic's Messages API. The schema is the input schema of a tool that the model must use, which all their models
//! support.

use serde_json::{Value, json};

use super::provider_model::StructuredOutput;
use super::{AgentFailure, Completion, Prompt, missing_field, token_count};

pub(super) const PATH: &str = "/messages";
/// Version of the API.
pub(super) const VERSION: &str = "2023-06-01";
const TOOL: &str = "answer";

/// Builds the request body.
pub(super) fn build_request(model: &str, prompt: &Prompt, structure: StructuredOutput) -> Value {
    let mut messages = Vec::new();
    for (index, text) in prompt.turns.iter().enumerate() {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        messages.push(json!({ "role": role, "content": text }));
    }
    let mut body = json!({
        "model": model,
        "max_tokens": prompt.answer_tokens_max,
        "system": prompt.system,
        "messages": messages,
    });
    if let (StructuredOutput::Schema, Some(schema)) = (structure, &prompt.schema) {
        let description = "Gives the answer.";
        body["tools"] = json!([{ "name": TOOL, "description": description, "input_schema": schema }]);
        body["tool_choice"] = json!({ "type": "tool", "name": TOOL });
    }
    body
}

/// Parses the response body.
pub(super) fn parse_response(body: &Value) -> Result<Completion, AgentFailure> {
    let content = body["content"].as_array().ok_or_else(|| missing_field("content"))?;
    let tool =
        content.iter().find(|block| block["type"] == "tool_use").map(|block| block["input"].to_string());
    let texts =
        content.iter().filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str());
    Ok(Completion {
        text: tool.unwrap_or_else(|| texts.collect()),
        input_tokens: token_count(body, "/usage/input_tokens")
            + token_count(body, "/usage/cache_creation_input_tokens")
            + token_count(body, "/usage/cache_read_input_tokens"),
        output_tokens: token_count(body, "/usage/output_tokens"),
        cut: body["stop_reason"] == "max_tokens",
        calls: 1,
        notes: Vec::new(),
    })
}
