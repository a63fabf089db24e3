//! Deterministic random numbers: SplitMix64, seeded by a number and a name.

/// A random stream. The same seed and name give the same numbers on every machine and in every version.
pub(super) struct SeededRng {
    state: u64,
}

impl SeededRng {
    /// Creates a separate stream for each name, so that an additional draw in one does not affect the others.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        let mut rng = Self { state: seed };
        for byte in name.bytes() {
            rng.state = rng.next() ^ u64::from(byte);
        }
        rng
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be zero. The modulo bias is below 10⁻⁹ for the ranges used here.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A number from `least` to `most`, inclusive.
    pub(super) fn between(&mut self, least: u32, most: u32) -> u32 {
        least + self.below((most - least + 1) as usize) as u32
    }

    /// Returns `true` with this probability in percent.
    pub(super) fn with_percent(&mut self, percent: u32) -> bool {
        self.between(1, 100) <= percent
    }

    /// One element of a non-empty slice.
    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of SplitMix64 for the seed 1234567, as its authors published them.
    #[test]
    fn the_numbers_match_splitmix64() {
        let mut rng = SeededRng::new(1_234_567, "");
        assert_eq!(rng.next(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn each_name_has_a_separate_stream() {
        assert_ne!(SeededRng::new(1, "facts").next(), SeededRng::new(1, "style").next());
        assert_ne!(SeededRng::new(1, "facts").next(), SeededRng::new(2, "facts").next());
    }
}
