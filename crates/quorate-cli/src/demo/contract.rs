//! Contracts of the demo, with their known answers.

use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

use quorate_agents::playbook::{InputSource, Playbook};
use quorate_contracts::{PhrasingSet, Recommendation, generate};
use serde::{Deserialize, Serialize};

use crate::playbook::parse_playbook;

const PLAYBOOK: &str = include_str!("../../../../playbooks/contract-review/playbook.yaml");
const AGREEMENT: &str = include_str!("../../../../playbooks/contract-review/agreement.txt");
const TRUTH: &str = include_str!("../../../../playbooks/contract-review/agreement.truth.yaml");

/// Source of the contract. Stored in the demo's directory, so that a demo can be resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ContractSource {
    /// The bundled contract.
    Bundled,
    /// A generated contract.
    Made {
        seed: u64,
        /// Seen or unseen phrasings.
        half: PhrasingSet,
    },
}

/// Known answer for a contract: the right recommendation and the risk score.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct KnownAnswer {
    pub(super) recommendation: Recommendation,
    pub(super) risk_score: u32,
}

impl ContractSource {
    /// Describes the contract in a few words.
    pub(super) fn describe(self) -> String {
        match self {
            Self::Bundled => "bundled software and services agreement".into(),
            Self::Made { seed, half: PhrasingSet::Seen } => format!("generated from seed {seed}"),
            Self::Made { seed, half: PhrasingSet::Unseen } => {
                format!("generated from seed {seed}, in unseen phrasings")
            }
        }
    }

    /// Returns the text and the known answer.
    pub(super) fn read(self) -> anyhow::Result<(String, KnownAnswer)> {
        match self {
            Self::Bundled => Ok((AGREEMENT.to_owned(), serde_saphyr::from_str(TRUTH)?)),
            Self::Made { seed, half } => {
                let contract = generate(seed, half);
                let (recommendation, risk_score) = (contract.truth.recommendation, contract.truth.risk_score);
                Ok((contract.text, KnownAnswer { recommendation, risk_score }))
            }
        }
    }
}

/// Returns the bundled review playbook for this contract.
pub(super) fn review(text: String) -> anyhow::Result<Playbook> {
    let path = Path::new("contract-review/playbook.yaml");
    parse_playbook(path, PLAYBOOK, InputSource::Text(text))
}

/// An inclusive range of seeds, written `FROM..TO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeedRange(pub(super) RangeInclusive<u64>);

/// Maximum number of seeds in one run.
const SEEDS_MAX: u64 = 10_000;

impl FromStr for SeedRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("expected FROM..TO with at most {SEEDS_MAX} seeds, such as 1..200");
        let (from, to) = text.split_once("..").ok_or_else(invalid)?;
        let (from, to): (u64, u64) =
            (from.parse().map_err(|_| invalid())?, to.parse().map_err(|_| invalid())?);
        if from > to || to - from >= SEEDS_MAX { Err(invalid()) } else { Ok(Self(from..=to)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_seeds_is_two_numbers_in_order() {
        assert_eq!("1..200".parse(), Ok(SeedRange(1..=200)));
        assert_eq!("7..7".parse(), Ok(SeedRange(7..=7)));
        for invalid in ["", "1", "2..1", "a..b", "1..=2", "-1..2", "1..10001"] {
            assert!(invalid.parse::<SeedRange>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn the_playbook_and_the_contracts_use_the_same_recommendations() {
        let playbook = review(AGREEMENT.into()).expect("the playbook is valid");
        let recommendations = Recommendation::ALL.map(Recommendation::as_str);
        assert_eq!(playbook.spec.vocabulary.recommendations, recommendations, "in the same order");
    }
}
