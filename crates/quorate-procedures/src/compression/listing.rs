//! The lists of references and of expandable parts, in as few tokens as the budget suggests.

use super::document::Document;
use super::part::{FULL, Part};
use super::sentence::plain;

/// One expandable range for so many tokens of the budget.
const TOKENS_PER_RANGE: usize = 250;
const RANGES_MAX: usize = 12;
/// One referenced output for so many tokens of the budget.
const TOKENS_PER_OUTPUT: usize = 250;
const OUTPUTS_MAX: usize = 12;
/// References of the original that are carried over.
const REFS_MAX: usize = 8;
const TOKENS_PER_REF: usize = 100;
const PLACE_BYTES_MAX: usize = 120;

/// What can be expanded.
pub(super) struct Listing {
    pub(super) refs: Vec<(String, String)>,
    pub(super) expandable: Vec<String>,
}

impl Listing {
    /// The original alone.
    pub(super) fn minimal(source: &str) -> Self {
        Self { refs: vec![(FULL.to_owned(), plain(source))], expandable: vec![entry("full text", FULL)] }
    }

    /// The original, its largest outputs, and all parts as ranges of about the same size.
    pub(super) fn new(document: &Document<'_>, source: &str, budget: usize) -> Self {
        let mut listing = Self::minimal(source);
        let carried = document.refs.iter().take(REFS_MAX.min(budget / TOKENS_PER_REF));
        listing.refs.extend(carried.map(|(name, place)| (name.clone(), clipped(place))));
        listing.refs.extend(outputs(&document.parts, (budget / TOKENS_PER_OUTPUT).min(OUTPUTS_MAX)));
        let ranges = ranges(&document.parts, (budget / TOKENS_PER_RANGE).min(RANGES_MAX));
        let full = listing.expandable.pop();
        listing.expandable.extend(ranges.iter().map(|(first, last)| {
            let id = if first == last { id(*first) } else { format!("{}-{}", id(*first), id(*last)) };
            entry(&label(&document.parts[*first..=*last]), &id)
        }));
        listing.expandable.extend(full);
        listing
    }
}

fn clipped(place: &str) -> String {
    place[..place.floor_char_boundary(PLACE_BYTES_MAX)].to_owned()
}

fn entry(label: &str, reference: &str) -> String {
    format!("{label}: [expand:{reference}]")
}

fn id(index: usize) -> String {
    format!("T{}", index + 1)
}

/// The label of the first part that has a heading.
fn label(parts: &[Part<'_>]) -> String {
    let section = parts.iter().find(|part| !part.is_large_output).or(parts.first());
    section.map(|part| part.label.clone()).unwrap_or_default()
}

/// The largest outputs, in order.
fn outputs(parts: &[Part<'_>], count: usize) -> Vec<(String, String)> {
    let mut outputs: Vec<usize> = (0..parts.len()).filter(|index| parts[*index].is_large_output).collect();
    outputs.sort_by_key(|index| (std::cmp::Reverse(parts[*index].text.len()), *index));
    outputs.truncate(count);
    outputs.sort_unstable();
    outputs.into_iter().map(|index| (id(index), parts[index].label.clone())).collect()
}

/// Divides the parts into at most `count` ranges of about the same size; none if a range would have everything.
fn ranges(parts: &[Part<'_>], count: usize) -> Vec<(usize, usize)> {
    if count < 2 || parts.len() < 2 {
        return Vec::new();
    }
    let total: usize = parts.iter().map(|part| part.text.len()).sum();
    let mut ranges: Vec<(usize, usize)> = Vec::with_capacity(count);
    let (mut first, mut size) = (0, 0);
    for (index, part) in parts.iter().enumerate() {
        size += part.text.len();
        let is_full = size * count >= total * (ranges.len() + 1);
        if is_full || index + 1 == parts.len() {
            ranges.push((first, index));
            first = index + 1;
        }
    }
    ranges
}
