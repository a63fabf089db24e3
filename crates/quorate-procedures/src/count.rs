//! Counting rules: ballots in, an outcome out. Pure functions; the order of the ballots changes nothing.
//!
//! | rule | what a ballot weighs | what a share is |
//! |---|---|---|
//! | `majority` | 1 | votes for the choice / all votes |
//! | `confidence` | its confidence | confidence for the choice / all confidence |
//! | `log-odds` | ln(p (K − 1) / (1 − p)), p its confidence within 0.01 and 0.99, K the choices named (at least 2) | the probability of the choice, if each voter is right with its stated confidence, independently of the others |
//! | `borda` | K − 1 points for its first, K − 2 for its second …; what it does not rank shares the rest | points of the choice / all points |
//! | `reliability` | what the voter's confusion matrix says, see [`reliability`] | the probability of the choice |
//!
//! A ballot without a confidence counts as the mean of those stated on its question, and in full where nobody stated one: to say
//! nothing is neither rewarded nor punished.
//!
//! **Ties.** Choices whose shares differ by less than 10⁻⁹ from the greatest are tied. A tie has no winner unless a [`TieBreak`] was
//! declared. Tied choices are listed by most ballots, then the highest single confidence, then their name; that order decides nothing.

mod agreement;
mod flip;
mod median;
pub mod reliability;
mod score;
mod tie;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use agreement::{Agreement, Incomparable};
pub use flip::{Flip, flip};
pub use median::{Merged, merge};
pub(crate) use score::weights;
pub use tie::TieBreak;

/// Shares that differ by less than this are equal: sums of decimals are not exact.
pub const TIE: f64 = 1e-9;

/// How ballots are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// One ballot, one vote.
    Majority,
    /// A ballot weighs what its voter is sure of.
    #[default]
    Confidence,
    /// Confidences are read as probabilities.
    LogOdds,
    /// Rankings give points.
    Borda,
    /// What a voter is worth is learnt from all questions together.
    Reliability,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 5] =
        [Self::Majority, Self::Confidence, Self::LogOdds, Self::Borda, Self::Reliability];

    /// Its name.
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

    /// The rule with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.as_str() == name)
    }
}

/// The rule in force, and the declared tie-break.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counting {
    /// How ballots are counted.
    pub rule: Rule,
    /// How a tie is broken; without one a tie has no winner.
    pub tie_break: Option<TieBreak>,
}

impl From<Rule> for Counting {
    fn from(rule: Rule) -> Self {
        Self { rule, tie_break: None }
    }
}

/// One voter's word on one question.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Ballot {
    /// Who votes.
    pub voter: String,
    /// For what.
    pub choice: String,
    /// How sure, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// The choices, best first. Only `borda` looks at it; without one it is the choice alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A question and what was said on it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Question {
    /// What tells it from the others.
    pub name: String,
    /// The declared choices in their order, for tie-breaks; empty if any choice may be named.
    pub options: Vec<String>,
    /// At most one of each voter.
    pub ballots: Vec<Ballot>,
}

/// How much of the whole a choice has.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Share {
    /// The choice.
    pub choice: String,
    /// Between 0 and 1; all shares of a question add up to 1.
    pub share: f64,
    /// How many ballots name it as their choice.
    pub votes: usize,
}

/// What came out of a question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// How it was counted.
    pub rule: Rule,
    /// What won; `None` if the first place is shared and no tie-break decided.
    pub choice: Option<String>,
    /// Every choice that was named, the winner first.
    pub shares: Vec<Share>,
    /// The choices that share the first place; empty if one is ahead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tied: Vec<String>,
    /// The declared tie-break that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_break: Option<TieBreak>,
    /// Every ballot, in the order of the voters' names.
    pub ballots: Vec<Ballot>,
}

impl Tally {
    /// Whether the first place is shared.
    #[must_use]
    pub fn is_tie(&self) -> bool {
        !self.tied.is_empty()
    }

    /// How far the winner is ahead of the next.
    #[must_use]
    pub fn margin(&self) -> f64 {
        self.share() - self.shares.get(1).map_or(0.0, |next| next.share)
    }

    /// The winner's share, or that of each of the tied.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.shares.first().map_or(0.0, |first| first.share)
    }

    /// Those who chose something else than the winner, with their reasons.
    pub fn minority(&self) -> impl Iterator<Item = &Ballot> {
        let is_other = |ballot: &&Ballot| self.choice.as_ref().is_some_and(|won| ballot.choice != *won);
        self.ballots.iter().filter(is_other)
    }
}

/// What cannot be counted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Uncountable {
    /// Nobody voted.
    #[error("there is no ballot")]
    NoBallot,
    /// A confidence that is none.
    #[error("the confidence of {voter} is {confidence}, not between 0 and 1")]
    Confidence {
        /// Whose ballot.
        voter: String,
        /// As it was given.
        confidence: String,
    },
    /// A second ballot on the same question.
    #[error("{voter} votes twice")]
    Twice {
        /// Who.
        voter: String,
    },
    /// A ranking that names a choice twice.
    #[error("the ranking of {voter} names {choice} twice")]
    RankedTwice {
        /// Whose ballot.
        voter: String,
        /// What is in it twice.
        choice: String,
    },
    /// A ranking that begins with something else than the choice.
    #[error("{voter} chooses {choice}, but ranks {first} first")]
    NotFirst {
        /// Whose ballot.
        voter: String,
        /// What it chooses.
        choice: String,
        /// What it ranks first.
        first: String,
    },
}

