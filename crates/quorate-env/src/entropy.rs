//! Random bytes for space identities, payload salts and token secrets. The only module that reads the system's entropy.

use std::sync::{Arc, Mutex, PoisonError};

/// A source of random bytes.
#[derive(Debug)]
pub struct Entropy(Source);

#[derive(Debug)]
enum Source {
    /// The system's random source, read in blocks: one system call serves many payloads.
    System(Box<Mutex<Block>>),
    /// A deterministic sequence, for tests.
    Seeded(Mutex<u64>),
}

#[derive(Debug)]
struct Block {
    bytes: [u8; 1024],
    used: usize,
}

impl Entropy {
    /// Creates a source that reads the system's entropy.
    #[must_use]
    pub fn system() -> Arc<Self> {
        Arc::new(Self(Source::System(Box::new(Mutex::new(Block { bytes: [0; 1024], used: 1024 })))))
    }

    /// Creates a deterministic source: the same seed yields the same sequence. For tests.
    #[must_use]
    pub fn seeded(seed: u64) -> Arc<Self> {
        Arc::new(Self(Source::Seeded(Mutex::new(seed))))
    }

    /// Returns sixteen random bytes, never all zero: a zero salt marks an erased payload.
    ///
    /// # Panics
    /// If the system's random source fails. Without random salts, digests could be guessed.
    #[must_use]
    pub fn bytes_16(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        while bytes == [0; 16] {
            bytes = match &self.0 {
                Source::System(block) => block.lock().unwrap_or_else(PoisonError::into_inner).next(),
                Source::Seeded(state) => {
                    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                    let (high, low) = (split_mix(&mut state), split_mix(&mut state));
                    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
                }
            };
        }
        bytes
    }

    /// Returns thirty-two random bytes, for a secret.
    ///
    /// # Panics
    /// See [`Entropy::bytes_16`].
    #[must_use]
    pub fn bytes_32(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.bytes_16());
        bytes[16..].copy_from_slice(&self.bytes_16());
        bytes
    }
}

impl Block {
    fn next(&mut self) -> [u8; 16] {
        if self.used == self.bytes.len() {
            getrandom::fill(&mut self.bytes).expect("the system's random source works");
            self.used = 0;
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.bytes[self.used..self.used + 16]);
        self.used += 16;
        bytes
    }
}

/// SplitMix64, a small generator that is sufficient for tests.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
