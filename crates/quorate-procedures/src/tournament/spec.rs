//! Specification of a tournament. Immutable; every setting except subject, contestants and judges has a default.

use std::collections::BTreeSet;

use quorate_core::AgentId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::finding::{FieldError, check_name, parse_object};

/// Maximum number of contestants of a tournament. A round rates all of them together, which takes time with the cube of their number.
const CONTESTANTS_MAX: usize = 200;
/// Maximum number of judges, or of debaters, of a tournament.
const AGENTS_MAX: usize = 64;
/// Maximum number of criteria of a tournament.
const CRITERIA_MAX: usize = 20;
/// Maximum number of matches per contestant of a tournament.
const MATCHES_MAX: u32 = 1_000;
/// Maximum number of arguments per contestant in a debate.
const TURNS_MAX: u32 = 10;
/// Maximum number of open matches of a tournament. Their records fit into one commit.
const PARALLEL_MAX: u32 = 64;
/// Maximum timeout of an argument or ballot.
const ANSWER_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// Specification of a tournament.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TournamentSpec {
    /// What the contestants are compared for.
    pub subject: String,
    /// Contestants.
    pub contestants: Vec<Contestant>,
    /// Agents that judge. Both ballots of a match are from the same judge, unless it fails.
    pub judges: Vec<String>,
    /// Criteria of the judges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Criterion>,
    /// Debate before the ballots; by default there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debate: Option<DebateSpec>,
    /// Limits.
    #[serde(default)]
    pub limits: TournamentLimits,
    /// Seed of the first pairs.
    #[serde(default)]
    pub seed: u64,
}

/// A contestant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contestant {
    /// Id, unique in the tournament.
    pub id: String,
    /// What the judges compare, as JSON. They do not see the id.
    pub content: Value,
}

/// A criterion of the judges.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// Name.
    pub name: String,
    /// What a high score means.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A debate before the ballots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebateSpec {
    /// Agents that argue. The same agent may argue for both contestants of a match.
    pub debaters: Vec<String>,
    /// Number of arguments per contestant.
    #[serde(default = "default_turns")]
    pub turns: u32,
}

fn default_turns() -> u32 {
    2
}

/// Limits of a tournament.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TournamentLimits {
    /// Maximum number of matches per contestant.
    pub matches: u32,
    /// The rank of a contestant with fewer matches is provisional.
    pub provisional_below: u32,
    /// Number of rounds without a change of the order after which the tournament ends early, provided that no rank is
    /// provisional; 0 disables it.
    pub stable_rounds: u32,
    /// Maximum number of matches that are open at the same time.
    pub parallel: u32,
    /// Timeout of an argument or ballot.
    pub answer_ms: u64,
}

impl Default for TournamentLimits {
    fn default() -> Self {
        Self { matches: 10, provisional_below: 5, stable_rounds: 3, parallel: 16, answer_ms: 60_000 }
    }
}

impl TournamentSpec {
    /// Parses and checks a specification.
    ///
    /// # Errors
    /// If a setting is invalid; the error names its path.
    pub fn parse(body: &[u8]) -> Result<Self, FieldError> {
        let spec: Self = parse_object(body)?;
        spec.check()?;
        Ok(spec)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If a setting is invalid; the error names the path of the first one.
    pub fn check(&self) -> Result<(), FieldError> {
        if self.subject.trim().is_empty() {
            return Err(FieldError::new("subject", "must not be empty"));
        }
        check_number("contestants", self.contestants.len() as u64, 2, CONTESTANTS_MAX as u64)?;
        let mut seen = BTreeSet::new();
        for (index, contestant) in self.contestants.iter().enumerate() {
            let path = format!("contestants[{index}].id");
            check_name(&path, &contestant.id)?;
            if !seen.insert(&contestant.id) {
                return Err(FieldError::new(path, format!("{:?} occurs twice", contestant.id)));
            }
        }
        check_agents("judges", &self.judges)?;
        check_number("criteria", self.criteria.len() as u64, 0, CRITERIA_MAX as u64)?;
        for (index, criterion) in self.criteria.iter().enumerate() {
            check_name(&format!("criteria[{index}].name"), &criterion.name)?;
        }
        if let Some(debate) = &self.debate {
            check_agents("debate.debaters", &debate.debaters)?;
            check_number("debate.turns", debate.turns.into(), 1, TURNS_MAX.into())?;
        }
        let limits = &self.limits;
        check_number("limits.matches", limits.matches.into(), 1, MATCHES_MAX.into())?;
        check_number("limits.provisional_below", limits.provisional_below.into(), 0, MATCHES_MAX.into())?;
        check_number("limits.parallel", limits.parallel.into(), 1, PARALLEL_MAX.into())?;
        check_number("limits.answer_ms", limits.answer_ms, 1, ANSWER_MS_MAX)
    }

    /// Number of arguments in a debate.
    pub(super) fn arguments(&self) -> usize {
        self.debate.as_ref().map_or(0, |debate| 2 * debate.turns as usize)
    }
}

fn check_number(path: &str, value: u64, least: u64, most: u64) -> Result<(), FieldError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(FieldError::new(path, format!("expected {least} to {most}, found {value}")))
}

fn check_agents(path: &str, agents: &[String]) -> Result<(), FieldError> {
    check_number(path, agents.len() as u64, 1, AGENTS_MAX as u64)?;
    for (index, agent) in agents.iter().enumerate() {
        AgentId::new(agent).map_err(|refused| FieldError::new(format!("{path}[{index}]"), refused.detail))?;
    }
    Ok(())
}
