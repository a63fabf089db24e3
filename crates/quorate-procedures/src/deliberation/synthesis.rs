//! Synthesis: the result in a few sentences, each with its sources. Rule-based, so equal findings and messages give
//! equal text.
//!
//! - The **summary** can be read aloud in about twenty seconds: the recommendation, the dissenters, changes of
//!   position, the score, the worst issues, other conflicts, missing agents. The outcome contains all of it in full.
//! - The **recommendation** is the winner of the vote on it, or of the recommendations in the findings if there was no
//!   conflict. After a tie there is none. If no agent gave one, the findings are summarised instead.
//! - The **score** is the result of the conflict about it, or the median weighted by confidence.
//! - **Issues** are ranked by severity (the result of the conflict about it; without a conflict or after a tie, the
//!   highest severity stated), then by the number of agents that flagged them, then by the confidence of those agents,
//!   then by name.
//! - The **confidence** is the mean confidence of those who hold the recommendation, times its share; without a
//!   recommendation, the mean of all findings.
//! - The **agreement** is the verdict on the recommendation over those agents that gave one, see
//!   [`crate::tally::Agreement`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Step;
use super::outcome::{ConflictResolution, ResolutionMethod};
use super::strategy::{self, Demand};
use crate::conflict::{ConflictKind, Position, PositionValue};
use crate::finding::{Finding, Issue, Vocabulary, round_to_micros};
use crate::normalise;
use crate::tally::{self, Agreement, Ballot, Question, Tally};
use crate::tokens;

/// Maximum number of issues in the summary; the list has all.
const SUMMARY_ISSUES: usize = 3;

/// Maximum number of tokens of a finding's summary in the synthesis.
const SUMMARY_TOKENS: usize = 60;

/// Synthesis of a deliberation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Synthesis {
    /// Sentences to read first.
    pub summary: Vec<Sentence>,
    /// Recommended action; `None` after a tie, or if no agent gave a recommendation.
    pub recommendation: Option<String>,
    /// The score named in the spec, with its level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<ScoreResult>,
    /// Confidence in the recommendation, if any was stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Degree of agreement on the recommendation.
    pub agreement: Agreement,
    /// Issues, worst first.
    pub issues: Vec<RankedIssue>,
    /// Demands, highest priority first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strategy: Vec<Demand>,
}

/// A sentence with its sources.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sentence {
    /// Text of the sentence.
    pub text: String,
    /// Ids of findings (`F1`), messages (`M1`), conflicts (`C1`) and unanswered requests.
    pub sources: Vec<String>,
}

/// Result of a score.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ScoreResult {
    /// Name of the score.
    pub name: String,
    /// Merged value.
    pub value: f64,
    /// Name of the range that contains the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

/// An issue flagged by one or more agents.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RankedIssue {
    /// Topic of the issue.
    pub topic: String,
    /// Final severity.
    pub severity: String,
    /// The individual reports.
    pub flagged: Vec<IssueReport>,
    /// Id of the conflict about its severity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
}

/// Report of an issue by one agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IssueReport {
    /// The agent.
    pub agent: String,
    /// Id of its finding.
    pub source: String,
    /// The issue as reported.
    #[serde(flatten)]
    pub issue: Issue,
}

