//! Gemini's `generateContent` API.

use serde_json::{Value, json};

use super::remote::Structure;
use super::{Completion, Failure, Prompt, missing, tokens};

pub(super) fn path(model: &str) -> String {
    format!("/models/{model}:generateContent")
}

/// Builds the request body.
pub(super) fn request(prompt: &Prompt, structure: Structure) -> Value {
    let mut contents = Vec::new();
    for (at, text) in prompt.turns.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "model" };
        contents.push(json!({ "role": role, "parts": [{ "text": text }] }));
    }
    let mut config = json!({ "maxOutputTokens": prompt.answer_tokens_max });
    if let Some(schema) = &prompt.schema {
        if structure != Structure::Asked {
            config["responseMimeType"] = "application/json".into();
        }
        if structure == Structure::Schema {
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
pub(super) fn read(body: &Value) -> Result<Completion, Failure> {
    let candidate = body.pointer("/candidates/0").ok_or_else(|| missing("candidates"))?;
    let parts = candidate.pointer("/content/parts").and_then(Value::as_array);
    let parts = parts.ok_or_else(|| missing("candidates[0].content.parts"))?;
    // Thoughts are billed as output, but are not part of the answer.
    let texts = parts.iter().filter(|part| part["thought"] != true).filter_map(|part| part["text"].as_str());
    Ok(Completion {
        text: texts.collect(),
        input_tokens: tokens(body, "/usageMetadata/promptTokenCount"),
        output_tokens: tokens(body, "/usageMetadata/candidatesTokenCount")
            + tokens(body, "/usageMetadata/thoughtsTokenCount"),
        cut: candidate["finishReason"] == "MAX_TOKENS",
        calls: 1,
        notes: Vec::new(),
    })
}
