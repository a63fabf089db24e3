//! Rule-based contract analysts, and generated contracts with known problems to evaluate them. Declaring and calling
//! agents is the task of quorate-agents.
//!
//! [`generate`] creates a contract from a seed together with its labels, the [`GroundTruth`]. A [`Heuristic`] reads a
//! contract and returns a finding as JSON. [`measure`] compares the two.
//!
//! ```
//! # use quorate_contracts::{PhrasingSet, Heuristic, generate};
//! let contract = generate(1, PhrasingSet::Seen);
//! let finding = Heuristic::Clauses.analyse(&contract.text);
//! assert!(!contract.truth.clauses.is_empty() && finding["found"].is_array());
//! ```

mod generator;
mod heuristic;
pub mod measure;
mod months;

pub use generator::{
    Activation, Clause, Contract, ContractTopic, Currency, Date, Fact, GroundTruth, Label, NearMiss,
    PhrasingSet, PlantedProblem, Problem, Provision, Recommendation, Section, Severity, StatedFact, TextSpan,
    Value, generate, risk_score,
};
pub use heuristic::Heuristic;