impl Step<'_> {
    pub(super) fn synthesis(
        &self,
        decisions: &[ConflictResolution],
        further: &[ConflictResolution],
    ) -> Synthesis {
        let all: Vec<&ConflictResolution> = decisions.iter().chain(further).collect();
        let mut summary = Vec::new();
        let (agreement, recommendation, confidence) = self.recommendation(&all, &mut summary);
        if matches!(agreement, Agreement::NotComparable { .. }) && recommendation.is_none() {
            summary.extend(self.finding_summaries());
        }
        let score = self.score(&all, &mut summary);
        let issues = self.issues(&all);
        summary.extend(issues_sentence(&issues));
        summary.extend(self.other_conflicts_sentence(&all));
        summary.extend(self.missing_sentences());
        let strategy = strategy::derive_demands(&issues, &all, &self.spec.vocabulary, self.count_tokens);
        Synthesis { summary, recommendation, score, confidence, agreement, issues, strategy }
    }

    /// Sentences about agents without a finding and about unanswered requests; the reasons are in `missing`.
    fn missing_sentences(&self) -> Vec<Sentence> {
        let mut by_conflict: BTreeMap<Option<String>, (Vec<String>, Vec<String>)> = BTreeMap::new();
        for missing in self.record().missing {
            let (agents, sources) = by_conflict.entry(missing.conflict).or_default();
            agents.push(missing.agent);
            sources.push(missing.asked.0);
        }
        let sentence = |(conflict, (agents, sources)): (Option<String>, (Vec<String>, Vec<String>))| {
            let agents = agents.join(", ");
            match conflict {
                Some(conflict) => Sentence {
                    text: format!("Without an answer on {conflict}: {agents}."),
                    sources: vec![conflict],
                },
                None => Sentence { text: format!("Missing: {agents}."), sources },
            }
        };
        by_conflict.into_iter().map(sentence).collect()
    }

    /// Summaries of the findings, used if there is no recommendation.
    fn finding_summaries(&self) -> Vec<Sentence> {
        let sentence = |(agent, finding): (&str, &Finding)| {
            let summary = tokens::truncate(&finding.summary, SUMMARY_TOKENS, self.count_tokens)
                .unwrap_or(finding.summary.clone());
            Sentence { text: format!("{agent}: {summary}"), sources: vec![self.source_of(agent)] }
        };
        self.agents_with_findings().map(sentence).collect()
    }

    fn source_of(&self, agent: &str) -> String {
        format!("F{}", self.spec.agent_index(agent) + 1)
    }

    /// Source of an agent's position: its last message on the conflict, or its finding.
    fn position_source(&self, decision: &ConflictResolution, agent: &str) -> String {
        let message = self.state.messages.iter().rev().find(|message| {
            message.round > 0
                && message.sender == agent
                && message.content["conflict"] == decision.id.as_str()
        });
        message.map_or_else(|| self.source_of(agent), |message| message.id.clone())
    }

    /// Agents with findings, in the order of the participants.
    fn agents_with_findings(&self) -> impl Iterator<Item = (&str, &Finding)> {
        let findings = &self.state.findings;
        self.spec.agents.iter().filter_map(|member| Some((member.id.as_str(), findings.get(&member.id)?)))
    }

    /// Determines agreement, recommendation and confidence.
    fn recommendation(
        &self,
        decisions: &[&ConflictResolution],
        summary: &mut Vec<Sentence>,
    ) -> (Agreement, Option<String>, Option<f64>) {
        if let Some(decision) =
            decisions.iter().find(|decision| decision.conflict.kind == ConflictKind::Categorical)
        {
            let is_held = |position: &&Position| Some(&position.position) == decision.position.as_ref();
            let holders: Vec<&Position> = decision.ballots.iter().filter(is_held).collect();
            summary.push(self.decided_sentence(decision, &holders));
            summary.extend(self.against_sentence(decision));
            summary.extend(changes_sentence(decision));
            summary.extend(self.abstained_sentence(decision.ballots.len()));
            let mean_confidence = mean(holders.iter().filter_map(|position| position.confidence));
            let confidence =
                mean_confidence.map(|mean_confidence| round_to_micros(mean_confidence * decision.share));
            let agreement = decision.agreement.clone().unwrap_or_else(|| Agreement::of(None));
            return (agreement, decision.position.as_ref().map(ToString::to_string), confidence);
        }
        let tally = self.tally_recommendations();
        let agreement = Agreement::of(tally.as_ref());
        let Some(tally) = tally else {
            return (
                agreement,
                None,
                mean(self.agents_with_findings().filter_map(|(_, finding)| finding.confidence)),
            );
        };
        let (held, of) = (tally.ballots.len() - tally.minority().count(), tally.ballots.len());
        let text = match (&tally.choice, &agreement) {
            (None, _) => format!("No decision: tied between {}.", tally.tied.join(" and ")),
            (Some(choice), Agreement::NotComparable { .. }) => {
                format!("Recommendation: {choice}, by the only agent that gave one.")
            }
            (Some(choice), Agreement::Unanimous { .. }) => {
                format!("Recommendation: {choice}, by all {of} agents that gave one.")
            }
            (Some(choice), _) => format!("Recommendation: {choice}, held by {held} of {of} agents."),
        };
        let sources = tally.ballots.iter().map(|ballot| self.source_of(&ballot.voter)).collect();
        summary.push(Sentence { text, sources });
        summary.extend(self.abstained_sentence(of));
        let of_winner = |ballot: &&Ballot| Some(&ballot.choice) == tally.choice.as_ref();
        let mean_confidence =
            mean(tally.ballots.iter().filter(of_winner).filter_map(|ballot| ballot.confidence));
        (
            agreement,
            tally.choice.clone(),
            mean_confidence.map(|mean_confidence| round_to_micros(mean_confidence * tally.share())),
        )
    }

    /// Tallies the recommendations in the findings; `None` if there are none.
    fn tally_recommendations(&self) -> Option<Tally> {
        let mut spelled: BTreeMap<String, &String> = BTreeMap::new();
        let mut ballots = Vec::new();
        for (agent, finding) in self.agents_with_findings() {
            let Some(recommendation) = &finding.recommendation else { continue };
            let choice =
                (*spelled.entry(normalise::normalise_words(recommendation)).or_insert(recommendation))
                    .clone();
            let (voter, confidence) = (agent.to_owned(), finding.confidence);
            ballots.push(Ballot { voter, choice, confidence, ..Ballot::default() });
        }
        let options = self.spec.options(ConflictKind::Categorical).to_vec();
        let question = Question { name: "recommendation".to_owned(), options, ballots };
        tally::tally_questions(self.spec.tally_method(), &[question]).ok()?.pop()
    }

    /// Sentence about the vote on the recommendation.
    fn decided_sentence(&self, decision: &ConflictResolution, holders: &[&Position]) -> Sentence {
        let (held, of) = (holders.len(), decision.ballots.len());
        let otherwise = match &decision.before {
            before if *before == decision.position => String::new(),
            Some(before) => format!("; without the discussion it would have been {before}"),
            None => "; without the discussion it would have been a tie".to_owned(),
        };
        let Some(position) = &decision.position else {
            let text = format!("{}{otherwise}.", strategy::capitalise(&decision.resolution));
            let sources = decision
                .ballots
                .iter()
                .map(|position| self.position_source(decision, &position.agent))
                .collect();
            return Sentence { text, sources };
        };
        let text = match &decision.agreement {
            Some(agreement @ Agreement::Contested { .. }) => {
                format!("Recommendation: {position} ({agreement}){otherwise}.")
            }
            _ => format!("Recommendation: {position}, held by {held} of {of} agents{otherwise}."),
        };
        Sentence {
            text,
            sources: holders.iter().map(|position| self.position_source(decision, &position.agent)).collect(),
        }
    }

    /// Sentence about agents that gave no recommendation, if others did.
    fn abstained_sentence(&self, ballots: usize) -> Option<Sentence> {
        let abstained: Vec<&str> = self
            .agents_with_findings()
            .filter(|(_, finding)| finding.recommendation.is_none())
            .map(|(agent, _)| agent)
            .collect();
        let text = format!("Without a recommendation: {}.", abstained.join(", "));
        let sources = abstained.iter().map(|agent| self.source_of(agent)).collect();
        (ballots > 0 && !abstained.is_empty()).then_some(Sentence { text, sources })
    }

    fn score(&self, decisions: &[&ConflictResolution], summary: &mut Vec<Sentence>) -> Option<ScoreResult> {
        let score_spec = self.spec.score.as_ref()?;
        let key = score_key(&score_spec.name);
        let decision = decisions.iter().find(|decision| decision.conflict.key == key);
        let scores: Vec<(&str, f64, Option<f64>)> = self
            .agents_with_findings()
            .filter_map(|(agent, finding)| {
                Some((agent, *finding.scores.get(&score_spec.name)?, finding.confidence))
            })
            .collect();
        let value = match decision {
            Some(decision) => decision.position.as_ref()?.as_number()?,
            None => {
                let ballots: Vec<Ballot> = scores
                    .iter()
                    .map(|(_, _, confidence)| Ballot { confidence: *confidence, ..Ballot::default() })
                    .collect();
                let weights = tally::weights(&ballots.iter().collect::<Vec<_>>());
                let values: Vec<(f64, f64)> =
                    scores.iter().map(|(_, score, _)| *score).zip(weights).collect();
                round_to_micros(tally::weighted_median(&values)?.value)
            }
        };
        let level =
            score_spec.levels.iter().rev().find(|level| value >= level.from).map(|level| level.name.clone());
        let suffix = level.as_ref().map_or_else(String::new, |level| format!(" ({level})"));
        let name = strategy::capitalise(&score_spec.name.replace('_', " "));
        let text =
            format!("{name} is {}{suffix}, from {} agents.", normalise::format_number(value), scores.len());
        let sources = scores
            .iter()
            .map(|(agent, _, _)| {
                decision
                    .map_or_else(|| self.source_of(agent), |decision| self.position_source(decision, agent))
            })
            .collect();
        summary.push(Sentence { text, sources });
        Some(ScoreResult { name: score_spec.name.clone(), value, level })
    }

    fn issues(&self, decisions: &[&ConflictResolution]) -> Vec<RankedIssue> {
        let vocabulary = &self.spec.vocabulary;
        let mut topics: BTreeMap<String, RankedIssue> = BTreeMap::new();
        for (agent, finding) in self.agents_with_findings() {
            for issue in &finding.issues {
                let key = normalise::normalise_words(&issue.topic);
                let decision =
                    decisions.iter().find(|decision| decision.conflict.key == format!("severity:{key}"));
                let ranked = topics.entry(key).or_insert_with(|| RankedIssue {
                    topic: issue.topic.clone(),
                    severity: decision
                        .and_then(|decision| severity_of(decision, vocabulary))
                        .unwrap_or_else(|| issue.severity.clone()),
                    flagged: Vec::new(),
                    conflict: decision.map(|decision| decision.id.clone()),
                });
                if decision.is_none()
                    && vocabulary.severity_index(&issue.severity)
                        > vocabulary.severity_index(&ranked.severity)
                {
                    ranked.severity.clone_from(&issue.severity);
                }
                let (agent, source) = (agent.to_owned(), self.source_of(agent));
                ranked.flagged.push(IssueReport { agent, source, issue: issue.clone() });
            }
        }
        let total_confidence = |issue: &RankedIssue| -> f64 {
            let confidences =
                issue.flagged.iter().map(|report| self.state.findings[&report.agent].confidence);
            confidences.map(Option::unwrap_or_default).sum()
        };
        let mut ranked: Vec<RankedIssue> = topics.into_values().collect();
        ranked.sort_by(|a, b| {
            let severity =
                vocabulary.severity_index(&b.severity).cmp(&vocabulary.severity_index(&a.severity));
            let flagged = severity.then(b.flagged.len().cmp(&a.flagged.len()));
            flagged
                .then(total_confidence(b).total_cmp(&total_confidence(a)))
                .then_with(|| a.topic.cmp(&b.topic))
        });
        ranked
    }

    /// Sentence about the dissenters.
    fn against_sentence(&self, decision: &ConflictResolution) -> Option<Sentence> {
        if decision.minority.is_empty() {
            return None;
        }
        let dissenters =
            decision.minority.iter().map(|position| format!("{} ({})", position.agent, position.position));
        let text = format!("Against it: {}.", dissenters.collect::<Vec<_>>().join(", "));
        let sources = decision
            .minority
            .iter()
            .map(|position| self.position_source(decision, &position.agent))
            .collect();
        Some(Sentence { text, sources })
    }

    /// Sentence with the number of conflicts that no other sentence covers.
    fn other_conflicts_sentence(&self, decisions: &[&ConflictResolution]) -> Option<Sentence> {
        let score = self.spec.score.as_ref().map(|score| score_key(&score.name));
        let others: Vec<&&ConflictResolution> = decisions
            .iter()
            .filter(|decision| {
                decision.conflict.kind != ConflictKind::Categorical
                    && Some(&decision.conflict.key) != score.as_ref()
            })
            .collect();
        let count = |is_method: fn(ResolutionMethod) -> bool| {
            others.iter().filter(|decision| is_method(decision.how)).count()
        };
        let counts = [
            (count(|method| matches!(method, ResolutionMethod::Agreed { .. })), "settled in the discussion"),
            (count(|method| method == ResolutionMethod::Voted), "put to the vote"),
            (count(|method| method == ResolutionMethod::Tied), "tied"),
            (count(|method| method == ResolutionMethod::Merged), "merged"),
        ];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, method)| format!("{number} {method}"))
            .collect();
        let noun = if others.len() == 1 { "conflict" } else { "conflicts" };
        let text = format!("{} more {noun}: {}.", others.len(), counts.join(", "));
        let sources = others.iter().map(|decision| decision.id.clone()).collect();
        (!others.is_empty()).then_some(Sentence { text, sources })
    }
}

