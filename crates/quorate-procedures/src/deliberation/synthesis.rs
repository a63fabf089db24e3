//! The whole in a few sentences, each with its sources. By rules, so that the same findings and messages always give the same.
//!
//! - The **summary** can be read aloud in some twenty seconds: the recommendation, who is against it, whose mind the discussion changed, the
//!   score, the worst issues, what else was contested, who is missing. Everything in it is elsewhere in full.
//! - The **recommendation** is what the vote on it came to, or what all who gave one say. Without one, what each found is told instead.
//! - The **score** is what the conflict about it came to, or the median weighted by confidence.
//! - **Issues** are ranked by severity (what the conflict about it came to, or the greatest that was said), then by how many flagged
//!   them, then by the confidence of those, then by name.
//! - The **confidence** is the mean confidence of those who hold the recommendation, times its share; without one, that of all findings.
//! - The **agreement** is the mean share of what stands over all conflicts, 1 without any: `unanimous` from 0.999, `strong` from 0.75, `moderate`
//!   from 0.5, else `weak`; `split` if what to do is a tie.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Step;
use super::outcome::{Decision, How};
use super::strategy::{self, Demand};
use crate::conflict::Kind;
use crate::count::{self, Ballot};
use crate::finding::{Finding, Issue, steady};
use crate::plain;
use crate::tokens;

/// How many issues the summary names; the list has all.
const ISSUES_TOLD: usize = 3;

/// How many tokens of a finding's summary are told.
const GIST_TOKENS: usize = 60;

/// The whole in a few sentences.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Synthesis {
    /// What to read first.
    pub summary: Vec<Sentence>,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<String>,
    /// The score that the spec names, and its range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Scored>,
    /// How sure that is; nothing if nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// How much the agents agree.
    pub agreement: Agreement,
    /// The issues, the worst first.
    pub issues: Vec<RankedIssue>,
    /// What to ask for, the most needed first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strategy: Vec<Demand>,
}

/// A sentence and what it rests on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sentence {
    /// The sentence.
    pub text: String,
    /// Ids of findings (`F1`), messages (`M1`), conflicts (`C1`) and questions without an answer.
    pub sources: Vec<String>,
}

/// A score.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Scored {
    /// Its name.
    pub name: String,
    /// What the agents came to.
    pub value: f64,
    /// The range that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
}

/// How much agents agree.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Agreement {
    /// In a word.
    pub level: String,
    /// From 0 to 1.
    pub value: f64,
}

/// An issue that one or several flagged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RankedIssue {
    /// What it is about.
    pub topic: String,
    /// How severe it is, all things considered.
    pub severity: String,
    /// Who flagged it, and how.
    pub flagged: Vec<Flagged>,
    /// The conflict about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
}

/// How one agent flagged an issue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Flagged {
    /// Who.
    pub agent: String,
    /// Its finding.
    pub source: String,
    /// The issue as it said it.
    #[serde(flatten)]
    pub issue: Issue,
}

