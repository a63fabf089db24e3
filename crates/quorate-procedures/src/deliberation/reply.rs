//! Strict parsing of an agent's reply in the discussion of a conflict.
//!
//! ```json
//! {
//!   "revised_position": "high",
//!   "confidence": 0.7,
//!   "agrees_with_peer": true,
//!   "reasoning": "The cap in 9.2 covers it.",
//!   "evidence": "clause 9.2: …",
//!   "question": { "to": "risk_assessor", "text": "Does 9.2 hold for data breaches?" },
//!   "clarification": "the answer to the questions that came with the conflict",
//!   "ranking": ["high", "critical"]
//! }
//! ```
//!
//! The first four fields are the reply; if `confidence` is omitted it stays unchanged. The other fields are optional.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::Dispute;
use crate::conflict::{PositionValue, parse_position};
use crate::finding::{FieldError, Vocabulary, check_confidence, parse_answer, round_to_micros};
use crate::tokens::{self, TokenCounter};

/// The reply as received.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReply {
    revised_position: Value,
    confidence: Option<f64>,
    agrees_with_peer: bool,
    reasoning: String,
    evidence: Option<String>,
    question: Option<PeerQuestion>,
    clarification: Option<String>,
    #[serde(default)]
    ranking: Vec<Value>,
}

/// A question to a peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeerQuestion {
    pub(crate) to: String,
    pub(crate) text: String,
}

/// A validated reply.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) position: PositionValue,
    pub(crate) confidence: Option<f64>,
    pub(crate) agrees: bool,
    pub(crate) reasoning: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evidence: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<PeerQuestion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clarification: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ranking: Vec<String>,
}

/// Maximum length of the reason for which an agent declines to answer.
const REASON_CHARS_MAX: usize = 1_000;

/// Returns the reason if the agent declines to answer: `{"error": "…"}` in place of a finding or a reply.
pub(crate) fn decline_reason(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Declined {
        error: String,
    }
    let Declined { error } = parse_answer(body).ok()?;
    Some(error.chars().take(REASON_CHARS_MAX).collect())
}

/// Parses an agent's reply on a dispute.
///
/// # Errors
/// If a field is invalid; the error names its path.
pub(crate) fn parse(
    body: &[u8],
    agent: &str,
    dispute: &Dispute,
    vocabulary: &Vocabulary,
    limit: usize,
    count: TokenCounter,
) -> Result<Reply, FieldError> {
    let raw: RawReply = parse_answer(body)?;
    check_confidence("confidence", raw.confidence)?;
    let conflict = &dispute.conflict;
    let mut known = conflict.distinct_positions();
    known.extend(dispute.positions.iter().map(|position| position.position.clone()));
    let position = parse_position(conflict.kind, &raw.revised_position, &known, vocabulary)?;
    let peers = || dispute.positions.iter().filter(|peer| peer.agent != agent);
    let is_held = peers().any(|peer| peer.position == position);
    if raw.agrees_with_peer && !is_held && !conflict.is_numeric() {
        let reason =
            format!("is true, but no peer holds `{position}`: state the position that you agree with");
        return Err(FieldError::new("agrees_with_peer", reason));
    }
    if let Some(question) = &raw.question
        && peers().all(|peer| peer.agent != question.to)
    {
        let reason = format!("agent `{}` does not take part in this conflict", question.to);
        return Err(FieldError::new("question.to", reason));
    }
    let mut ranking = Vec::new();
    for choice in &raw.ranking {
        let ranked = parse_position(conflict.kind, choice, &known, vocabulary)
            .map_err(|error| FieldError::new("ranking", error.reason))?
            .to_string();
        if ranking.contains(&ranked) {
            return Err(FieldError::new("ranking", format!("contains `{ranked}` twice")));
        }
        ranking.push(ranked);
    }
    if ranking.first().is_some_and(|first| position != **first) {
        return Err(FieldError::new("ranking", format!("must start with `{position}`")));
    }
    let truncated = |text: String| tokens::truncate(&text, limit, count).unwrap_or(text);
    let non_empty = |text: Option<String>| text.filter(|text| !text.trim().is_empty()).map(truncated);
    Ok(Reply {
        position,
        confidence: raw.confidence.map(round_to_micros),
        agrees: raw.agrees_with_peer,
        reasoning: truncated(raw.reasoning),
        evidence: non_empty(raw.evidence),
        question: raw.question.map(|question| PeerQuestion { text: truncated(question.text), ..question }),
        clarification: non_empty(raw.clarification),
        ranking,
    })
}
