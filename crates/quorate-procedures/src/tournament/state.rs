//! State of a tournament: the results so far, and the open matches of the current round.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ballot::CastBallot;
use super::pairing::{Candidate, pair};
use super::rating::{Game, estimate_ratings};
use super::spec::TournamentSpec;
use super::standings;

/// Maximum number of requests for the same argument or ballot.
pub(super) const ATTEMPTS_MAX: u32 = 3;

/// State of a tournament.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TournamentState {
    /// Number of the current round, starting at 1; 0 before the start.
    pub(super) round: u32,
    /// Closed matches, in the order in which they were closed.
    pub(super) closed: Vec<ClosedMatch>,
    /// Open matches of the current round, by number.
    pub(super) open: BTreeMap<u32, OpenMatch>,
    /// Order of the contestants after the last round, the best one first.
    pub(super) order: Vec<usize>,
    /// Number of rounds since the order changed.
    pub(super) unchanged: u32,
    /// Whether the tournament has ended.
    pub(super) ended: bool,
}

/// A closed match. Its ballots and debate are in the shared memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct ClosedMatch {
    pub(super) number: u32,
    pub(super) a: usize,
    pub(super) b: usize,
    /// Score of the first contestant; `None` if there are not two ballots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) score: Option<f64>,
}

/// An open match.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct OpenMatch {
    pub(super) a: usize,
    pub(super) b: usize,
    /// Arguments so far: the first contestant's, the second's, and so on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) arguments: Vec<Argument>,
    /// The request for the next argument.
    #[serde(default)]
    pub(super) argument: Attempt,
    /// Ballots: with the contestants in their places, and with changed places.
    pub(super) ballots: [Ballot; 2],
}

/// An argument of a debate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Argument {
    /// The agent that argued.
    pub(super) by: String,
    /// Its argument; empty if it gave none.
    pub(super) text: String,
}

/// A request that is repeated if its agent fails or its answer is invalid.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// Number of failed attempts.
    pub(super) failed: u32,
    /// Number of attempts after which the next agent was asked.
    pub(super) moved_on: u32,
    /// Why the last answer was invalid, for the agent that is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) wrong: Option<String>,
}

/// A ballot of a match.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ballot {
    /// Requested.
    Pending(Attempt),
    /// Received.
    Cast(CastBallot),
    /// No judge gave a valid one; the reason of the last failure.
    Failed(String),
}

impl Attempt {
    /// Counts an invalid answer: the same agent is asked once more with the reason, then the next one. Returns false if there
    /// were enough attempts.
    pub(super) fn reject(&mut self, reason: String) -> bool {
        self.failed += 1;
        if self.wrong.take().is_some() {
            self.moved_on += 1;
        } else {
            self.wrong = Some(reason);
        }
        self.failed < ATTEMPTS_MAX
    }

    /// Counts a failure of the agent: the next one is asked. Returns false if there were enough attempts.
    pub(super) fn fail(&mut self) -> bool {
        (self.failed, self.moved_on, self.wrong) = (self.failed + 1, self.moved_on + 1, None);
        self.failed < ATTEMPTS_MAX
    }
}

impl OpenMatch {
    fn new(a: usize, b: usize) -> Self {
        let ballots = [Ballot::Pending(Attempt::default()), Ballot::Pending(Attempt::default())];
        Self { a, b, arguments: Vec::new(), argument: Attempt::default(), ballots }
    }

    /// Returns the score of the first contestant if both ballots were cast.
    pub(super) fn score(&self) -> Option<f64> {
        match &self.ballots {
            [Ballot::Cast(first), Ballot::Cast(second)] => {
                Some(f64::midpoint(first.winner.score(), second.winner.score()))
            }
            _ => None,
        }
    }

    /// Whether no ballot is pending.
    pub(super) fn is_decided(&self) -> bool {
        !self.ballots.iter().any(|ballot| matches!(ballot, Ballot::Pending(_)))
    }
}

impl TournamentState {
    /// Returns the matches that are played now, with their numbers: the first open ones.
    pub(super) fn active(&self, spec: &TournamentSpec) -> impl Iterator<Item = (u32, &OpenMatch)> {
        self.open.iter().take(spec.limits.parallel as usize).map(|(number, open)| (*number, open))
    }

    /// Results of the closed matches, in order.
    pub(super) fn games(&self) -> Vec<Game> {
        let game = |closed: &ClosedMatch| Some(Game { a: closed.a, b: closed.b, score: closed.score? });
        self.closed.iter().filter_map(game).collect()
    }

    /// Opens the matches of the next round. Returns false if there are none.
    pub(super) fn open_round(
        &mut self,
        spec: &TournamentSpec,
        similarity: impl Fn(usize, usize) -> f64,
    ) -> bool {
        let estimate = estimate_ratings(spec.contestants.len(), &self.games());
        let mut matches = vec![0; spec.contestants.len()];
        for closed in &self.closed {
            matches[closed.a] += 1;
            matches[closed.b] += 1;
        }
        let candidates: Vec<Candidate> = matches
            .into_iter()
            .enumerate()
            .map(|(index, matches)| Candidate { index, matches })
            .filter(|candidate| candidate.matches < spec.limits.matches)
            .collect();
        let seed = spec.seed.wrapping_add(u64::from(self.round) << 32);
        let first = u32::try_from(self.closed.len()).unwrap_or(u32::MAX).saturating_add(1);
        let pairs = pair(&candidates, &estimate, similarity, seed);
        self.open = (first..).zip(pairs).map(|(number, (a, b))| (number, OpenMatch::new(a, b))).collect();
        self.round += u32::from(!self.open.is_empty());
        !self.open.is_empty()
    }

    /// Rates the results of all rounds. Returns whether the tournament can end early: the order has not changed for enough
    /// rounds, and no rank is provisional.
    pub(super) fn close_round(&mut self, spec: &TournamentSpec) -> bool {
        let games = self.games();
        let order = standings::order(&estimate_ratings(spec.contestants.len(), &games).ratings);
        self.unchanged = if order == self.order { self.unchanged + 1 } else { 0 };
        self.order = order;
        let limits = &spec.limits;
        let is_provisional = |index: usize| {
            let played = games.iter().filter(|game| game.a == index || game.b == index).count();
            played < limits.provisional_below as usize
        };
        limits.stable_rounds > 0
            && self.unchanged >= limits.stable_rounds
            && !(0..spec.contestants.len()).any(is_provisional)
    }
}
