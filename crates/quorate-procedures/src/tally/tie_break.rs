//! Tie-breaks. A tie is not a decision; only a tie-break that the playbook declares can break it.

use serde::{Deserialize, Serialize};

use super::{Ballot, score};

/// Rule that breaks a tie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TieBreak {
    /// The tied choice with the most ballots. Remains a tie if several have as many.
    MostVoters,
    /// The tied choice with the highest single confidence. Remains a tie if several are equal.
    HighestConfidence,
    /// The tied choice that comes first in the declared options; alphabetically where none are declared.
    FirstListed,
    /// The tied choice that comes last in the declared options; alphabetically where none are declared.
    LastListed,
}

impl TieBreak {
    /// All tie-breaks.
    pub const ALL: [Self; 4] =
        [Self::MostVoters, Self::HighestConfidence, Self::FirstListed, Self::LastListed];

    /// Name of the tie-break in playbooks and results.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MostVoters => "most-voters",
            Self::HighestConfidence => "highest-confidence",
            Self::FirstListed => "first-listed",
            Self::LastListed => "last-listed",
        }
    }

    /// Returns the tie-break with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tie_break| tie_break.as_str() == name)
    }

    /// The choice that wins the tie, if this tie-break distinguishes the tied choices.
    pub(super) fn winner(self, tied: &[String], options: &[String], ballots: &[&Ballot]) -> Option<String> {
        #[allow(clippy::cast_precision_loss)]
        let voters = |choice: &str| ballots.iter().filter(|ballot| ballot.choice == choice).count() as f64;
        let weights = score::weights(ballots);
        let highest_confidence = |choice: &str| {
            let weighted = ballots.iter().zip(&weights).filter(|(ballot, _)| ballot.choice == choice);
            weighted.map(|(_, weight)| *weight).fold(0.0, f64::max)
        };
        let rank = |choice: &String| {
            let listed = options.iter().position(|option| option == choice);
            (listed.unwrap_or(usize::MAX), choice.clone())
        };
        match self {
            Self::MostVoters => only_greatest(tied, voters),
            Self::HighestConfidence => only_greatest(tied, highest_confidence),
            Self::FirstListed => tied.iter().min_by_key(|choice| rank(choice)).cloned(),
            Self::LastListed => tied.iter().max_by_key(|choice| rank(choice)).cloned(),
        }
    }
}

/// Returns the choice with the greatest value, unless another choice has the same value.
fn only_greatest(tied: &[String], value: impl Fn(&str) -> f64) -> Option<String> {
    let greatest = tied.iter().map(|choice| value(choice)).fold(f64::NEG_INFINITY, f64::max);
    let mut greatest_choices = tied.iter().filter(|choice| greatest - value(choice) < super::TIE_TOLERANCE);
    greatest_choices.next().filter(|_| greatest_choices.next().is_none()).cloned()
}
