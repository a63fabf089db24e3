//! JSON schemas of answers. They are part of the questions, for agents that produce structured output.

use serde_json::{Value, json};

use crate::conflict::{Conflict, ConflictKind};
use crate::finding::Vocabulary;

fn confidence() -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 1})
}

fn texts() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

fn one_of(words: &[String]) -> Value {
    if words.is_empty() { json!({"type": "string"}) } else { json!({"type": "string", "enum": words}) }
}

/// Schema of a finding.
pub(super) fn finding_schema(words: &Vocabulary) -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["summary"],
        "properties": {
            "summary": text,
            "confidence": confidence(),
            "scores": {"type": "object", "additionalProperties": {"type": "number"}},
            "recommendation": one_of(&words.recommendations),
            "issues": {"type": "array", "items": {
                "type": "object",
                "additionalProperties": false,
                "required": ["topic", "severity"],
                "properties": {
                    "topic": text,
                    "severity": one_of(&words.severities),
                    "detail": text,
                    "evidence": text,
                    "advice": text,
                },
            }},
            "facts": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
            "relies_on": texts(),
            "found": texts(),
            "details": {"type": "object"},
        },
    })
}

/// Schema of a reply in a discussion.
pub(super) fn reply_schema(conflict: &Conflict, words: &Vocabulary) -> Value {
    let text = json!({"type": "string"});
    let position = match conflict.kind {
        // Numbers in strings are accepted.
        ConflictKind::Numeric => json!({"type": ["number", "string"], "description": "a number"}),
        ConflictKind::Presence => json!({"type": "string", "enum": ["present", "absent"]}),
        ConflictKind::Severity => one_of(&words.severities),
        ConflictKind::Categorical => one_of(&words.recommendations),
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
