//! Ground truth of a generated contract, and the rule that derives a score and a recommendation from its problems.
//!
//! # The rule
//!
//! A contract without problems has the score 5. Each problem adds points by severity: low 3, medium 7, high 15,
//! critical 35; the score is capped at 100. Below 15 the customer can sign as is, below 35 after minor revisions, below
//! 70 it should negotiate key terms, and from 70 on it should not sign. So one high problem calls for a revision, one
//! critical problem for a negotiation, and two critical problems are a reason not to sign.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::clause::Clause;
use super::fact::Fact;
use super::phrasing::{ContractTopic, PhrasingSet};
use super::problem::{Problem, Severity};
use super::provision::Provision;
use super::value::Value;

/// Labels of a contract, from the customer's perspective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroundTruth {
    /// Seed of the contract.
    pub seed: u64,
    /// Set of phrasings that it is made of.
    #[serde(rename = "half")]
    pub set: PhrasingSet,
    /// Clauses that are present, in the order of the text. A type can occur several times.
    pub clauses: Vec<Label<Clause>>,
    /// Provisions that are present.
    pub provisions: Vec<Label<Provision>>,
    /// Planted problems, worst first.
    pub problems: Vec<PlantedProblem>,
    /// Near-misses: wording that resembles a topic without being it.
    pub near_misses: Vec<NearMiss>,
    /// Facts that the text states.
    pub facts: Vec<StatedFact>,
    /// Subjects of the contract, which determine the analysts that are relevant.
    pub activation: Activation,
    /// 0 to 100, by the rule of this module.
    pub risk_score: u32,
    /// Recommendation for the customer, by the rule of this module.
    pub recommendation: Recommendation,
}

/// A span of the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TextSpan {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
    /// Id of the phrasing: `clauses.governing_law[1]`.
    pub phrasing: String,
}

/// A labelled span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Label<T> {
    /// The label.
    #[serde(rename = "what")]
    pub topic: T,
    /// The span.
    #[serde(rename = "place")]
    pub span: TextSpan,
}

/// A planted problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlantedProblem {
    /// The problem.
    pub problem: Problem,
    /// Severity of the problem.
    pub severity: Severity,
    /// Spans: two for a contradiction, none for something that is missing.
    #[serde(rename = "places")]
    pub spans: Vec<TextSpan>,
}

/// Wording that resembles topics that are not in the contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NearMiss {
    /// The topics that it resembles.
    pub about: Vec<ContractTopic>,
    /// The span.
    #[serde(rename = "place")]
    pub span: TextSpan,
}

/// A fact that the text states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatedFact {
    /// The fact.
    pub fact: Fact,
    /// Its value, independent of the format.
    pub value: Value,
    /// Spans of the value; for a party's role, where it is introduced.
    #[serde(rename = "places")]
    pub spans: Vec<Range<usize>>,
}

/// Subjects of a contract, which determine the analysts that are relevant: a specialist, such as for personal data, is
/// activated only by a contract that has its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Activation {
    /// Personal data beyond the business contacts of the parties.
    pub personal_data: bool,
    /// Personal data of people in the European Union.
    pub eu: bool,
    /// Personal data of Californians.
    pub california: bool,
    /// Health data.
    pub health: bool,
    /// Intellectual property rights.
    pub ip: bool,
    /// A payment obligation.
    pub money: bool,
}

/// Recommendation for the customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Recommendation {
    /// Sign without changes.
    SignAsIs,
    /// Sign after minor changes.
    MinorRevisions,
    /// Negotiate the key terms first.
    NegotiateKeyTerms,
    /// Do not sign.
    DoNotSign,
}

/// Score of a contract without problems.
const BASE: u32 = 5;
const SCORE_MAX: u32 = 100;

impl Severity {
    /// Points that a problem of this severity adds to the score.
    pub fn weight(self) -> u32 {
        match self {
            Self::Low => 3,
            Self::Medium => 7,
            Self::High => 15,
            Self::Critical => 35,
        }
    }
}

/// Risk score of a contract with these problems.
pub fn risk_score(problems: impl IntoIterator<Item = Problem>) -> u32 {
    let weights = problems.into_iter().map(|problem| problem.severity().weight());
    (BASE + weights.sum::<u32>()).min(SCORE_MAX)
}

impl Recommendation {
    /// All recommendations, mildest first.
    pub const ALL: [Self; 4] =
        [Self::SignAsIs, Self::MinorRevisions, Self::NegotiateKeyTerms, Self::DoNotSign];

    /// Name in findings and in the preset for contracts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SignAsIs => "sign as is",
            Self::MinorRevisions => "minor revisions",
            Self::NegotiateKeyTerms => "negotiate key terms",
            Self::DoNotSign => "do not sign",
        }
    }

    /// Returns the recommendation for a score.
    pub fn for_score(score: u32) -> Self {
        Self::ALL
            .into_iter()
            .find(|recommendation| recommendation.scores().contains(&score))
            .unwrap_or(Self::DoNotSign)
    }

    /// Range of scores that lead to it.
    pub(super) fn scores(self) -> Range<u32> {
        match self {
            Self::SignAsIs => 0..15,
            Self::MinorRevisions => 15..35,
            Self::NegotiateKeyTerms => 35..70,
            Self::DoNotSign => 70..SCORE_MAX + 1,
        }
    }
}

impl GroundTruth {
    /// Whether a type of clause is present.
    pub fn has_clause(&self, clause: Clause) -> bool {
        self.clauses.iter().any(|label| label.topic == clause)
    }

    /// Whether a problem was planted.
    pub fn has_problem(&self, problem: Problem) -> bool {
        self.problems.iter().any(|planted| planted.problem == problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_matches_its_description() {
        use Problem::{FreeAssignment, IpToVendor, OneSidedIndemnity, PhiWithoutBaa, ShortClaimPeriod};
        let assess = |problems: &[Problem]| {
            let score = risk_score(problems.iter().copied());
            (score, Recommendation::for_score(score))
        };
        assert_eq!(assess(&[]), (5, Recommendation::SignAsIs));
        assert_eq!(assess(&[FreeAssignment]), (12, Recommendation::SignAsIs));
        assert_eq!(assess(&[FreeAssignment, ShortClaimPeriod]), (15, Recommendation::MinorRevisions));
        assert_eq!(assess(&[OneSidedIndemnity]), (20, Recommendation::MinorRevisions));
        assert_eq!(assess(&[IpToVendor]), (40, Recommendation::NegotiateKeyTerms));
        assert_eq!(assess(&[IpToVendor, PhiWithoutBaa]), (75, Recommendation::DoNotSign));
        let all: Vec<Problem> = Problem::all().collect();
        assert_eq!(assess(&all), (100, Recommendation::DoNotSign));
    }
}
