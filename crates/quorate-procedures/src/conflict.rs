//! Where findings contradict each other: rules that are declared, and the conflicts that they find.
//!
//! | rule | is a conflict | seed's name |
//! |---|---|---|
//! | `numeric` | a score of which greatest and least are further apart than `spread` | `risk_score_disagreement` |
//! | `presence` | what somebody relies on and the one who looks for such things (`by`) did not find | `clause_presence_disagreement` |
//! | `severity` | the same issue, more and less severe | `severity_disagreement` |
//! | `categorical` | different recommendations | `recommendation_conflict` |
//! | `factual` | different values of the same fact, see [`crate::plain`] | `factual_disagreement` |
//!
//! What an agent said later takes the place of what it said before: nobody contradicts itself.
//!
//! **Criticality** is `weight × size × certainty`, each from 0 to 1. The weight is the rule's. The size is how far apart the positions are:
//! for numbers (spread found) / (2 × spread allowed), at most 1; for severities and for recommendations of a list the steps
//! between them over the steps there are, averaged with how severe the worst is, or with 1; else 1. The certainty is that of the
//! surest agent of the second surest side: it takes two to disagree. Who states no confidence is taken for the mean of those who do.

mod detect;
mod position;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use detect::{detect, unchecked};
pub use position::{Position, PositionValue, read as read_position};

/// What is a conflict.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Rule {
    /// A score that differs by more than a spread.
    Numeric(Numeric),
    /// Something relied on that was not found.
    Presence(Presence),
    /// The same issue, differently severe.
    Severity(Weighed),
    /// Different recommendations.
    Categorical(Weighed),
    /// Different facts.
    Factual(Weighed),
}

/// A score and how far apart it may be.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numeric {
    /// The name of the score.
    pub score: String,
    /// Up to this far apart is no conflict.
    pub spread: f64,
    /// How much such a conflict matters, from 0 to 1.
    #[serde(default = "numeric_weight")]
    pub weight: f64,
}

/// Who looks for what others rely on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presence {
    /// The agent whose `found` counts.
    pub by: String,
    /// How much such a conflict matters, from 0 to 1.
    #[serde(default = "presence_weight")]
    pub weight: f64,
}

/// A rule that needs no more.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Weighed {
    /// How much such a conflict matters, from 0 to 1; each rule has its own if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

fn numeric_weight() -> f64 {
    0.9
}

fn presence_weight() -> f64 {
    0.6
}

impl Rule {
    /// The kind of conflict that it finds.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Numeric(_) => Kind::Numeric,
            Self::Presence(_) => Kind::Presence,
            Self::Severity(_) => Kind::Severity,
            Self::Categorical(_) => Kind::Categorical,
            Self::Factual(_) => Kind::Factual,
        }
    }

    /// How much its conflicts matter.
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

    /// The rules that need to know nothing of the subject.
    #[must_use]
    pub fn general() -> Vec<Self> {
        let weighed = Weighed::default;
        vec![Self::Severity(weighed()), Self::Categorical(weighed()), Self::Factual(weighed())]
    }

    /// The five rules of a contract review.
    #[must_use]
    pub fn contract() -> Vec<Self> {
        vec![
            Self::Numeric(Numeric {
                score: "overall_risk_score".into(),
                spread: 20.0,
                weight: numeric_weight(),
            }),
            Self::Presence(Presence { by: "clause_extractor".into(), weight: presence_weight() }),
            Self::Severity(Weighed::default()),
            Self::Categorical(Weighed::default()),
            Self::Factual(Weighed::default()),
        ]
    }
}

/// What a conflict is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A number.
    Numeric,
    /// Whether something is there.
    Presence,
    /// How severe an issue is.
    Severity,
    /// What to do.
    Categorical,
    /// A fact.
    Factual,
}

impl Kind {
    /// Its name.
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
    /// What it is about, the same in every run: its kind and its topic in plain words.
    pub key: String,
    /// Its kind.
    pub kind: Kind,
    /// What it is about, for people.
    pub topic: String,
    /// Who holds what, in the order of the agents.
    pub positions: Vec<Position>,
    /// How much it matters, from 0 to 1.
    pub criticality: f64,
}
