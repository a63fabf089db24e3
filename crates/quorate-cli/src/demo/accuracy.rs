//! Measures how often agents are right alone, by majority, by weighted vote, and after a discussion, on contracts with a known
//! answer. Drives the state machine of the deliberation directly, without a hub: the same code, only faster.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use anyhow::{Context as _, anyhow};
use quorate::deliberation::{Deliberation, DeliberationState, Input, Outcome, Output};
use quorate_agents::{AgentQuestion, DeclaredAgent};
use quorate_contracts::{PhrasingSet, Recommendation};
use quorate_procedures::tally::{self, Ballot, VotingRule, tally_questions};
use quorate_procedures::tokens;
use serde::{Serialize, Serializer};
use serde_json::json;
use tokio::task::JoinSet;

use super::contract::{ContractSource, KnownAnswer, SeedRange, review};
use crate::output::{OutputFormat, Table};
use crate::terminal::{self, note};

/// One contract with its known answer and the outcome of the deliberation.
struct Case {
    known: KnownAnswer,
    outcome: Outcome,
}

/// How often a recommendation was right.
#[derive(Clone, Debug, Default)]
struct Score {
    /// Number of contracts with a recommendation.
    contracts: u32,
    right: u32,
    /// Right, or one step away on the scale of recommendations.
    within_one: u32,
}

impl Serialize for Score {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rounded = |share: f64| (share * 1e4).round() / 1e4;
        json!({
            "contracts": self.contracts,
            "right": self.right,
            "accuracy": rounded(self.share(self.right)),
            "withinOne": rounded(self.share(self.within_one)),
        })
        .serialize(serializer)
    }
}

/// Results for one half of the phrasings.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    contracts: usize,
    alone: BTreeMap<String, Score>,
    majority: Score,
    weighted: Score,
    reliability: Score,
    discussed: Score,
    /// Number of contracts where the vote was wrong before the discussion and right after it.
    discussion_helped: usize,
    /// Number of contracts where the vote was right before the discussion and wrong after it.
    discussion_hurt: usize,
}

pub(super) async fn run(seeds: &SeedRange, as_json: bool) -> anyhow::Result<()> {
    let (from, to) = (*seeds.0.start(), *seeds.0.end());
    note(format!(
        "contracts generated from seeds {from} to {to}, in seen and unseen phrasings, reviewed by local heuristics only"
    ));
    let seen = measure(seeds.0.clone(), PhrasingSet::Seen).await?;
    let unseen = measure(seeds.0.clone(), PhrasingSet::Unseen).await?;
    if as_json {
        terminal::print(
            json!({ "seeds": { "from": from, "to": to }, "seen": seen, "unseen": unseen }).to_string(),
        );
        return Ok(());
    }
    let percent = |score: &Score, part: u32| format!("{:.1} %", 100.0 * score.share(part));
    let mut table = Table::new(["METHOD", "SEEN", "UNSEEN", "UNSEEN, WITHIN ONE STEP"]);
    let mut row = |method: &str, seen: &Score, unseen: &Score| {
        let (right, within_one) = (percent(unseen, unseen.right), percent(unseen, unseen.within_one));
        table.row([method.to_owned(), percent(seen, seen.right), right, within_one]);
    };
    for (agent, score) in &seen.alone {
        row(&format!("{agent} alone"), score, unseen.alone.get(agent).unwrap_or(&Score::default()));
    }
    row("majority", &seen.majority, &unseen.majority);
    row("vote weighted by confidence", &seen.weighted, &unseen.weighted);
    row("vote weighted by reliability", &seen.reliability, &unseen.reliability);
    row("weighted vote after discussion", &seen.discussed, &unseen.discussed);
    table.print(OutputFormat::Table);
    for (half, measured) in [("seen", &seen), ("unseen", &unseen)] {
        let (helped, hurt) = (measured.discussion_helped, measured.discussion_hurt);
        terminal::print(format!(
            "{half}: of {} contracts, the discussion corrected {helped} and spoiled {hurt}",
            measured.contracts
        ));
    }
    Ok(())
}

async fn measure(seeds: RangeInclusive<u64>, half: PhrasingSet) -> anyhow::Result<Measured> {
    let mut running = JoinSet::new();
    for seed in seeds {
        running.spawn(async move {
            let (text, known) = ContractSource::Made { seed, half }.read()?;
            let outcome = deliberate(text).await.with_context(|| format!("seed {seed}"))?;
            Ok::<_, anyhow::Error>(Case { known, outcome })
        });
    }
    let mut cases = Vec::new();
    while let Some(case) = running.join_next().await {
        cases.push(case??);
    }
    Ok(judge(&cases))
}

