//! Rules that score each question on its own: majority, confidence, log-odds, borda.

use std::collections::BTreeMap;

use super::{Ballot, VotingRule};

/// Upper bound of a confidence for log odds; its complement is the lower bound. It keeps one voter from ruling out a
/// choice.
const CONFIDENCE_MAX: f64 = 0.99;

/// Computes the share of every choice. The ballots must be ordered by voter.
pub(super) fn shares(rule: VotingRule, ballots: &[&Ballot]) -> Vec<(String, f64)> {
    let weights = weights(ballots);
    let mut scores: BTreeMap<&str, f64> = BTreeMap::new();
    for ballot in ballots {
        scores.entry(&ballot.choice).or_default();
        if rule == VotingRule::Borda {
            ballot.ranking.iter().for_each(|choice| *scores.entry(choice).or_default() += 0.0);
        }
    }
    let choices = scores.len();
    for (ballot, weight) in ballots.iter().zip(weights) {
        match rule {
            VotingRule::Borda => add_borda_points(ballot, &mut scores),
            VotingRule::LogOdds => {
                *scores.entry(&ballot.choice).or_default() += log_odds(weight, choices.max(2));
            }
            VotingRule::Confidence => *scores.entry(&ballot.choice).or_default() += weight,
            VotingRule::Majority | VotingRule::Reliability => {
                *scores.entry(&ballot.choice).or_default() += 1.0
            }
        }
    }
    let named = scores.into_iter().map(|(choice, score)| (choice.to_owned(), score)).collect();
    if rule == VotingRule::LogOdds { probabilities(named) } else { normalise(named) }
}

/// Weight of each ballot: its confidence; the mean of the stated ones if omitted, or 1 if none is stated.
pub(crate) fn weights(ballots: &[&Ballot]) -> Vec<f64> {
    let stated: Vec<f64> = ballots.iter().filter_map(|ballot| ballot.confidence).collect();
    #[allow(clippy::cast_precision_loss)]
    let mean = if stated.is_empty() { 1.0 } else { stated.iter().sum::<f64>() / stated.len() as f64 };
    ballots.iter().map(|ballot| ballot.confidence.unwrap_or(mean)).collect()
}

/// Log-odds gain of a choice when a voter who is right with this probability names it, among `choices` choices.
#[allow(clippy::cast_precision_loss)]
fn log_odds(confidence: f64, choices: usize) -> f64 {
    let p = confidence.clamp(1.0 - CONFIDENCE_MAX, CONFIDENCE_MAX);
    (p * (choices - 1) as f64 / (1.0 - p)).ln()
}

#[allow(clippy::cast_precision_loss)]
fn add_borda_points<'a>(ballot: &'a Ballot, scores: &mut BTreeMap<&'a str, f64>) {
    let choices = scores.len();
    let choice_only = [ballot.choice.clone()];
    let ranking = if ballot.ranking.is_empty() { &choice_only[..] } else { &ballot.ranking[..] };
    for (choice, score) in scores.iter_mut() {
        *score += match ranking.iter().position(|ranked| ranked == choice) {
            Some(rank) => (choices - 1 - rank) as f64,
            // Unranked choices share the remaining ranks: their mean.
            None => (choices - ranking.len() - 1) as f64 / 2.0,
        };
    }
}

/// Normalises scores to shares of their sum; equal shares if the sum is 0.
#[allow(clippy::cast_precision_loss)]
fn normalise(scores: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let (sum, count) = (scores.iter().map(|(_, score)| score).sum::<f64>(), scores.len() as f64);
    let share = |score: f64| if sum > 0.0 { score / sum } else { 1.0 / count };
    scores.into_iter().map(|(choice, score)| (choice, share(score))).collect()
}

/// Converts log odds to probabilities.
pub(super) fn probabilities(scores: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let greatest = scores.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
    normalise(scores.into_iter().map(|(choice, score)| (choice, (score - greatest).exp())).collect())
}
