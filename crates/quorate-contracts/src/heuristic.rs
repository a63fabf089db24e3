//! Agents that come with Quorate: rules over the given text. No model, no key, no network; the same answer every time.
//!
//! Five readers of contracts, for the customer's side. Each reads the whole text (`reading.rs`), finds what is in its field
//! (`clauses.rs`, `facts.rs`, `issues.rs`) and hands in a finding (`finding.rs`); when others see it differently, it keeps or
//! revises its position by stated rules (`discuss.rs`). What a clause sounds like is data in a small grammar of concepts
//! (`grammar.rs`). The rules were written from how contracts are drafted and with sight of `generator/seen.yaml` and
//! `phrases/` alone; nobody who writes them looks at `generator/unseen.yaml`.

mod clauses;
mod concepts;
mod cues;
mod discuss;
mod facts;
mod finding;
mod grammar;
mod issues;
mod numbers;
#[cfg(test)]
mod phrases;
mod reading;
mod roles;
#[cfg(test)]
mod tests;
mod words;

use serde_json::Value;

use crate::generator::{Clause, Problem};
use reading::Contract;

/// A set of rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heuristic {
    /// Which clauses a contract has.
    Clauses,
    /// How risky a contract is.
    Risk,
    /// What a contract costs.
    Financial,
    /// Who owns what.
    Ip,
    /// Whether a contract keeps to the laws on personal data.
    Compliance,
}

impl Heuristic {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Clauses, Self::Risk, Self::Financial, Self::Ip, Self::Compliance];

    /// Its name in `heuristic:NAME`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Clauses => "clauses",
            Self::Risk => "risk",
            Self::Financial => "financial",
            Self::Ip => "ip",
            Self::Compliance => "compliance",
        }
    }

    /// The heuristic of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether a contract has anything in its field. Who is not concerned need not be asked.
    #[must_use]
    pub fn is_concerned_by(self, text: &str) -> bool {
        finding::is_concerned(self, &Contract::read(text))
    }

    /// The finding of this reader on a contract, in the shape that deliberations ask for. The same text gives the same
    /// finding.
    #[must_use]
    pub fn analyse(self, text: &str) -> Value {
        finding::finding(self, text)
    }

    /// The answer of this reader when others hold another position: `payload` has the `conflict`, `your_position` and
    /// `other_positions`.
    #[must_use]
    pub fn discuss(self, text: &str, payload: &Value) -> Value {
        discuss::answer(self, text, payload)
    }
}

/// The types of clauses that the extractor finds in a text.
pub(crate) fn clauses_of(text: &str) -> Vec<Clause> {
    clauses::find(&Contract::read(text)).into_iter().map(|found| found.clause).collect()
}

/// The problems that the readers find in a text, all together.
pub(crate) fn issues_of(text: &str) -> Vec<Problem> {
    let contract = Contract::read(text);
    let facts = facts::Facts::read(&contract);
    issues::find(&contract, &facts).into_iter().map(|issue| issue.problem).collect()
}
