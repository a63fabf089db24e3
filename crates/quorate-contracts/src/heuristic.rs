//! Built-in agents: rules over the text of a contract. No model, no key, no network; deterministic.
//!
//! Five contract analysts, for the customer's side. Each parses the whole text (`document.rs`), detects what is in its
//! field (`clauses.rs`, `facts.rs`, `issues.rs`) and returns a finding (`finding.rs`). If other agents disagree, it
//! keeps or revises its position by fixed rules (`discussion.rs`). The wording of clauses is data in a small pattern
//! grammar over concepts (`grammar.rs`). The rules were written from common drafting practice and from
//! `generator/seen.yaml` and `phrases/` only; authors of rules must not open `generator/unseen.yaml`.

mod clauses;
mod concepts;
mod cues;
mod discussion;
mod document;
mod facts;
mod finding;
mod grammar;
mod issues;
mod numbers;
#[cfg(test)]
mod phrases;
mod roles;
#[cfg(test)]
mod tests;
mod tokenizer;

use serde_json::Value;

use crate::generator::{Clause, Problem};
use document::ParsedContract;

/// A rule-based contract analyst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heuristic {
    /// Extracts the types of clauses.
    Clauses,
    /// Assesses risks.
    Risk,
    /// Assesses costs.
    Financial,
    /// Assesses ownership and licences.
    Ip,
    /// Assesses compliance with data protection law.
    Compliance,
}

impl Heuristic {
    /// All analysts.
    pub const ALL: [Self; 5] = [Self::Clauses, Self::Risk, Self::Financial, Self::Ip, Self::Compliance];

    /// Name in `heuristic:NAME`.
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

    /// Returns the analyst with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|analyst| analyst.name() == name)
    }

    /// Whether the contract contains anything in the analyst's field. Other analysts need not be asked.
    #[must_use]
    pub fn is_relevant_to(self, text: &str) -> bool {
        finding::is_relevant(self, &ParsedContract::parse(text))
    }

    /// Returns the finding of this analyst on a contract, in the format of deliberations. Deterministic.
    #[must_use]
    pub fn analyse(self, text: &str) -> Value {
        finding::finding(self, text)
    }

    /// Returns the reply of this analyst when other agents hold other positions. `payload` has the `conflict`,
    /// `your_position` and `other_positions`.
    #[must_use]
    pub fn discuss(self, text: &str, payload: &Value) -> Value {
        discussion::answer(self, text, payload)
    }
}

/// Types of clauses that the extractor finds in a text.
pub(crate) fn find_clauses(text: &str) -> Vec<Clause> {
    clauses::find(&ParsedContract::parse(text)).into_iter().map(|found| found.clause).collect()
}

/// Problems that all analysts together find in a text.
pub(crate) fn find_problems(text: &str) -> Vec<Problem> {
    let contract = ParsedContract::parse(text);
    let facts = facts::Facts::extract(&contract);
    issues::find(&contract, &facts).into_iter().map(|issue| issue.problem).collect()
}
