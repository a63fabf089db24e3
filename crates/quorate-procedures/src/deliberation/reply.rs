//! What an agent answers in the discussion of a conflict, strictly read.
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
//! The first four are the answer; without a `confidence` the agent is as sure as it was. The rest may be left out.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::Dispute;
use crate::conflict::{PositionValue, read_position};
use crate::finding::{Vocabulary, Wrong, check_confidence, read_answer, steady};
use crate::tokens::{self, Count};

/// The answer as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    revised_position: Value,
    confidence: Option<f64>,
    agrees_with_peer: bool,
    reasoning: String,
    evidence: Option<String>,
    question: Option<Asking>,
    clarification: Option<String>,
    #[serde(default)]
    ranking: Vec<Value>,
}

/// A question to a peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asking {
    pub(crate) to: String,
    pub(crate) text: String,
}

/// The answer as it counts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) position: PositionValue,
    pub(crate) confidence: Option<f64>,
    pub(crate) agrees: bool,
    pub(crate) reasoning: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evidence: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<Asking>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clarification: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ranking: Vec<String>,
}

/// The longest reason for which an agent declines that is kept.
const REASON_CHARS_MAX: usize = 1_000;

/// Why an agent states that it cannot answer: `{"error": "…"}` in place of a finding or a reply.
pub(crate) fn declined(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Declined {
        error: String,
    }
    let Declined { error } = read_answer(body).ok()?;
    Some(error.chars().take(REASON_CHARS_MAX).collect())
}

/// Reads what an agent answered on a dispute.
///
/// # Errors
/// With the place of what cannot be meant.
pub(crate) fn read(
    body: &[u8],
    agent: &str,
    dispute: &Dispute,
    words: &Vocabulary,
    limit: usize,
    count: Count,
) -> Result<Reply, Wrong> {
    let written: Written = read_answer(body)?;
    check_confidence("confidence", written.confidence)?;
    let conflict = &dispute.conflict;
    let mut known = conflict.sides();
    known.extend(dispute.positions.iter().map(|one| one.position.clone()));
    let position = read_position(conflict.kind, &written.revised_position, &known, words)?;
    let peers = || dispute.positions.iter().filter(|one| one.agent != agent);
    let held = peers().any(|one| one.position == position);
    if written.agrees_with_peer && !held && !conflict.is_numeric() {
        let why = format!("is true, but no peer holds `{position}`: take the position that you agree with");
        return Err(Wrong::new("agrees_with_peer", why));
    }
    if let Some(question) = &written.question
        && peers().all(|one| one.agent != question.to)
    {
        let why = format!("`{}` takes no part in this conflict", question.to);
        return Err(Wrong::new("question.to", why));
    }
    let mut ranking = Vec::new();
    for one in &written.ranking {
        let ranked = read_position(conflict.kind, one, &known, words)
            .map_err(|wrong| Wrong::new("ranking", wrong.why))?
            .to_string();
        if ranking.contains(&ranked) {
            return Err(Wrong::new("ranking", format!("names `{ranked}` twice")));
        }
        ranking.push(ranked);
    }
    if ranking.first().is_some_and(|first| position != **first) {
        return Err(Wrong::new("ranking", format!("does not begin with `{position}`")));
    }
    let short = |text: String| tokens::cut(&text, limit, count).unwrap_or(text);
    let some = |text: Option<String>| text.filter(|text| !text.trim().is_empty()).map(short);
    Ok(Reply {
        position,
        confidence: written.confidence.map(steady),
        agrees: written.agrees_with_peer,
        reasoning: short(written.reasoning),
        evidence: some(written.evidence),
        question: written.question.map(|asking| Asking { text: short(asking.text), ..asking }),
        clarification: some(written.clarification),
        ranking,
    })
}
