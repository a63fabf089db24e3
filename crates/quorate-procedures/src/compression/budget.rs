//! Selects what fits into the budget.

use super::document::{Document, Unit};
use super::listing::Listing;
use super::rank::{Ranking, Verdict};
use super::render::{Compressed, quoted};
use super::role::Role;
use crate::tokens::{count_o200k, truncate};

/// Shares of the budget that are reserved, in percent.
const OBJECTIVE_PERCENT: usize = 15;
const NEXT_ACTION_PERCENT: usize = 25;
const SUMMARY_PERCENT: usize = 18;
/// Tokens of the separators around a key point.
const POINT_TOKENS: usize = 3;
/// Length of the shortest summary.
const MINIMAL_SUMMARY_BYTES: usize = 40;
const TITLE_BYTES_MAX: usize = 120;
/// Marks the key point with the next action.
const NEXT_LABEL: &str = "Next: ";
/// A unit that does not fit is skipped; after so many the budget counts as used up.
const SKIPS_MAX: usize = 40;
/// Rounds of filling what the estimate of the round before left over.
const ROUNDS_MAX: usize = 4;

/// The budget does not suffice for the shortest form of a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a budget of {budget} tokens is too small: this context needs at least {minimum}")]
pub struct BudgetTooSmall {
    /// The budget as given.
    pub budget: usize,
    /// The smallest budget for this context.
    pub minimum: usize,
}

/// Compresses a document within the budget.
pub(super) fn fill(
    document: &Document<'_>,
    original: &str,
    source: &str,
    budget: usize,
) -> Result<Compressed, BudgetTooSmall> {
    let original_tokens = count_o200k(original);
    let empty = |listing: Listing, summary: String| Compressed {
        summary,
        key_points: Vec::new(),
        refs: listing.refs,
        expandable: listing.expandable,
        original_tokens,
        tokens: 0,
    };
    let mut minimal = empty(Listing::minimal(source), minimal_summary(document));
    let minimum = minimal.measure();
    if minimum > budget {
        return Err(BudgetTooSmall { budget, minimum });
    }
    let mut skeleton = empty(Listing::new(document, source, budget), String::new());
    if skeleton.measure() * 2 > budget {
        skeleton = empty(Listing::minimal(source), String::new());
    }
    Ok(Selection::new(document, skeleton, budget).compressed().unwrap_or(minimal))
}

/// The first words of the title, or else of the first sentence or label.
fn minimal_summary(document: &Document<'_>) -> String {
    let sentence = || document.units.first().map(|unit| unit.text.as_str());
    let label = || document.parts.first().map(|part| part.label.as_str());
    let text = document.title.as_deref().or_else(sentence).or_else(label).unwrap_or_default();
    if text.len() <= MINIMAL_SUMMARY_BYTES {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(MINIMAL_SUMMARY_BYTES)];
    let end = head.rfind(' ').unwrap_or(head.len());
    format!("{}…", &head[..end])
}

struct Selection<'a> {
    document: &'a Document<'a>,
    skeleton: Compressed,
    budget: usize,
    /// Selected units, best first, with their texts: units that are too long for their share are truncated.
    selected: Vec<(usize, String)>,
    title: String,
    /// Estimated number of tokens in use.
    used: usize,
}

impl<'a> Selection<'a> {
    fn new(document: &'a Document<'a>, mut skeleton: Compressed, budget: usize) -> Self {
        let title = document.title.as_deref().unwrap_or_default();
        let title = if title.len() <= TITLE_BYTES_MAX { title.to_owned() } else { minimal_summary(document) };
        skeleton.summary.clone_from(&title);
        let mut used = skeleton.measure();
        let title = if used * 2 > budget { String::new() } else { title };
        if title.is_empty() {
            skeleton.summary.clear();
            used = skeleton.measure();
        }
        Self { document, skeleton, budget, selected: Vec::new(), title, used }
    }

    /// Selects and renders. What the estimate left over is filled in further rounds, with the real count.
    fn compressed(mut self) -> Option<Compressed> {
        let mut ranking = Ranking::new(&self.document.units);
        for (role, percent) in [(Role::Objective, OBJECTIVE_PERCENT), (Role::NextAction, NEXT_ACTION_PERCENT)]
        {
            self.reserve(&mut ranking, role, self.budget * percent / 100);
        }
        let mut best = None;
        for _ in 0..ROUNDS_MAX {
            let before = self.selected.len();
            self.take(&mut ranking, |unit| unit.role != Role::Reasoning, usize::MAX);
            if self.selected.is_empty() {
                self.take(&mut ranking, |_| true, usize::MAX);
            }
            if best.is_some() && self.selected.len() == before {
                break;
            }
            let compressed = self.finish();
            let is_better =
                |tokens: usize| best.as_ref().is_none_or(|best: &Compressed| tokens > best.tokens);
            match compressed {
                Some(compressed) if is_better(compressed.tokens) => {
                    self.used = compressed.tokens;
                    best = Some(compressed);
                }
                _ => break,
            }
        }
        best
    }

