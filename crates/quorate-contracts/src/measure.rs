//! Precision and recall of the readers on generated contracts.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::generator::{Clause, Half, Problem, generate};
use crate::heuristic;

/// Confusion counts of one class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Name of the class: a type of clause, or a problem.
    pub name: &'static str,
    /// Reported and present.
    pub right: u32,
    /// Reported but not present.
    pub wrong: u32,
    /// Present but not reported.
    pub missed: u32,
}

impl Row {
    /// Share of the reported items that are present; 1 if nothing was reported.
    #[must_use]
    pub fn precision(&self) -> f64 {
        share(self.right, self.wrong)
    }

    /// Share of the present items that were reported; 1 if nothing is present.
    #[must_use]
    pub fn recall(&self) -> f64 {
        share(self.right, self.missed)
    }

    fn count(&mut self, reported: bool, present: bool) {
        match (reported, present) {
            (true, true) => self.right += 1,
            (true, false) => self.wrong += 1,
            (false, true) => self.missed += 1,
            (false, false) => {}
        }
    }
}

fn share(right: u32, other: u32) -> f64 {
    if right + other == 0 { 1.0 } else { f64::from(right) / f64::from(right + other) }
}

/// Sums the counts of all classes.
#[must_use]
pub fn total(rows: &[Row]) -> Row {
    let sum = |part: fn(&Row) -> u32| rows.iter().map(part).sum();
    Row {
        name: "all",
        right: sum(|row| row.right),
        wrong: sum(|row| row.wrong),
        missed: sum(|row| row.missed),
    }
}

/// Evaluates `heuristic:clauses`, one row for each of the 41 types of clauses.
#[must_use]
pub fn clauses(seeds: RangeInclusive<u64>, half: Half) -> Vec<Row> {
    let mut rows = rows(Clause::all().map(|clause| (clause, clause.name())));
    for seed in seeds {
        let contract = generate(seed, half);
        let found = heuristic::clauses_of(&contract.text);
        for (clause, row) in &mut rows {
            row.count(found.contains(clause), contract.truth.has(*clause));
        }
    }
    rows.into_values().collect()
}

/// Evaluates the five readers together, one row for each problem that can be planted.
#[must_use]
pub fn issues(seeds: RangeInclusive<u64>, half: Half) -> Vec<Row> {
    let mut rows = rows(Problem::all().map(|problem| (problem, problem.name())));
    for seed in seeds {
        let contract = generate(seed, half);
        let found = heuristic::issues_of(&contract.text);
        for (problem, row) in &mut rows {
            row.count(found.contains(problem), contract.truth.has_problem(*problem));
        }
    }
    rows.into_values().collect()
}

fn rows<T: Ord>(names: impl Iterator<Item = (T, &'static str)>) -> BTreeMap<T, Row> {
    names.map(|(class, name)| (class, Row { name, right: 0, wrong: 0, missed: 0 })).collect()
}
