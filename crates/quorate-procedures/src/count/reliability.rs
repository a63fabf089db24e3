//! Voters judged by their answers: each voter's confusion matrix and the answers are estimated together, over all questions, by
//! expectation-maximisation (Dawid and Skene, 1979). No stated confidence is needed, and none is looked at.
//!
//! What can be right on a question is what somebody named on it. Probabilities begin as the shares of votes. Then, in turns:
//!
//! - *maximise*: count, weighted by those probabilities, how often each voter says `s` where `t` is right, and how often `t` is right;
//! - *expect*: the probability of each choice is (how often it is right) × the product over the voters of (how often they say
//!   what they said where it is right).
//!
//! **Smoothing**, so that a few questions do not make a voter infallible and rare words can be judged at all: a voter's row for `t` has
//! [`ROW`] pseudo-ballots of its accuracy `a` (`a` on the diagonal, the rest evenly over what is named beside `t` anywhere), and `a` is
//! its share of right answers with [`PRIOR`] pseudo-ballots of [`ACCURACY`]. Each `t` begins with one pseudo-question. So with many
//! questions over few choices it is the confusion matrix that counts, and over choices that never come again the voter's accuracy.
//!
//! It ends when no probability moves by more than [`STILL`], at the latest after [`TURNS`]. Names are put in order first, so nothing depends
//! on the order of what came in.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Question;

/// Pseudo-ballots in each row of a confusion matrix.
pub const ROW: f64 = 4.0;
/// Pseudo-ballots in a voter's accuracy.
pub const PRIOR: f64 = 8.0;
/// How often a voter is right of whom nothing is known.
pub const ACCURACY: f64 = 0.7;
/// A turn that moves every probability by less than this is the last.
pub const STILL: f64 = 1e-5;
/// The most turns there are.
pub const TURNS: usize = 300;

/// What was learnt.
#[derive(Clone, PartialEq, Debug)]
pub struct Learnt {
    /// For each question, as they were given, its choices with their probabilities.
    pub shares: Vec<Vec<(String, f64)>>,
    /// Each voter, in the order of their names.
    pub voters: Vec<Voter>,
    /// How many turns it took.
    pub turns: usize,
    /// Whether it had come to rest by then.
    pub settled: bool,
}

/// A voter as its answers show it.
#[derive(Clone, PartialEq, Debug)]
pub struct Voter {
    /// Its name.
    pub name: String,
    /// How often it is right.
    pub accuracy: f64,
    /// What is right, what it says then, how often: the cells of its confusion matrix for which there is a ballot.
    pub confusion: Vec<(String, String, f64)>,
}

/// One cell of a voter's confusion matrix.
struct Cell {
    voter: usize,
    row: usize,
    right: bool,
    truth: u32,
    said: u32,
}

/// The ballots as numbers.
struct Data<'a> {
    voters: Vec<&'a str>,
    labels: Vec<&'a str>,
    /// For each question the labels that were named, in order.
    candidates: Vec<Vec<u32>>,
    /// For each question and ballot, the cell of each candidate, one after the other.
    marks: Vec<Vec<u32>>,
    cells: Vec<Cell>,
    /// The truth that each row is about.
    rows: Vec<u32>,
    /// How many labels are named beside each label, itself included.
    beside: Vec<f64>,
    /// How many ballots each voter cast.
    cast: Vec<f64>,
    /// The questions in the order of their names.
    order: Vec<usize>,
}

/// Learns what the voters are worth and what is right. Each question has been checked.
#[must_use]
pub fn learn(questions: &[Question]) -> Learnt {
    let data = Data::of(questions);
    let mut right = data.first_guess(questions);
    let mut turns = 0;
    let mut settled = false;
    let mut model = data.maximise(&right);
    while turns < TURNS && !settled {
        let next = data.expect(&model);
        let moved = next.iter().flatten().zip(right.iter().flatten()).map(|(new, old)| (new - old).abs());
        settled = moved.fold(0.0, f64::max) < STILL;
        right = next;
        model = data.maximise(&right);
        turns += 1;
    }
    let named = |question: usize| {
        let names = data.candidates[question].iter().map(|label| data.labels[*label as usize].to_owned());
        names.zip(right[question].iter().copied()).collect()
    };
    let shares = (0..questions.len()).map(named).collect();
    Learnt { shares, voters: data.voters_of(&model), turns, settled }
}

