//! What would change the outcome: the smallest set of voters who, had they chosen another named choice with the same confidence, would
//! have made that choice win. A tie is no win unless the declared tie-break decides it.
//!
//! Sets are tried by size, so the first that suffices is a smallest one. The number of counts is bounded: where no set was found within
//! [`COUNTS_MAX`], voters are moved one after the other until the choice wins, and the result is marked as not the smallest.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::{Ballot, Counting, Question, Rule, Tally, score, tally};

/// How many counts are made in search of the smallest set. Covers all sets of up to 8 voters with 8 choices.
const COUNTS_MAX: usize = 2_000;

/// Some voters who, had they chosen otherwise, would have changed the outcome.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flip {
    /// What would have won.
    pub to: String,
    /// Had these chosen it.
    pub voters: Vec<String>,
    /// Whether no smaller set of voters would do; `false` where the search was cut short.
    pub smallest: bool,
}

/// The smallest change that makes another choice win the question at `index`; `None` where no other choice was named.
#[must_use]
pub fn flip(counting: impl Into<Counting>, questions: &[Question], index: usize) -> Option<Flip> {
    let counting = counting.into();
    // Only `reliability` looks at the other questions.
    let (questions, index) = match counting.rule {
        Rule::Reliability => (questions.to_vec(), index),
        _ => (vec![questions.get(index)?.clone()], 0),
    };
    let counted = tally(counting, &questions).ok()?.into_iter().nth(index)?;
    let winner = counted.choice.as_deref();
    let rivals = counted.shares.iter().map(|share| share.choice.as_str());
    let rivals: Vec<&str> = rivals.filter(|choice| Some(*choice) != winner).collect();
    let movers = movers(&questions[index].ballots, &counted);
    let search = Search { counting, questions: &questions, index };
    let mut counts_left = COUNTS_MAX / questions.len().max(1);
    for size in 1..=movers.len() {
        // The rival with the greatest share comes first: of equals it is the closest.
        for rival in &rivals {
            let able: Vec<usize> = search.able(&movers, rival);
            let mut set: Vec<usize> = (0..size).collect();
            while size <= able.len() {
                if counts_left == 0 {
                    return search.one_by_one(&rivals, &movers);
                }
                counts_left -= 1;
                let chosen: Vec<usize> = set.iter().map(|at| able[*at]).collect();
                if search.wins(rival, &chosen) {
                    return Some(search.flip(rival, &chosen, true));
                }
                if !next_set(&mut set, able.len()) {
                    break;
                }
            }
        }
    }
    None
}

/// All voters: those of the winner first, within each group the surest first.
fn movers(ballots: &[Ballot], counted: &Tally) -> Vec<usize> {
    let weights = score::weights(&ballots.iter().collect::<Vec<_>>());
    let mut movers: Vec<usize> = (0..ballots.len()).collect();
    movers.sort_by_key(|at| {
        let ballot = &ballots[*at];
        let is_other = counted.choice.as_ref() != Some(&ballot.choice);
        (is_other, Reverse(weights[*at].to_bits()), ballot.voter.clone())
    });
    movers
}

/// The next set of as many indices below `count`, in lexicographic order.
fn next_set(set: &mut [usize], count: usize) -> bool {
    let size = set.len();
    let Some(at) = (0..size).rev().find(|at| set[*at] < count - size + at) else { return false };
    set[at] += 1;
    for next in at + 1..size {
        set[next] = set[next - 1] + 1;
    }
    true
}

struct Search<'a> {
    counting: Counting,
    questions: &'a [Question],
    index: usize,
}

impl Search<'_> {
    /// Those who do not hold the rival already.
    fn able(&self, movers: &[usize], rival: &str) -> Vec<usize> {
        let ballots = &self.questions[self.index].ballots;
        movers.iter().copied().filter(|at| ballots[*at].choice != rival).collect()
    }

    /// Whether the rival wins once these voters have moved to it.
    fn wins(&self, rival: &str, chosen: &[usize]) -> bool {
        let mut questions = self.questions.to_vec();
        for at in chosen {
            let ballot = &mut questions[self.index].ballots[*at];
            rival.clone_into(&mut ballot.choice);
            if !ballot.ranking.is_empty() {
                ballot.ranking.retain(|choice| choice != rival);
                ballot.ranking.insert(0, rival.to_owned());
            }
        }
        let counted = tally(self.counting, &questions);
        counted.is_ok_and(|counted| counted[self.index].choice.as_deref() == Some(rival))
    }

    fn flip(&self, rival: &str, chosen: &[usize], smallest: bool) -> Flip {
        let ballots = &self.questions[self.index].ballots;
        let mut voters: Vec<String> = chosen.iter().map(|at| ballots[*at].voter.clone()).collect();
        voters.sort();
        Flip { to: rival.to_owned(), voters, smallest }
    }

    /// A set that suffices. What all choose wins under every rule, so there is one for every rival.
    fn one_by_one(&self, rivals: &[&str], movers: &[usize]) -> Option<Flip> {
        let enough = rivals.iter().filter_map(|rival| {
            let able = self.able(movers, rival);
            let size = (1..=able.len()).find(|size| self.wins(rival, &able[..*size]))?;
            Some(self.flip(rival, &able[..size], false))
        });
        enough.min_by_key(|flip| flip.voters.len())
    }
}
