//! Pivotal voters: the smallest set of voters who could have changed the outcome by choosing another named choice with
//! the same confidence. A tie does not count as a win unless the declared tie-break decides it.
//!
//! Sets are tried in order of size, so the first that suffices is a smallest one. The number of tallies is bounded: if
//! no set was found within [`TALLIES_MAX`], voters are moved one by one until the choice wins, and the result is marked
//! as possibly not minimal.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::{Ballot, Question, Tally, TallyMethod, VotingRule, score, tally_questions};

/// Maximum number of tallies in the search for the smallest set. Covers all sets of up to 8 voters with 8 choices.
const TALLIES_MAX: usize = 2_000;

/// A set of voters who could have changed the outcome.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PivotalVoters {
    /// The choice that would have won.
    pub to: String,
    /// The voters who would have had to choose it.
    pub voters: Vec<String>,
    /// Whether no smaller set suffices; `false` if the search was cut short.
    pub smallest: bool,
}

/// Finds the smallest set of voters who can make another choice win the question at `index`; `None` if no other choice
/// was named.
#[must_use]
pub fn pivotal_voters(
    method: impl Into<TallyMethod>,
    questions: &[Question],
    index: usize,
) -> Option<PivotalVoters> {
    let method = method.into();
    // Only `reliability` depends on the other questions.
    let (questions, index) = match method.rule {
        VotingRule::Reliability => (questions.to_vec(), index),
        _ => (vec![questions.get(index)?.clone()], 0),
    };
    let tally = tally_questions(method, &questions).ok()?.into_iter().nth(index)?;
    let winner = tally.choice.as_deref();
    let rivals = tally.shares.iter().map(|share| share.choice.as_str());
    let rivals: Vec<&str> = rivals.filter(|choice| Some(*choice) != winner).collect();
    let movers = movers(&questions[index].ballots, &tally);
    let search = Search { method, questions: &questions, index };
    let mut tallies_left = TALLIES_MAX / questions.len().max(1);
    for size in 1..=movers.len() {
        // The rival with the greatest share comes first: among equals it is the closest.
        for rival in &rivals {
            let movable: Vec<usize> = search.movable(&movers, rival);
            let mut set: Vec<usize> = (0..size).collect();
            while size <= movable.len() {
                if tallies_left == 0 {
                    return search.greedy(&rivals, &movers);
                }
                tallies_left -= 1;
                let chosen: Vec<usize> = set.iter().map(|position| movable[*position]).collect();
                if search.wins(rival, &chosen) {
                    return Some(search.flip(rival, &chosen, true));
                }
                if !next_set(&mut set, movable.len()) {
                    break;
                }
            }
        }
    }
    None
}

/// All voters: those of the winner first; within each group by confidence, descending.
fn movers(ballots: &[Ballot], tally: &Tally) -> Vec<usize> {
    let weights = score::weights(&ballots.iter().collect::<Vec<_>>());
    let mut movers: Vec<usize> = (0..ballots.len()).collect();
    movers.sort_by_key(|voter| {
        let ballot = &ballots[*voter];
        let is_other = tally.choice.as_ref() != Some(&ballot.choice);
        (is_other, Reverse(weights[*voter].to_bits()), ballot.voter.clone())
    });
    movers
}

/// Advances to the next set of the same size of indices below `count`, in lexicographic order.
fn next_set(set: &mut [usize], count: usize) -> bool {
    let size = set.len();
    let Some(position) = (0..size).rev().find(|position| set[*position] < count - size + position) else {
        return false;
    };
    set[position] += 1;
    for next in position + 1..size {
        set[next] = set[next - 1] + 1;
    }
    true
}

struct Search<'a> {
    method: TallyMethod,
    questions: &'a [Question],
    index: usize,
}

impl Search<'_> {
    /// Voters who do not hold the rival's position already.
    fn movable(&self, movers: &[usize], rival: &str) -> Vec<usize> {
        let ballots = &self.questions[self.index].ballots;
        movers.iter().copied().filter(|voter| ballots[*voter].choice != rival).collect()
    }

    /// Whether the rival wins once these voters have moved to it.
    fn wins(&self, rival: &str, chosen: &[usize]) -> bool {
        let mut questions = self.questions.to_vec();
        for voter in chosen {
            let ballot = &mut questions[self.index].ballots[*voter];
            rival.clone_into(&mut ballot.choice);
            if !ballot.ranking.is_empty() {
                ballot.ranking.retain(|choice| choice != rival);
                ballot.ranking.insert(0, rival.to_owned());
            }
        }
        let tallies = tally_questions(self.method, &questions);
        tallies.is_ok_and(|tallies| tallies[self.index].choice.as_deref() == Some(rival))
    }

    fn flip(&self, rival: &str, chosen: &[usize], smallest: bool) -> PivotalVoters {
        let ballots = &self.questions[self.index].ballots;
        let mut voters: Vec<String> = chosen.iter().map(|voter| ballots[*voter].voter.clone()).collect();
        voters.sort();
        PivotalVoters { to: rival.to_owned(), voters, smallest }
    }

    /// Finds a sufficient set by moving voters one by one. A unanimous choice wins under every rule, so every rival has
    /// one.
    fn greedy(&self, rivals: &[&str], movers: &[usize]) -> Option<PivotalVoters> {
        let sufficient = rivals.iter().filter_map(|rival| {
            let movable = self.movable(movers, rival);
            let size = (1..=movable.len()).find(|size| self.wins(rival, &movable[..*size]))?;
            Some(self.flip(rival, &movable[..size], false))
        });
        sufficient.min_by_key(|pivotal| pivotal.voters.len())
    }
}
