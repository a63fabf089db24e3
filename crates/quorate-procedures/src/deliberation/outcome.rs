//! Result of a deliberation: decisions with their full record, or the reason of the failure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::message::DeliberationMessage;
use super::spec::ExcludedAgent;
use super::state::{MissingAnswer, PositionChange};
use super::synthesis::Synthesis;
use super::usage::UsageStats;
use super::{Output, Phase, Step};
use crate::conflict::{Conflict, ConflictKind, Position, PositionValue};
use crate::finding::Finding;
use crate::tally::{Agreement, PivotalVoters, Share, TallyMethod, TieBreak, VotingRule};

/// Outcome of a finished deliberation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The question that was deliberated.
    pub subject: String,
    /// Summary with recommendation, issues and strategy.
    pub synthesis: Synthesis,
    /// Decisions on the conflicts that were eligible for discussion, most critical first.
    pub decisions: Vec<ConflictResolution>,
    /// Decisions on the conflicts beyond the limit, which were voted on without discussion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<ConflictResolution>,
    /// The voting rule.
    pub rule: VotingRule,
    /// The declared tie-break, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_break: Option<TieBreak>,
    /// Record of the deliberation.
    #[serde(flatten)]
    pub record: DeliberationRecord,
}

impl Outcome {
    /// Whether there is a recommendation. There is none after a tie, or if no finding contains one.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.synthesis.recommendation.is_some()
    }

    /// Voting rule and declared tie-break.
    #[must_use]
    pub fn tally_method(&self) -> TallyMethod {
        TallyMethod { rule: self.rule, tie_break: self.tie_break }
    }

    /// Every decision, those beyond the limit last.
    pub fn all_decisions(&self) -> impl Iterator<Item = &ConflictResolution> {
        self.decisions.iter().chain(&self.further)
    }

    /// The decision about the recommendation, if it was in conflict.
    #[must_use]
    pub fn recommendation_decision(&self) -> Option<&ConflictResolution> {
        self.all_decisions().find(|decision| decision.conflict.kind == ConflictKind::Categorical)
    }
}

/// Result of a failed deliberation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FailedDeliberation {
    /// Reason of the failure.
    pub reason: String,
    /// Record of the deliberation.
    #[serde(flatten)]
    pub record: DeliberationRecord,
}

/// Record of a deliberation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeliberationRecord {
    /// Required and actual number of answers.
    pub quorum: Quorum,
    /// Findings by agent.
    pub findings: BTreeMap<String, Finding>,
    /// Published messages, in order.
    pub messages: Vec<DeliberationMessage>,
    /// Requests that were not answered, with the reasons.
    pub missing: Vec<MissingAnswer>,
    /// Agents that were not asked, with the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_asked: Vec<ExcludedAgent>,
    /// Further remarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Actual usage.
    pub actual: UsageStats,
}

/// Required and actual number of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Quorum {
    /// Number of answers required.
    pub needed: usize,
    /// Number of answers received.
    pub present: usize,
    /// Number of agents asked.
    pub asked: usize,
}

/// Method by which a conflict was settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResolutionMethod {
    /// Agreed in the discussion.
    Agreed {
        /// Round of the agreement.
        round: u32,
    },
    /// Decided by vote.
    Voted,
    /// Not settled: the vote was a tie that no declared tie-break decided.
    Tied,
    /// Numbers were merged.
    Merged,
}

/// A conflict and its resolution.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ConflictResolution {
    /// Id of the conflict: `C1` …
    pub id: String,
    /// The conflict as detected.
    #[serde(flatten)]
    pub conflict: Conflict,
    /// Method by which the conflict was settled.
    pub how: ResolutionMethod,
    /// The decided position; `None` for a tie.
    pub position: Option<PositionValue>,
    /// Degree of agreement; `None` for numbers, which are merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
    /// The declared options in order; empty if any choice is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Resolution as a sentence.
    pub resolution: String,
    /// Number of rounds in which it was discussed.
    pub rounds: u32,
    /// Reason why it was not discussed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undiscussed: Option<String>,
    /// Ballots: the final positions.
    pub ballots: Vec<Position>,
    /// Rankings by agent, where given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rankings: BTreeMap<String, Vec<String>>,
    /// Changes of position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PositionChange>,
    /// Share of the decided position; for numbers, the part of the total confidence within the allowed spread of it.
    pub share: f64,
    /// Shares in descending order; empty for numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
    /// Result without the discussion, by the same rule and tie-break; `None` for a tie.
    pub before: Option<PositionValue>,
    /// Shares without the discussion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares_before: Vec<Share>,
    /// Positions that differ from the decided one, with reasons; for numbers, those outside the allowed spread.
    pub minority: Vec<Position>,
    /// The smallest set of voters who could have changed the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_change: Option<PivotalVoters>,
}

impl Step<'_> {
    pub(super) fn finish(&mut self) {
        self.enter_phase(Phase::Finished);
        for dispute in &self.state.disputes {
            for question in &dispute.questions {
                let (from, to, text) = (&question.from, &question.to, &question.text);
                self.state
                    .notes
                    .push(format!("{from}'s question to {to} came too late to be answered: {text}"));
            }
        }
        self.outputs.extend(self.final_output());
    }

    /// Returns the final result, if the deliberation is over. Deterministic: depends only on the state.
    pub(super) fn final_output(&self) -> Option<Output> {
        match self.state.phase {
            Phase::New | Phase::Analysis | Phase::Discussion { .. } => None,
            Phase::Finished => Some(Output::Finished(Box::new(self.outcome()))),
            Phase::Failed => {
                let (needed, present) = (self.spec.quorum(), self.state.findings.len());
                let reason = format!(
                    "the quorum is not met: {needed} of {} agents must answer, and {present} did",
                    self.spec.agents.len()
                );
                Some(Output::Failed(Box::new(FailedDeliberation { reason, record: self.record() })))
            }
        }
    }

    fn outcome(&self) -> Outcome {
        let (decisions, further) = self.decide();
        Outcome {
            subject: self.spec.subject.clone(),
            synthesis: self.synthesis(&decisions, &further),
            decisions,
            further,
            rule: self.spec.rule,
            tie_break: self.spec.tie_break,
            record: self.record(),
        }
    }

    pub(super) fn record(&self) -> DeliberationRecord {
        let quorum = Quorum {
            needed: self.spec.quorum(),
            present: self.state.findings.len(),
            asked: self.spec.agents.len(),
        };
        let mut missing = self.state.missing.clone();
        // The order of the failures depends on timing; the order of the list must not.
        missing.sort_by(|a, b| a.asked.cmp(&b.asked));
        DeliberationRecord {
            quorum,
            findings: self.state.findings.clone(),
            messages: self.state.messages.clone(),
            missing,
            notes: self.state.notes.clone(),
            not_asked: self.spec.not_asked.clone(),
            actual: self.state.figures.clone(),
        }
    }
}
