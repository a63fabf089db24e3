//! JSON schemas of answers. They are part of the requests, for agents that produce structured output.

use serde_json::{Value, json};

use crate::conflict::{Conflict, ConflictKind};
use crate::finding::Vocabulary;

fn confidence() -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 1})
}

fn string_array() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

fn string_enum(allowed: &[String]) -> Value {
    if allowed.is_empty() { json!({"type": "string"}) } else { json!({"type": "string", "enum": allowed}) }
}

/// Schema of a finding.
pub(super) fn finding_schema(vocabulary: &Vocabulary) -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["summary"],
        "properties": {
            "summary": text,
            "confidence": confidence(),
            "scores": {"type": "object", "additionalProperties": {"type": "number"}},
            "recommendation": string_enum(&vocabulary.recommendations),
            "issues": {"type": "array", "items": {
                "type": "object",
                "additionalProperties": false,
                "required": ["topic", "severity"],
                "properties": {
                    "topic": text,
                    "severity": string_enum(&vocabulary.severities),
                    "detail": text,
                    "evidence": text,
                    "advice": text,
                },
            }},
            "facts": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
            "relies_on": string_array(),
            "found": string_array(),
            "details": {"type": "object"},
        },
    })
}

/// Schema of a reply in a discussion.
pub(super) fn reply_schema(conflict: &Conflict, vocabulary: &Vocabulary) -> Value {
    let text = json!({"type": "string"});
    let position = match conflict.kind {
        // Numbers in strings are accepted.
        ConflictKind::Numeric => json!({"type": ["number", "string"], "description": "a number"}),
        ConflictKind::Presence => json!({"type": "string", "enum": ["present", "absent"]}),
        ConflictKind::Severity => string_enum(&vocabulary.severities),
        ConflictKind::Categorical => string_enum(&vocabulary.recommendations),
        ConflictKind::Factual => json!({"type": ["string", "number", "boolean"]}),
    };
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["revised_position", "confidence", "agrees_with_peer", "reasoning"],
        "properties": {
            "revised_position": position,
            "confidence": confidence(),
            "agrees_with_peer": {"type": "boolean"},
            "reasoning": text,
            "evidence": text,
            "question": {
                "type": "object",
                "additionalProperties": false,
                "required": ["to", "text"],
                "properties": {"to": text, "text": text},
            },
            "clarification": text,
            "ranking": {"type": "array", "items": position},
        },
    })
}
