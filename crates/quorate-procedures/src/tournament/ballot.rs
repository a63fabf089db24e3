//! Answers of judges and debaters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::spec::TournamentSpec;
use crate::finding::{FieldError, TEXT_CHARS_MAX, check_confidence, parse_answer};

/// Who won, in the opinion of a judge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    A,
    B,
    Tie,
}

impl Verdict {
    /// Returns the verdict for contestants that have changed places.
    fn swapped(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
            Self::Tie => Self::Tie,
        }
    }

    /// Score of the first contestant.
    pub(super) fn score(self) -> f64 {
        match self {
            Self::A => 1.0,
            Self::B => 0.0,
            Self::Tie => 0.5,
        }
    }
}

/// Scores of the two contestants for one criterion.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct SideScores {
    pub(super) a: f64,
    pub(super) b: f64,
}

/// A ballot: the verdict of a judge. The sides are those of the match, not those of the request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct CastBallot {
    pub(super) judge: String,
    pub(super) winner: Verdict,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) confidence: Option<f64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) scores: BTreeMap<String, SideScores>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) reasoning: String,
}

/// The answer of a judge. Further fields are ignored.
#[derive(Deserialize)]
struct BallotAnswer {
    winner: Verdict,
    #[serde(default)]
    confidence: Option<f64>,
    #[serde(default)]
    scores: BTreeMap<String, SideScores>,
    #[serde(default)]
    reasoning: String,
}

/// The answer of a debater: an argument, or the text of an agent without a schema.
#[derive(Deserialize)]
struct ArgumentAnswer {
    #[serde(alias = "text")]
    argument: String,
}

/// An answer that reports a failure.
#[derive(Deserialize)]
struct FailureAnswer {
    error: String,
}

/// Returns the reason of the failure that an answer reports, if it does.
pub(super) fn reported_failure(body: &[u8]) -> Option<String> {
    serde_json::from_slice::<FailureAnswer>(body).ok().map(|answer| answer.error)
}

/// Parses a ballot. `is_swapped` states that the contestants had changed places in its request.
pub(super) fn parse_ballot(
    body: &[u8],
    judge: String,
    is_swapped: bool,
    spec: &TournamentSpec,
) -> Result<CastBallot, FieldError> {
    let answer: BallotAnswer = parse_answer(body)?;
    check_confidence("confidence", answer.confidence)?;
    let mut scores = answer.scores;
    for (name, sides) in &mut scores {
        if !spec.criteria.iter().any(|criterion| criterion.name == *name) {
            return Err(FieldError::new(format!("scores.{name}"), "is not a criterion of this tournament"));
        }
        if is_swapped {
            *sides = SideScores { a: sides.b, b: sides.a };
        }
    }
    let winner = if is_swapped { answer.winner.swapped() } else { answer.winner };
    let reasoning = cut(answer.reasoning);
    Ok(CastBallot { judge, winner, confidence: answer.confidence, scores, reasoning })
}

/// Parses an argument.
pub(super) fn parse_argument(body: &[u8]) -> Result<String, FieldError> {
    let text = match serde_json::from_slice(body) {
        Ok(Value::String(text)) => text,
        _ => parse_answer::<ArgumentAnswer>(body)?.argument,
    };
    if text.trim().is_empty() {
        return Err(FieldError::new("argument", "must not be empty"));
    }
    Ok(cut(text))
}

fn cut(text: String) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        None => text,
        Some((end, _)) => text[..end].to_owned(),
    }
}
