//! What to ask for, and in which order: the issues for which somebody named a remedy, sorted by how much they are needed.
//!
//! - **must have**: severe, which is the upper half of the severities; and agreed, which is that there was no conflict about it, that the
//!   discussion settled it, or that all who voted on it hold it for severe.
//! - **give away**: the least severity that there is, if there is more than one. What can be dropped for the others.
//! - **should have**: all between, and what is severe to some only.
//!
//! Within each they stand in the order of the issues.

use serde::{Deserialize, Serialize};

use super::outcome::{Decision, How};
use super::synthesis::{Flagged, RankedIssue, Sentence};
use crate::finding::Vocabulary;
use crate::tokens::{self, Count};

/// How many tokens of a remedy are told; the whole of it is with its issue.
const ASK_TOKENS: usize = 60;
/// How many characters say where something stands, if that is no heading before a quotation.
const SECTION_CHARS: usize = 60;

/// How much something is needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// Not without it.
    MustHave,
    /// It is worth a try.
    ShouldHave,
    /// It can be dropped for something else.
    GiveAway,
}

impl Need {
    /// In words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MustHave => "must have",
            Self::ShouldHave => "should have",
            Self::GiveAway => "give away",
        }
    }
}

/// Something to ask for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Demand {
    /// How much it is needed.
    pub need: Need,
    /// The issue that it would settle.
    pub topic: String,
    /// How severe that is.
    pub severity: String,
    /// What to ask for.
    pub ask: String,
    /// Where the issue stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Who flagged it.
    pub agents: Vec<String>,
    /// All of it in a sentence, with its sources.
    #[serde(flatten)]
    pub sentence: Sentence,
}

/// What to ask for, the most needed first.
pub(super) fn strategy(
    issues: &[RankedIssue],
    all: &[&Decision],
    words: &Vocabulary,
    count: Count,
) -> Vec<Demand> {
    let mut demands: Vec<Demand> =
        issues.iter().filter_map(|issue| demand(issue, need(issue, all, words), count)).collect();
    // Stable: within a need the order of the issues stays.
    demands.sort_by_key(|demand| demand.need);
    demands
}

fn need(issue: &RankedIssue, all: &[&Decision], words: &Vocabulary) -> Need {
    let count = words.severities.len();
    let severe = count - (count / 2).max(1).min(count);
    let is_severe = |word: &str| words.severity(word).is_some_and(|place| place >= severe);
    if is_severe(&issue.severity) {
        let conflict = all.iter().find(|one| issue.conflict.as_ref() == Some(&one.id));
        let is_agreed = conflict.is_none_or(|one| {
            matches!(one.how, How::Agreed { .. })
                || one.positions.iter().all(|held| is_severe(&held.position.to_string()))
        });
        return if is_agreed { Need::MustHave } else { Need::ShouldHave };
    }
    if words.severity(&issue.severity) == Some(0) { Need::GiveAway } else { Need::ShouldHave }
}

/// What the issue asks for, if anybody named a remedy: whoever holds it for as severe as it is comes first.
fn demand(issue: &RankedIssue, need: Need, count: Count) -> Option<Demand> {
    let held: Vec<&Flagged> = {
        let (same, other): (Vec<_>, Vec<_>) =
            issue.flagged.iter().partition(|one| one.issue.severity == issue.severity);
        same.into_iter().chain(other).collect()
    };
    let advice = held.iter().find_map(|one| said(one.issue.advice.as_ref()))?;
    let ask = tokens::cut(advice, ASK_TOKENS, count).unwrap_or_else(|| advice.to_owned());
    let section = held.iter().find_map(|one| said(one.issue.evidence.as_ref())).map(section);
    let agents: Vec<String> = issue.flagged.iter().map(|one| one.agent.clone()).collect();
    let place = section.as_ref().map_or_else(String::new, |section| format!(", at {section}"));
    let text = format!(
        "{}: {} ({}, {}{place}), says {}.",
        capital(need.as_str()),
        ask.trim_end_matches('.'),
        issue.topic,
        issue.severity,
        agents.join(", ")
    );
    let sources = issue.flagged.iter().map(|one| one.source.clone()).collect();
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

fn said(text: Option<&String>) -> Option<&str> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty())
}

/// Where it stands: what comes before a quotation, else the beginning.
fn section(evidence: &str) -> String {
    let before = evidence.split(['"', '“', '\n']).next().unwrap_or_default();
    let heading = before.trim().trim_end_matches([':', ',']).trim_end();
    let text = if heading.is_empty() { evidence } else { heading };
    match text.char_indices().nth(SECTION_CHARS) {
        Some((end, _)) => format!("{} …", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// With its first letter as at the beginning of a sentence.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
