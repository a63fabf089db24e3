//! Reproducible randomness: every run prints its seed, and the same seed gives the same choices.

use std::sync::Arc;

use quorate_store::Entropy;

/// Returns the seed of this run: `QUORATE_SEED` if set, otherwise a random one.
///
/// # Panics
/// If the variable is set but not a number.
#[must_use]
pub fn run_seed() -> u64 {
    // Small enough to type.
    env_number("QUORATE_SEED").unwrap_or_else(|| Rng::new(Entropy::system()).below(1_000_000_000))
}

/// Returns a number from an environment variable, if it is set.
///
/// # Panics
/// If the variable is set but not a number.
#[must_use]
pub fn env_number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("invalid {variable}: `{text}` is not a number")))
}

/// Random number generator.
#[derive(Clone, Debug)]
pub struct Rng(Arc<Entropy>);

impl Rng {
    /// Creates a generator over a source of entropy.
    #[must_use]
    pub fn new(entropy: Arc<Entropy>) -> Self {
        Self(entropy)
    }

    /// Creates a generator that is determined by the seed and the name.
    #[must_use]
    pub fn seeded(seed: u64, name: &str) -> Self {
        let mixed =
            name.bytes().fold(seed, |mixed, byte| mixed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
        Self(Entropy::seeded(mixed))
    }

    /// Returns a number below `bound`.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        let bytes = self.0.bytes_16();
        u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes")) % bound
    }

    /// Returns a random element.
    #[must_use]
    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Returns true with a probability of `percent` in 100.
    #[must_use]
    pub fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
