//! Plan of a contract: its problems first, then unproblematic clauses and provisions.
//!
//! The plan of a seed is the same for both sets of phrasings, so that a reader can be compared on the same case in
//! phrasings that its authors have seen and in phrasings that they have not.

use super::clause::Clause;
use super::ground_truth::{Recommendation, risk_score};
use super::problem::{Problem, Severity};
use super::provision::Provision;
use super::rng::SeededRng;
use super::section::Section;

/// Content of a contract, without the wording.
pub(super) struct Plan {
    pub(super) problems: Vec<Problem>,
    pub(super) clauses: Vec<Clause>,
    pub(super) provisions: Vec<Provision>,
    /// Maximum number of near-misses.
    pub(super) near_misses: usize,
    /// Minimum number of words, as far as filler is available.
    pub(super) words: usize,
}

/// Sizes of contracts: density of clauses in percent, and range of the minimum number of words. A page has 450 words.
const SIZES: [(u32, [u32; 2]); 4] =
    [(60, [1_400, 1_800]), (100, [1_800, 2_500]), (160, [2_500, 3_400]), (240, [3_000, 4_200])];

impl Plan {
    pub(super) fn random(seed: u64) -> Self {
        let mut draw = SeededRng::new(seed, "plan");
        let problems = draw_problems(&mut draw);
        let (density, [least, most]) = *draw.pick(&SIZES);
        let words = draw.between(least, most) as usize;
        let near_misses = draw.between(2, 9) as usize;
        let mut plan = Self { problems, clauses: Vec::new(), provisions: Vec::new(), near_misses, words };
        plan.draw_clauses(&mut draw, density);
        plan.draw_provisions(&mut draw);
        plan
    }

    /// Whether a planted problem replaces the clause.
    pub(super) fn excludes(&self, clause: Clause) -> bool {
        self.problems.iter().any(|problem| problem.replaces_clause(clause))
    }

    fn draw_clauses(&mut self, draw: &mut SeededRng, density: u32) {
        let has_ip = draw.with_percent(80);
        for clause in Clause::all() {
            // Mandatory clauses do not depend on the length.
            let percent = clause.frequency_percent();
            let percent = if percent == 100 { 100 } else { (percent * density / 100).min(95) };
            let selected = draw.with_percent(percent) && (has_ip || clause.section() != Section::Ip);
            if selected && !self.excludes(clause) {
                self.clauses.push(clause);
            }
        }
        let present = self.clauses.clone();
        for needed in present.iter().filter_map(|clause| clause.depends_on()) {
            if !self.clauses.contains(&needed) && !self.excludes(needed) {
                self.clauses.push(needed);
            }
        }
        // An unlimited licence together with a usage limit would be an unplanned contradiction.
        if self.clauses.contains(&Clause::UnlimitedLicense) {
            self.clauses.retain(|clause| *clause != Clause::VolumeRestriction);
        }
        self.clauses.sort_unstable();
    }

    fn draw_provisions(&mut self, draw: &mut SeededRng) {
        for provision in Provision::ALL {
            let selected = draw.with_percent(provision.frequency_percent());
            let needed = self.problems.iter().any(|problem| problem.depends_on() == Some(provision));
            let barred = self.problems.iter().any(|problem| problem.replaces_provision(provision));
            // Without data of Europeans, terms about their transfer are pointless.
            let idle = provision == Provision::TransferTerms && !self.provisions.contains(&Provision::EuData);
            if (selected || needed) && !barred && !idle {
                self.provisions.push(provision);
            }
        }
    }
}

/// Draws a recommendation, each equally likely, and problems that lead to it.
fn draw_problems(draw: &mut SeededRng) -> Vec<Problem> {
    let scores = draw.pick(&Recommendation::ALL).scores();
    let target = draw.between(scores.start, scores.end - 1);
    let mut all: Vec<Problem> = Problem::all().collect();
    draw.shuffle(&mut all);
    // Critical problems are rare: without this, most bad contracts would have only many small problems.
    let critical = all.iter().position(|problem| problem.severity() == Severity::Critical);
    if let (true, Some(critical)) = (draw.with_percent(60), critical) {
        all.swap(0, critical);
    }
    let mut problems: Vec<Problem> = Vec::new();
    for problem in all {
        let score = risk_score(problems.iter().copied());
        let next = risk_score(problems.iter().copied().chain([problem]));
        let suits = problems.iter().all(|other| !problem.excludes(*other));
        if score < target && next < scores.end && suits {
            problems.push(problem);
        }
    }
    problems.sort_by_key(|problem| (std::cmp::Reverse(problem.severity()), *problem));
    problems
}
