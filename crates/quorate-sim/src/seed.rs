//! Chance that can be had again: every run prints its seed, and the same seed makes the same choices.

use std::sync::Arc;

use quorate_store::Chance;

/// The seed of this run: from `QUORATE_SEED`, else a new one.
///
/// # Panics
/// When the variable is set and is not a number.
#[must_use]
pub fn of_run() -> u64 {
    // Small enough to be typed again.
    number("QUORATE_SEED").unwrap_or_else(|| Dice::new(Chance::system()).below(1_000_000_000))
}

/// A number from the environment, if it is set.
///
/// # Panics
/// When the variable is set and is not a number.
#[must_use]
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// Throws numbers.
#[derive(Clone, Debug)]
pub struct Dice(Arc<Chance>);

impl Dice {
    /// Dice over a source of chance.
    #[must_use]
    pub fn new(chance: Arc<Chance>) -> Self {
        Self(chance)
    }

    /// Dice that fall the same way for the same seed and the same name.
    #[must_use]
    pub fn seeded(seed: u64, name: &str) -> Self {
        let mixed =
            name.bytes().fold(seed, |mixed, byte| mixed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
        Self(Chance::seeded(mixed))
    }

    /// A number below a bound.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        let drawn = self.0.sixteen();
        u64::from_be_bytes(drawn[..8].try_into().expect("eight bytes")) % bound
    }

    /// One of several.
    #[must_use]
    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// True in so many of a hundred cases.
    #[must_use]
    pub fn percent(&self, chance: u64) -> bool {
        self.below(100) < chance
    }
}
