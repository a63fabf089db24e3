//! Contradictions between findings: declared rules, and the conflicts that they detect.
//!
//! | rule | detects | legacy name |
//! |---|---|---|
//! | `numeric` | a score whose greatest and smallest values differ by more than `spread` | `risk_score_disagreement` |
//! | `presence` | an item that an agent relies on and that the agent `by` searched for and did not find | `clause_presence_disagreement` |
//! | `severity` | the same issue with different severities | `severity_disagreement` |
//! | `categorical` | different recommendations | `recommendation_conflict` |
//! | `factual` | different values of the same fact, see [`crate::normalise`] | `factual_disagreement` |
//!
//! A later finding of an agent replaces its earlier one, so an agent never contradicts itself.
//!
//! **Criticality** is `weight × size × certainty`, each from 0 to 1. The weight is that of the rule. The size is the
//! distance between the positions: for numbers (actual spread) / (2 × allowed spread), at most 1; for severities and
//! listed recommendations the number of steps between them divided by the number of possible steps, averaged with the
//! relative severity of the worst, or with 1; otherwise 1. The certainty is the highest confidence on the second most
//! confident side: it takes two to disagree. An agent that states no confidence is assigned the mean of the stated
//! ones.

mod detect;
mod position;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use detect::{detect, missing_checkers};
pub use position::{Position, PositionValue, parse_position};

/// A rule that detects one kind of conflict.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum ConflictRule {
    /// Scores that differ by more than the spread.
    Numeric(NumericRule),
    /// An item relied on that was not found.
    Presence(PresenceRule),
    /// The same issue with different severities.
    Severity(WeightedRule),
    /// Different recommendations.
    Categorical(WeightedRule),
    /// Different values of the same fact.
    Factual(WeightedRule),
}

/// Parameters of a numeric rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumericRule {
    /// Name of the score.
    pub score: String,
    /// Maximum difference that is not a conflict.
    pub spread: f64,
    /// Weight of such a conflict, from 0 to 1.
    #[serde(default = "numeric_weight")]
    pub weight: f64,
}

/// Parameters of a presence rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresenceRule {
    /// The agent whose `found` list is authoritative.
    pub by: String,
    /// Weight of such a conflict, from 0 to 1.
    #[serde(default = "presence_weight")]
    pub weight: f64,
}

/// Parameters of a rule that has only a weight.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WeightedRule {
    /// Weight of such a conflict, from 0 to 1; by default specific to the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

fn numeric_weight() -> f64 {
    0.9
}

fn presence_weight() -> f64 {
    0.6
}

impl ConflictRule {
    /// Kind of conflict that the rule detects.
    #[must_use]
    pub fn kind(&self) -> ConflictKind {
        match self {
            Self::Numeric(_) => ConflictKind::Numeric,
            Self::Presence(_) => ConflictKind::Presence,
            Self::Severity(_) => ConflictKind::Severity,
            Self::Categorical(_) => ConflictKind::Categorical,
            Self::Factual(_) => ConflictKind::Factual,
        }
    }

    /// Weight of the conflicts that the rule detects.
    #[must_use]
    pub fn weight(&self) -> f64 {
        match self {
            Self::Numeric(rule) => rule.weight,
            Self::Presence(rule) => rule.weight,
            Self::Severity(rule) => rule.weight.unwrap_or(0.8),
            Self::Categorical(rule) => rule.weight.unwrap_or(1.0),
            Self::Factual(rule) => rule.weight.unwrap_or(0.7),
        }
    }

    /// Rules that apply to any subject.
    #[must_use]
    pub fn general() -> Vec<Self> {
        let default_rule = WeightedRule::default;
        vec![Self::Severity(default_rule()), Self::Categorical(default_rule()), Self::Factual(default_rule())]
    }

    /// The five rules of a contract review.
    #[must_use]
    pub fn contract() -> Vec<Self> {
        vec![
            Self::Numeric(NumericRule {
                score: "overall_risk_score".into(),
                spread: 20.0,
                weight: numeric_weight(),
            }),
            Self::Presence(PresenceRule { by: "clause_extractor".into(), weight: presence_weight() }),
            Self::Severity(WeightedRule::default()),
            Self::Categorical(WeightedRule::default()),
            Self::Factual(WeightedRule::default()),
        ]
    }
}

/// Kind of a conflict.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConflictKind {
    /// Different scores.
    Numeric,
    /// Whether an item is present.
    Presence,
    /// Severity of an issue.
    Severity,
    /// Different recommendations.
    Categorical,
    /// Different facts.
    Factual,
}

impl ConflictKind {
    /// Name of the kind in rules and results.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Numeric => "numeric",
            Self::Presence => "presence",
            Self::Severity => "severity",
            Self::Categorical => "categorical",
            Self::Factual => "factual",
        }
    }
}

/// A contradiction between findings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Conflict {
    /// Identifies the conflict, stable between runs: kind and normalised topic.
    pub key: String,
    /// Kind of the conflict.
    pub kind: ConflictKind,
    /// Human-readable topic.
    pub topic: String,
    /// Positions, in the order of the agents.
    pub positions: Vec<Position>,
    /// Criticality, from 0 to 1.
    pub criticality: f64,
}
