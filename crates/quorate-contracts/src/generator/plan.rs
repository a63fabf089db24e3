//! What will be in a contract: its problems first, then sound clauses and provisions around them.
//!
//! The plan of a seed is the same for both halves of the phrasings, so that a reader can be compared on the same case in
//! words that its authors have seen and in words that they have not.

use super::clause::Clause;
use super::draw::Draw;
use super::home::Home;
use super::problem::{Problem, Severity};
use super::provision::Provision;
use super::truth::{Recommendation, risk_score};

/// What a contract will say, not yet in which words.
pub(super) struct Plan {
    pub(super) problems: Vec<Problem>,
    pub(super) clauses: Vec<Clause>,
    pub(super) provisions: Vec<Provision>,
    /// How many near-misses it has, if so many suit it.
    pub(super) near_misses: usize,
    /// How many words it has at least, as far as there is filler.
    pub(super) words: usize,
}

/// How long a contract is: how likely its clauses are, and how many words it has at least. A page has 450 words.
const SIZES: [(u32, [u32; 2]); 4] =
    [(60, [1_400, 1_800]), (100, [1_800, 2_500]), (160, [2_500, 3_400]), (240, [3_000, 4_200])];

impl Plan {
    pub(super) fn draw(seed: u64) -> Self {
        let mut draw = Draw::new(seed, "plan");
        let problems = draw_problems(&mut draw);
        let (density, [least, most]) = *draw.pick(&SIZES);
        let words = draw.between(least, most) as usize;
        let near_misses = draw.between(2, 9) as usize;
        let mut plan = Self { problems, clauses: Vec::new(), provisions: Vec::new(), near_misses, words };
        plan.draw_clauses(&mut draw, density);
        plan.draw_provisions(&mut draw);
        plan
    }

    /// Whether a planted problem stands in its place.
    pub(super) fn bars(&self, clause: Clause) -> bool {
        self.problems.iter().any(|problem| problem.replaces_clause(clause))
    }

    fn draw_clauses(&mut self, draw: &mut Draw, density: u32) {
        let has_ip = draw.chance(80);
        for clause in Clause::all() {
            // What every contract has does not depend on its length.
            let percent = clause.percent();
            let percent = if percent == 100 { 100 } else { (percent * density / 100).min(95) };
            let wanted = draw.chance(percent) && (has_ip || clause.home() != Home::Ip);
            if wanted && !self.bars(clause) {
                self.clauses.push(clause);
            }
        }
        let present = self.clauses.clone();
        for needed in present.iter().filter_map(|clause| clause.needs()) {
            if !self.clauses.contains(&needed) && !self.bars(needed) {
                self.clauses.push(needed);
            }
        }
        // A licence without limits beside a limit of use would be a contradiction that nobody planted.
        if self.clauses.contains(&Clause::UnlimitedLicense) {
            self.clauses.retain(|clause| *clause != Clause::VolumeRestriction);
        }
        self.clauses.sort_unstable();
    }

    fn draw_provisions(&mut self, draw: &mut Draw) {
        for provision in Provision::ALL {
            let wanted = draw.chance(provision.percent());
            let needed = self.problems.iter().any(|problem| problem.needs() == Some(provision));
            let barred = self.problems.iter().any(|problem| problem.replaces_provision(provision));
            // Without data of Europeans there is nothing to say about their transfer.
            let idle = provision == Provision::TransferTerms && !self.provisions.contains(&Provision::EuData);
            if (wanted || needed) && !barred && !idle {
                self.provisions.push(provision);
            }
        }
    }
}

/// One recommendation is as likely as the other; the problems are those that lead to it.
fn draw_problems(draw: &mut Draw) -> Vec<Problem> {
    let scores = draw.pick(&Recommendation::ALL).scores();
    let target = draw.between(scores.start, scores.end - 1);
    let mut all: Vec<Problem> = Problem::all().collect();
    draw.shuffle(&mut all);
    // Critical problems are few in kind: without this most contracts that are bad would be so by many small ones.
    let critical = all.iter().position(|problem| problem.severity() == Severity::Critical);
    if let (true, Some(critical)) = (draw.chance(60), critical) {
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
