//! What is true of a generated contract, and the rule that makes a score and a recommendation of its problems.
//!
//! # The rule
//!
//! A contract without problems has the score 5. Each problem adds to it by its severity: low 3, medium 7, high 15,
//! critical 35; the score ends at 100. Below 15 the customer can sign as is, below 35 after minor revisions, below 70 it
//! should negotiate key terms, and from 70 on it should not sign. So one high problem is a revision, one critical problem
//! a negotiation, and two critical ones are a reason not to sign.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::clause::Clause;
use super::fact::Fact;
use super::phrasing::{Half, Topic};
use super::problem::{Problem, Severity};
use super::provision::Provision;
use super::value::Value;

/// All that is true of a contract. The contract is read for the customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Truth {
    /// Which contract it is.
    pub seed: u64,
    /// Of which phrasings it is made.
    pub half: Half,
    /// The clauses that are there, in the order of the text; the others are not. One type can be in several places.
    pub clauses: Vec<Present<Clause>>,
    /// The provisions that are there.
    pub provisions: Vec<Present<Provision>>,
    /// The problems that were planted, the worst first.
    pub problems: Vec<Planted>,
    /// What sounds like something and is not.
    pub near_misses: Vec<NearMiss>,
    /// The facts that the text states.
    pub facts: Vec<Stated>,
    /// What the contract is about, for who has to look at it.
    pub activation: Activation,
    /// 0 to 100, by the rule of this module.
    pub risk_score: u32,
    /// What the customer should do, by the rule of this module.
    pub recommendation: Recommendation,
}

/// A place in the text of a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
    /// The phrasing that stands there: `clauses.governing_law[1]`.
    pub phrasing: String,
}

/// Something that is in the contract, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Present<T> {
    /// What it is.
    pub what: T,
    /// Where it is.
    pub place: Place,
}

/// A planted problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planted {
    /// Which one.
    pub problem: Problem,
    /// How bad it is.
    pub severity: Severity,
    /// Where it is: two places for a contradiction, none for something that is missing.
    pub places: Vec<Place>,
}

/// What sounds like something that is not in the contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NearMiss {
    /// What it sounds like.
    pub about: Vec<Topic>,
    /// Where it is.
    pub place: Place,
}

/// A fact that the text states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stated {
    /// Which fact.
    pub fact: Fact,
    /// Its value, however it is written.
    pub value: Value,
    /// Where it is written; for a party's role, where it is introduced.
    pub places: Vec<Range<usize>>,
}

/// What a contract is about: who has to look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Activation {
    /// Personal data of anybody beyond the business contacts of the parties.
    pub personal_data: bool,
    /// Personal data of people in the European Union.
    pub eu: bool,
    /// Personal data of Californians.
    pub california: bool,
    /// Health data.
    pub health: bool,
    /// Rights in what is made or used.
    pub ip: bool,
    /// Somebody has to pay something.
    pub money: bool,
}

/// What the customer should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Recommendation {
    /// Sign it.
    SignAsIs,
    /// Have some sentences changed, then sign it.
    MinorRevisions,
    /// Talk about what matters first.
    NegotiateKeyTerms,
    /// Leave it.
    DoNotSign,
}

/// The score of a contract without problems.
const BASE: u32 = 5;
const SCORE_MAX: u32 = 100;

impl Severity {
    /// What a problem of this severity adds to the score.
    pub fn weight(self) -> u32 {
        match self {
            Self::Low => 3,
            Self::Medium => 7,
            Self::High => 15,
            Self::Critical => 35,
        }
    }
}

/// The score of a contract with these problems.
pub fn risk_score(problems: impl IntoIterator<Item = Problem>) -> u32 {
    let weights = problems.into_iter().map(|problem| problem.severity().weight());
    (BASE + weights.sum::<u32>()).min(SCORE_MAX)
}

impl Recommendation {
    /// All four, the mildest first.
    pub const ALL: [Self; 4] =
        [Self::SignAsIs, Self::MinorRevisions, Self::NegotiateKeyTerms, Self::DoNotSign];

    /// As readers say it, and as the preset for contracts knows it.
    pub fn words(self) -> &'static str {
        match self {
            Self::SignAsIs => "sign as is",
            Self::MinorRevisions => "minor revisions",
            Self::NegotiateKeyTerms => "negotiate key terms",
            Self::DoNotSign => "do not sign",
        }
    }

    /// The recommendation for a score.
    pub fn for_score(score: u32) -> Self {
        Self::ALL.into_iter().find(|one| one.scores().contains(&score)).unwrap_or(Self::DoNotSign)
    }

    /// The scores that lead to it.
    pub(super) fn scores(self) -> Range<u32> {
        match self {
            Self::SignAsIs => 0..15,
            Self::MinorRevisions => 15..35,
            Self::NegotiateKeyTerms => 35..70,
            Self::DoNotSign => 70..SCORE_MAX + 1,
        }
    }
}

impl Truth {
    /// Whether a type of clause is there.
    pub fn has(&self, clause: Clause) -> bool {
        self.clauses.iter().any(|present| present.what == clause)
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
    fn the_rule_gives_what_its_description_says() {
        use Problem::{FreeAssignment, IpToVendor, OneSidedIndemnity, PhiWithoutBaa, ShortClaimPeriod};
        let judge = |problems: &[Problem]| {
            let score = risk_score(problems.iter().copied());
            (score, Recommendation::for_score(score))
        };
        assert_eq!(judge(&[]), (5, Recommendation::SignAsIs));
        assert_eq!(judge(&[FreeAssignment]), (12, Recommendation::SignAsIs));
        assert_eq!(judge(&[FreeAssignment, ShortClaimPeriod]), (15, Recommendation::MinorRevisions));
        assert_eq!(judge(&[OneSidedIndemnity]), (20, Recommendation::MinorRevisions));
        assert_eq!(judge(&[IpToVendor]), (40, Recommendation::NegotiateKeyTerms));
        assert_eq!(judge(&[IpToVendor, PhiWithoutBaa]), (75, Recommendation::DoNotSign));
        let all: Vec<Problem> = Problem::all().collect();
        assert_eq!(judge(&all), (100, Recommendation::DoNotSign));
    }
}