impl Step<'_> {
    pub(super) fn synthesis(&self, decisions: &[Decision], further: &[Decision]) -> Synthesis {
        let all: Vec<&Decision> = decisions.iter().chain(further).collect();
        let mut summary = Vec::new();
        let (recommendation, confidence) = self.recommendation(&all, &mut summary);
        if recommendation.is_none() {
            summary.extend(self.gists());
        }
        let score = self.score(&all, &mut summary);
        let issues = self.issues(&all);
        summary.extend(issues_sentence(&issues));
        summary.extend(self.others_sentence(&all));
        summary.extend(self.missing_sentences());
        let strategy = strategy::strategy(&issues, &all, &self.spec.words, self.count);
        Synthesis { summary, recommendation, score, confidence, agreement: agreement(&all), issues, strategy }
    }

    /// Who is missing as a whole, and who in a conflict; why is told elsewhere.
    fn missing_sentences(&self) -> Vec<Sentence> {
        let mut by_place: BTreeMap<Option<String>, (Vec<String>, Vec<String>)> = BTreeMap::new();
        for missing in self.gathered().missing {
            let (agents, sources) = by_place.entry(missing.conflict).or_default();
            agents.push(missing.agent);
            sources.push(missing.asked.0);
        }
        let sentence = |(place, (agents, sources)): (Option<String>, (Vec<String>, Vec<String>))| {
            let agents = agents.join(", ");
            match place {
                Some(place) => Sentence {
                    text: format!("Without an answer on {place}: {agents}."),
                    sources: vec![place],
                },
                None => Sentence { text: format!("Missing: {agents}."), sources },
            }
        };
        by_place.into_iter().map(sentence).collect()
    }

    /// Where nobody says what to do: what each found.
    fn gists(&self) -> Vec<Sentence> {
        let gist = |(agent, finding): (&str, &Finding)| {
            let said =
                tokens::cut(&finding.summary, GIST_TOKENS, self.count).unwrap_or(finding.summary.clone());
            Sentence { text: format!("{agent}: {said}"), sources: vec![self.source_of(agent)] }
        };
        self.found().map(gist).collect()
    }

    fn source_of(&self, agent: &str) -> String {
        format!("F{}", self.spec.place(agent) + 1)
    }

    /// What an agent's position rests on: its last message on the conflict, or its finding.
    fn ground_of(&self, decision: &Decision, agent: &str) -> String {
        let said = self.state.messages.iter().rev().find(|message| {
            message.round > 0
                && message.sender == agent
                && message.content["conflict"] == decision.id.as_str()
        });
        said.map_or_else(|| self.source_of(agent), |message| message.id.clone())
    }

    /// The agents in their order with their findings.
    fn found(&self) -> impl Iterator<Item = (&str, &Finding)> {
        let findings = &self.state.findings;
        self.spec.agents.iter().filter_map(|member| Some((member.id.as_str(), findings.get(&member.id)?)))
    }

    fn recommendation(
        &self,
        all: &[&Decision],
        summary: &mut Vec<Sentence>,
    ) -> (Option<String>, Option<f64>) {
        let everybody = || mean(self.found().filter_map(|(_, finding)| finding.confidence));
        if let Some(decision) = all.iter().find(|decision| decision.conflict.kind == Kind::Categorical) {
            let holders: Vec<_> =
                decision.positions.iter().filter(|one| one.position == decision.position).collect();
            let sources = holders.iter().map(|one| self.ground_of(decision, &one.agent)).collect();
            let (held, of) = (holders.len(), decision.positions.len());
            let text = match decision.how {
                How::Tied => format!("The agents are split on what to do: {}.", decision.resolution),
                _ => {
                    let otherwise = if decision.before == decision.position {
                        String::new()
                    } else {
                        format!("; without the discussion it would have been {}", decision.before)
                    };
                    format!(
                        "Recommendation: {}, held by {held} of {of} agents{otherwise}.",
                        decision.position
                    )
                }
            };
            summary.push(Sentence { text, sources });
            summary.extend(self.against_sentence(decision));
            summary.extend(moves_sentence(decision));
            let sure = mean(holders.iter().filter_map(|one| one.confidence));
            let confidence = sure.map(|sure| steady(sure * decision.share));
            return (Some(decision.position.clone()), confidence);
        }
        let given: Vec<(&str, &String)> = self
            .found()
            .filter_map(|(agent, finding)| Some((agent, finding.recommendation.as_ref()?)))
            .collect();
        let Some((_, said)) = given.first() else { return (None, everybody()) };
        let text = format!("Recommendation: {said}, by all {} agents who gave one.", given.len());
        summary
            .push(Sentence { text, sources: given.iter().map(|(agent, _)| self.source_of(agent)).collect() });
        let sure = self.found().filter(|(_, finding)| finding.recommendation.is_some());
        ((*said).clone().into(), mean(sure.filter_map(|(_, finding)| finding.confidence)))
    }

    fn score(&self, all: &[&Decision], summary: &mut Vec<Sentence>) -> Option<Scored> {
        let wanted = self.spec.score.as_ref()?;
        let key = score_key(&wanted.name);
        let decision = all.iter().find(|decision| decision.conflict.key == key);
        let given: Vec<(&str, f64, Option<f64>)> = self
            .found()
            .filter_map(|(agent, finding)| {
                Some((agent, *finding.scores.get(&wanted.name)?, finding.confidence))
            })
            .collect();
        let value = match decision {
            Some(decision) => decision.position.parse().ok()?,
            None => {
                let ballots: Vec<Ballot> = given
                    .iter()
                    .map(|(_, _, confidence)| Ballot { confidence: *confidence, ..Ballot::default() })
                    .collect();
                let weights = count::weights(&ballots.iter().collect::<Vec<_>>());
                let values: Vec<(f64, f64)> = given.iter().map(|one| one.1).zip(weights).collect();
                steady(count::merge(&values)?.value)
            }
        };
        let level =
            wanted.levels.iter().rev().find(|level| value >= level.from).map(|level| level.name.clone());
        let in_words = level.as_ref().map_or_else(String::new, |level| format!(" ({level})"));
        let name = strategy::capital(&wanted.name.replace('_', " "));
        let text = format!("{name} is {}{in_words}, from {} agents.", plain::number(value), given.len());
        let sources = given
            .iter()
            .map(|(agent, _, _)| {
                decision.map_or_else(|| self.source_of(agent), |one| self.ground_of(one, agent))
            })
            .collect();
        summary.push(Sentence { text, sources });
        Some(Scored { name: wanted.name.clone(), value, level })
    }

    fn issues(&self, all: &[&Decision]) -> Vec<RankedIssue> {
        let words = &self.spec.words;
        let mut topics: BTreeMap<String, RankedIssue> = BTreeMap::new();
        for (agent, finding) in self.found() {
            for issue in &finding.issues {
                let key = plain::words(&issue.topic);
                let decision = all.iter().find(|one| one.conflict.key == format!("severity:{key}"));
                let ranked = topics.entry(key).or_insert_with(|| RankedIssue {
                    topic: issue.topic.clone(),
                    severity: decision.map_or_else(|| issue.severity.clone(), |one| one.position.clone()),
                    flagged: Vec::new(),
                    conflict: decision.map(|one| one.id.clone()),
                });
                if decision.is_none() && words.severity(&issue.severity) > words.severity(&ranked.severity) {
                    ranked.severity.clone_from(&issue.severity);
                }
                let (agent, source) = (agent.to_owned(), self.source_of(agent));
                ranked.flagged.push(Flagged { agent, source, issue: issue.clone() });
            }
        }
        let sure = |issue: &RankedIssue| -> f64 {
            let confidences = issue.flagged.iter().map(|one| self.state.findings[&one.agent].confidence);
            confidences.map(Option::unwrap_or_default).sum()
        };
        let mut ranked: Vec<RankedIssue> = topics.into_values().collect();
        ranked.sort_by(|a, b| {
            let severity = words.severity(&b.severity).cmp(&words.severity(&a.severity));
            let flagged = severity.then(b.flagged.len().cmp(&a.flagged.len()));
            flagged.then(sure(b).total_cmp(&sure(a))).then_with(|| a.topic.cmp(&b.topic))
        });
        ranked
    }

    /// Who is against what stands; in a tie everybody is against somebody.
    fn against_sentence(&self, decision: &Decision) -> Option<Sentence> {
        if decision.minority.is_empty() || decision.how == How::Tied {
            return None;
        }
        let who = decision.minority.iter().map(|one| format!("{} ({})", one.agent, one.position));
        let text = format!("Against it: {}.", who.collect::<Vec<_>>().join(", "));
        let sources = decision.minority.iter().map(|one| self.ground_of(decision, &one.agent)).collect();
        Some(Sentence { text, sources })
    }

    /// The conflicts that no other sentence is about, in numbers.
    fn others_sentence(&self, all: &[&Decision]) -> Option<Sentence> {
        let score = self.spec.score.as_ref().map(|score| score_key(&score.name));
        let others: Vec<&&Decision> = all
            .iter()
            .filter(|one| one.conflict.kind != Kind::Categorical && Some(&one.conflict.key) != score.as_ref())
            .collect();
        let count = |is: fn(How) -> bool| others.iter().filter(|one| is(one.how)).count();
        let ways = [
            (count(|how| matches!(how, How::Agreed { .. })), "settled in the discussion"),
            (count(|how| how == How::Voted), "put to the vote"),
            (count(|how| how == How::Tied), "tied"),
            (count(|how| how == How::Merged), "merged"),
        ];
        let ways: Vec<String> =
            ways.iter().filter(|(many, _)| *many > 0).map(|(many, how)| format!("{many} {how}")).collect();
        let what = if others.len() == 1 { "conflict" } else { "conflicts" };
        let text = format!("{} more {what}: {}.", others.len(), ways.join(", "));
        let sources = others.iter().map(|one| one.id.clone()).collect();
        (!others.is_empty()).then_some(Sentence { text, sources })
    }
}

