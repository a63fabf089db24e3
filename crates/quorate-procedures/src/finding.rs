//! What an agent found: one shape for any subject, strictly checked.
//!
//! ```json
//! {
//!   "summary": "The liability cap is missing.",
//!   "confidence": 0.8,
//!   "scores": { "overall_risk_score": 62 },
//!   "recommendation": "negotiate key terms",
//!   "issues": [{ "topic": "liability cap", "severity": "critical", "detail": "…", "evidence": "clause 9.2",
//!     "advice": "…" }],
//!   "facts": { "term": "24 months", "start": "2027-01-01" },
//!   "relies_on": ["indemnification"],
//!   "found": ["governing law", "payment terms"],
//!   "details": { "whatever": "the agent wants to add" }
//! }
//! ```
//!
//! Only `summary` must be there. A field that is not in the list is refused, with its place: a slip of the pen must not pass for
//! silence. What has no field goes into `details`.

mod check;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use check::{WHOLE, Wrong, read, read_answer};
pub(crate) use check::{check_confidence, check_name, not_in, read_object};

/// The most bytes of an answer.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// The most characters of a summary, a detail or another long text.
pub const TEXT_CHARS_MAX: usize = 8_000;
/// The most characters of a name: a topic, a choice, a fact.
pub const NAME_CHARS_MAX: usize = 200;
/// The greatest score.
pub const SCORE_MAX: f64 = 1e9;
/// The most issues, scores, facts or things in a list.
pub const LIST_MAX: usize = 200;

/// What an agent answers when it is asked to analyse.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// In a sentence or a few.
    pub summary: String,
    /// How sure, from 0 to 1; nothing if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Numbers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, f64>,
    /// What to do, or the answer to the question that was put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<String>,
    /// What is wrong or noteworthy, each with how much.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// What it read: texts, numbers, yes or no.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, Value>,
    /// Things that it takes to be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relies_on: Vec<String>,
    /// Things that it looked for and found. An empty list says that it found none; no list, that it did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Vec<String>>,
    /// Whatever else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// Something wrong or noteworthy.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issue {
    /// What it is about; issues with the same topic are the same issue.
    pub topic: String,
    /// How much it matters, in the words of the vocabulary.
    pub severity: String,
    /// What exactly.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// The words that findings may use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vocabulary {
    /// Severities, the least first.
    pub severities: Vec<String>,
    /// Recommendations in their order, from one end to the other; empty if any text will do.
    pub recommendations: Vec<String>,
}

impl Default for Vocabulary {
    fn default() -> Self {
        let severities = ["low", "medium", "high", "critical"].map(str::to_owned).to_vec();
        Self { severities, recommendations: Vec::new() }
    }
}

impl Vocabulary {
    /// How severe a word is: its place in the list.
    #[must_use]
    pub fn severity(&self, word: &str) -> Option<usize> {
        place(&self.severities, word)
    }

    /// The place of a recommendation in the list.
    #[must_use]
    pub fn recommendation(&self, word: &str) -> Option<usize> {
        place(&self.recommendations, word)
    }
}

fn place(list: &[String], word: &str) -> Option<usize> {
    let wanted = crate::plain::words(word);
    list.iter().position(|known| crate::plain::words(known) == wanted)
}

/// A number with at most six decimals: it comes out of a store as it went in.
pub(crate) fn steady(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
