//! Numbers are merged instead of voted on: the median, weighted by confidence.
//!
//! Half of the total confidence lies at or below the median and half at or above it, so a single outlier moves it no
//! further than to the neighbouring value. A ballot without a confidence is weighted as in [`super`].

use serde::{Deserialize, Serialize};

/// Weighted median of several numbers, with their range.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct WeightedMedian {
    /// The weighted median; the midpoint of two values if exactly half of the weight lies on each side.
    pub value: f64,
    /// The smallest value.
    pub low: f64,
    /// The greatest value.
    pub high: f64,
}

/// Computes the weighted median of `(value, weight)` pairs; `None` without values. If all weights are 0 they count as
/// equal.
#[must_use]
pub fn weighted_median(values: &[(f64, f64)]) -> Option<WeightedMedian> {
    let mut values: Vec<(f64, f64)> = values.iter().copied().filter(|(value, _)| value.is_finite()).collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (low, high) = (values.first()?.0, values.last()?.0);
    if values.iter().all(|(_, weight)| *weight <= 0.0) {
        values.iter_mut().for_each(|(_, weight)| *weight = 1.0);
    }
    let total: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut cumulative = 0.0;
    let mut weighted = values.iter().filter(|(_, weight)| *weight > 0.0).peekable();
    while let Some((value, weight)) = weighted.next() {
        cumulative += weight;
        let excess = cumulative / total - 0.5;
        if excess.abs() < super::TIE_TOLERANCE {
            let next = weighted.peek().map_or(*value, |(next, _)| *next);
            return Some(WeightedMedian { value: f64::midpoint(*value, next), low, high });
        }
        if excess > 0.0 {
            return Some(WeightedMedian { value: *value, low, high });
        }
    }
    None
}
