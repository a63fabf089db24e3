//! Estimates the reliability of voters: each voter's confusion matrix and the correct answers are estimated together,
//! over all questions, by expectation-maximisation (Dawid and Skene, 1979). Stated confidences are not used.
//!
//! The candidates of a question are the choices named on it. Their probabilities start as vote shares. Then the steps
//! alternate:
//!
//! - *maximise*: estimate, weighted by those probabilities, how often each voter answers `s` where `t` is correct, and
//!   how often `t` is correct;
//! - *expect*: the probability of each choice is its prior times the product over the voters of the probability of
//!   their answer, given that the choice is correct.
//!
//! **Smoothing** prevents a few questions from making a voter infallible, and handles rare labels: a voter's row for
//! `t` contains [`ROW_PSEUDO_BALLOTS`] pseudo-ballots of its accuracy `a` (`a` on the diagonal, the rest evenly over
//! the labels that occur together with `t` on any question), and `a` is the voter's share of correct answers with
//! [`ACCURACY_PSEUDO_BALLOTS`] pseudo-ballots of [`PRIOR_ACCURACY`]. Each `t` starts with one pseudo-question. With
//! many questions over few choices the confusion matrix dominates; with choices that never repeat the voter's accuracy
//! does.
//!
//! The iteration ends when no probability changes by more than [`TOLERANCE`], at the latest after [`ITERATIONS_MAX`].
//! Names are sorted first, so the result does not depend on the order of the input.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Question;

/// Pseudo-ballots in each row of a confusion matrix.
pub const ROW_PSEUDO_BALLOTS: f64 = 4.0;
/// Pseudo-ballots in a voter's accuracy.
pub const ACCURACY_PSEUDO_BALLOTS: f64 = 8.0;
/// Assumed accuracy of a voter without any ballots.
pub const PRIOR_ACCURACY: f64 = 0.7;
/// Convergence threshold: the iteration ends when every probability changes by less than this.
pub const TOLERANCE: f64 = 1e-5;
/// Maximum number of iterations.
pub const ITERATIONS_MAX: usize = 300;

/// Result of the estimation.
#[derive(Clone, PartialEq, Debug)]
pub struct ReliabilityEstimate {
    /// For each question, in input order, its choices with their probabilities.
    pub shares: Vec<Vec<(String, f64)>>,
    /// The voters, ordered by name.
    pub voters: Vec<VoterReliability>,
    /// Number of iterations.
    pub iterations: usize,
    /// Whether the estimation converged.
    pub converged: bool,
}

/// Estimated reliability of a voter.
#[derive(Clone, PartialEq, Debug)]
pub struct VoterReliability {
    /// Name of the voter.
    pub name: String,
    /// Estimated probability that an answer is correct.
    pub accuracy: f64,
    /// Cells of the confusion matrix that have ballots: correct choice, given answer, probability.
    pub confusion: Vec<(String, String, f64)>,
}

/// One cell of a voter's confusion matrix.
struct Cell {
    voter: usize,
    row: usize,
    correct: bool,
    truth: u32,
    answer: u32,
}

/// The ballots in numeric form.
struct BallotMatrix<'a> {
    voters: Vec<&'a str>,
    labels: Vec<&'a str>,
    /// For each question the labels named on it, sorted.
    candidates: Vec<Vec<u32>>,
    /// For each question and ballot, the cell of each candidate, consecutively.
    ballot_cells: Vec<Vec<u32>>,
    cells: Vec<Cell>,
    /// The correct label of each row.
    rows: Vec<u32>,
    /// Number of labels that occur together with each label, itself included.
    co_occurring: Vec<f64>,
    /// Number of ballots of each voter.
    ballots_cast: Vec<f64>,
    /// Question indices, ordered by name.
    order: Vec<usize>,
}

