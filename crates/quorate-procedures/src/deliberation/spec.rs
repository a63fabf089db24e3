//! What is deliberated, by whom, and within which limits. Said once, before the start; every setting has a default.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::conflict;
use crate::count;
use crate::finding::{Vocabulary, Wrong, read_object};

/// The most agents of a deliberation.
pub const AGENTS_MAX: usize = 64;
/// The most rounds, conflicts or messages that can be set.
const COUNT_MAX: u32 = 1_000;
/// The longest that can be waited for an answer.
const WAIT_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// A deliberation as it is asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The question that is put.
    pub subject: String,
    /// What to look at; handed to every agent as it is.
    #[serde(default)]
    pub input: Value,
    /// Who takes part.
    pub agents: Vec<Member>,
    /// Who could have, and does not: for the outcome, so that nobody looks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_asked: Vec<NotAsked>,
    /// What is a conflict.
    #[serde(default = "conflict::Rule::general")]
    pub conflicts: Vec<conflict::Rule>,
    /// How votes are counted.
    #[serde(default)]
    pub rule: count::Rule,
    /// How a tie is broken; without it a tie is no decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_break: Option<count::TieBreak>,
    /// The words that findings may use.
    #[serde(default)]
    pub words: Vocabulary,
    /// The score that the synthesis gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
    /// How far it may go.
    #[serde(default)]
    pub limits: Limits,
    /// What is known of the providers, by name, for the estimate.
    #[serde(default)]
    pub providers: BTreeMap<String, Provider>,
}

/// Somebody who takes part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The agent.
    pub id: String,
    /// Who does its thinking: `groq`, `gemini` …; nothing for one that runs here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// Somebody who does not take part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotAsked {
    /// The agent.
    pub agent: String,
    /// Why, in a few words.
    pub why: String,
}

/// A score with a name for its ranges.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// Its name in the findings.
    pub name: String,
    /// The ranges, the lowest first.
    #[serde(default)]
    pub levels: Vec<Level>,
}

/// A range of a score.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub from: f64,
}

/// How far it may go.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The most conflicts that are discussed; the rest are put to the vote as they are, and listed.
    pub conflicts: u32,
    /// The most rounds of discussion.
    pub rounds: u32,
    /// The most messages of a round: answers, and the questions and evidence in them.
    pub messages: u32,
    /// The most tokens of a message; what is longer is cut at a sentence and marked.
    pub message_tokens: u32,
    /// How long is waited for an answer in the discussion.
    pub message_ms: u64,
    /// How long is waited for a finding.
    pub analysis_ms: u64,
    /// How many findings there must be; nothing for more than half of the agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
}

impl Default for Limits {
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

/// What is known of a provider.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Provider {
    /// How many calls it takes in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_a_minute: Option<u32>,
    /// What a million tokens in cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_in: Option<f64>,
    /// What a million tokens out cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_out: Option<f64>,
}

impl Spec {
    /// A deliberation with every setting at its default.
    #[must_use]
    pub fn new(subject: impl Into<String>, input: Value, agents: Vec<Member>) -> Self {
        Self {
            subject: subject.into(),
            input,
            agents,
            not_asked: Vec::new(),
            conflicts: conflict::Rule::general(),
            rule: count::Rule::default(),
            tie_break: None,
            words: Vocabulary::default(),
            score: None,
            limits: Limits::default(),
            providers: BTreeMap::new(),
        }
    }

    /// The review of a contract: its five conflicts, its four recommendations, its risk score.
    #[must_use]
    pub fn contract(subject: impl Into<String>, input: Value, agents: Vec<Member>) -> Self {
        let recommendations = ["sign as is", "minor revisions", "negotiate key terms", "do not sign"]
            .map(str::to_owned)
            .to_vec();
        let level = |name: &str, from: f64| Level { name: name.to_owned(), from };
        let levels =
            vec![level("low", 0.0), level("medium", 30.0), level("high", 55.0), level("critical", 80.0)];
        Self {
            conflicts: conflict::Rule::contract(),
            words: Vocabulary { recommendations, ..Vocabulary::default() },
            score: Some(Score { name: "overall_risk_score".into(), levels }),
            ..Self::new(subject, input, agents)
        }
    }

    /// Reads a spec and checks it. `preset: "contract"` brings what [`Spec::contract`] has wherever nothing else is said.
    ///
    /// # Errors
    /// With the place of what does not fit.
    pub fn read(body: &[u8]) -> Result<Self, Wrong> {
        let mut said: Map<String, Value> = read_object(body)?;
        match said.remove("preset") {
            None => {}
            Some(Value::String(name)) if name == "contract" => {
                let preset = Self::contract("", Value::Null, Vec::new());
                let usual = [
                    ("conflicts", serde_json::to_value(preset.conflicts)),
                    ("words", serde_json::to_value(preset.words)),
                    ("score", serde_json::to_value(preset.score)),
                ];
                for (name, value) in usual {
                    let value = value.map_err(|error| Wrong::new(name, error.to_string()))?;
                    said.entry(name).or_insert(value);
                }
            }
            Some(other) => return Err(Wrong::new("preset", format!("is {other}; it may be \"contract\""))),
        }
        let spec: Self = read_object(Value::Object(said).to_string().as_bytes())?;
        spec.check()?;
        Ok(spec)
    }