/// Result of a severity conflict; after a tie the highest severity held.
fn severity_of(decision: &ConflictResolution, vocabulary: &Vocabulary) -> Option<String> {
    let greatest = || {
        let severities = decision.ballots.iter().map(|position| position.position.to_string());
        severities.max_by_key(|severity| vocabulary.severity_index(severity))
    };
    decision.position.as_ref().map(ToString::to_string).or_else(greatest)
}

fn score_key(name: &str) -> String {
    format!("numeric:{}", normalise::normalise_words(name))
}

/// Sentence about agents that changed their position in the discussion.
fn changes_sentence(decision: &ConflictResolution) -> Option<Sentence> {
    let mut agents_by_position: Vec<(&PositionValue, Vec<&str>)> = Vec::new();
    let mut sources = Vec::new();
    for (before, after) in decision.conflict.positions.iter().zip(&decision.ballots) {
        if before.position == after.position {
            continue;
        }
        match agents_by_position.iter_mut().find(|(position, _)| **position == after.position) {
            Some((_, agents)) => agents.push(&after.agent),
            None => agents_by_position.push((&after.position, vec![&after.agent])),
        }
        let last = decision.changes.iter().rev().find(|change| change.agent == after.agent);
        sources.extend(last.map(|change| change.message.clone()));
    }
    let moves: Vec<String> = agents_by_position
        .iter()
        .map(|(position, agents)| format!("{} to {position}", agents.join(" and ")))
        .collect();
    let text = format!("The discussion moved {}.", moves.join(", "));
    (!moves.is_empty()).then_some(Sentence { text, sources })
}

/// Sentence about the worst issues.
fn issues_sentence(issues: &[RankedIssue]) -> Option<Sentence> {
    let worst = &issues[..issues.len().min(SUMMARY_ISSUES)];
    let named: Vec<String> =
        worst.iter().map(|issue| format!("{} ({})", issue.topic, issue.severity)).collect();
    let intro = match issues.len() {
        1 => "One issue".to_owned(),
        count if count > worst.len() => format!("The worst of {count} issues"),
        count => format!("{count} issues"),
    };
    let mut sources: Vec<String> = Vec::new();
    for source in worst.iter().flat_map(|issue| &issue.flagged).map(|report| &report.source) {
        if !sources.contains(source) {
            sources.push(source.clone());
        }
    }
    (!worst.is_empty()).then(|| Sentence { text: format!("{intro}: {}.", named.join(", ")), sources })
}

#[allow(clippy::cast_precision_loss)]
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| round_to_micros(values.iter().sum::<f64>() / values.len() as f64))
}
