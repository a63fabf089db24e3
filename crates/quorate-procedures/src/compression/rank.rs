//! Ranks units: a greedy cover of the concepts of a document, with as few tokens as possible.
//!
//! A unit is worth the weight of the concepts in it that no selected unit has yet, multiplied by its own factor. The greedy
//! choice by worth per token has redundancy control built in: a repetition is worth next to nothing.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use super::concept::{Concept, Weights, concepts};
use super::document::Unit;
use super::role::Role;

/// Share of its weight that a concept keeps after a selected unit has it.
const REPEATED: f64 = 0.13;
/// Exponent of the length. It is small because a long sentence states its facts together with what they are about; two short ones
/// with as many concepts often do not.
const LENGTH_EXPONENT: f64 = 0.2;
/// How much less a unit is worth when its section is selected already, so that all sections are represented.
const SECTION_PENALTY: f64 = 0.65;
/// Estimated tokens of a unit for its quotes and separators.
const OVERHEAD_TOKENS: f64 = 4.0;

/// The units of a document with their concepts, and which of them are selected.
pub(super) struct Ranking<'a> {
    units: &'a [Unit],
    /// Indices of the concepts of each unit, without repetitions.
    concepts: Vec<Vec<usize>>,
    weights: Vec<f64>,
    covered: Vec<bool>,
    state: Vec<State>,
    /// Bytes of each section, and those that are selected.
    sections: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Selected,
}

/// A unit in the queue, by its worth when it was last computed. Worth only decreases, so a unit that is still first after it was
/// computed again is the best.
#[derive(PartialEq)]
struct Candidate {
    worth: f64,
    unit: usize,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.worth.total_cmp(&other.worth).then(other.unit.cmp(&self.unit))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a> Ranking<'a> {
    pub(super) fn new(units: &'a [Unit]) -> Self {
        let extracted: Vec<Vec<Concept>> = units.iter().map(|unit| concepts(&unit.text)).collect();
        let weights = Weights::of(extracted.iter().map(Vec::as_slice));
        let mut indices: HashMap<String, usize> = HashMap::new();
        let mut weight_of = Vec::new();
        let mut of_units = Vec::with_capacity(units.len());
        for concepts in extracted {
            let mut of_unit = Vec::with_capacity(concepts.len());
            for concept in concepts {
                let weight = weights.weight(&concept);
                let index = *indices.entry(concept.key).or_insert(weight_of.len());
                if index == weight_of.len() {
                    weight_of.push(weight);
                }
                if !of_unit.contains(&index) {
                    of_unit.push(index);
                }
            }
            of_units.push(of_unit);
        }
        let (covered, state) = (vec![false; weight_of.len()], vec![State::Open; units.len()]);
        let mut sections = vec![(0, 0); units.iter().map(|unit| unit.section + 1).max().unwrap_or_default()];
        units.iter().for_each(|unit| sections[unit.section].0 += unit.text.len());
        Self { units, concepts: of_units, weights: weight_of, covered, state, sections }
    }

    /// Selects units for which `filter` holds, best first, as long as `take` accepts them. A unit that `take` rejects stays open.
    pub(super) fn select(&mut self, filter: impl Fn(&Unit) -> bool, mut take: impl FnMut(usize) -> Verdict) {
        let open = (0..self.units.len())
            .filter(|unit| self.state[*unit] == State::Open && filter(&self.units[*unit]));
        let mut queue: BinaryHeap<Candidate> =
            open.map(|unit| Candidate { worth: self.worth(unit), unit }).collect();
        while let Some(Candidate { worth, unit }) = queue.pop() {
            let current = self.worth(unit);
            if current < worth && queue.peek().is_some_and(|next| next.worth > current) {
                queue.push(Candidate { worth: current, unit });
                continue;
            }
            match take(unit) {
                Verdict::Take => self.mark(unit),
                Verdict::Skip => {}
                Verdict::Stop => return,
            }
        }
    }

    pub(super) fn mark(&mut self, unit: usize) {
        self.state[unit] = State::Selected;
        self.sections[self.units[unit].section].1 += self.units[unit].text.len();
        for concept in &self.concepts[unit] {
            self.covered[*concept] = true;
        }
    }

    /// Worth of a unit per token, given what is selected.
    fn worth(&self, unit: usize) -> f64 {
        let weight = |concept: &usize| {
            let weight = self.weights[*concept];
            if self.covered[*concept] { REPEATED * weight } else { weight }
        };
        let weight: f64 = self.concepts[unit].iter().map(weight).sum();
        let Unit { text, role, factor, section, .. } = &self.units[unit];
        let (all, selected) = self.sections[*section];
        let spread = 1.0 / (1.0 + SECTION_PENALTY * selected as f64 / all.max(1) as f64);
        spread * weight * factor * role_factor(*role) / estimated_tokens(text).powf(LENGTH_EXPONENT)
    }
}

/// Decision about the best open unit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Take,
    Skip,
    Stop,
}

fn role_factor(role: Role) -> f64 {
    match role {
        Role::Objective | Role::NextAction => 3.0,
        Role::Finding => 1.2,
        Role::Analysis | Role::Background => 1.0,
        Role::Reasoning => 0.2,
    }
}

/// Estimates the tokens of a text without the vocabulary. It only orders units; the budget is checked with real counts.
fn estimated_tokens(text: &str) -> f64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let other = text.chars().count() - ascii;
    (ascii - digits) as f64 / 4.5 + digits as f64 / 2.5 + other as f64 * 0.7 + OVERHEAD_TOKENS
}
