//! Ratings of contestants from the results of their matches.
//!
//! Two ratings are computed. The **Elo rating** (initial value 1200, K 32) is updated match by match, as in chess. The
//! **estimate** is the maximum of the posterior of a Bradley-Terry model over all matches together: it does not depend on
//! their order, and its covariance gives an interval. Contestants are ranked by the estimate.

/// Initial rating.
pub(super) const INITIAL: f64 = 1200.0;
/// Maximum change of an Elo rating by one match.
const K: f64 = 32.0;
/// Elo points per unit of the logistic scale.
const POINTS: f64 = 400.0 / std::f64::consts::LN_10;
/// Standard deviation of the strengths that is assumed before there are results: 400 points.
const DEVIATION: f64 = 400.0 / POINTS;
/// Weight of that assumption against the strengths of the contestants, in contestants.
const DEVIATION_WEIGHT: f64 = 4.0;
/// Maximum number of estimates of the deviation; they converge slowly, and the last ones change little.
const ROUNDS_MAX: usize = 20;
/// Relative change of the variance below which its estimate has converged.
const ROUND_TOLERANCE: f64 = 0.01;
/// Quantile of the normal distribution for an interval of 95 %.
const QUANTILE: f64 = 1.959_964;
/// Maximum number of Newton steps; they converge within a few.
const STEPS_MAX: usize = 50;
/// Newton step below which the estimate has converged.
const TOLERANCE: f64 = 1e-9;
/// Weight of the assumption that the two ballots of a match depend on each other completely, in matches.
const DISPERSION_WEIGHT: f64 = 100.0;
/// Smallest dispersion: that of two independent ballots per match.
const DISPERSION_MIN: f64 = 0.5;

/// Result of a match.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Game {
    /// Index of the first contestant.
    pub(super) a: usize,
    /// Index of the second contestant.
    pub(super) b: usize,
    /// Score of the first contestant: 1 for a win, 0.5 for a tie, 0 for a loss.
    pub(super) score: f64,
}

/// Estimated rating of a contestant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rating {
    /// Estimate.
    pub(super) mean: f64,
    /// Standard deviation.
    pub(super) deviation: f64,
}

impl Rating {
    /// Returns the bounds of the 95 % interval.
    pub(super) fn interval(&self) -> (f64, f64) {
        (self.mean - QUANTILE * self.deviation, self.mean + QUANTILE * self.deviation)
    }
}

/// Estimated ratings of all contestants.
pub(super) struct Estimate {
    pub(super) ratings: Vec<Rating>,
    /// Covariance of the strengths, on the logistic scale.
    covariance: Vec<Vec<f64>>,
}

impl Estimate {
    /// Returns the information that a match gives about the difference of two contestants: the variance of its score times
    /// the variance of their difference, which is small for those that were compared already, directly or by others.
    pub(super) fn information(&self, a: usize, b: usize) -> f64 {
        let expected = expected_score(self.ratings[a].mean, self.ratings[b].mean);
        let rows = &self.covariance;
        expected * (1.0 - expected) * (rows[a][a] + rows[b][b] - 2.0 * rows[a][b])
    }
}

