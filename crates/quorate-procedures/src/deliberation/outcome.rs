//! What comes out: decisions with everything that led to them, or the reason why there are none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figures::Figures;
use super::message::Message;
use super::spec::NotAsked;
use super::state::{Change, Missing};
use super::synthesis::Synthesis;
use super::{Out, Phase, Step};
use crate::conflict::{Conflict, Kind, Position, PositionValue};
use crate::count::{Agreement, Counting, Flip, Rule, Share, TieBreak};
use crate::finding::Finding;

/// What was decided, and on what grounds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The question that was put.
    pub subject: String,
    /// The whole in a few sentences.
    pub synthesis: Synthesis,
    /// The conflicts that could be discussed, the most critical first.
    pub decisions: Vec<Decision>,
    /// Those beyond the limit: put to the vote as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<Decision>,
    /// How votes were counted.
    pub rule: Rule,
    /// The tie-break that was declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_break: Option<TieBreak>,
    /// All that was gathered.
    #[serde(flatten)]
    pub gathered: Gathered,
}

impl Outcome {
    /// Whether there is a recommendation: a tie is none, and neither are findings without one.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.synthesis.recommendation.is_some()
    }

    /// The rule in force, with the declared tie-break.
    #[must_use]
    pub fn counting(&self) -> Counting {
        Counting { rule: self.rule, tie_break: self.tie_break }
    }

    /// Every conflict and how it was settled, those beyond the limit last.
    pub fn every_decision(&self) -> impl Iterator<Item = &Decision> {
        self.decisions.iter().chain(&self.further)
    }

    /// The conflict about what to do, if there was one.
    #[must_use]
    pub fn what_to_do(&self) -> Option<&Decision> {
        self.every_decision().find(|decision| decision.conflict.kind == Kind::Categorical)
    }
}

/// Why there is no outcome.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// In a sentence.
    pub reason: String,
    /// All that was gathered.
    #[serde(flatten)]
    pub gathered: Gathered,
}

/// All that was gathered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Gathered {
    /// How many had to answer, and how many did.
    pub quorum: Quorum,
    /// What each agent found.
    pub findings: BTreeMap<String, Finding>,
    /// What was published, in order.
    pub messages: Vec<Message>,
    /// Who did not answer, and why.
    pub missing: Vec<Missing>,
    /// Who was not asked, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_asked: Vec<NotAsked>,
    /// What else is worth knowing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What it took.
    pub actual: Figures,
}

/// How many had to answer, and how many did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Quorum {
    /// Had to.
    pub needed: usize,
    /// Did.
    pub present: usize,
    /// Were asked.
    pub asked: usize,
}

/// How a conflict was settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// In the discussion.
    Agreed {
        /// In which round.
        round: u32,
    },
    /// By the vote.
    Voted,
    /// Not: the vote was a tie, and no declared tie-break decided it.
    Tied,
    /// Numbers were merged.
    Merged,
}

/// A conflict and how it was settled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// `C1` …
    pub id: String,
    /// The conflict as it was found.
    #[serde(flatten)]
    pub conflict: Conflict,
    /// How it was settled.
    pub how: How,
    /// What stands; `None` for a tie.
    pub position: Option<PositionValue>,
    /// How far the agents agree; `None` for numbers, which are merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
    /// The declared choices in their order; empty where any may be named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// How that came, in a sentence.
    pub resolution: String,
    /// In how many rounds it was discussed.
    pub rounds: u32,
    /// Why it was not discussed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undiscussed: Option<String>,
    /// Who holds what in the end: the ballots.
    #[serde(rename = "ballots")]
    pub positions: Vec<Position>,
    /// How those ranked the choices who did.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rankings: BTreeMap<String, Vec<String>>,
    /// Minds that changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// The share of what stands; of numbers, the part of the confidence that is no further from it than the allowed spread.
    pub share: f64,
    /// The shares, the greatest first; none for numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
    /// What would have stood without discussion, by the same rule and tie-break; `None` for a tie.
    pub before: Option<PositionValue>,
    /// The shares without discussion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares_before: Vec<Share>,
    /// Those who hold something else than what stands, with their reasons; of numbers, those further away than the allowed spread.
    pub minority: Vec<Position>,
    /// The smallest set of voters who, had they voted otherwise, would have changed the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_change: Option<Flip>,
}

impl Step<'_> {
    pub(super) fn finish(&mut self) {
        self.begin(Phase::Finished);
        for dispute in &self.state.disputes {
            for question in &dispute.questions {
                let (from, to, text) = (&question.from, &question.to, &question.text);
                self.state.notes.push(format!("{from}'s question came too late for {to} to answer: {text}"));
            }
        }
        self.outs.extend(self.end());
    }

    /// How it ended, if it did: the same whenever it is asked for.
    pub(super) fn end(&self) -> Option<Out> {
        match self.state.phase {
            Phase::New | Phase::Analysis | Phase::Discussion { .. } => None,
            Phase::Finished => Some(Out::Finished(Box::new(self.outcome()))),
            Phase::Failed => {
                let (needed, present) = (self.spec.quorum(), self.state.findings.len());
                let reason = format!(
                    "the quorum is not met: {needed} of {} agents must answer, and {present} did",
                    self.spec.agents.len()
                );
                Some(Out::Failed(Box::new(Failure { reason, gathered: self.gathered() })))
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
            gathered: self.gathered(),
        }
    }

    pub(super) fn gathered(&self) -> Gathered {
        let quorum = Quorum {
            needed: self.spec.quorum(),
            present: self.state.findings.len(),
            asked: self.spec.agents.len(),
        };
        let mut missing = self.state.missing.clone();
        // Who was given up first depends on who was slower; the list does not.
        missing.sort_by(|a, b| a.asked.cmp(&b.asked));
        Gathered {
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
