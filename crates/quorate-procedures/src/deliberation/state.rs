//! Where a deliberation stands. It is stored after every step: whoever reads it back goes on from there.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::figures::Figures;
use super::message::Message;
use super::reply::Reply;
use crate::conflict::{Conflict, Position, PositionValue};
use crate::finding::Finding;

/// What tells one question to an agent from all others. The same in every run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AskId(pub String);

impl fmt::Display for AskId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Nobody has been asked yet.
    #[default]
    New,
    /// Each agent looks by itself.
    Analysis,
    /// Those who contradict each other talk.
    Discussion {
        /// The round under way, from 1.
        round: u32,
    },
    /// There is an outcome.
    Finished,
    /// There is none.
    Failed,
}

impl Phase {
    /// The word.
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

/// All that has been gathered so far.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    pub(crate) phase: Phase,
    /// When the phase under way began.
    pub(crate) since_ms: u64,
    /// What is waited for.
    pub(crate) asks: BTreeMap<AskId, Asked>,
    /// By agent.
    pub(crate) findings: BTreeMap<String, Finding>,
    /// The conflicts that may be discussed, the most critical first.
    pub(crate) disputes: Vec<Dispute>,
    /// Those beyond the limit.
    pub(crate) further: Vec<Conflict>,
    /// What was answered in the round under way, by the place of the conflict and the agent.
    pub(crate) replies: BTreeMap<usize, BTreeMap<String, Reply>>,
    /// What was published.
    pub(crate) messages: Vec<Message>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) notes: Vec<String>,
    pub(crate) figures: Figures,
}

/// A question that waits for its answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) agent: String,
    /// The place of the conflict; nothing for the analysis.
    pub(crate) conflict: Option<usize>,
    /// What was wrong the first time, if it is the second.
    pub(crate) again: Option<String>,
    pub(crate) due_ms: u64,
}

/// A conflict under discussion.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Dispute {
    pub(crate) conflict: Conflict,
    /// Who holds what now.
    pub(crate) positions: Vec<Position>,
    /// What each ranked, where it did.
    pub(crate) rankings: BTreeMap<String, Vec<String>>,
    /// How many rounds it was discussed in.
    pub(crate) rounds: u32,
    /// The round in which it was resolved, and what was agreed on.
    pub(crate) agreed: Option<(u32, PositionValue)>,
    pub(crate) changes: Vec<Change>,
    /// Questions that wait for their answer in the next round.
    pub(crate) questions: Vec<Question>,
}

/// A question from one agent to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) text: String,
    /// The message that holds it.
    pub(crate) message: String,
}

/// A mind that changed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// In which round.
    pub round: u32,
    /// Whose.
    pub agent: String,
    /// What it held.
    pub from: PositionValue,
    /// What it holds.
    pub to: PositionValue,
    /// How sure it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_from: Option<f64>,
    /// How sure it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_to: Option<f64>,
    /// Why: what the message says. The state does without it, the outcome has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message that says so.
    pub message: String,
}

/// Somebody who was asked and did not answer, or not sensibly.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Missing {
    /// Who.
    pub agent: String,
    /// What it was asked: the id of the question.
    pub asked: AskId,
    /// In which conflict; nothing for the analysis, where it is missing as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
    /// Why, the first time and the second.
    pub why: Vec<String>,
}

impl State {
    /// How far it has come.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether nothing more will happen.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Failed)
    }

    /// When `Event::Time` must come, if nothing else does.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<u64> {
        self.asks.values().map(|asked| asked.due_ms).min()
    }

    /// Whose findings are there.
    pub fn found(&self) -> impl Iterator<Item = &str> {
        self.findings.keys().map(String::as_str)
    }

    /// What the conflicts are about, the most critical first; those beyond the limit are among them.
    pub fn conflicts(&self) -> impl Iterator<Item = &str> {
        self.disputes.iter().map(|one| &one.conflict).chain(&self.further).map(|one| one.topic.as_str())
    }

    /// How many messages the discussion has had so far.
    #[must_use]
    pub fn contributions(&self) -> usize {
        self.messages.iter().filter(|message| message.round > 0).count()
    }

    /// What is waited for: each question and who was asked.
    pub fn waits_for(&self) -> impl Iterator<Item = (&AskId, &str)> {
        self.asks.iter().map(|(id, asked)| (id, asked.agent.as_str()))
    }

    /// Whether an agent failed in this conflict and is not asked about it any more. It stays in all other conflicts.
    pub(crate) fn is_out(&self, agent: &str, place: usize) -> bool {
        let name = name_of(place);
        let mut failed = self.missing.iter().filter(|one| one.agent == agent);
        failed.any(|one| one.conflict.as_ref().is_none_or(|conflict| *conflict == name))
    }
}

/// The name of a conflict within its deliberation.
pub(crate) fn name_of(place: usize) -> String {
    format!("C{}", place + 1)
}
