//! The `approval` section of a playbook: a letter, filled in from the outcome, that a person must approve before it is sent.

use std::fmt::Write as _;

use quorate_procedures::deliberation::{Demand, Outcome, Spec};
use serde::Deserialize;
use serde_json::{Value, json};

/// Placeholders in a letter.
const PLACEHOLDERS: [&str; 3] = ["{subject}", "{recommendation}", "{points}"];
/// Default timeout of the approval.
const HOURS_DEFAULT: u32 = 72;
/// Maximum timeout that the hub allows.
const HOURS_MAX: u32 = 90 * 24;
/// Maximum number of points in a letter.
const POINTS_MAX: usize = 12;

/// The approval that a playbook requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalSpec {
    /// Short description of the action.
    pub action: String,
    /// Recommendations that require the approval; empty: any outcome.
    #[serde(default)]
    when: Vec<String>,
    /// Template of the letter, with the placeholders `{subject}`, `{recommendation}` and `{points}`.
    letter: String,
    /// Name of the file that the letter is written to.
    write: String,
    /// Timeout of the approval.
    #[serde(default = "hours_default")]
    pub timeout_hours: u32,
}

fn hours_default() -> u32 {
    HOURS_DEFAULT
}

impl ApprovalSpec {
    /// Validates the section; the error is a message and a hint.
    pub(super) fn check(&self, spec: &Spec) -> Result<(), (String, String)> {
        if self.action.trim().is_empty() {
            return Err(("action: is empty".into(), "describe the action in a few words".into()));
        }
        if !is_file_name(&self.write) {
            let message = format!("write: {:?} is not a file name", self.write);
            return Err((
                message,
                "use a plain name such as letter.txt; the directory is set with `--out`".into(),
            ));
        }
        if !(1..=HOURS_MAX).contains(&self.timeout_hours) {
            let message = format!("timeout_hours: {} is not between 1 and {HOURS_MAX}", self.timeout_hours);
            return Err((message, format!("omit it for the default of {HOURS_DEFAULT} hours")));
        }
        let known = &spec.vocabulary.recommendations;
        if let Some(other) = self.when.iter().find(|recommendation| {
            !known.is_empty() && spec.vocabulary.recommendation_index(recommendation).is_none()
        }) {
            return Err((
                format!("when: unknown recommendation {other:?}"),
                format!("the recommendations are {}", known.join(", ")),
            ));
        }
        match braces(&self.letter).find(|part| !PLACEHOLDERS.contains(part)) {
            Some(other) => Err((
                format!("letter: unknown placeholder {other}"),
                format!("the placeholders are {}", PLACEHOLDERS.join(", ")),
            )),
            None => Ok(()),
        }
    }

    /// Returns the payload of the action, if this outcome requires an approval.
    #[must_use]
    pub fn payload(&self, outcome: &Outcome) -> Option<Value> {
        let recommendation = outcome.synthesis.recommendation.as_deref();
        // Without a decision the placeholder cannot be filled in, so there is no letter.
        if recommendation.is_none() && self.letter.contains("{recommendation}") {
            return None;
        }
        let recommendation = recommendation.unwrap_or_default();
        let matches = |name: &String| name.eq_ignore_ascii_case(recommendation);
        if !self.when.is_empty() && !self.when.iter().any(matches) {
            return None;
        }
        let letter = self
            .letter
            .replace("{subject}", &outcome.subject)
            .replace("{recommendation}", recommendation)
            .replace("{points}", points(&outcome.synthesis.strategy).trim_end());
        Some(json!({ "letter": letter, "write": self.write }))
    }
}

/// Whether this is a plain file name: a playbook must not choose the directory that it writes to.
#[must_use]
pub fn is_file_name(name: &str) -> bool {
    let is_allowed = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(is_allowed)
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