/// Runs a complete deliberation without a hub.
async fn deliberate(text: String) -> anyhow::Result<Outcome> {
    let playbook = review(text)?;
    let agents: BTreeMap<&str, &DeclaredAgent> =
        playbook.agents.iter().map(|agent| (agent.name.as_str(), agent)).collect();
    let machine = Deliberation::new(&playbook.spec, tokens::count_o200k);
    let mut state = DeliberationState::default();
    let mut events = VecDeque::from([Input::Start]);
    while let Some(event) = events.pop_front() {
        for out in machine.step(&mut state, event, 0) {
            match out {
                Output::Ask(ask) => {
                    let agent =
                        agents.get(ask.agent.as_str()).context("only agents of the playbook are asked")?;
                    let question = AgentQuestion::new(ask.action, serde_json::from_str(&ask.payload)?);
                    events.push_back(match agent.answer(&question).await {
                        Ok(reply) => Input::Answered {
                            ask: ask.id,
                            from: ask.agent,
                            body: serde_json::to_vec(&reply.body)?,
                            usage: None,
                        },
                        Err(failure) => Input::Failed { ask: ask.id, why: failure.to_string() },
                    });
                }
                Output::Finished(outcome) => return Ok(*outcome),
                Output::Failed(failure) => return Err(anyhow!(failure.reason)),
                Output::Publish(_) | Output::Ignored(_) => {}
            }
        }
    }
    Err(anyhow!("the deliberation did not end"))
}

fn judge(cases: &[Case]) -> Measured {
    let mut alone: BTreeMap<String, Score> = BTreeMap::new();
    let (mut discussed, mut helped, mut hurt) = (Score::default(), 0, 0);
    let questions: Vec<tally::Question> =
        cases.iter().enumerate().map(|(index, case)| question(index, case)).collect();
    // A tie is not an answer, so it counts as wrong.
    let tallied = |rule: VotingRule| -> Vec<String> {
        let tallies = tally_questions(rule, &questions).unwrap_or_default();
        tallies.into_iter().map(|tally| tally.choice.unwrap_or_default()).collect()
    };
    let weighted = tallied(VotingRule::Confidence);
    for (index, case) in cases.iter().enumerate() {
        for (agent, finding) in &case.outcome.record.findings {
            if let Some(recommendation) = &finding.recommendation {
                alone.entry(agent.clone()).or_default().add(recommendation, case.known);
            }
        }
        let right = case.known.recommendation.as_str();
        let after = case.outcome.synthesis.recommendation.as_deref().unwrap_or_default();
        let before = weighted.get(index).map_or("", String::as_str);
        discussed.add(after, case.known);
        helped += usize::from(before != right && after == right);
        hurt += usize::from(before == right && after != right);
    }
    let score = |choices: &[String]| {
        let mut score = Score::default();
        choices.iter().zip(cases).for_each(|(choice, case)| score.add(choice, case.known));
        score
    };
    Measured {
        contracts: cases.len(),
        alone,
        majority: score(&tallied(VotingRule::Majority)),
        weighted: score(&weighted),
        reliability: score(&tallied(VotingRule::Reliability)),
        discussed,
        discussion_helped: helped,
        discussion_hurt: hurt,
    }
}

/// Returns the ballots of the agents before the discussion.
fn question(index: usize, case: &Case) -> tally::Question {
    let ballot = |(voter, finding): (&String, &quorate_procedures::finding::Finding)| {
        let choice = finding.recommendation.clone()?;
        Some(Ballot { voter: voter.clone(), choice, confidence: finding.confidence, ..Ballot::default() })
    };
    let ballots = case.outcome.record.findings.iter().filter_map(ballot).collect();
    tally::Question { name: index.to_string(), ballots, ..tally::Question::default() }
}

impl Score {
    fn add(&mut self, recommendation: &str, known: KnownAnswer) {
        let rank = |text: &str| Recommendation::ALL.iter().position(|candidate| candidate.as_str() == text);
        let steps = match (rank(recommendation), rank(known.recommendation.as_str())) {
            (Some(given), Some(right)) => given.abs_diff(right),
            _ => usize::MAX,
        };
        self.contracts += 1;
        self.right += u32::from(steps == 0);
        self.within_one += u32::from(steps <= 1);
    }

    /// Returns a count as a share of all contracts with a recommendation.
    fn share(&self, part: u32) -> f64 {
        f64::from(part) / f64::from(self.contracts.max(1))
    }
}
