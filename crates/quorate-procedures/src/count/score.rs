//! The rules that look at one question alone: majority, confidence, log-odds, borda.

use std::collections::BTreeMap;

use super::{Ballot, Rule};

/// Confidences are kept this far from certainty, so that one voter cannot rule out a choice for ever.
const SUREST: f64 = 0.99;

/// Every choice with its share. The ballots are in the order of their voters.
pub(super) fn shares(rule: Rule, ballots: &[&Ballot]) -> Vec<(String, f64)> {
    let weights = weights(ballots);
    let mut scores: BTreeMap<&str, f64> = BTreeMap::new();
    for ballot in ballots {
        scores.entry(&ballot.choice).or_default();
        if rule == Rule::Borda {
            ballot.ranking.iter().for_each(|choice| *scores.entry(choice).or_default() += 0.0);
        }
    }
    let choices = scores.len();
    for (ballot, weight) in ballots.iter().zip(weights) {
        match rule {
            Rule::Borda => give_points(ballot, &mut scores),
            Rule::LogOdds => {
                *scores.entry(&ballot.choice).or_default() += log_odds(weight, choices.max(2));
            }
            Rule::Confidence => *scores.entry(&ballot.choice).or_default() += weight,
            Rule::Majority | Rule::Reliability => *scores.entry(&ballot.choice).or_default() += 1.0,
        }
    }
    let named = scores.into_iter().map(|(choice, score)| (choice.to_owned(), score)).collect();
    if rule == Rule::LogOdds { probabilities(named) } else { parts(named) }
}

/// What each ballot is sure of; the mean of the others for one that does not say, 1 if none does.
pub(crate) fn weights(ballots: &[&Ballot]) -> Vec<f64> {
    let stated: Vec<f64> = ballots.iter().filter_map(|ballot| ballot.confidence).collect();
    #[allow(clippy::cast_precision_loss)]
    let mean = if stated.is_empty() { 1.0 } else { stated.iter().sum::<f64>() / stated.len() as f64 };
    ballots.iter().map(|ballot| ballot.confidence.unwrap_or(mean)).collect()
}

/// By how much the odds of a choice grow when a voter who is right with this probability names it, out of so many choices.
#[allow(clippy::cast_precision_loss)]
fn log_odds(confidence: f64, choices: usize) -> f64 {
    let p = confidence.clamp(1.0 - SUREST, SUREST);
    (p * (choices - 1) as f64 / (1.0 - p)).ln()
}

#[allow(clippy::cast_precision_loss)]
fn give_points<'a>(ballot: &'a Ballot, scores: &mut BTreeMap<&'a str, f64>) {
    let choices = scores.len();
    let alone = [ballot.choice.clone()];
    let ranking = if ballot.ranking.is_empty() { &alone[..] } else { &ballot.ranking[..] };
    for (choice, score) in scores.iter_mut() {
        *score += match ranking.iter().position(|ranked| ranked == choice) {
            Some(place) => (choices - 1 - place) as f64,
            // The places that are left, shared: their mean.
            None => (choices - ranking.len() - 1) as f64 / 2.0,
        };
    }
}

/// Scores as parts of their sum; equal parts if there is nothing to share.
#[allow(clippy::cast_precision_loss)]
fn parts(scores: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let (sum, count) = (scores.iter().map(|(_, score)| score).sum::<f64>(), scores.len() as f64);
    let part = |score: f64| if sum > 0.0 { score / sum } else { 1.0 / count };
    scores.into_iter().map(|(choice, score)| (choice, part(score))).collect()
}

/// Logarithms of odds as probabilities.
pub(super) fn probabilities(scores: Vec<(String, f64)>) -> Vec<(String, f64)> {
    let greatest = scores.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
    parts(scores.into_iter().map(|(choice, score)| (choice, (score - greatest).exp())).collect())
}
