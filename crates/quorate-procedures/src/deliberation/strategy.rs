//! Negotiation strategy: the issues for which a remedy was named, prioritised.
//!
//! - **must have**: severe (the upper half of the severities) and agreed: there was no conflict about it, the
//!   discussion settled it, or all voters consider it severe.
//! - **negotiable**: the lowest severity, if there is more than one. It can be traded for other demands.
//! - **should have**: everything else, including issues that only some consider severe.
//!
//! Within a priority the order of the issues is kept.

use serde::{Deserialize, Serialize};

use super::outcome::{ConflictResolution, ResolutionMethod};
use super::synthesis::{IssueReport, RankedIssue, Sentence};
use crate::finding::Vocabulary;
use crate::tokens::{self, TokenCounter};

/// Maximum number of tokens of a demand; the issue has the full text.
const ASK_TOKENS: usize = 60;
/// Maximum length of a location, if no heading precedes the quotation.
const SECTION_CHARS: usize = 60;

/// Priority of a demand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DemandPriority {
    /// Do not sign without it.
    MustHave,
    /// Worth asking for.
    ShouldHave,
    /// Can be traded for something else. Stored outcomes of earlier builds call it `give-away`.
    #[serde(alias = "give-away")]
    Negotiable,
}

impl DemandPriority {
    /// Priority as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MustHave => "must have",
            Self::ShouldHave => "should have",
            Self::Negotiable => "negotiable",
        }
    }
}

/// A demand of the negotiation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Demand {
    /// Priority of the demand.
    pub need: DemandPriority,
    /// Topic of the issue that it would settle.
    pub topic: String,
    /// Severity of the issue.
    pub severity: String,
    /// The remedy to ask for.
    pub ask: String,
    /// Location of the issue in the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Agents that flagged the issue.
    pub agents: Vec<String>,
    /// The demand as a sentence, with sources.
    #[serde(flatten)]
    pub sentence: Sentence,
}

/// Derives the demands from the issues, highest priority first.
pub(super) fn derive_demands(
    issues: &[RankedIssue],
    decisions: &[&ConflictResolution],
    vocabulary: &Vocabulary,
    count: TokenCounter,
) -> Vec<Demand> {
    let mut demands: Vec<Demand> = issues
        .iter()
        .filter_map(|issue| demand(issue, demand_priority(issue, decisions, vocabulary), count))
        .collect();
    // A stable sort keeps the order of the issues within a priority.
    demands.sort_by_key(|demand| demand.need);
    demands
}

fn demand_priority(
    issue: &RankedIssue,
    decisions: &[&ConflictResolution],
    vocabulary: &Vocabulary,
) -> DemandPriority {
    let count = vocabulary.severities.len();
    let first_severe = count - (count / 2).max(1).min(count);
    let is_severe = |word: &str| vocabulary.severity_index(word).is_some_and(|index| index >= first_severe);
    if is_severe(&issue.severity) {
        let decision = decisions.iter().find(|decision| issue.conflict.as_ref() == Some(&decision.id));
        let is_agreed = decision.is_none_or(|decision| {
            matches!(decision.how, ResolutionMethod::Agreed { .. })
                || decision.ballots.iter().all(|position| is_severe(&position.position.to_string()))
        });
        return if is_agreed { DemandPriority::MustHave } else { DemandPriority::ShouldHave };
    }
    if vocabulary.severity_index(&issue.severity) == Some(0) {
        DemandPriority::Negotiable
    } else {
        DemandPriority::ShouldHave
    }
}

/// Derives the demand of an issue, if an agent named a remedy. Agents that assign the final severity take precedence.
fn demand(issue: &RankedIssue, need: DemandPriority, count: TokenCounter) -> Option<Demand> {
    let reports: Vec<&IssueReport> = {
        let (same, other): (Vec<_>, Vec<_>) =
            issue.flagged.iter().partition(|report| report.issue.severity == issue.severity);
        same.into_iter().chain(other).collect()
    };
    let advice = reports.iter().find_map(|report| non_blank(report.issue.advice.as_ref()))?;
    let ask = tokens::truncate(advice, ASK_TOKENS, count).unwrap_or_else(|| advice.to_owned());
    let section = reports.iter().find_map(|report| non_blank(report.issue.evidence.as_ref())).map(section);
    let agents: Vec<String> = issue.flagged.iter().map(|report| report.agent.clone()).collect();
    let location = section.as_ref().map_or_else(String::new, |section| format!(", at {section}"));
    let text = format!(
        "{}: {} ({}, {}{location}), says {}.",
        capitalise(need.as_str()),
        ask.trim_end_matches('.'),
        issue.topic,
        issue.severity,
        agents.join(", ")
    );
    let sources = issue.flagged.iter().map(|report| report.source.clone()).collect();
    Some(Demand {
        need,
        topic: issue.topic.clone(),
        severity: issue.severity.clone(),
        ask,
        section,
        agents,
        sentence: Sentence { text, sources },
    })
}

fn non_blank(text: Option<&String>) -> Option<&str> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty())
}

/// Extracts the location from evidence: the text before a quotation, else the beginning.
fn section(evidence: &str) -> String {
    let before = evidence.split(['"', '“', '\n']).next().unwrap_or_default();
    let heading = before.trim().trim_end_matches([':', ',']).trim_end();
    let text = if heading.is_empty() { evidence } else { heading };
    match text.char_indices().nth(SECTION_CHARS) {
        Some((end, _)) => format!("{} …", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Capitalises the first letter.
pub(super) fn capitalise(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
