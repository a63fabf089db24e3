//! Specification of a deliberation: question, participants and limits. Immutable; every setting except question and
//! agents has a default.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::conflict;
use crate::finding::{FieldError, Vocabulary, parse_object};
use crate::tally;

/// Maximum number of agents in a deliberation.
pub const AGENTS_MAX: usize = 64;
/// Maximum value of a deliberation's limits on rounds, conflicts and messages.
const COUNT_MAX: u32 = 1_000;
/// Maximum timeout for an answer in a deliberation.
const TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// Specification of a deliberation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The question to deliberate.
    pub subject: String,
    /// Input of the analysis; sent to every agent unchanged.
    #[serde(default)]
    pub input: Value,
    /// Participants.
    pub agents: Vec<Member>,
    /// Agents that were deliberately left out; reported in the outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_asked: Vec<ExcludedAgent>,
    /// Rules that detect conflicts.
    #[serde(default = "conflict::ConflictRule::general")]
    pub conflicts: Vec<conflict::ConflictRule>,
    /// Voting rule.
    #[serde(default)]
    pub rule: tally::VotingRule,
    /// Tie-break; without one a tie is not a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_break: Option<tally::TieBreak>,
    /// Vocabulary of the findings. Stored specifications of earlier builds call it `words`.
    #[serde(default, alias = "words")]
    pub vocabulary: Vocabulary,
    /// The score that the synthesis reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<ScoreSpec>,
    /// Limits of the deliberation.
    #[serde(default)]
    pub limits: DeliberationLimits,
    /// Rate limits and prices of providers, by name, for the estimate.
    #[serde(default)]
    pub providers: BTreeMap<String, ProviderSpec>,
}

/// A participant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Id of the agent.
    pub id: String,
    /// Provider of the agent's model: `groq`, `gemini` …; `None` for an agent that runs locally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// An agent that was left out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExcludedAgent {
    /// Id of the agent.
    pub agent: String,
    /// Short reason.
    pub why: String,
}

/// A score with named ranges.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreSpec {
    /// Name of the score in the findings.
    pub name: String,
    /// The ranges in ascending order.
    #[serde(default)]
    pub levels: Vec<ScoreLevel>,
}

/// A range of a score.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreLevel {
    /// Name of the range.
    pub name: String,
    /// Lower bound, inclusive.
    pub from: f64,
}

/// Limits of a deliberation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeliberationLimits {
    /// Maximum number of conflicts to discuss; the others are voted on without discussion, and listed.
    pub conflicts: u32,
    /// Maximum number of discussion rounds.
    pub rounds: u32,
    /// Maximum number of messages per round: answers, and the questions and evidence in them.
    pub messages: u32,
    /// Maximum number of tokens per message; longer messages are truncated at a sentence and marked.
    pub message_tokens: u32,
    /// Timeout for an answer in the discussion.
    pub message_ms: u64,
    /// Timeout for a finding.
    pub analysis_ms: u64,
    /// Required number of findings; by default more than half of the agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
}

impl Default for DeliberationLimits {
    fn default() -> Self {
        Self {
            conflicts: 5,
            rounds: 2,
            messages: 10,
            message_tokens: 500,
            message_ms: 10_000,
            analysis_ms: 60_000,
            quorum: None,
        }
    }
}

/// Rate limit and prices of a provider.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderSpec {
    /// Maximum number of calls per minute. Stored specifications of earlier builds call it `calls_a_minute`.
    #[serde(alias = "calls_a_minute", skip_serializing_if = "Option::is_none")]
    pub calls_per_minute: Option<u32>,
    /// Price of a million input tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_in: Option<f64>,
    /// Price of a million output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_out: Option<f64>,
}

impl Spec {
    /// Creates a spec with default settings.
    #[must_use]
    pub fn new(subject: impl Into<String>, input: Value, agents: Vec<Member>) -> Self {
        Self {
            subject: subject.into(),
            input,
            agents,
            not_asked: Vec::new(),
            conflicts: conflict::ConflictRule::general(),
            rule: tally::VotingRule::default(),
            tie_break: None,
            vocabulary: Vocabulary::default(),
            score: None,
            limits: DeliberationLimits::default(),
            providers: BTreeMap::new(),
        }
    }

    /// Creates a spec for a contract review: five conflict rules, four recommendations, a risk score.
    #[must_use]
    pub fn contract(subject: impl Into<String>, input: Value, agents: Vec<Member>) -> Self {
        let recommendations = ["sign as is", "minor revisions", "negotiate key terms", "do not sign"]
            .map(str::to_owned)
            .to_vec();
        let level = |name: &str, from: f64| ScoreLevel { name: name.to_owned(), from };
        let levels =
            vec![level("low", 0.0), level("medium", 30.0), level("high", 55.0), level("critical", 80.0)];
        Self {
            conflicts: conflict::ConflictRule::contract(),
            vocabulary: Vocabulary { recommendations, ..Vocabulary::default() },
            score: Some(ScoreSpec { name: "overall_risk_score".into(), levels }),
            ..Self::new(subject, input, agents)
        }
    }

