//! Specification of a pipeline. Immutable.

use std::collections::BTreeSet;

use quorate_core::AgentId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::finding::{FieldError, check_name, parse_object};

/// Maximum number of phases of a pipeline.
const PHASES_MAX: usize = 64;
/// Maximum number of agents of a phase of a pipeline.
const AGENTS_MAX: usize = 64;
/// Smallest budget of a handoff.
const HANDOFF_TOKENS_MIN: u32 = 100;
/// Maximum budget of a handoff.
const HANDOFF_TOKENS_MAX: u32 = 32_000;
/// Maximum number of open requests of a pipeline.
const PARALLEL_MAX: u32 = 64;
/// Maximum timeout of an answer in a pipeline.
const ANSWER_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// Specification of a pipeline.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineSpec {
    /// What the pipeline is to achieve; part of every request.
    pub objective: String,
    /// Input of the phases that require no other phase.
    #[serde(default)]
    pub input: Value,
    /// Phases.
    pub phases: Vec<PhaseSpec>,
    /// Agent that decides what happens when a phase has failed; without one the pipeline fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_handler: Option<String>,
    /// Limits.
    #[serde(default)]
    pub limits: PipelineLimits,
}

/// A phase.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseSpec {
    /// Name, unique in the pipeline; the action of its requests.
    pub name: String,
    /// Agents that do the work; items are distributed among them, other phases use the first one.
    pub agents: Vec<String>,
    /// Agent that is asked when the others fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Names of the phases that must be done first. Only the first phase may omit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires: Option<Vec<String>>,
    /// Fields of the output that the next phases receive unchanged, as far as the budget allows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hands_over: Vec<String>,
    /// The list that the phase works on item by item, in parallel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<ItemSource>,
    /// Instructions for the agents.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    /// JSON Schema of the output, for the agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Timeout of an answer, instead of that of the pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_ms: Option<u64>,
}

/// A list in the output of another phase. An item that is an object may have an `id`, and `requires`: a list of the ids of
/// the items that must be done first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemSource {
    /// The phase.
    pub phase: String,
    /// The field of its output.
    pub field: String,
}

/// Limits of a pipeline.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PipelineLimits {
    /// Maximum number of tokens of the context of a handoff.
    pub handoff_tokens: u32,
    /// Timeout of an answer.
    pub answer_ms: u64,
    /// Maximum number of requests that are open at the same time.
    pub parallel: u32,
}

impl Default for PipelineLimits {
    fn default() -> Self {
        Self { handoff_tokens: 500, answer_ms: 30_000, parallel: 16 }
    }
}

impl PipelineSpec {
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
        if self.objective.trim().is_empty() {
            return Err(FieldError::new("objective", "must not be empty"));
        }
        check_number("phases", self.phases.len() as u64, 1, PHASES_MAX as u64)?;
        let mut seen = BTreeSet::new();
        for (index, phase) in self.phases.iter().enumerate() {
            self.check_phase(index, phase)?;
            if !seen.insert(&phase.name) {
                let reason = format!("{:?} occurs twice", phase.name);
                return Err(FieldError::new(format!("phases[{index}].name"), reason));
            }
        }
        self.check_acyclic()?;
        if let Some(handler) = &self.error_handler {
            check_agent("error_handler", handler)?;
        }
        let limits = &self.limits;
        let (least, most) = (HANDOFF_TOKENS_MIN.into(), HANDOFF_TOKENS_MAX.into());
        check_number("limits.handoff_tokens", limits.handoff_tokens.into(), least, most)?;
        check_number("limits.answer_ms", limits.answer_ms, 1, ANSWER_MS_MAX)?;
        check_number("limits.parallel", limits.parallel.into(), 1, PARALLEL_MAX.into())
    }

    fn check_phase(&self, index: usize, phase: &PhaseSpec) -> Result<(), FieldError> {
        let path = |field: &str| format!("phases[{index}].{field}");
        check_name(&path("name"), &phase.name)?;
        // Ids of requests consist of names separated by colons, keys of memory entries by slashes.
        if phase.name.contains([':', '/']) {
            return Err(FieldError::new(path("name"), "must not contain a colon or slash"));
        }
        check_number(&path("agents"), phase.agents.len() as u64, 1, AGENTS_MAX as u64)?;
        for (at, agent) in phase.agents.iter().chain(&phase.fallback).enumerate() {
            let is_fallback = at == phase.agents.len();
            check_agent(&if is_fallback { path("fallback") } else { path(&format!("agents[{at}]")) }, agent)?;
        }
        if let Some(answer_ms) = phase.answer_ms {
            check_number(&path("answer_ms"), answer_ms, 1, ANSWER_MS_MAX)?;
        }
        if phase.requires.is_none() && index > 0 {
            let reason =
                "missing (explicit dependencies): name the phases that must be done first, or [] for none";
            return Err(FieldError::new(path("requires"), reason));
        }
        for (at, required) in phase.requires.iter().flatten().enumerate() {
            if self.index_of(required).is_none() {
                let reason = format!("there is no phase {required:?}");
                return Err(FieldError::new(path(&format!("requires[{at}]")), reason));
            }
        }
        match &phase.each {
            Some(each) if !phase.requires.iter().flatten().any(|required| *required == each.phase) => {
                let reason = format!("{:?} must be one of the required phases", each.phase);
                Err(FieldError::new(path("each.phase"), reason))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that no phase requires itself, directly or by others.
    fn check_acyclic(&self) -> Result<(), FieldError> {
        let mut done = BTreeSet::new();
        loop {
            let is_ready = |index: &usize| {
                !done.contains(index) && self.required(*index).all(|required| done.contains(&required))
            };
            let ready: Vec<usize> = (0..self.phases.len()).filter(is_ready).collect();
            if ready.is_empty() {
                break;
            }
            done.extend(ready);
        }
        match (0..self.phases.len()).find(|index| !done.contains(index)) {
            None => Ok(()),
            Some(index) => {
                let in_cycle: Vec<&str> = (0..self.phases.len())
                    .filter(|index| !done.contains(index))
                    .map(|index| self.phases[index].name.as_str())
                    .collect();
                let reason = format!("circular: {}", in_cycle.join(", "));
                Err(FieldError::new(format!("phases[{index}].requires"), reason))
            }
        }
    }

    /// Indices of the phases that a phase requires.
    pub(super) fn required(&self, index: usize) -> impl Iterator<Item = usize> {
        self.phases[index].requires.iter().flatten().filter_map(|name| self.index_of(name))
    }

    /// Whether a later phase receives the output of this one.
    pub(super) fn is_handed_over(&self, index: usize) -> bool {
        (0..self.phases.len()).any(|other| self.required(other).any(|required| required == index))
    }

    /// Returns the index of a phase.
    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        self.phases.iter().position(|phase| phase.name == name)
    }

    /// Fields of the output of a phase that are kept in the state: those that it hands over, and the lists of items.
    pub(super) fn kept_fields(&self, index: usize) -> BTreeSet<&str> {
        let phase = &self.phases[index];
        let sources = self.phases.iter().filter_map(|other| other.each.as_ref());
        let items = sources.filter(|each| each.phase == phase.name).map(|each| each.field.as_str());
        phase.hands_over.iter().map(String::as_str).chain(items).collect()
    }
}

fn check_number(path: &str, value: u64, least: u64, most: u64) -> Result<(), FieldError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(FieldError::new(path, format!("expected {least} to {most}, found {value}")))
}

fn check_agent(path: &str, agent: &str) -> Result<(), FieldError> {
    AgentId::new(agent).map(drop).map_err(|refused| FieldError::new(path, refused.detail))
}
