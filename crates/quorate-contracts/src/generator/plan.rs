//! Plan of a contract: its problems first, then unproblematic clauses and provisions.
//!
//! The plan of a seed is the same for both sets of phrasings, so that an analyst can be compared on the same case in
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
        let mut rng = SeededRng::new(seed, "plan");
        let problems = draw_problems(&mut rng);
        let (density, [least, most]) = *rng.pick(&SIZES);
        let words = rng.between(least, most) as usize;
        let near_misses = rng.between(2, 9) as usize;
        let mut plan = Self { problems, clauses: Vec::new(), provisions: Vec::new(), near_misses, words };
        plan.draw_clauses(&mut rng, density);
        plan.draw_provisions(&mut rng);
        plan
    }

    /// Whether a planted problem replaces the clause.
    pub(super) fn excludes(&self, clause: Clause) -> bool {
        self.problems.iter().any(|problem| problem.replaces_clause(clause))
    }

    fn draw_clauses(&mut self, rng: &mut SeededRng, density: u32) {
        let has_ip = rng.with_percent(80);
        for clause in Clause::all() {
            // Mandatory clauses do not depend on the length.
            let percent = clause.frequency_percent();
            let percent = if percent == 100 { 100 } else { (percent * density / 100).min(95) };
            let selected = rng.with_percent(percent) && (has_ip || clause.section() != Section::Ip);
            if selected && !self.excludes(clause) {
                self.clauses.push(clause);
            }
        }
        let present = self.clauses.clone();
        for required in present.iter().filter_map(|clause| clause.depends_on()) {
            if !self.clauses.contains(&required) && !self.excludes(required) {
                self.clauses.push(required);
            }
        }
        // An unlimited licence together with a usage limit would be an unplanned contradiction.
        if self.clauses.contains(&Clause::UnlimitedLicense) {
            self.clauses.retain(|clause| *clause != Clause::VolumeRestriction);
        }
        self.clauses.sort_unstable();
    }

    fn draw_provisions(&mut self, rng: &mut SeededRng) {
        for provision in Provision::ALL {
            let selected = rng.with_percent(provision.frequency_percent());
            let is_required = self.problems.iter().any(|problem| problem.depends_on() == Some(provision));
            let is_replaced = self.problems.iter().any(|problem| problem.replaces_provision(provision));
            // Without data of Europeans, terms about their transfer are pointless.
            let is_pointless =
                provision == Provision::TransferTerms && !self.provisions.contains(&Provision::EuData);
            if (selected || is_required) && !is_replaced && !is_pointless {
                self.provisions.push(provision);
            }
        }
    }
}

/// Draws a recommendation, each equally likely, and problems that lead to it.
fn draw_problems(rng: &mut SeededRng) -> Vec<Problem> {
    let scores = rng.pick(&Recommendation::ALL).scores();
    let target = rng.between(scores.start, scores.end - 1);
    let mut candidates: Vec<Problem> = Problem::all().collect();
    rng.shuffle(&mut candidates);
    // Critical problems are rare: without this, most bad contracts would have only many small problems.
    let critical = candidates.iter().position(|problem| problem.severity() == Severity::Critical);
    if let (true, Some(critical)) = (rng.with_percent(60), critical) {
        candidates.swap(0, critical);
    }
    let mut problems: Vec<Problem> = Vec::new();
    for problem in candidates {
        let score = risk_score(problems.iter().copied());
        let next = risk_score(problems.iter().copied().chain([problem]));
        let is_compatible = problems.iter().all(|other| !problem.excludes(*other));
        if score < target && next < scores.end && is_compatible {
            problems.push(problem);
        }
    }
    problems.sort_by_key(|problem| (std::cmp::Reverse(problem.severity()), *problem));
    problems
}
