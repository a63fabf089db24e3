//! What would change the outcome.
//!
//! It is told as the fewest voters who, had they chosen another choice that was named instead of the winner, as sure as they were,
//! would have made that one win (ties broken as always). The surest go first, which is the fewest there can be for `majority` and
//! `confidence`; for the other rules, where a ballot can also count against its choice, it is a set that suffices.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::{Ballot, Question, Rule, score, tally};

/// Some voters who, had they chosen otherwise, would have changed the outcome.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flip {
    /// What would have won.
    pub to: String,
    /// Had these chosen it.
    pub voters: Vec<String>,
}

/// The smallest change that flips the question at `index`; nothing where only one choice was named.
#[must_use]
pub fn flip(rule: Rule, questions: &[Question], index: usize) -> Option<Flip> {
    // Only `reliability` looks at the other questions.
    let (alone, index) = match rule {
        Rule::Reliability => (questions.to_vec(), index),
        _ => (vec![questions.get(index)?.clone()], 0),
    };
    let counted = tally(rule, &alone).ok()?;
    let winner = &counted.get(index)?.choice;
    let movers = surest_first(&alone[index].ballots, winner);
    let rivals = counted[index].shares.iter().map(|share| &share.choice).filter(|choice| *choice != winner);
    let found = rivals.filter_map(|rival| fewest(rule, &alone, index, rival, &movers));
    // The first of equals is the rival that came closest.
    found.min_by_key(|flip| flip.voters.len())
}

/// Those who chose the winner, the surest first.
fn surest_first(ballots: &[Ballot], winner: &str) -> Vec<usize> {
    let all: Vec<&Ballot> = ballots.iter().collect();
    let weights = score::weights(&all);
    let mut movers: Vec<usize> = (0..ballots.len()).filter(|at| ballots[*at].choice == winner).collect();
    let exact = |at: usize| Reverse(weights[at].to_bits());
    movers.sort_by(|a, b| exact(*a).cmp(&exact(*b)).then_with(|| ballots[*a].voter.cmp(&ballots[*b].voter)));
    movers
}

fn fewest(rule: Rule, all: &[Question], index: usize, rival: &str, movers: &[usize]) -> Option<Flip> {
    let mut questions = all.to_vec();
    let mut voters = Vec::new();
    for at in movers {
        let ballot = &mut questions[index].ballots[*at];
        rival.clone_into(&mut ballot.choice);
        if !ballot.ranking.is_empty() {
            ballot.ranking.retain(|choice| choice != rival);
            ballot.ranking.insert(0, rival.to_owned());
        }
        voters.push(ballot.voter.clone());
        if tally(rule, &questions).ok()?[index].choice == rival {
            voters.sort();
            return Some(Flip { to: rival.to_owned(), voters });
        }
    }
    None
}
