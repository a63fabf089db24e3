//! Standings: the order of the contestants, with ranks that are shared where the intervals of the ratings overlap.

use serde::{Deserialize, Serialize};

use super::rating::{Game, Rating, elo_ratings, estimate_ratings};

/// Rank of a contestant, with its results.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Standing {
    /// One more than the number of contestants that are certainly better: whose interval is above the own one.
    pub rank: u32,
    /// Id of the contestant.
    pub contestant: String,
    /// Estimated rating.
    pub rating: f64,
    /// Bounds of its 95 % interval.
    pub interval: [f64; 2],
    /// Elo rating, updated match by match.
    pub elo: f64,
    /// Number of matches with a result.
    pub matches: u32,
    /// Matches won.
    pub wins: u32,
    /// Matches lost.
    pub losses: u32,
    /// Matches without a winner.
    pub ties: u32,
    /// Whether there were too few matches for a rank.
    pub provisional: bool,
}

/// Returns the ranks for these ratings.
pub(super) fn shared_ranks(ratings: &[Rating]) -> Vec<u32> {
    let rank = |rating: &Rating| {
        let better = ratings.iter().filter(|other| other.interval().0 > rating.interval().1);
        1 + u32::try_from(better.count()).unwrap_or(u32::MAX)
    };
    ratings.iter().map(rank).collect()
}

/// Returns the indices of the contestants, the best one first.
pub(super) fn order(ratings: &[Rating]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ratings.len()).collect();
    order.sort_by(|a, b| ratings[*b].mean.total_cmp(&ratings[*a].mean).then(a.cmp(b)));
    order
}

/// Returns the standings after these matches, the best contestant first.
pub(super) fn standings<'a>(
    ids: impl Iterator<Item = &'a str>,
    games: &[Game],
    provisional_below: u32,
) -> Vec<Standing> {
    let ids: Vec<&str> = ids.collect();
    let ratings = estimate_ratings(ids.len(), games).ratings;
    let (ranks, elo) = (shared_ranks(&ratings), elo_ratings(ids.len(), games));
    let standing = |index: usize| {
        let of = |game: &Game| {
            (game.a == index).then_some(game.score).or((game.b == index).then_some(1.0 - game.score))
        };
        let scores: Vec<f64> = games.iter().filter_map(of).collect();
        let count = |is: &dyn Fn(f64) -> bool| {
            u32::try_from(scores.iter().filter(|score| is(**score)).count()).unwrap_or(u32::MAX)
        };
        let (low, high) = ratings[index].interval();
        let matches = count(&|_| true);
        Standing {
            rank: ranks[index],
            contestant: ids[index].to_owned(),
            rating: rounded(ratings[index].mean),
            interval: [rounded(low), rounded(high)],
            elo: rounded(elo[index]),
            matches,
            wins: count(&|score| score > 0.5),
            losses: count(&|score| score < 0.5),
            ties: count(&|score| score == 0.5),
            provisional: matches < provisional_below,
        }
    };
    order(&ratings).into_iter().map(standing).collect()
}

/// Rounds to a tenth of a point.
fn rounded(points: f64) -> f64 {
    (points * 10.0).round() / 10.0
}

/// Returns Kendall's rank correlation of two scorings of the same contestants, from -1 to 1. Pairs that are equal in one of them
/// count as half.
pub(super) fn kendall_tau(a: &[f64], b: &[f64]) -> f64 {
    let (mut sum, mut pairs) = (0.0, 0.0);
    for i in 0..a.len() {
        for j in i + 1..a.len() {
            let (by_a, by_b) = (a[i].total_cmp(&a[j]) as i8, b[i].total_cmp(&b[j]) as i8);
            sum += f64::from(by_a * by_b);
            pairs += 1.0;
        }
    }
    if pairs == 0.0 { 1.0 } else { sum / pairs }
}
