//! Handoffs: what an agent passes on to the next one, and the rules for it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::output::PhaseOutput;
use crate::compression;
use crate::tokens::{count_o200k, truncate};

/// Share of the budget for the next action, in percent.
const NEXT_ACTION_PERCENT: usize = 25;
/// Share of the budget for the summary, in percent.
const SUMMARY_PERCENT: usize = 50;
/// Smallest budget of a part.
const PART_TOKENS_MIN: usize = 20;

/// What an agent passes on to the next one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Handoff {
    /// Result of the phase.
    pub summary: String,
    /// Key of the memory entry with the full output.
    pub output_ref: String,
    /// Tokens of the full output.
    pub tokens_used: usize,
    /// What the next agent has to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_findings: Vec<String>,
    /// What to do next; empty after the last phase.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub next_action: String,
}

/// Rules for handoffs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandoffRule {
    /// Transfer only what the next agent needs.
    MinimalContext,
    /// Refer to large outputs instead of embedding them.
    ReferenceLargeOutputs,
    /// Name what must be done first.
    ExplicitDependencies,
    /// Say where one phase ends and what comes next.
    ClearHandoffPoint,
}

impl HandoffRule {
    /// Number of the rule, from 1.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::MinimalContext => 1,
            Self::ReferenceLargeOutputs => 2,
            Self::ExplicitDependencies => 3,
            Self::ClearHandoffPoint => 4,
        }
    }
}

impl fmt::Display for HandoffRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MinimalContext => "transfer only what the next agent needs",
            Self::ReferenceLargeOutputs => "refer to large outputs",
            Self::ExplicitDependencies => "name what must be done first",
            Self::ClearHandoffPoint => "say what comes next",
        })
    }
}

/// A handoff that violates a rule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("rule {} ({rule}): {reason}", rule.number())]
pub struct HandoffError {
    /// The rule.
    pub rule: HandoffRule,
    /// What violates it.
    pub reason: String,
}

impl HandoffError {
    pub(super) fn new(rule: HandoffRule, reason: impl Into<String>) -> Self {
        Self { rule, reason: reason.into() }
    }
}

impl Handoff {
    /// Creates the handoff of an output, which is stored under `output_ref`. What the agent itself states is used if it fits
    /// into the budget; otherwise the output is compressed.
    pub(super) fn of_output(output: &PhaseOutput, output_ref: String, budget: usize) -> Self {
        let full = serde_json::to_string(&output.fields).unwrap_or_default();
        let own = Self {
            summary: output.summary.clone(),
            tokens_used: count_o200k(&full),
            key_findings: output.key_findings.clone(),
            next_action: output.next_action.clone(),
            output_ref,
        };
        if own.tokens() <= budget {
            return own;
        }
        match compression::compress(&full, &own.output_ref, budget.max(PART_TOKENS_MIN)) {
            Ok(compressed) => {
                Self { summary: compressed.summary, key_findings: compressed.key_points, ..own }
                    .within(budget)
            }
            Err(_) => own.within(budget),
        }
    }

    /// Tokens of the handoff as JSON.
    pub(super) fn tokens(&self) -> usize {
        count_o200k(&serde_json::to_string(self).unwrap_or_default())
    }

    /// Cuts the handoff to a budget: long texts at sentences, then the last key findings.
    pub(super) fn within(mut self, budget: usize) -> Self {
        if self.tokens() <= budget {
            return self;
        }
        let share = |percent: usize| (budget * percent / 100).max(PART_TOKENS_MIN);
        let cut = |text: &mut String, limit: usize| {
            if let Some(short) = truncate(text, limit, count_o200k) {
                *text = short;
            }
        };
        cut(&mut self.next_action, share(NEXT_ACTION_PERCENT));
        cut(&mut self.summary, share(SUMMARY_PERCENT));
        while self.tokens() > budget && self.key_findings.pop().is_some() {}
        self
    }

    /// Checks the rules that a single handoff can violate. `requires` are the dependencies that it states.
    ///
    /// # Errors
    /// If a rule is violated.
    pub fn check(&self, requires: Option<&[String]>, budget: usize) -> Result<(), HandoffError> {
        if let Some(part) = { [&self.summary, &self.next_action].into_iter().chain(&self.key_findings) }
            .find(|part| count_o200k(part) > budget)
        {
            let reason = format!(
                "a part has {} tokens, at most {budget} are allowed: store it and name its key in `output_ref`",
                count_o200k(part)
            );
            return Err(HandoffError::new(HandoffRule::ReferenceLargeOutputs, reason));
        }
        if self.tokens() > budget {
            let reason = format!("it has {} tokens, at most {budget} are allowed", self.tokens());
            return Err(HandoffError::new(HandoffRule::MinimalContext, reason));
        }
        if requires.is_none() {
            return Err(HandoffError::new(HandoffRule::ExplicitDependencies, "there is no `requires`"));
        }
        if self.next_action.trim().is_empty() {
            return Err(HandoffError::new(HandoffRule::ClearHandoffPoint, "there is no `next_action`"));
        }
        Ok(())
    }
}
