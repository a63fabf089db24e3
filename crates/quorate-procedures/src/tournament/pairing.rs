//! Choice of the pairs of a round: contestants with few matches first, those whose comparison gives the most information,
//! and similar contents.

use std::cmp::Ordering;

use super::rating::Estimate;

/// Weight of the similarity of two contents: the match of two equal ones is worth this much more.
const SIMILARITY_WEIGHT: f64 = 0.25;

/// A contestant that can be paired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    /// Index of the contestant.
    pub(super) index: usize,
    /// Number of matches so far.
    pub(super) matches: u32,
}

/// Returns the pairs of a round; with an odd number of candidates, one is left over. `similarity` returns the similarity of two
/// contents from 0 to 1. Equally good choices are decided by the seed.
pub(super) fn pair(
    candidates: &[Candidate],
    estimate: &Estimate,
    similarity: impl Fn(usize, usize) -> f64,
    seed: u64,
) -> Vec<(usize, usize)> {
    let deviation = |candidate: &Candidate| estimate.ratings[candidate.index].deviation;
    let by_seed = |a: &Candidate, b: &Candidate| -> Ordering { mix(seed, a.index).cmp(&mix(seed, b.index)) };
    let mut open: Vec<Candidate> = candidates.to_vec();
    // The last one chooses first: the one with the fewest matches, and the widest interval among equals.
    open.sort_by(|a, b| {
        let by_deviation = deviation(a).total_cmp(&deviation(b));
        b.matches.cmp(&a.matches).then(by_deviation).then_with(|| by_seed(a, b))
    });
    let mut pairs = Vec::with_capacity(open.len() / 2);
    while let Some(first) = open.pop() {
        let value = |second: &Candidate| {
            let similar = 1.0 + SIMILARITY_WEIGHT * similarity(first.index, second.index);
            estimate.information(first.index, second.index) * similar
        };
        let compare = |a: &Candidate, b: &Candidate| {
            b.matches.cmp(&a.matches).then_with(|| value(a).total_cmp(&value(b))).then_with(|| by_seed(a, b))
        };
        let best = (0..open.len()).max_by(|a, b| compare(&open[*a], &open[*b]));
        let Some(second) = best.map(|best| open.remove(best)) else { break };
        pairs.push((first.index, second.index));
    }
    pairs
}

/// Pseudo-random number for a contestant: the finaliser of SplitMix64.
fn mix(seed: u64, index: usize) -> u64 {
    let mut x = seed.wrapping_add((index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