    /// The rule in force, with the declared tie-break.
    #[must_use]
    pub fn counting(&self) -> count::Counting {
        count::Counting { rule: self.rule, tie_break: self.tie_break }
    }

    /// The declared choices of a conflict in their order; empty where any may be named.
    pub(crate) fn options(&self, kind: conflict::Kind) -> &[String] {
        match kind {
            conflict::Kind::Categorical => &self.words.recommendations,
            conflict::Kind::Severity => &self.words.severities,
            conflict::Kind::Numeric | conflict::Kind::Presence | conflict::Kind::Factual => &[],
        }
    }

    /// How many findings there must be.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.limits.quorum.map_or(self.agents.len() / 2 + 1, |quorum| quorum as usize)
    }

    /// The provider of an agent, and what is known of it: Groq takes 30 calls a minute and Gemini 15 unless something else is said.
    #[must_use]
    pub fn provider(&self, name: &str) -> Provider {
        let usual = match name {
            "groq" => Some(30),
            "gemini" => Some(15),
            _ => None,
        };
        let mut known = self.providers.get(name).cloned().unwrap_or_default();
        known.calls_a_minute = known.calls_a_minute.or(usual);
        known
    }

    /// The place of an agent in the list.
    pub(crate) fn place(&self, agent: &str) -> usize {
        self.agents.iter().position(|member| member.id == agent).unwrap_or(self.agents.len())
    }

    /// Whether it can be followed.
    ///
    /// # Errors
    /// With the place of the first setting that cannot.
    pub fn check(&self) -> Result<(), Wrong> {
        let wrong = |path: &str, why: String| Err(Wrong::new(path, why));
        if self.subject.trim().is_empty() {
            return wrong("subject", "is empty".into());
        }
        if self.agents.is_empty() || self.agents.len() > AGENTS_MAX {
            return wrong(
                "agents",
                format!("there are {}; 1 to {AGENTS_MAX} can take part", self.agents.len()),
            );
        }
        let mut seen = BTreeSet::new();
        for (at, member) in self.agents.iter().enumerate() {
            // The id of a question is made of names between colons.
            if member.id.is_empty() || member.id.contains(':') || !seen.insert(&member.id) {
                return wrong(&format!("agents[{at}].id"), "is empty, has a colon, or is there twice".into());
            }
        }
        if self.not_asked.len() > AGENTS_MAX {
            return wrong("not_asked", format!("there are {}, more than {AGENTS_MAX}", self.not_asked.len()));
        }
        let quorum = self.quorum();
        if quorum == 0 || quorum > self.agents.len() {
            let why = format!("is {quorum}; with {} agents it can be 1 to {0}", self.agents.len());
            return wrong("limits.quorum", why);
        }
        self.check_limits()?;
        if self.words.severities.is_empty() {
            return wrong("words.severities", "is empty".into());
        }
        for (at, rule) in self.conflicts.iter().enumerate() {
            if !(0.0..=1.0).contains(&rule.weight()) {
                return wrong(&format!("conflicts[{at}].weight"), "is not between 0 and 1".into());
            }
            if let conflict::Rule::Numeric(rule) = rule
                && !(rule.spread >= 0.0 && rule.spread.is_finite())
            {
                return wrong(&format!("conflicts[{at}].spread"), "is no distance".into());
            }
        }
        let levels = self.score.as_ref().map_or(&[][..], |score| &score.levels);
        match levels.windows(2).position(|two| two[0].from >= two[1].from) {
            Some(at) => {
                wrong(&format!("score.levels[{}].from", at + 1), "is not above the one before".into())
            }
            None => Ok(()),
        }
    }

    fn check_limits(&self) -> Result<(), Wrong> {
        let limits = &self.limits;
        for (name, value, least) in [
            ("conflicts", limits.conflicts, 0),
            ("rounds", limits.rounds, 0),
            ("messages", limits.messages, 2),
            ("message_tokens", limits.message_tokens, 50),
        ] {
            let most = if name == "message_tokens" { u32::MAX } else { COUNT_MAX };
            if !(least..=most).contains(&value) {
                return Err(Wrong::new(
                    format!("limits.{name}"),
                    format!("is {value}, not {least} to {most}"),
                ));
            }
        }
        for (name, value) in [("message_ms", limits.message_ms), ("analysis_ms", limits.analysis_ms)] {
            if !(1..=WAIT_MS_MAX).contains(&value) {
                return Err(Wrong::new(
                    format!("limits.{name}"),
                    format!("is {value}, not 1 to {WAIT_MS_MAX}"),
                ));
            }
        }
        Ok(())
    }
}