/// What holds in one turn.
struct Model {
    accuracy: Vec<f64>,
    /// ln of each cell.
    cells: Vec<f64>,
    /// ln of how often each label is right.
    labels: Vec<f64>,
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
impl<'a> Data<'a> {
    fn of(questions: &'a [Question]) -> Self {
        let ballots = || questions.iter().flat_map(|question| &question.ballots);
        let (voters, voter_of) = numbered(ballots().map(|ballot| ballot.voter.as_str()));
        let (labels, label_of) = numbered(ballots().map(|ballot| ballot.choice.as_str()));
        let mut order: Vec<usize> = (0..questions.len()).collect();
        order.sort_by(|a, b| questions[*a].name.cmp(&questions[*b].name));
        let mut data = Self {
            beside: vec![0.0; labels.len()],
            cast: vec![0.0; voters.len()],
            candidates: vec![Vec::new(); questions.len()],
            marks: vec![Vec::new(); questions.len()],
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
                let (voter, said) = (voter_of[ballot.voter.as_str()], label_of[ballot.choice.as_str()]);
                data.cast[voter as usize] += 1.0;
                for truth in &named {
                    let cell = *cell_of.entry((voter, *truth, said)).or_insert_with(|| {
                        let row = *row_of.entry((voter, *truth)).or_insert_with(|| {
                            data.rows.push(*truth);
                            (data.rows.len() - 1) as u32
                        });
                        let (voter, row, right) = (voter as usize, row as usize, *truth == said);
                        data.cells.push(Cell { voter, row, right, truth: *truth, said });
                        (data.cells.len() - 1) as u32
                    });
                    data.marks[index].push(cell);
                }
            }
            data.candidates[index] = named;
        }
        for (label, _) in pairs {
            data.beside[label as usize] += 1.0;
        }
        data
    }

    /// The shares of votes.
    fn first_guess(&self, questions: &[Question]) -> Vec<Vec<f64>> {
        let guess = |(candidates, question): (&Vec<u32>, &Question)| {
            let votes = |label: &u32| {
                let name = self.labels[*label as usize];
                question.ballots.iter().filter(|ballot| ballot.choice == name).count() as f64
            };
            candidates.iter().map(|label| votes(label) / question.ballots.len() as f64).collect()
        };
        self.candidates.iter().zip(questions).map(guess).collect()
    }

    fn maximise(&self, right: &[Vec<f64>]) -> Model {
        let mut counts = vec![0.0; self.cells.len()];
        let mut labels = vec![1.0; self.labels.len()];
        for index in &self.order {
            let (candidates, right) = (&self.candidates[*index], &right[*index]);
            for marks in self.marks[*index].chunks_exact(candidates.len()) {
                for (mark, right) in marks.iter().zip(right) {
                    counts[*mark as usize] += right;
                }
            }
            for (label, right) in candidates.iter().zip(right) {
                labels[*label as usize] += right;
            }
        }
        let mut rows = vec![0.0; self.rows.len()];
        let mut hits = vec![0.0; self.voters.len()];
        for (cell, count) in self.cells.iter().zip(&counts) {
            rows[cell.row] += count;
            hits[cell.voter] += if cell.right { *count } else { 0.0 };
        }
        let accuracy: Vec<f64> = hits
            .iter()
            .zip(&self.cast)
            .map(|(hits, cast)| (hits + PRIOR * ACCURACY) / (cast + PRIOR))
            .collect();
        let cell = |(cell, count): (&Cell, f64)| {
            let accuracy = accuracy[cell.voter];
            let others = (self.beside[cell.truth as usize] - 1.0).max(1.0);
            let expected = if cell.right { accuracy } else { (1.0 - accuracy) / others };
            ((count + ROW * expected) / (rows[cell.row] + ROW)).ln()
        };
        let cells = self.cells.iter().zip(counts).map(cell).collect();
        let whole = labels.iter().sum::<f64>();
        Model { cells, labels: labels.iter().map(|label| (label / whole).ln()).collect(), accuracy }
    }

    fn expect(&self, model: &Model) -> Vec<Vec<f64>> {
        let expected = |(candidates, marks): (&Vec<u32>, &Vec<u32>)| {
            let mut scores: Vec<f64> = candidates.iter().map(|label| model.labels[*label as usize]).collect();
            for marks in marks.chunks_exact(candidates.len()) {
                scores.iter_mut().zip(marks).for_each(|(score, mark)| *score += model.cells[*mark as usize]);
            }
            let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            scores.iter_mut().for_each(|score| *score = (*score - greatest).exp());
            let sum: f64 = scores.iter().sum();
            scores.iter().map(|score| score / sum).collect()
        };
        self.candidates.iter().zip(&self.marks).map(expected).collect()
    }

    fn voters_of(&self, model: &Model) -> Vec<Voter> {
        let mut confusion: BTreeMap<usize, Vec<(String, String, f64)>> = BTreeMap::new();
        for (cell, value) in self.cells.iter().zip(&model.cells) {
            let name = |label: u32| self.labels[label as usize].to_owned();
            let told = (name(cell.truth), name(cell.said), value.exp());
            confusion.entry(cell.voter).or_default().push(told);
        }
        let voter = |(at, name): (usize, &&str)| {
            let mut confusion = confusion.remove(&at).unwrap_or_default();
            confusion.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
            Voter { name: (*name).to_owned(), accuracy: model.accuracy[at], confusion }
        };
        self.voters.iter().enumerate().map(voter).collect()
    }
}

/// The names in order, and the number of each.
#[allow(clippy::cast_possible_truncation)]
fn numbered<'a>(names: impl Iterator<Item = &'a str>) -> (Vec<&'a str>, HashMap<&'a str, u32>) {
    let names: BTreeSet<&str> = names.collect();
    let of = names.iter().enumerate().map(|(number, name)| (*name, number as u32)).collect();
    (names.into_iter().collect(), of)
}