    /// Parses and checks a spec. `preset: "contract"` uses the settings of [`Spec::contract`] as defaults.
    ///
    /// # Errors
    /// If a setting is invalid; the error names its path.
    pub fn parse(body: &[u8]) -> Result<Self, FieldError> {
        let mut fields: Map<String, Value> = parse_object(body)?;
        match fields.remove("preset") {
            None => {}
            Some(Value::String(name)) if name == "contract" => {
                let preset = Self::contract("", Value::Null, Vec::new());
                let defaults = [
                    ("conflicts", serde_json::to_value(preset.conflicts)),
                    ("vocabulary", serde_json::to_value(preset.vocabulary)),
                    ("score", serde_json::to_value(preset.score)),
                ];
                for (name, value) in defaults {
                    let value = value.map_err(|error| FieldError::new(name, error.to_string()))?;
                    fields.entry(name).or_insert(value);
                }
            }
            Some(other) => {
                return Err(FieldError::new("preset", format!("expected \"contract\", found {other}")));
            }
        }
        let spec: Self = parse_object(Value::Object(fields).to_string().as_bytes())?;
        spec.check()?;
        Ok(spec)
    }

    /// Voting rule and declared tie-break.
    #[must_use]
    pub fn tally_method(&self) -> tally::TallyMethod {
        tally::TallyMethod { rule: self.rule, tie_break: self.tie_break }
    }

    /// The declared options of a kind of conflict, in order; empty if any choice is allowed.
    pub(crate) fn options(&self, kind: conflict::ConflictKind) -> &[String] {
        match kind {
            conflict::ConflictKind::Categorical => &self.vocabulary.recommendations,
            conflict::ConflictKind::Severity => &self.vocabulary.severities,
            conflict::ConflictKind::Numeric
            | conflict::ConflictKind::Presence
            | conflict::ConflictKind::Factual => &[],
        }
    }

    /// Required number of findings.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.limits.quorum.map_or(self.agents.len() / 2 + 1, |quorum| quorum as usize)
    }

    /// Returns the settings of a provider. The default rate limit is 30 calls per minute for Groq and 15 for Gemini.
    #[must_use]
    pub fn provider(&self, name: &str) -> ProviderSpec {
        let default_rate = match name {
            "groq" => Some(30),
            "gemini" => Some(15),
            _ => None,
        };
        let mut provider = self.providers.get(name).cloned().unwrap_or_default();
        provider.calls_per_minute = provider.calls_per_minute.or(default_rate);
        provider
    }

    /// Returns the index of an agent in the list of participants.
    pub(crate) fn agent_index(&self, agent: &str) -> usize {
        self.agents.iter().position(|member| member.id == agent).unwrap_or(self.agents.len())
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If a setting is invalid; the error names the path of the first one.
    pub fn check(&self) -> Result<(), FieldError> {
        let invalid = |path: &str, reason: String| Err(FieldError::new(path, reason));
        if self.subject.trim().is_empty() {
            return invalid("subject", "must not be empty".into());
        }
        if self.agents.is_empty() || self.agents.len() > AGENTS_MAX {
            return invalid(
                "agents",
                format!("expected 1 to {AGENTS_MAX} entries, found {}", self.agents.len()),
            );
        }
        let mut seen = BTreeSet::new();
        for (index, member) in self.agents.iter().enumerate() {
            // Ids of requests consist of names separated by colons.
            if member.id.is_empty() || member.id.contains(':') || !seen.insert(&member.id) {
                return invalid(
                    &format!("agents[{index}].id"),
                    "must be unique, not empty, and without a colon".into(),
                );
            }
        }
        if self.not_asked.len() > AGENTS_MAX {
            return invalid(
                "not_asked",
                format!("expected at most {AGENTS_MAX} entries, found {}", self.not_asked.len()),
            );
        }
        let quorum = self.quorum();
        if quorum == 0 || quorum > self.agents.len() {
            let reason =
                format!("expected 1 to {} (the number of agents), found {quorum}", self.agents.len());
            return invalid("limits.quorum", reason);
        }
        self.check_limits()?;
        if self.vocabulary.severities.is_empty() {
            return invalid("vocabulary.severities", "must not be empty".into());
        }
        for (index, rule) in self.conflicts.iter().enumerate() {
            if !(0.0..=1.0).contains(&rule.weight()) {
                return invalid(&format!("conflicts[{index}].weight"), "must be between 0 and 1".into());
            }
            if let conflict::ConflictRule::Numeric(rule) = rule
                && !(rule.spread >= 0.0 && rule.spread.is_finite())
            {
                return invalid(
                    &format!("conflicts[{index}].spread"),
                    "must be a finite number that is not negative".into(),
                );
            }
        }
        let levels = self.score.as_ref().map_or(&[][..], |score| &score.levels);
        match levels.windows(2).position(|pair| pair[0].from >= pair[1].from) {
            Some(index) => invalid(
                &format!("score.levels[{}].from", index + 1),
                "must be greater than the previous one".into(),
            ),
            None => Ok(()),
        }
    }

    fn check_limits(&self) -> Result<(), FieldError> {
        let limits = &self.limits;
        for (name, value, least) in [
            ("conflicts", limits.conflicts, 0),
            ("rounds", limits.rounds, 0),
            ("messages", limits.messages, 2),
            ("message_tokens", limits.message_tokens, 50),
        ] {
            let most = if name == "message_tokens" { u32::MAX } else { COUNT_MAX };
            if !(least..=most).contains(&value) {
                return Err(FieldError::new(
                    format!("limits.{name}"),
                    format!("expected {least} to {most}, found {value}"),
                ));
            }
        }
        for (name, value) in [("message_ms", limits.message_ms), ("analysis_ms", limits.analysis_ms)] {
            if !(1..=TIMEOUT_MS_MAX).contains(&value) {
                return Err(FieldError::new(
                    format!("limits.{name}"),
                    format!("expected 1 to {TIMEOUT_MS_MAX}, found {value}"),
                ));
            }
        }
        Ok(())
    }
}
