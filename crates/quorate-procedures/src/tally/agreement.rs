//! Degree of agreement between voters: a closed set of verdicts with their numbers, computed from a [`Tally`].
//!
//! | verdict | condition | as text |
//! |---|---|---|
//! | `unanimous` | at least two ballots, all for the same choice | `unanimous` |
//! | `majority` | more than half of the ballots are for the winner | `majority 4 of 5` |
//! | `contested` | the winner has at most half of the ballots | `contested: 1 of 3, by weight` |
//! | `tied` | several choices are tied for first place, and no declared tie-break decides | `tied` |
//! | `not_comparable` | fewer than two ballots | `not comparable (no recommendations given)` |

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Tally, TieBreak, VotingRule};

/// Degree of agreement between the voters on one question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "level", rename_all = "snake_case")]
pub enum Agreement {
    /// All voters hold the same position.
    Unanimous {
        /// Number of voters for the winner.
        held: usize,
        /// Number of ballots.
        of: usize,
    },
    /// More than half of the voters are for the winner.
    Majority {
        /// Number of voters for the winner.
        held: usize,
        /// Number of ballots.
        of: usize,
        /// The declared tie-break that decided, if there was a tie.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tie_break: Option<TieBreak>,
    },
    /// At most half of the voters are for the winner: the voting rule decided.
    Contested {
        /// Number of voters for the winner.
        held: usize,
        /// Number of ballots.
        of: usize,
        /// The rule that determined the winner.
        rule: VotingRule,
        /// The declared tie-break that decided, if there was a tie.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tie_break: Option<TieBreak>,
    },
    /// There is no winner.
    Tied {
        /// The choices tied for first place.
        between: Vec<String>,
        /// Number of ballots.
        of: usize,
    },
    /// There are no positions to compare.
    NotComparable {
        /// Reason why positions cannot be compared.
        reason: Incomparable,
    },
}

/// Reason why positions cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Incomparable {
    /// No agent gave a recommendation.
    NoRecommendations,
    /// There is only one position.
    OnePosition,
}

impl Agreement {
    /// Derives the verdict from a tally; `None` if there were no ballots.
    #[must_use]
    pub fn of(tally: Option<&Tally>) -> Self {
        let Some(tally) = tally else {
            return Self::NotComparable { reason: Incomparable::NoRecommendations };
        };
        let (of, rule, tie_break) = (tally.ballots.len(), tally.rule, tally.tie_break);
        let Some(winner) = &tally.choice else {
            return Self::Tied { between: tally.tied.clone(), of };
        };
        let held = tally.ballots.iter().filter(|ballot| ballot.choice == *winner).count();
        match (held, of) {
            (_, 0..=1) => Self::NotComparable { reason: Incomparable::OnePosition },
            (held, of) if held == of => Self::Unanimous { held, of },
            (held, of) if 2 * held > of => Self::Majority { held, of, tie_break },
            (held, of) => Self::Contested { held, of, rule, tie_break },
        }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unanimous { .. } => out.write_str("unanimous"),
            Self::Majority { held, of, tie_break: None } => write!(out, "majority {held} of {of}"),
            Self::Majority { held, of, tie_break: Some(tie_break) } => {
                write!(out, "majority {held} of {of}, by tie-break {}", tie_break.as_str())
            }
            Self::Contested { held, of, rule, tie_break } => {
                let by = match (tie_break, rule) {
                    (Some(tie_break), _) => format!("tie-break {}", tie_break.as_str()),
                    (None, VotingRule::Majority) => "plurality".to_owned(),
                    (None, VotingRule::Borda) => "points".to_owned(),
                    (None, VotingRule::Confidence | VotingRule::LogOdds | VotingRule::Reliability) => {
                        "weight".to_owned()
                    }
                };
                write!(out, "contested: {held} of {of}, by {by}")
            }
            Self::Tied { .. } => out.write_str("tied"),
            Self::NotComparable { reason: Incomparable::NoRecommendations } => {
                out.write_str("not comparable (no recommendations given)")
            }
            Self::NotComparable { reason: Incomparable::OnePosition } => {
                out.write_str("not comparable (only one position given)")
            }
        }
    }
}
