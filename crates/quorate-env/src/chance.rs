//! Random bytes: identities of spaces, salts of payloads and secrets of tokens. The only place that asks the system for them.

use std::sync::{Arc, Mutex, PoisonError};

/// A source of random bytes.
#[derive(Debug)]
pub struct Chance(Source);

#[derive(Debug)]
enum Source {
    /// The system's, drawn in blocks: one call to the kernel serves many payloads.
    System(Box<Mutex<Block>>),
    /// The same sequence for the same seed: for tests.
    Seeded(Mutex<u64>),
}

#[derive(Debug)]
struct Block {
    bytes: [u8; 1024],
    used: usize,
}

impl Chance {
    /// Real chance.
    #[must_use]
    pub fn system() -> Arc<Self> {
        Arc::new(Self(Source::System(Box::new(Mutex::new(Block { bytes: [0; 1024], used: 1024 })))))
    }

    /// The same sequence for the same seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Arc<Self> {
        Arc::new(Self(Source::Seeded(Mutex::new(seed))))
    }

    /// Sixteen random bytes, never all zero: zeros mark what was erased.
    ///
    /// # Panics
    /// When the system has no randomness to give. Going on without would make digests guessable.
    #[must_use]
    pub fn sixteen(&self) -> [u8; 16] {
        let mut drawn = [0; 16];
        while drawn == [0; 16] {
            drawn = match &self.0 {
                Source::System(block) => block.lock().unwrap_or_else(PoisonError::into_inner).draw(),
                Source::Seeded(state) => {
                    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                    let (high, low) = (split_mix(&mut state), split_mix(&mut state));
                    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
                }
            };
        }
        drawn
    }

    /// Thirty-two random bytes: a secret.
    ///
    /// # Panics
    /// As [`Chance::sixteen`].
    #[must_use]
    pub fn thirty_two(&self) -> [u8; 32] {
        let mut drawn = [0; 32];
        drawn[..16].copy_from_slice(&self.sixteen());
        drawn[16..].copy_from_slice(&self.sixteen());
        drawn
    }
}

impl Block {
    fn draw(&mut self) -> [u8; 16] {
        if self.used == self.bytes.len() {
            getrandom::fill(&mut self.bytes).expect("the system gives random bytes");
            self.used = 0;
        }
        let mut drawn = [0; 16];
        drawn.copy_from_slice(&self.bytes[self.used..self.used + 16]);
        self.used += 16;
        drawn
    }
}

/// The generator SplitMix64: small, and good enough for seeds.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
