//! Precision and recall of the analysts on generated contracts.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::generator::{Clause, PhrasingSet, Problem, generate};
use crate::heuristic;

/// Confusion counts of one class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassCounts {
    /// Name of the class: a type of clause, or a problem.
    pub name: &'static str,
    /// Reported and present.
    pub true_positives: u32,
    /// Reported but not present.
    pub false_positives: u32,
    /// Present but not reported.
    pub false_negatives: u32,
}

impl ClassCounts {
    /// Share of the reported items that are present; 1 if nothing was reported.
    #[must_use]
    pub fn precision(&self) -> f64 {
        share(self.true_positives, self.false_positives)
    }

    /// Share of the present items that were reported; 1 if nothing is present.
    #[must_use]
    pub fn recall(&self) -> f64 {
        share(self.true_positives, self.false_negatives)
    }

    fn count(&mut self, reported: bool, present: bool) {
        match (reported, present) {
            (true, true) => self.true_positives += 1,
            (true, false) => self.false_positives += 1,
            (false, true) => self.false_negatives += 1,
            (false, false) => {}
        }
    }
}

fn share(correct: u32, errors: u32) -> f64 {
    if correct + errors == 0 { 1.0 } else { f64::from(correct) / f64::from(correct + errors) }
}

/// Sums the counts of all classes.
#[must_use]
pub fn total(rows: &[ClassCounts]) -> ClassCounts {
    let sum = |field: fn(&ClassCounts) -> u32| rows.iter().map(field).sum();
    ClassCounts {
        name: "all",
        true_positives: sum(|row| row.true_positives),
        false_positives: sum(|row| row.false_positives),
        false_negatives: sum(|row| row.false_negatives),
    }
}

/// Evaluates `heuristic:clauses`, one row for each of the 41 types of clauses.
#[must_use]
pub fn clauses(seeds: RangeInclusive<u64>, set: PhrasingSet) -> Vec<ClassCounts> {
    let mut rows = rows(Clause::all().map(|clause| (clause, clause.name())));
    for seed in seeds {
        let contract = generate(seed, set);
        let found = heuristic::find_clauses(&contract.text);
        for (clause, row) in &mut rows {
            row.count(found.contains(clause), contract.truth.has_clause(*clause));
        }
    }
    rows.into_values().collect()
}

/// Evaluates the five analysts together, one row for each problem that can be planted.
#[must_use]
pub fn issues(seeds: RangeInclusive<u64>, set: PhrasingSet) -> Vec<ClassCounts> {
    let mut rows = rows(Problem::all().map(|problem| (problem, problem.name())));
    for seed in seeds {
        let contract = generate(seed, set);
        let found = heuristic::find_problems(&contract.text);
        for (problem, row) in &mut rows {
            row.count(found.contains(problem), contract.truth.has_problem(*problem));
        }
    }
    rows.into_values().collect()
}

fn rows<T: Ord>(names: impl Iterator<Item = (T, &'static str)>) -> BTreeMap<T, ClassCounts> {
    names
        .map(|(class, name)| {
            (class, ClassCounts { name, true_positives: 0, false_positives: 0, false_negatives: 0 })
        })
        .collect()
}
