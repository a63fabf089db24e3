//! What agents tell each other in a deliberation.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tokens::{self, Count};

/// Who gets the findings.
pub const COORDINATOR: &str = "coordinator";

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageType {
    /// What an agent found by itself.
    Finding,
    /// A question to another agent.
    Question,
    /// The answer to one.
    Clarification,
    /// It agrees with a peer, and holds what it held.
    Agreement,
    /// It holds what it held, against its peers.
    Disagreement,
    /// It holds something else than before, or is surer or less sure of it.
    Revision,
    /// What speaks for its position.
    Evidence,
}

impl MessageType {
    /// The word.
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

/// A message of a deliberation. Its id is its own within the deliberation, and the same in every run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// `F1` … for findings, `M1` … for what was said in the discussion.
    pub id: String,
    /// 0 for findings, then from 1.
    pub round: u32,
    /// Who says it.
    pub sender: String,
    /// To whom.
    pub recipients: Vec<String>,
    /// What it is.
    pub message_type: MessageType,
    /// What it says.
    pub content: Value,
    /// When it was published, in milliseconds.
    pub timestamp: u64,
    /// The message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
}

/// Makes a content fit by cutting one of its texts, and marks it as `cut`.
pub(crate) fn fit(mut content: Map<String, Value>, field: &str, limit: usize, count: Count) -> Value {
    let whole = Value::Object(content.clone()).to_string();
    if tokens::fits(&whole, limit, count) {
        return Value::Object(content);
    }
    let text = content.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    content.insert(field.to_owned(), Value::String(String::new()));
    content.insert("cut".to_owned(), Value::Bool(true));
    let rest = count(&Value::Object(content.clone()).to_string());
    let short = tokens::cut(&text, limit.saturating_sub(rest), count).unwrap_or(text);
    content.insert(field.to_owned(), Value::String(short));
    Value::Object(content)
}