/// Estimates the reliability of the voters and the correct answers. The questions must have been checked.
#[must_use]
pub fn estimate_reliability(questions: &[Question]) -> ReliabilityEstimate {
    let data = BallotMatrix::of(questions);
    let mut probabilities = data.vote_shares(questions);
    let mut iterations = 0;
    let mut converged = false;
    let mut model = data.maximise(&probabilities);
    while iterations < ITERATIONS_MAX && !converged {
        let next = data.expect(&model);
        let changes =
            next.iter().flatten().zip(probabilities.iter().flatten()).map(|(new, old)| (new - old).abs());
        converged = changes.fold(0.0, f64::max) < TOLERANCE;
        probabilities = next;
        model = data.maximise(&probabilities);
        iterations += 1;
    }
    let shares_of = |question: usize| {
        let names = data.candidates[question].iter().map(|label| data.labels[*label as usize].to_owned());
        names.zip(probabilities[question].iter().copied()).collect()
    };
    let shares = (0..questions.len()).map(shares_of).collect();
    ReliabilityEstimate { shares, voters: data.voters_of(&model), iterations, converged }
}

/// Parameters of one iteration.
struct Model {
    accuracy: Vec<f64>,
    /// Natural logarithm of each cell.
    cells: Vec<f64>,
    /// Natural logarithm of the prior of each label.
    labels: Vec<f64>,
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
impl<'a> BallotMatrix<'a> {
    fn of(questions: &'a [Question]) -> Self {
        let ballots = || questions.iter().flat_map(|question| &question.ballots);
        let (voters, voter_of) = numbered(ballots().map(|ballot| ballot.voter.as_str()));
        let (labels, label_of) = numbered(ballots().map(|ballot| ballot.choice.as_str()));
        let mut order: Vec<usize> = (0..questions.len()).collect();
        order.sort_by(|a, b| questions[*a].name.cmp(&questions[*b].name));
        let mut data = Self {
            co_occurring: vec![0.0; labels.len()],
            ballots_cast: vec![0.0; voters.len()],
            candidates: vec![Vec::new(); questions.len()],
            ballot_cells: vec![Vec::new(); questions.len()],
            cells: Vec::new(),
            rows: Vec::new(),
            voters,
            labels,
            order,
        };
        let mut cell_of: HashMap<(u32, u32, u32), u32> = HashMap::new();
        let mut row_of: HashMap<(u32, u32), u32> = HashMap::new();
        let mut pairs: BTreeSet<(u32, u32)> = BTreeSet::new();
        for index in data.order.clone() {
            let ballots = super::sorted(&questions[index].ballots);
            let named: BTreeSet<u32> =
                ballots.iter().map(|ballot| label_of[ballot.choice.as_str()]).collect();
            let named: Vec<u32> = named.into_iter().collect();
            pairs.extend(named.iter().flat_map(|a| named.iter().map(move |b| (*a, *b))));
            for ballot in ballots {
                let (voter, answer) = (voter_of[ballot.voter.as_str()], label_of[ballot.choice.as_str()]);
                data.ballots_cast[voter as usize] += 1.0;
                for truth in &named {
                    let cell = *cell_of.entry((voter, *truth, answer)).or_insert_with(|| {
                        let row = *row_of.entry((voter, *truth)).or_insert_with(|| {
                            data.rows.push(*truth);
                            (data.rows.len() - 1) as u32
                        });
                        let (voter, row, correct) = (voter as usize, row as usize, *truth == answer);
                        data.cells.push(Cell { voter, row, correct, truth: *truth, answer });
                        (data.cells.len() - 1) as u32
                    });
                    data.ballot_cells[index].push(cell);
                }
            }
            data.candidates[index] = named;
        }
        for (label, _) in pairs {
            data.co_occurring[label as usize] += 1.0;
        }
        data
    }

    /// Vote shares as the initial probabilities.
    fn vote_shares(&self, questions: &[Question]) -> Vec<Vec<f64>> {
        let initial_shares = |(candidates, question): (&Vec<u32>, &Question)| {
            let votes = |label: &u32| {
                let name = self.labels[*label as usize];
                question.ballots.iter().filter(|ballot| ballot.choice == name).count() as f64
            };
            candidates.iter().map(|label| votes(label) / question.ballots.len() as f64).collect()
        };
        self.candidates.iter().zip(questions).map(initial_shares).collect()
    }

