//! Voting rules: turn ballots into an outcome. Pure functions; the order of the ballots does not matter.
//!
//! | rule | weight of a ballot | share of a choice |
//! |---|---|---|
//! | `majority` | 1 | votes for the choice / all votes |
//! | `confidence` | its confidence | confidence for the choice / all confidence |
//! | `log-odds` | ln(p (K − 1) / (1 − p)), p its confidence within 0.01 and 0.99, K the choices named (at least 2) | probability of the choice, assuming that each voter is right with its stated confidence, independently of the others |
//! | `borda` | K − 1 points for its first, K − 2 for its second …; unranked choices share the remaining points | points of the choice / all points |
//! | `reliability` | derived from the voter's confusion matrix, see [`reliability`] | probability of the choice |
//!
//! A ballot without a confidence counts with the mean of the confidences stated on its question, or with weight 1 if
//! none is stated: omitting it is neither rewarded nor penalised.
//!
//! **Ties.** Choices whose shares differ by less than 10⁻⁹ from the greatest are tied. A tie has no winner unless a
//! [`TieBreak`] was declared. Tied choices are listed by number of ballots, then highest single confidence, then name;
//! that order decides nothing.

mod agreement;
mod median;
mod pivotal;
pub mod reliability;
mod score;
mod tie_break;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use agreement::{Agreement, Incomparable};
pub use median::{WeightedMedian, weighted_median};
pub use pivotal::{PivotalVoters, pivotal_voters};
pub(crate) use score::weights;
pub use tie_break::TieBreak;

/// Tolerance for equal shares, because sums of decimals are not exact.
pub const TIE_TOLERANCE: f64 = 1e-9;

/// Voting rule of a tally.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VotingRule {
    /// One ballot, one vote.
    Majority,
    /// A ballot is weighted by its confidence.
    #[default]
    Confidence,
    /// Confidences are interpreted as probabilities and combined as log odds.
    LogOdds,
    /// Rankings earn points.
    Borda,
    /// Each voter's weight is estimated from all questions together.
    Reliability,
}

impl VotingRule {
    /// All rules.
    pub const ALL: [Self; 5] =
        [Self::Majority, Self::Confidence, Self::LogOdds, Self::Borda, Self::Reliability];

    /// Name of the rule in playbooks and results.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Majority => "majority",
            Self::Confidence => "confidence",
            Self::LogOdds => "log-odds",
            Self::Borda => "borda",
            Self::Reliability => "reliability",
        }
    }

    /// Returns the rule with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.as_str() == name)
    }
}

/// Voting rule and declared tie-break.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TallyMethod {
    /// Voting rule.
    pub rule: VotingRule,
    /// Tie-break; without one a tie has no winner.
    pub tie_break: Option<TieBreak>,
}

impl From<VotingRule> for TallyMethod {
    fn from(rule: VotingRule) -> Self {
        Self { rule, tie_break: None }
    }
}

/// Vote of one voter on one question.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Ballot {
    /// Name of the voter.
    pub voter: String,
    /// The option voted for.
    pub choice: String,
    /// Confidence of the voter, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// The choices, best first. Used by `borda` only; if empty, the choice alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<String>,
    /// Reason that the voter gives.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A question and its ballots.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Question {
    /// Name, unique among the questions of a tally.
    pub name: String,
    /// The declared options in order, for tie-breaks; empty if any choice is allowed.
    pub options: Vec<String>,
    /// The ballots, at most one per voter.
    pub ballots: Vec<Ballot>,
}

/// Share of a choice in the total.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Share {
    /// The choice.
    pub choice: String,
    /// Between 0 and 1; the shares of a question add up to 1.
    pub share: f64,
    /// Number of ballots for this choice.
    pub votes: usize,
}

