//! State of a deliberation. Stored after every step; a resumed run continues from it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::message::DeliberationMessage;
use super::reply::Reply;
use super::usage::UsageStats;
use crate::conflict::{Conflict, Position, PositionValue};
use crate::finding::Finding;

/// Id of a request to an agent, unique within the deliberation and the same in every run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AskId(pub String);

impl fmt::Display for AskId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Phase of a deliberation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Not started.
    #[default]
    New,
    /// The agents work independently.
    Analysis,
    /// The agents that contradict each other discuss.
    Discussion {
        /// Current round, starting at 1.
        round: u32,
    },
    /// Finished with an outcome.
    Finished,
    /// Failed without an outcome.
    Failed,
}

impl Phase {
    /// Name of the phase.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Analysis => "analysis",
            Self::Discussion { .. } => "discussion",
            Self::Finished => "finished",
            Self::Failed => "failed",
        }
    }
}

/// Complete state of a deliberation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DeliberationState {
    pub(crate) phase: Phase,
    /// Start time of the current phase.
    #[serde(rename = "since_ms")]
    pub(crate) phase_started_at_ms: u64,
    /// Pending requests.
    pub(crate) asks: BTreeMap<AskId, PendingAsk>,
    /// Findings by agent.
    pub(crate) findings: BTreeMap<String, Finding>,
    /// Conflicts that are eligible for discussion, most critical first.
    pub(crate) disputes: Vec<Dispute>,
    /// Conflicts beyond the limit.
    pub(crate) further: Vec<Conflict>,
    /// Replies of the current round, by conflict index and agent.
    pub(crate) replies: BTreeMap<usize, BTreeMap<String, Reply>>,
    /// Published messages.
    pub(crate) messages: Vec<DeliberationMessage>,
    pub(crate) missing: Vec<MissingAnswer>,
    pub(crate) notes: Vec<String>,
    pub(crate) figures: UsageStats,
}

/// A pending request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PendingAsk {
    pub(crate) agent: String,
    /// Index of the conflict; `None` in the analysis.
    pub(crate) conflict: Option<usize>,
    /// Error of the first attempt, if this is the second.
    #[serde(rename = "again")]
    pub(crate) first_error: Option<String>,
    /// Time at which the request times out.
    #[serde(rename = "due_ms")]
    pub(crate) due_at_ms: u64,
}

/// A conflict under discussion.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Dispute {
    pub(crate) conflict: Conflict,
    /// Current positions.
    pub(crate) positions: Vec<Position>,
    /// Rankings by agent, where given.
    pub(crate) rankings: BTreeMap<String, Vec<String>>,
    /// Number of rounds in which it was discussed.
    pub(crate) rounds: u32,
    /// Round of the agreement and the agreed position.
    pub(crate) agreed: Option<(u32, PositionValue)>,
    pub(crate) changes: Vec<PositionChange>,
    /// Questions of other agents, to be answered in the next round.
    pub(crate) questions: Vec<PendingQuestion>,
}

/// A question from one agent to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PendingQuestion {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) text: String,
    /// Id of the message that contains the question.
    pub(crate) message: String,
}

/// A change of position.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PositionChange {
    /// Round of the change.
    pub round: u32,
    /// The agent that changed its position.
    pub agent: String,
    /// Previous position.
    pub from: PositionValue,
    /// New position.
    pub to: PositionValue,
    /// Previous confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_from: Option<f64>,
    /// New confidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_to: Option<f64>,
    /// Reason, from the message. Empty in the state, filled in the outcome.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Id of the message that states the change.
    pub message: String,
}

/// A request that was not answered, or not with a valid answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MissingAnswer {
    /// The agent that was asked.
    pub agent: String,
    /// Id of the request.
    pub asked: AskId,
    /// Id of the conflict; `None` in the analysis, where the agent is missing altogether.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
    /// Errors of the first and the second attempt.
    pub why: Vec<String>,
}

impl MissingAnswer {
    /// Describes the errors as one text. The same error of both attempts is stated once.
    #[must_use]
    pub fn reason(&self) -> String {
        match self.why.as_slice() {
            [first, second] if first == second => format!("{first} (twice)"),
            reasons => reasons.join("; then: "),
        }
    }
}

impl DeliberationState {
    /// Current phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the deliberation is finished or failed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Failed)
    }

    /// Time at which `Input::DeadlineReached` is due, unless an answer arrives earlier.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<u64> {
        self.asks.values().map(|ask| ask.due_at_ms).min()
    }

    /// Agents whose findings are present.
    pub fn agents_with_findings(&self) -> impl Iterator<Item = &str> {
        self.findings.keys().map(String::as_str)
    }

    /// Topics of the conflicts, most critical first, including those beyond the limit.
    pub fn conflict_topics(&self) -> impl Iterator<Item = &str> {
        self.disputes
            .iter()
            .map(|dispute| &dispute.conflict)
            .chain(&self.further)
            .map(|conflict| conflict.topic.as_str())
    }

    /// Number of messages in the discussion so far.
    #[must_use]
    pub fn discussion_message_count(&self) -> usize {
        self.messages.iter().filter(|message| message.round > 0).count()
    }

    /// Pending requests and the agents that were asked.
    pub fn pending_asks(&self) -> impl Iterator<Item = (&AskId, &str)> {
        self.asks.iter().map(|(id, ask)| (id, ask.agent.as_str()))
    }

    /// Whether an agent is not asked about this conflict: it failed in it, or in the analysis.
    pub(crate) fn is_excluded(&self, agent: &str, index: usize) -> bool {
        let id = conflict_id(index);
        let mut failures = self.missing.iter().filter(|missing| missing.agent == agent);
        failures.any(|missing| missing.conflict.as_ref().is_none_or(|conflict| *conflict == id))
    }
}

/// Id of a conflict within its deliberation.
pub(crate) fn conflict_id(index: usize) -> String {
    format!("C{}", index + 1)
}