impl Ballot {
    /// Whether it can be counted at all.
    ///
    /// # Errors
    /// When its confidence or its ranking cannot be.
    pub fn check(&self) -> Result<(), Uncountable> {
        if let Some(confidence) = self.confidence
            && !(0.0..=1.0).contains(&confidence)
        {
            let confidence = confidence.to_string();
            return Err(Uncountable::Confidence { voter: self.voter.clone(), confidence });
        }
        let mut seen = BTreeSet::new();
        if let Some(choice) = self.ranking.iter().find(|choice| !seen.insert(choice.as_str())) {
            let (voter, choice) = (self.voter.clone(), choice.clone());
            return Err(Uncountable::RankedTwice { voter, choice });
        }
        match self.ranking.first() {
            Some(first) if *first != self.choice => Err(Uncountable::NotFirst {
                voter: self.voter.clone(),
                choice: self.choice.clone(),
                first: first.clone(),
            }),
            _ => Ok(()),
        }
    }
}

impl Question {
    /// # Errors
    /// When a ballot cannot be counted, a voter has two, or there is none.
    pub fn check(&self) -> Result<(), Uncountable> {
        if self.ballots.is_empty() {
            return Err(Uncountable::NoBallot);
        }
        let mut voters = BTreeSet::new();
        for ballot in &self.ballots {
            ballot.check()?;
            if !voters.insert(ballot.voter.as_str()) {
                return Err(Uncountable::Twice { voter: ballot.voter.clone() });
            }
        }
        Ok(())
    }
}

/// Counts questions; `reliability` learns from all of them together, the other rules look at each by itself.
///
/// # Errors
/// When a question cannot be counted: its place in the list and why.
pub fn tally(
    counting: impl Into<Counting>,
    questions: &[Question],
) -> Result<Vec<Tally>, (usize, Uncountable)> {
    let counting = counting.into();
    for (index, question) in questions.iter().enumerate() {
        question.check().map_err(|why| (index, why))?;
    }
    if counting.rule == Rule::Reliability {
        let learnt = reliability::learn(questions);
        let counted = questions.iter().zip(learnt.shares);
        return Ok(counted.map(|(question, shares)| settle(counting, question, shares)).collect());
    }
    let count = |question: &Question| {
        let ballots = sorted(&question.ballots);
        settle(counting, question, score::shares(counting.rule, &ballots))
    };
    Ok(questions.iter().map(count).collect())
}

/// The ballots in the order of their voters, so that sums come out the same whoever voted first.
fn sorted(ballots: &[Ballot]) -> Vec<&Ballot> {
    let mut sorted: Vec<&Ballot> = ballots.iter().collect();
    sorted.sort_by(|a, b| a.voter.cmp(&b.voter));
    sorted
}

/// Puts the choices in order and names the winner: the only first, or the one that the declared tie-break names.
fn settle(counting: Counting, question: &Question, shares: Vec<(String, f64)>) -> Tally {
    let ballots = sorted(&question.ballots);
    let mut shares = ranked(&ballots, shares);
    let greatest = shares.iter().map(|one| one.share).fold(0.0, f64::max);
    let first: Vec<String> =
        shares.iter().filter(|one| greatest - one.share < TIE).map(|one| one.choice.clone()).collect();
    let (choice, tie_break) = match first.as_slice() {
        [only] => (Some(only.clone()), None),
        tied => {
            let broken = counting.tie_break.and_then(|by| by.winner(tied, &question.options, &ballots));
            let by = counting.tie_break.filter(|_| broken.is_some());
            (broken, by)
        }
    };
    if let Some(at) = choice.as_ref().and_then(|won| shares.iter().position(|one| one.choice == *won)) {
        shares[..=at].rotate_right(1);
    }
    Tally {
        rule: counting.rule,
        choice,
        tied: if first.len() > 1 { first } else { Vec::new() },
        tie_break,
        shares,
        ballots: ballots.into_iter().cloned().collect(),
    }
}

/// The choices, the greatest share first; those that share the first place by ballots, then confidence, then name.
fn ranked(ballots: &[&Ballot], shares: Vec<(String, f64)>) -> Vec<Share> {
    let weights = score::weights(ballots);
    let votes = |choice: &str| ballots.iter().filter(|ballot| ballot.choice == choice).count();
    let surest = |choice: &str| {
        let weighed = ballots.iter().zip(&weights).filter(|(ballot, _)| ballot.choice == choice);
        weighed.map(|(_, weight)| *weight).fold(0.0, f64::max)
    };
    let greatest = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    // Only those at the top are tied; below it the share decides, to the last digit.
    let key = |share: f64| if greatest - share < TIE { greatest } else { share };
    let mut shares: Vec<(Share, f64)> = shares
        .into_iter()
        .map(|(choice, share)| {
            let sure = surest(&choice);
            (Share { votes: votes(&choice), choice, share }, sure)
        })
        .collect();
    shares.sort_by(|(a, a_sure), (b, b_sure)| {
        let by_share = key(b.share).total_cmp(&key(a.share));
        let by_votes = by_share.then(b.votes.cmp(&a.votes));
        by_votes.then(b_sure.total_cmp(a_sure)).then_with(|| a.choice.cmp(&b.choice))
    });
    shares.into_iter().map(|(share, _)| share).collect()
}