/// Result of a question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// The voting rule that was applied.
    pub rule: VotingRule,
    /// The winner; `None` for a tie that no tie-break decided.
    pub choice: Option<String>,
    /// Every choice that was named, the winner first.
    pub shares: Vec<Share>,
    /// The choices tied for first place; empty if there is a single leader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tied: Vec<String>,
    /// The declared tie-break that decided, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_break: Option<TieBreak>,
    /// Every ballot, ordered by voter name.
    pub ballots: Vec<Ballot>,
}

impl Tally {
    /// Whether several choices are tied for first place.
    #[must_use]
    pub fn is_tie(&self) -> bool {
        !self.tied.is_empty()
    }

    /// Difference between the share of the winner and that of the runner-up.
    #[must_use]
    pub fn margin(&self) -> f64 {
        self.share() - self.shares.get(1).map_or(0.0, |next| next.share)
    }

    /// Share of the winner, or of each tied choice.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.shares.first().map_or(0.0, |first| first.share)
    }

    /// Ballots for other choices than the winner.
    pub fn minority(&self) -> impl Iterator<Item = &Ballot> {
        let is_other = |ballot: &&Ballot| self.choice.as_ref().is_some_and(|winner| ballot.choice != *winner);
        self.ballots.iter().filter(is_other)
    }
}

/// Reason why ballots cannot be tallied.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BallotError {
    /// There are no ballots.
    #[error("no ballots to tally")]
    NoBallots,
    /// The confidence is out of range.
    #[error("invalid confidence {confidence} of voter {voter}: must be between 0 and 1")]
    InvalidConfidence {
        /// Name of the voter.
        voter: String,
        /// The confidence as given.
        confidence: String,
    },
    /// A voter cast two ballots on the same question.
    #[error("voter {voter} cast more than one ballot")]
    DuplicateVoter {
        /// Name of the voter.
        voter: String,
    },
    /// A ranking contains a choice twice.
    #[error("the ranking of voter {voter} contains {choice} twice")]
    DuplicateRank {
        /// Name of the voter.
        voter: String,
        /// The repeated choice.
        choice: String,
    },
    /// A ranking does not start with the choice of its ballot.
    #[error("voter {voter} chose {choice} but ranks {first} first")]
    RankMismatch {
        /// Name of the voter.
        voter: String,
        /// The choice of the ballot.
        choice: String,
        /// The choice ranked first.
        first: String,
    },
}

impl Ballot {
    /// Checks that the ballot can be tallied.
    ///
    /// # Errors
    /// If its confidence or its ranking is invalid.
    pub fn check(&self) -> Result<(), BallotError> {
        if let Some(confidence) = self.confidence
            && !(0.0..=1.0).contains(&confidence)
        {
            let confidence = confidence.to_string();
            return Err(BallotError::InvalidConfidence { voter: self.voter.clone(), confidence });
        }
        let mut seen = BTreeSet::new();
        if let Some(choice) = self.ranking.iter().find(|choice| !seen.insert(choice.as_str())) {
            let (voter, choice) = (self.voter.clone(), choice.clone());
            return Err(BallotError::DuplicateRank { voter, choice });
        }
        match self.ranking.first() {
            Some(first) if *first != self.choice => Err(BallotError::RankMismatch {
                voter: self.voter.clone(),
                choice: self.choice.clone(),
                first: first.clone(),
            }),
            _ => Ok(()),
        }
    }
}

impl Question {
    /// Checks that the question can be tallied.
    ///
    /// # Errors
    /// If a ballot is invalid, a voter has two, or there are no ballots.
    pub fn check(&self) -> Result<(), BallotError> {
        if self.ballots.is_empty() {
            return Err(BallotError::NoBallots);
        }
        let mut voters = BTreeSet::new();
        for ballot in &self.ballots {
            ballot.check()?;
            if !voters.insert(ballot.voter.as_str()) {
                return Err(BallotError::DuplicateVoter { voter: ballot.voter.clone() });
            }
        }
        Ok(())
    }
}

