//! Parses ballots, one JSON object per line. Errors have the line number.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Read as _};

use quorate_procedures::finding::{ROOT_PATH, parse_answer};
use quorate_procedures::tally::{Ballot, Question};
use serde::Deserialize;

use crate::exit::{CommandError, USAGE};

/// Maximum length of a line.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of ballots.
const BALLOTS_MAX: usize = 1_000_000;
/// Maximum number of choices per question.
const CHOICES_MAX: usize = 100;

/// A ballot line. Unknown fields are ignored.
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
    index_of: HashMap<String, usize>,
    choices: Vec<HashSet<String>>,
    /// Line number of each voter's ballot, by question.
    cast: HashMap<(usize, String), usize>,
}

/// Reads ballots until the end of the input.
///
/// # Errors
/// Names the line of the first invalid ballot, and the reason.
pub(super) fn read(mut input: impl BufRead) -> anyhow::Result<Vec<Question>> {
    let mut questions = Questions::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let limit = u64::try_from(LINE_BYTES_MAX + 2)?;
        if input.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
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
        result.map_err(|reason| {
            CommandError::new(
                USAGE,
                format!("line {number}: {reason}"),
                "see `quorate vote tally --help` for the format of ballots",
            )
        })?;
    }
    Ok(questions.all)
}

fn ballot(text: &[u8]) -> Result<(String, Ballot), String> {
    let Line { question, voter, choice, confidence, ranking, reason } =
        parse_answer(text).map_err(|error| {
            if error.path == ROOT_PATH { error.reason } else { format!("{}: {}", error.path, error.reason) }
        })?;
    let choice = choice.or_else(|| ranking.first().cloned()).ok_or("choice is missing")?;
    for (name, value) in [("question", &question), ("voter", &voter), ("choice", &choice)] {
        if value.is_empty() {
            return Err(format!("`{name}` is empty"));
        }
    }
    let ballot = Ballot { voter, choice, confidence, ranking, reason };
    ballot.check().map_err(|error| error.to_string())?;
    Ok((question, ballot))
}

impl Questions {
    fn add(&mut self, number: usize, name: String, ballot: Ballot) -> Result<(), String> {
        let index = *self.index_of.entry(name.clone()).or_insert_with(|| {
            self.all.push(Question { name, ..Question::default() });
            self.choices.push(HashSet::new());
            self.all.len() - 1
        });
        if let Some(first_line) = self.cast.insert((index, ballot.voter.clone()), number) {
            let (voter, name) = (&ballot.voter, &self.all[index].name);
            return Err(format!("{voter} votes twice on {name}, first on line {first_line}"));
        }
        if self.cast.len() > BALLOTS_MAX {
            return Err(format!("there are more than {BALLOTS_MAX} ballots"));
        }
        let choices = &mut self.choices[index];
        for choice in std::iter::once(&ballot.choice).chain(&ballot.ranking) {
            if !choices.contains(choice) {
                choices.insert(choice.clone());
            }
        }
        if choices.len() > CHOICES_MAX {
            return Err(format!("there are more than {CHOICES_MAX} choices on {}", self.all[index].name));
        }
        self.all[index].ballots.push(ballot);
        Ok(())
    }
}
