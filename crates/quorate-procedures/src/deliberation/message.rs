//! Messages that a deliberation publishes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tokens::{self, TokenCounter};

/// Recipient of the findings.
pub const COORDINATOR: &str = "coordinator";

/// Type of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliberationMessageType {
    /// Finding of an agent, made independently.
    Finding,
    /// Question to another agent.
    Question,
    /// Answer to a question.
    Clarification,
    /// The agent agrees with a peer and keeps its position.
    Agreement,
    /// The agent keeps its position and disagrees with its peers.
    Disagreement,
    /// The agent changed its position or its confidence.
    Revision,
    /// Evidence for the agent's position.
    Evidence,
}

impl DeliberationMessageType {
    /// Name of the type in messages and topics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finding => "finding",
            Self::Question => "question",
            Self::Clarification => "clarification",
            Self::Agreement => "agreement",
            Self::Disagreement => "disagreement",
            Self::Revision => "revision",
            Self::Evidence => "evidence",
        }
    }
}

/// A message of a deliberation. The id is unique within the deliberation and the same in every run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliberationMessage {
    /// `F1` … for findings, `M1` … for messages of the discussion.
    pub id: String,
    /// Round number, starting at 1; 0 for findings.
    pub round: u32,
    /// Sender of the message.
    pub sender: String,
    /// Recipients of the message.
    pub recipients: Vec<String>,
    /// Type of the message.
    pub message_type: DeliberationMessageType,
    /// Content; the fields depend on the type.
    pub content: Value,
    /// Time of publication, in milliseconds since the Unix epoch.
    pub timestamp: u64,
    /// Id of the message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
}

/// Truncates one text field so that the content fits the limit, and sets `cut` if it did.
pub(crate) fn truncate_content(
    mut content: Map<String, Value>,
    field: &str,
    limit: usize,
    count: TokenCounter,
) -> Value {
    let full_text = Value::Object(content.clone()).to_string();
    if tokens::fits(&full_text, limit, count) {
        return Value::Object(content);
    }
    let text = content.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    content.insert(field.to_owned(), Value::String(String::new()));
    content.insert("cut".to_owned(), Value::Bool(true));
    let other_tokens = count(&Value::Object(content.clone()).to_string());
    let truncated = tokens::truncate(&text, limit.saturating_sub(other_tokens), count).unwrap_or(text);
    content.insert(field.to_owned(), Value::String(truncated));
    Value::Object(content)
}
