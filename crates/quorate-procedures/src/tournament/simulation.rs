//! Simulated tournaments between contestants of known strength, to measure the quality of ratings and pairs.

use super::pairing::{Candidate, pair};
use super::rating::{Game, INITIAL, estimate_ratings, expected_score};
use super::standings::kendall_tau;

/// A simulated tournament.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Simulation {
    /// Number of contestants.
    pub contestants: usize,
    /// Standard deviation of their strengths, in rating points.
    pub deviation: f64,
    /// Probability that the second ballot of a match repeats the first one; otherwise it is independent.
    pub repeated: f64,
    /// How the pairs are chosen.
    pub pairing: Pairing,
}

/// Choice of the pairs of a simulated round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pairing {
    /// That of tournaments.
    Adaptive,
    /// Random pairs, for comparison.
    Random,
}

/// Quality of the ratings after a number of matches.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RatingQuality {
    /// Kendall's tau between ratings and strengths.
    pub tau: f64,
    /// Share of the 95 % intervals that contain the strength.
    pub coverage: f64,
}

impl Simulation {
    /// Returns the mean quality over seeds from 0, after each of these numbers of matches per contestant, in ascending order.
    #[must_use]
    pub fn mean_quality(&self, seeds: u32, matches: &[u32]) -> Vec<RatingQuality> {
        let mut means = vec![RatingQuality::default(); matches.len()];
        for seed in 0..seeds {
            for (mean, quality) in means.iter_mut().zip(self.run(u64::from(seed), matches)) {
                mean.tau += quality.tau / f64::from(seeds);
                mean.coverage += quality.coverage / f64::from(seeds);
            }
        }
        means
    }

    /// Returns the quality after each of these numbers of matches.
    fn run(&self, seed: u64, matches: &[u32]) -> Vec<RatingQuality> {
        let mut random = Random(seed);
        let strengths: Vec<f64> = (0..self.contestants).map(|_| self.deviation * random.normal()).collect();
        let (mut games, mut quality) = (Vec::new(), Vec::new());
        for round in 1..=matches.last().copied().unwrap_or(0) {
            for (a, b) in self.pairs(&games, round - 1, &mut random) {
                let chance = expected_score(strengths[a], strengths[b]);
                let first = random.unit() < chance;
                let second = if random.unit() < self.repeated { first } else { random.unit() < chance };
                let score = f64::midpoint(f64::from(first), f64::from(second));
                games.push(Game { a, b, score });
            }
            if matches.contains(&round) {
                quality.push(rating_quality(&games, &strengths));
            }
        }
        quality
    }

    fn pairs(&self, games: &[Game], played: u32, random: &mut Random) -> Vec<(usize, usize)> {
        match self.pairing {
            Pairing::Adaptive => {
                let candidates: Vec<Candidate> =
                    (0..self.contestants).map(|index| Candidate { index, matches: played }).collect();
                let estimate = estimate_ratings(self.contestants, games);
                pair(&candidates, &estimate, |_, _| 0.0, random.next())
            }
            Pairing::Random => {
                let mut order: Vec<(u64, usize)> =
                    (0..self.contestants).map(|index| (random.next(), index)).collect();
                order.sort_unstable();
                order.chunks_exact(2).map(|two| (two[0].1, two[1].1)).collect()
            }
        }
    }
}

/// Compares the ratings with the strengths. Results determine differences only, so the mean of the strengths is that of the
/// initial rating.
fn rating_quality(games: &[Game], strengths: &[f64]) -> RatingQuality {
    let ratings = estimate_ratings(strengths.len(), games).ratings;
    let means: Vec<f64> = ratings.iter().map(|rating| rating.mean).collect();
    let shift = INITIAL - strengths.iter().sum::<f64>() / strengths.len() as f64;
    let is_covered = |(rating, strength): (&super::rating::Rating, &f64)| {
        let (low, high) = rating.interval();
        (low..=high).contains(&(strength + shift))
    };
    let covered = ratings.iter().zip(strengths).filter(|pair| is_covered(*pair)).count();
    RatingQuality { tau: kendall_tau(&means, strengths), coverage: covered as f64 / strengths.len() as f64 }
}

/// Pseudo-random numbers: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// From 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Standard normal, by the Box-Muller transform.
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}
