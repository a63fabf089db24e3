//! Numbers are not chosen, they are merged: the median, weighted by confidence.
//!
//! Half of all confidence stands behind values up to it and half behind values from it on, so one voter with a wild number moves it
//! no further than to its neighbour. A ballot without a confidence counts as in [`super`].

use serde::{Deserialize, Serialize};

/// What several numbers come to.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Merged {
    /// The weighted median; in the middle of the two where exactly half of the weight stands on each side.
    pub value: f64,
    /// The least that was said.
    pub low: f64,
    /// The most that was said.
    pub high: f64,
}

/// Merges values with their weights. Nothing without values. Weights that are all 0 count as equal.
#[must_use]
pub fn merge(values: &[(f64, f64)]) -> Option<Merged> {
    let mut values: Vec<(f64, f64)> = values.iter().copied().filter(|(value, _)| value.is_finite()).collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (low, high) = (values.first()?.0, values.last()?.0);
    if values.iter().all(|(_, weight)| *weight <= 0.0) {
        values.iter_mut().for_each(|(_, weight)| *weight = 1.0);
    }
    let whole: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    let mut weighty = values.iter().filter(|(_, weight)| *weight > 0.0).peekable();
    while let Some((value, weight)) = weighty.next() {
        below += weight;
        let over = below / whole - 0.5;
        if over.abs() < super::TIE {
            let next = weighty.peek().map_or(*value, |(next, _)| *next);
            return Some(Merged { value: f64::midpoint(*value, next), low, high });
        }
        if over > 0.0 {
            return Some(Merged { value: *value, low, high });
        }
    }
    None
}