    fn maximise(&self, probabilities: &[Vec<f64>]) -> Model {
        let mut counts = vec![0.0; self.cells.len()];
        let mut labels = vec![1.0; self.labels.len()];
        for index in &self.order {
            let (candidates, probabilities) = (&self.candidates[*index], &probabilities[*index]);
            for ballot_cells in self.ballot_cells[*index].chunks_exact(candidates.len()) {
                for (cell, probability) in ballot_cells.iter().zip(probabilities) {
                    counts[*cell as usize] += probability;
                }
            }
            for (label, probability) in candidates.iter().zip(probabilities) {
                labels[*label as usize] += probability;
            }
        }
        let mut rows = vec![0.0; self.rows.len()];
        let mut hits = vec![0.0; self.voters.len()];
        for (cell, count) in self.cells.iter().zip(&counts) {
            rows[cell.row] += count;
            hits[cell.voter] += if cell.correct { *count } else { 0.0 };
        }
        let accuracy: Vec<f64> = hits
            .iter()
            .zip(&self.ballots_cast)
            .map(|(hits, cast)| {
                (hits + ACCURACY_PSEUDO_BALLOTS * PRIOR_ACCURACY) / (cast + ACCURACY_PSEUDO_BALLOTS)
            })
            .collect();
        let cell = |(cell, count): (&Cell, f64)| {
            let accuracy = accuracy[cell.voter];
            let others = (self.co_occurring[cell.truth as usize] - 1.0).max(1.0);
            let expected = if cell.correct { accuracy } else { (1.0 - accuracy) / others };
            ((count + ROW_PSEUDO_BALLOTS * expected) / (rows[cell.row] + ROW_PSEUDO_BALLOTS)).ln()
        };
        let cells = self.cells.iter().zip(counts).map(cell).collect();
        let total = labels.iter().sum::<f64>();
        Model { cells, labels: labels.iter().map(|label| (label / total).ln()).collect(), accuracy }
    }

    fn expect(&self, model: &Model) -> Vec<Vec<f64>> {
        let expected = |(candidates, ballot_cells): (&Vec<u32>, &Vec<u32>)| {
            let mut scores: Vec<f64> = candidates.iter().map(|label| model.labels[*label as usize]).collect();
            for ballot_cells in ballot_cells.chunks_exact(candidates.len()) {
                scores
                    .iter_mut()
                    .zip(ballot_cells)
                    .for_each(|(score, cell)| *score += model.cells[*cell as usize]);
            }
            let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            scores.iter_mut().for_each(|score| *score = (*score - greatest).exp());
            let sum: f64 = scores.iter().sum();
            scores.iter().map(|score| score / sum).collect()
        };
        self.candidates.iter().zip(&self.ballot_cells).map(expected).collect()
    }

    fn voters_of(&self, model: &Model) -> Vec<VoterReliability> {
        let mut confusion: BTreeMap<usize, Vec<(String, String, f64)>> = BTreeMap::new();
        for (cell, value) in self.cells.iter().zip(&model.cells) {
            let name = |label: u32| self.labels[label as usize].to_owned();
            let entry = (name(cell.truth), name(cell.answer), value.exp());
            confusion.entry(cell.voter).or_default().push(entry);
        }
        let voter = |(index, name): (usize, &&str)| {
            let mut confusion = confusion.remove(&index).unwrap_or_default();
            confusion.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
            VoterReliability { name: (*name).to_owned(), accuracy: model.accuracy[index], confusion }
        };
        self.voters.iter().enumerate().map(voter).collect()
    }
}

/// Sorts names and numbers them.
#[allow(clippy::cast_possible_truncation)]
fn numbered<'a>(names: impl Iterator<Item = &'a str>) -> (Vec<&'a str>, HashMap<&'a str, u32>) {
    let names: BTreeSet<&str> = names.collect();
    let of = names.iter().enumerate().map(|(number, name)| (*name, number as u32)).collect();
    (names.into_iter().collect(), of)
}
