//! Gemini's `generateContent` API.

use serde_json::{Value, json};

use super::provider_model::StructuredOutput;
use super::{AgentFailure, Completion, Prompt, missing_field, token_count};

pub(super) fn path(model: &str) -> String {
    format!("/models/{model}:generateContent")
}

/// Builds the request body.
pub(super) fn build_request(prompt: &Prompt, structure: StructuredOutput) -> Value {
    let mut contents = Vec::new();
    for (index, text) in prompt.turns.iter().enumerate() {
        let role = if index % 2 == 0 { "user" } else { "model" };
        contents.push(json!({ "role": role, "parts": [{ "text": text }] }));
    }
    let mut config = json!({ "maxOutputTokens": prompt.answer_tokens_max });
    if let Some(schema) = &prompt.schema {
        if structure != StructuredOutput::PromptOnly {
            config["responseMimeType"] = "application/json".into();
        }
        if structure == StructuredOutput::Schema {
            config["responseJsonSchema"] = schema.clone();
        }
    }
    json!({
        "systemInstruction": { "parts": [{ "text": prompt.system }] },
        "contents": contents,
        "generationConfig": config,
    })
}

/// Parses the response body.
pub(super) fn parse_response(body: &Value) -> Result<Completion, AgentFailure> {
    let candidate = body.pointer("/candidates/0").ok_or_else(|| missing_field("candidates"))?;
    let parts = candidate.pointer("/content/parts").and_then(Value::as_array);
    let parts = parts.ok_or_else(|| missing_field("candidates[0].content.parts"))?;
    // Thoughts are billed as output, but are not part of the answer.
    let texts = parts.iter().filter(|part| part["thought"] != true).filter_map(|part| part["text"].as_str());
    Ok(Completion {
        text: texts.collect(),
        input_tokens: token_count(body, "/usageMetadata/promptTokenCount"),
        output_tokens: token_count(body, "/usageMetadata/candidatesTokenCount")
            + token_count(body, "/usageMetadata/thoughtsTokenCount"),
        cut: candidate["finishReason"] == "MAX_TOKENS",
        calls: 1,
        notes: Vec::new(),
    })
}
