//! Agents that come with Quorate: rules over the given text. No model, no key, no network; the same answer every time.
//!
//! Five readers of contracts, for the customer's side. Each reads the whole text (`reading.rs`), finds what is in its field
//! (`clauses.rs`, `facts.rs`, `issues.rs`) and hands in a finding (`finding.rs`); when others see it differently, it keeps or
//! revises its position by stated rules (`discuss.rs`). What a clause sounds like is data in a small grammar of concepts
//! (`grammar.rs`). The rules were written from how contracts are drafted and with sight of `contracts/seen.yaml` and
//! `phrases/` alone; nobody who writes them looks at `contracts/unseen.yaml`.

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

use crate::contracts::{Clause, Problem};
use crate::question::{Failure, Kind, Question, Reply, Usage};
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

    /// Answers `analyse` and `discuss`.
    pub(crate) fn answer(self, question: &Question) -> Result<Reply, Failure> {
        let fail = |what: String, hint: &str| {
            Failure::new(Kind::Misdeclared, format!("heuristic:{}", self.name()), what).hint(hint)
        };
        let text = text(&question.payload).unwrap_or_default();
        if text.trim().is_empty() {
            let hint = "give the contract as `input`: a text, or an object with `text`";
            return Err(fail("there is no text to read".into(), hint));
        }
        let body = match question.action.as_str() {
            "analyse" => finding::finding(self, text),
            "discuss" => discuss::answer(self, text, &question.payload),
            other => {
                return Err(fail(
                    format!("does not know how to `{other}`"),
                    "ask it to `analyse` or to `discuss`",
                ));
            }
        };
        Ok(Reply { body, usage: Usage::calls(1), notes: Vec::new() })
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

/// The contract in a payload.
fn text(payload: &Value) -> Option<&str> {
    let input = payload.get("input").unwrap_or(payload);
    let named = ["text", "contract", "document"].iter().find_map(|name| input.get(name)?.as_str());
    input.as_str().or(named)
}