/// Tallies questions. `reliability` learns from all questions together; the other rules treat each question on its own.
///
/// # Errors
/// If a question cannot be tallied: its index and the reason.
pub fn tally_questions(
    method: impl Into<TallyMethod>,
    questions: &[Question],
) -> Result<Vec<Tally>, (usize, BallotError)> {
    let method = method.into();
    for (index, question) in questions.iter().enumerate() {
        question.check().map_err(|error| (index, error))?;
    }
    if method.rule == VotingRule::Reliability {
        let estimate = reliability::estimate_reliability(questions);
        let scored = questions.iter().zip(estimate.shares);
        return Ok(scored.map(|(question, shares)| determine_winner(method, question, shares)).collect());
    }
    let tally = |question: &Question| {
        let ballots = sorted(&question.ballots);
        determine_winner(method, question, score::shares(method.rule, &ballots))
    };
    Ok(questions.iter().map(tally).collect())
}

/// Orders ballots by voter, so that floating-point sums do not depend on the order of arrival.
fn sorted(ballots: &[Ballot]) -> Vec<&Ballot> {
    let mut sorted: Vec<&Ballot> = ballots.iter().collect();
    sorted.sort_by(|a, b| a.voter.cmp(&b.voter));
    sorted
}

/// Orders the choices and determines the winner: the single leader, or the choice that the declared tie-break selects.
fn determine_winner(method: TallyMethod, question: &Question, shares: Vec<(String, f64)>) -> Tally {
    let ballots = sorted(&question.ballots);
    let mut shares = order_shares(&ballots, shares);
    let greatest = shares.iter().map(|share| share.share).fold(0.0, f64::max);
    let leaders: Vec<String> = shares
        .iter()
        .filter(|share| greatest - share.share < TIE_TOLERANCE)
        .map(|share| share.choice.clone())
        .collect();
    let (choice, tie_break) = match leaders.as_slice() {
        [only] => (Some(only.clone()), None),
        tied => {
            let selected =
                method.tie_break.and_then(|tie_break| tie_break.winner(tied, &question.options, &ballots));
            let tie_break = method.tie_break.filter(|_| selected.is_some());
            (selected, tie_break)
        }
    };
    if let Some(index) =
        choice.as_ref().and_then(|winner| shares.iter().position(|share| share.choice == *winner))
    {
        shares[..=index].rotate_right(1);
    }
    Tally {
        rule: method.rule,
        choice,
        tied: if leaders.len() > 1 { leaders } else { Vec::new() },
        tie_break,
        shares,
        ballots: ballots.into_iter().cloned().collect(),
    }
}

/// Orders choices by share, descending; ties for first place by number of ballots, then highest confidence, then name.
fn order_shares(ballots: &[&Ballot], shares: Vec<(String, f64)>) -> Vec<Share> {
    let weights = score::weights(ballots);
    let votes = |choice: &str| ballots.iter().filter(|ballot| ballot.choice == choice).count();
    let highest_confidence = |choice: &str| {
        let weighted = ballots.iter().zip(&weights).filter(|(ballot, _)| ballot.choice == choice);
        weighted.map(|(_, weight)| *weight).fold(0.0, f64::max)
    };
    let greatest = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    // Only the leaders can be tied; below them the exact share decides.
    let key = |share: f64| if greatest - share < TIE_TOLERANCE { greatest } else { share };
    let mut shares: Vec<(Share, f64)> = shares
        .into_iter()
        .map(|(choice, share)| {
            let confidence = highest_confidence(&choice);
            (Share { votes: votes(&choice), choice, share }, confidence)
        })
        .collect();
    shares.sort_by(|(a, a_confidence), (b, b_confidence)| {
        let by_share = key(b.share).total_cmp(&key(a.share));
        let by_votes = by_share.then(b.votes.cmp(&a.votes));
        by_votes.then(b_confidence.total_cmp(a_confidence)).then_with(|| a.choice.cmp(&b.choice))
    });
    shares.into_iter().map(|(share, _)| share).collect()
}