    /// Selects units of a role up to a share of the budget; at least the best one, truncated if necessary.
    fn reserve(&mut self, ranking: &mut Ranking<'_>, role: Role, share: usize) {
        let before = self.selected.len();
        let limit = self.used + share;
        self.take(ranking, |unit| unit.role == role, limit);
        if self.selected.len() > before {
            return;
        }
        let share = share.min(self.budget.saturating_sub(self.used));
        let first = self.document.units.iter().position(|unit| unit.role == role);
        if let Some(first) = first
            && let Some(text) =
                truncate(&self.document.units[first].text, share.saturating_sub(POINT_TOKENS), count_o200k)
            && text.chars().filter(|ch| ch.is_alphanumeric()).count() > 10
        {
            self.used += cost(&text);
            ranking.mark(first);
            self.selected.push((first, text));
        }
    }

    fn take(&mut self, ranking: &mut Ranking<'_>, filter: impl Fn(&Unit) -> bool, limit: usize) {
        let limit = limit.min(self.budget);
        let mut skips = 0;
        ranking.select(filter, |index| {
            let text = &self.document.units[index].text;
            let cost = cost(text);
            if self.used + cost <= limit {
                self.used += cost;
                self.selected.push((index, text.clone()));
                return Verdict::Take;
            }
            skips += 1;
            if skips < SKIPS_MAX { Verdict::Skip } else { Verdict::Stop }
        });
    }

    /// Renders the selection; removes the last units as long as it exceeds the budget. `None` if not even the skeleton fits.
    fn finish(&mut self) -> Option<Compressed> {
        loop {
            let mut compressed = self.render();
            if compressed.measure() <= self.budget && !compressed.summary.is_empty() {
                return Some(compressed);
            }
            self.selected.pop()?;
        }
    }

    fn render(&self) -> Compressed {
        let mut order: Vec<&(usize, String)> = self.selected.iter().collect();
        order.sort_by_key(|(index, _)| *index);
        let summary_units = self.summary_units();
        let role = |index: usize| self.document.units[index].role;
        let mut summary = vec![self.title.as_str()];
        let mut points: Vec<(usize, String)> = Vec::new();
        let mut next: Vec<(usize, String)> = Vec::new();
        for (index, text) in order {
            match role(*index) {
                _ if summary_units.contains(index) => summary.push(text),
                Role::NextAction => self.append(&mut next, *index, text),
                _ => self.append(&mut points, *index, text),
            }
        }
        let next: Vec<&str> = next.iter().map(|(_, text)| text.as_str()).collect();
        let mut key_points: Vec<String> = points.into_iter().map(|(_, text)| text).collect();
        match next.first().map(|first| super::role::of_label(first)) {
            None => {}
            Some(Some(Role::NextAction)) => key_points.push(joined(&next)),
            Some(_) => key_points.push(format!("{NEXT_LABEL}{}", joined(&next))),
        }
        summary.retain(|text| !text.is_empty());
        Compressed { summary: joined(&summary), key_points, ..self.skeleton.clone() }
    }

    /// The units that state the objective, or else the best ones, up to a share of the budget.
    fn summary_units(&self) -> Vec<usize> {
        let units = &self.document.units;
        let limit = self.budget * SUMMARY_PERCENT / 100;
        let is_objective = |index: &usize| units[*index].role == Role::Objective;
        let objective: Vec<usize> =
            self.selected.iter().map(|(index, _)| *index).filter(is_objective).collect();
        if !objective.is_empty() {
            return objective;
        }
        let mut used = 0;
        let mut best = Vec::new();
        let candidates = self.selected.iter().filter(|(index, _)| units[*index].role != Role::NextAction);
        for (index, text) in candidates {
            used += cost(text);
            if used > limit && !(best.is_empty() && self.title.is_empty()) {
                break;
            }
            best.push(*index);
        }
        best
    }

    /// Appends a unit to the previous point if they are neighbours in one block.
    fn append(&self, points: &mut Vec<(usize, String)>, index: usize, text: &str) {
        let units = &self.document.units;
        match points.last_mut() {
            Some((last, point)) if *last + 1 == index && units[*last].block == units[index].block => {
                *last = index;
                point.push(' ');
                point.push_str(text);
            }
            _ => points.push((index, text.to_owned())),
        }
    }
}

/// Joins sentences; a title without a full stop gets one.
fn joined(sentences: &[&str]) -> String {
    let mut joined = String::new();
    for sentence in sentences {
        if joined.ends_with(char::is_alphanumeric) {
            joined.push('.');
        }
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(sentence);
    }
    joined
}

fn cost(text: &str) -> usize {
    count_o200k(&quoted(text)) + POINT_TOKENS
}
