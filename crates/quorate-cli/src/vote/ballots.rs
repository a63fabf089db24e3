//! Ballots as they come in: a JSON object a line. What is wrong is said with its line.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Read as _};

use quorate_procedures::count::{Ballot, Question};
use quorate_procedures::finding::{WHOLE, read_answer};
use serde::Deserialize;

use crate::exit::{Ended, USAGE};

/// The longest line.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The most ballots that are counted at once.
const BALLOTS_MAX: usize = 1_000_000;
/// The most different choices on one question.
const CHOICES_MAX: usize = 100;

/// A line as it is written. Further fields are for others.
#[derive(Deserialize)]
struct Line {
    question: String,
    voter: String,
    choice: Option<String>,
    confidence: Option<f64>,
    #[serde(default)]
    ranking: Vec<String>,
    #[serde(default)]
    reason: String,
}

/// The questions in the order in which they first appear.
#[derive(Default)]
struct Questions {
    all: Vec<Question>,
    place_of: HashMap<String, usize>,
    choices: Vec<HashSet<String>>,
    /// Where each voter's ballot on a question stands.
    cast: HashMap<(usize, String), usize>,
}

/// Reads ballots up to the end.
///
/// # Errors
/// With the line of the first that is wrong, and why.
pub(super) fn read(mut input: impl BufRead) -> anyhow::Result<Vec<Question>> {
    let mut questions = Questions::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let most = u64::try_from(LINE_BYTES_MAX + 2)?;
        if input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = line.trim_ascii();
        if text.is_empty() && line.ends_with(b"\n") {
            continue;
        }
        let result = if text.len() > LINE_BYTES_MAX {
            Err(format!("is longer than {LINE_BYTES_MAX} bytes"))
        } else {
            ballot(text).and_then(|(question, ballot)| questions.add(number, question, ballot))
        };
        result.map_err(|why| {
            Ended::new(
                USAGE,
                format!("line {number}: {why}"),
                "quorate vote tally --help shows what a ballot is",
            )
        })?;
    }
    Ok(questions.all)
}

fn ballot(text: &[u8]) -> Result<(String, Ballot), String> {
    let Line { question, voter, choice, confidence, ranking, reason } =
        read_answer(text).map_err(|wrong| {
            if wrong.path == WHOLE { wrong.why } else { format!("{}: {}", wrong.path, wrong.why) }
        })?;
    let choice = choice.or_else(|| ranking.first().cloned()).ok_or("choice is missing")?;
    for (name, value) in [("question", &question), ("voter", &voter), ("choice", &choice)] {
        if value.is_empty() {
            return Err(format!("`{name}` is empty"));
        }
    }
    let ballot = Ballot { voter, choice, confidence, ranking, reason };
    ballot.check().map_err(|why| why.to_string())?;
    Ok((question, ballot))
}

impl Questions {
    fn add(&mut self, number: usize, name: String, ballot: Ballot) -> Result<(), String> {
        let place = *self.place_of.entry(name.clone()).or_insert_with(|| {
            self.all.push(Question { name, ..Question::default() });
            self.choices.push(HashSet::new());
            self.all.len() - 1
        });
        if let Some(before) = self.cast.insert((place, ballot.voter.clone()), number) {
            let (voter, name) = (&ballot.voter, &self.all[place].name);
            return Err(format!("{voter} votes twice on {name}, first on line {before}"));
        }
        if self.cast.len() > BALLOTS_MAX {
            return Err(format!("there are more than {BALLOTS_MAX} ballots"));
        }
        let choices = &mut self.choices[place];
        for choice in std::iter::once(&ballot.choice).chain(&ballot.ranking) {
            if !choices.contains(choice) {
                choices.insert(choice.clone());
            }
        }
        if choices.len() > CHOICES_MAX {
            return Err(format!("there are more than {CHOICES_MAX} choices on {}", self.all[place].name));
        }
        self.all[place].ballots.push(ballot);
        Ok(())
    }
}
