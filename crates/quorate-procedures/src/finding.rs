//! Findings of agents: one schema for any subject, strictly validated.
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
//!   "details": { "any_field": "additional data" }
//! }
//! ```
//!
//! Only `summary` is required. Unknown fields are rejected with their path, so that a misspelt field is not silently
//! ignored. Put additional data into `details`.

mod parse;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use parse::{FieldError, ROOT_PATH, parse, parse_answer};
pub(crate) use parse::{check_confidence, check_name, not_allowed, parse_object};

/// Maximum size of an answer in a deliberation.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Maximum length of a summary, a detail or another long text of a finding.
pub const TEXT_CHARS_MAX: usize = 8_000;
/// Maximum length of a name (topic, choice, fact) of a finding.
pub const NAME_CHARS_MAX: usize = 200;
/// Maximum absolute value of a score.
pub const SCORE_MAX: f64 = 1e9;
/// Maximum number of issues, scores, facts or list items of a finding.
pub const LIST_MAX: usize = 200;

/// Answer of an agent to an `analyse` request.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Summary in one or a few sentences.
    pub summary: String,
    /// Confidence from 0 to 1, if stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Numeric scores by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, f64>,
    /// Recommended action, or the answer to the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<String>,
    /// Problems and noteworthy points, each with a severity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issues: Vec<Issue>,
    /// Extracted facts: strings, numbers or booleans.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, Value>,
    /// Items that the agent assumes to be present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relies_on: Vec<String>,
    /// Items that the agent searched for and found. An empty list means that none were found; `None`, that it did not
    /// search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Vec<String>>,
    /// Additional data of any structure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// A problem or noteworthy point.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issue {
    /// Topic; issues with the same topic are the same issue.
    pub topic: String,
    /// Severity, one of the vocabulary's.
    pub severity: String,
    /// Description of the issue.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Location in the input, or a quotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// Recommended remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Vocabulary allowed in findings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vocabulary {
    /// Severities in ascending order.
    pub severities: Vec<String>,
    /// Recommendations, ordered from one extreme to the other; empty if any text is allowed.
    pub recommendations: Vec<String>,
}

impl Default for Vocabulary {
    fn default() -> Self {
        let severities = ["low", "medium", "high", "critical"].map(str::to_owned).to_vec();
        Self { severities, recommendations: Vec::new() }
    }
}

impl Vocabulary {
    /// Returns the index of a severity in the list.
    #[must_use]
    pub fn severity_index(&self, word: &str) -> Option<usize> {
        index_of(&self.severities, word)
    }

    /// Returns the index of a recommendation in the list.
    #[must_use]
    pub fn recommendation_index(&self, word: &str) -> Option<usize> {
        index_of(&self.recommendations, word)
    }
}

fn index_of(list: &[String], word: &str) -> Option<usize> {
    let key = crate::normalise::normalise_words(word);
    list.iter().position(|item| crate::normalise::normalise_words(item) == key)
}

/// Rounds to six decimals, so that stored numbers are read back unchanged.
pub(crate) fn round_to_micros(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