/// Returns the expected score of a contestant against another one with these ratings.
pub(super) fn expected_score(rating: f64, opponent: f64) -> f64 {
    logistic((rating - opponent) / POINTS)
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Returns the Elo ratings after these matches, in order.
pub(super) fn elo_ratings(contestants: usize, games: &[Game]) -> Vec<f64> {
    let mut ratings = vec![INITIAL; contestants];
    for game in games {
        let change = K * (game.score - expected_score(ratings[game.a], ratings[game.b]));
        ratings[game.a] += change;
        ratings[game.b] -= change;
    }
    ratings
}

/// Estimates the ratings from all matches together.
///
/// The deviation of the strengths and the variance of the scores are estimated from the same matches (empirical Bayes,
/// quasi-likelihood): intervals that assume them are too narrow or too wide.
pub(super) fn estimate_ratings(contestants: usize, games: &[Game]) -> Estimate {
    let mut model = Model { variance: DEVIATION.powi(2), dispersion: 1.0 };
    let mut fit = Fit::new(vec![0.0; contestants], games, model);
    for _ in 0..ROUNDS_MAX {
        let next = Model { variance: fit.variance(), dispersion: fit.dispersion(games, model) };
        let change = (next.variance / model.variance - 1.0).abs();
        model = next;
        fit = Fit::new(fit.strengths, games, model);
        if change < ROUND_TOLERANCE {
            break;
        }
    }
    let rating = |(strength, variance): (&f64, f64)| Rating {
        mean: INITIAL + POINTS * strength,
        deviation: POINTS * variance.sqrt(),
    };
    let ratings = fit.strengths.iter().zip(fit.variances()).map(rating).collect();
    Estimate { ratings, covariance: fit.covariance }
}

/// What is assumed about strengths and scores.
#[derive(Clone, Copy)]
struct Model {
    /// Variance of the strengths.
    variance: f64,
    /// Variance of a score as a multiple of the binomial one. Below 1, because a match has two ballots.
    dispersion: f64,
}

/// Posterior mode and covariance, on the logistic scale.
struct Fit {
    strengths: Vec<f64>,
    covariance: Vec<Vec<f64>>,
}

impl Fit {
    /// Maximizes the posterior with Newton's method, starting with these strengths.
    fn new(mut strengths: Vec<f64>, games: &[Game], model: Model) -> Self {
        let mut factor = Cholesky::of(hessian(&strengths, games, model));
        for _ in 0..STEPS_MAX {
            let step = factor.solve(gradient(&strengths, games, model));
            let length = step.iter().fold(0.0_f64, |length, part| length.max(part.abs()));
            strengths.iter_mut().zip(&step).for_each(|(strength, part)| *strength += part);
            factor = Cholesky::of(hessian(&strengths, games, model));
            if length < TOLERANCE {
                break;
            }
        }
        Self { strengths, covariance: factor.inverse() }
    }

    /// Marginal variances.
    fn variances(&self) -> impl Iterator<Item = f64> {
        self.covariance.iter().enumerate().map(|(index, row)| row[index])
    }

    /// Estimates the variance of the strengths: a step of expectation maximization.
    fn variance(&self) -> f64 {
        let squares =
            self.strengths.iter().zip(self.variances()).map(|(mean, variance)| mean * mean + variance);
        let assumed = DEVIATION_WEIGHT * DEVIATION.powi(2);
        (squares.sum::<f64>() + assumed) / (self.strengths.len() as f64 + DEVIATION_WEIGHT)
    }

    /// Estimates the dispersion from the residuals.
    fn dispersion(&self, games: &[Game], model: Model) -> f64 {
        let prior_share: f64 = self.variances().map(|variance| variance / model.variance).sum();
        let parameters = self.strengths.len() as f64 - prior_share;
        let residuals = games.iter().map(|game| {
            let expected = logistic(self.strengths[game.a] - self.strengths[game.b]);
            (game.score - expected).powi(2) / (expected * (1.0 - expected))
        });
        let freedom = (games.len() as f64 - parameters).max(0.0);
        let estimate = (residuals.sum::<f64>() + DISPERSION_WEIGHT) / (freedom + DISPERSION_WEIGHT);
        estimate.clamp(DISPERSION_MIN, 1.0)
    }
}

/// Gradient of the logarithm of the posterior.
fn gradient(strengths: &[f64], games: &[Game], model: Model) -> Vec<f64> {
    let mut gradient: Vec<f64> = strengths.iter().map(|strength| -strength / model.variance).collect();
    for game in games {
        let surprise = (game.score - logistic(strengths[game.a] - strengths[game.b])) / model.dispersion;
        gradient[game.a] += surprise;
        gradient[game.b] -= surprise;
    }
    gradient
}

/// Negative Hessian of the logarithm of the posterior, row by row. Positive definite because of the prior.
fn hessian(strengths: &[f64], games: &[Game], model: Model) -> Vec<Vec<f64>> {
    let size = strengths.len();
    let mut rows = vec![vec![0.0; size]; size];
    for (index, row) in rows.iter_mut().enumerate() {
        row[index] = 1.0 / model.variance;
    }
    for game in games {
        let expected = logistic(strengths[game.a] - strengths[game.b]);
        let information = expected * (1.0 - expected) / model.dispersion;
        rows[game.a][game.a] += information;
        rows[game.b][game.b] += information;
        rows[game.a][game.b] -= information;
        rows[game.b][game.a] -= information;
    }
    rows
}

/// Cholesky factor of a positive definite matrix: the lower triangle, row by row.
struct Cholesky(Vec<Vec<f64>>);

impl Cholesky {
    fn of(mut rows: Vec<Vec<f64>>) -> Self {
        for column in 0..rows.len() {
            for row in column..rows.len() {
                let known: f64 = (0..column).map(|at| rows[row][at] * rows[column][at]).sum();
                let rest = rows[row][column] - known;
                rows[row][column] = if row == column { rest.sqrt() } else { rest / rows[column][column] };
            }
        }
        Self(rows)
    }

    /// Solves the system for a right-hand side.
    fn solve(&self, mut values: Vec<f64>) -> Vec<f64> {
        let rows = &self.0;
        for row in 0..rows.len() {
            let known: f64 = (0..row).map(|at| rows[row][at] * values[at]).sum();
            values[row] = (values[row] - known) / rows[row][row];
        }
        for row in (0..rows.len()).rev() {
            let known: f64 = (row + 1..rows.len()).map(|at| rows[at][row] * values[at]).sum();
            values[row] = (values[row] - known) / rows[row][row];
        }
        values
    }

    /// Returns the inverse.
    fn inverse(&self) -> Vec<Vec<f64>> {
        let size = self.0.len();
        let unit = |at: usize| (0..size).map(|index| if index == at { 1.0 } else { 0.0 }).collect();
        (0..size).map(|at| self.solve(unit(at))).collect()
    }
}
