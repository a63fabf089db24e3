//! Ratings and pairs on contestants of known strength. `docs/tournament-quality.md` has the figures of more seeds.

use crate::tournament::simulation::{Pairing, Simulation};

// Fails under: pairs that ignore the ratings; intervals that ignore how often both ballots agree.
#[test]
fn c6_pairs_are_better_than_random_ones_and_intervals_cover_the_strength() {
    let simulation =
        Simulation { contestants: 16, deviation: 300.0, repeated: 0.5, pairing: Pairing::Adaptive };
    let adaptive = simulation.mean_quality(30, &[5, 10]);
    let random = Simulation { pairing: Pairing::Random, ..simulation }.mean_quality(30, &[5, 10]);
    for (adaptive, random) in adaptive.iter().zip(&random) {
        assert!(adaptive.tau >= random.tau, "{adaptive:?} {random:?}");
        assert!((0.9..=0.99).contains(&adaptive.coverage), "{adaptive:?}");
    }
}