fn score_key(name: &str) -> String {
    format!("numeric:{}", plain::words(name))
}

/// Whom the discussion moved, and where to in the end.
fn moves_sentence(decision: &Decision) -> Option<Sentence> {
    let mut to: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut sources = Vec::new();
    for (before, after) in decision.conflict.positions.iter().zip(&decision.positions) {
        if before.position == after.position {
            continue;
        }
        match to.iter_mut().find(|(position, _)| *position == after.position) {
            Some((_, agents)) => agents.push(&after.agent),
            None => to.push((&after.position, vec![&after.agent])),
        }
        let last = decision.changes.iter().rev().find(|change| change.agent == after.agent);
        sources.extend(last.map(|change| change.message.clone()));
    }
    let moved: Vec<String> =
        to.iter().map(|(position, agents)| format!("{} to {position}", agents.join(" and "))).collect();
    let text = format!("The discussion moved {}.", moved.join(", "));
    (!moved.is_empty()).then_some(Sentence { text, sources })
}

/// The worst issues, by name.
fn issues_sentence(issues: &[RankedIssue]) -> Option<Sentence> {
    let worst = &issues[..issues.len().min(ISSUES_TOLD)];
    let named: Vec<String> = worst.iter().map(|one| format!("{} ({})", one.topic, one.severity)).collect();
    let of = match issues.len() {
        1 => "One issue".to_owned(),
        many if many > worst.len() => format!("The worst of {many} issues"),
        many => format!("{many} issues"),
    };
    let mut sources: Vec<String> = Vec::new();
    for source in worst.iter().flat_map(|one| &one.flagged).map(|one| &one.source) {
        if !sources.contains(source) {
            sources.push(source.clone());
        }
    }
    (!worst.is_empty()).then(|| Sentence { text: format!("{of}: {}.", named.join(", ")), sources })
}

fn agreement(all: &[&Decision]) -> Agreement {
    let value = mean(all.iter().map(|decision| decision.share)).unwrap_or(1.0);
    let is_split = |one: &&&Decision| one.conflict.kind == Kind::Categorical && one.how == How::Tied;
    let level = match value {
        _ if all.iter().any(|one| is_split(&one)) => "split",
        value if value >= 0.999 => "unanimous",
        value if value >= 0.75 => "strong",
        value if value >= 0.5 => "moderate",
        _ => "weak",
    };
    Agreement { level: level.to_owned(), value }
}

#[allow(clippy::cast_precision_loss)]
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| steady(values.iter().sum::<f64>() / values.len() as f64))
}
