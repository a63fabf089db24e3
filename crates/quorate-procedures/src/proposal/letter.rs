//! Letters that are filled in from the outcome of a deliberation.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::deliberation::{Demand, Outcome, Spec};
use crate::finding::FieldError;

/// Placeholders in a letter.
const PLACEHOLDERS: [&str; 3] = ["{subject}", "{recommendation}", "{points}"];
/// Maximum number of points in a letter.
const POINTS_MAX: usize = 12;
/// Maximum length of the file name of a letter.
const FILE_NAME_BYTES_MAX: usize = 100;

/// Template of a letter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LetterTemplate {
    /// Text with the placeholders `{subject}`, `{recommendation}` and `{points}`.
    pub text: String,
    /// Name of the file that the letter is written to.
    pub write: String,
    /// Recommendations after which the letter is proposed; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
}

impl LetterTemplate {
    /// Checks the template for a deliberation.
    pub(super) fn check(&self, spec: &Spec) -> Result<(), FieldError> {
        if !is_file_name(&self.write) {
            let reason = format!("{:?} is not a file name such as letter.txt", self.write);
            return Err(FieldError::new("letter.write", reason));
        }
        let known = &spec.vocabulary.recommendations;
        let is_unknown = |name: &&String| spec.vocabulary.recommendation_index(name).is_none();
        if let Some(other) = self.when.iter().find(is_unknown).filter(|_| !known.is_empty()) {
            let reason = format!("unknown recommendation {other:?}, expected one of {}", known.join(", "));
            return Err(FieldError::new("letter.when", reason));
        }
        match braces(&self.text).find(|part| !PLACEHOLDERS.contains(part)) {
            Some(other) => {
                let reason =
                    format!("unknown placeholder {other}, expected one of {}", PLACEHOLDERS.join(", "));
                Err(FieldError::new("letter.text", reason))
            }
            None => Ok(()),
        }
    }

    /// Returns the payload of the action, `{"letter", "write"}`, if this outcome requires an approval.
    #[must_use]
    pub fn payload(&self, outcome: &Outcome) -> Option<Value> {
        let recommendation = outcome.synthesis.recommendation.as_deref();
        // Without a decision the placeholder cannot be filled in, so there is no letter.
        if recommendation.is_none() && self.text.contains("{recommendation}") {
            return None;
        }
        let recommendation = recommendation.unwrap_or_default();
        let matches = |name: &String| name.eq_ignore_ascii_case(recommendation);
        if !self.when.is_empty() && !self.when.iter().any(matches) {
            return None;
        }
        let letter = self
            .text
            .replace("{subject}", &outcome.subject)
            .replace("{recommendation}", recommendation)
            .replace("{points}", points(&outcome.synthesis.strategy).trim_end());
        Some(json!({ "letter": letter, "write": self.write }))
    }
}

/// Whether this is a plain file name. A letter does not choose the directory that it is written to.
#[must_use]
pub fn is_file_name(name: &str) -> bool {
    let is_allowed = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '.' | '-' | '_');
    !name.is_empty()
        && name.len() <= FILE_NAME_BYTES_MAX
        && !name.starts_with('.')
        && name.chars().all(is_allowed)
}

fn braces(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('{').filter_map(|(start, _)| {
        let end = text[start..].find('}')?;
        Some(&text[start..=start + end])
    })
}

/// Renders the demands as a numbered list, most important first.
fn points(strategy: &[Demand]) -> String {
    let mut text = String::new();
    for (number, demand) in strategy.iter().take(POINTS_MAX).enumerate() {
        let section = demand.section.as_ref().map_or_else(String::new, |section| format!(" ({section})"));
        let (topic, ask) = (capitalized(&demand.topic), demand.ask.trim_end_matches('.'));
        let _ = writeln!(text, "{}. {topic}{section}: {ask}.", number + 1);
    }
    text
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
