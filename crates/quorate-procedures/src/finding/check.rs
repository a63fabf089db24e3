//! What an agent wrote, read strictly: what is wrong is said with its place, in words that the agent can act upon.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    ANSWER_BYTES_MAX, Finding, LIST_MAX, NAME_CHARS_MAX, SCORE_MAX, TEXT_CHARS_MAX, Vocabulary, steady,
};

/// The path of an answer as a whole.
pub const WHOLE: &str = "answer";

/// What is wrong with an answer, and where: `issues[2].severity: …`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct Wrong {
    /// The place, as a JSON path; [`WHOLE`] if it is not in one field.
    pub path: String,
    /// Why.
    pub why: String,
}

impl Wrong {
    /// Something wrong at a place.
    #[must_use]
    pub fn new(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self { path: path.into(), why: why.into() }
    }
}

/// Reads an answer of a known shape.
///
/// # Errors
/// With the place of what does not fit, and when it is too long.
pub fn read_answer<T: DeserializeOwned>(body: &[u8]) -> Result<T, Wrong> {
    if body.len() > ANSWER_BYTES_MAX {
        let why = format!("is {} bytes long, {ANSWER_BYTES_MAX} at most are read", body.len());
        return Err(Wrong::new(WHOLE, why));
    }
    read_object(body)
}

/// Reads a JSON object of a known shape, however long.
pub(crate) fn read_object<T: DeserializeOwned>(body: &[u8]) -> Result<T, Wrong> {
    // A list of the fields in their order would do for the parser; not for us.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Wrong::new(WHOLE, "is no JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." || error.inner().is_eof() { WHOLE.to_owned() } else { path };
        Wrong::new(path, in_words(error.inner()))
    })?;
    reader.end().map_err(|_| Wrong::new(WHOLE, "there is more after the JSON"))?;
    Ok(read)
}

fn in_words(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let bare = said.split(" at line ").next().unwrap_or_default();
    match (error.is_data(), error.line()) {
        (true, _) => quorate_core::misread(bare),
        (false, 1) => format!("is no JSON: {bare} at column {}", error.column()),
        (false, line) => format!("is no JSON: {bare} at line {line}, column {}", error.column()),
    }
}

/// Reads a finding and brings its words into the spelling of the vocabulary.
///
/// # Errors
/// With the place of what does not fit.
pub fn read(body: &[u8], vocabulary: &Vocabulary) -> Result<Finding, Wrong> {
    let mut finding: Finding = read_answer(body)?;
    check_text("summary", &finding.summary)?;
    if finding.summary.trim().is_empty() {
        return Err(Wrong::new("summary", "is empty"));
    }
    check_confidence("confidence", finding.confidence)?;
    finding.confidence = finding.confidence.map(steady);
    check_lengths(&finding)?;
    for (name, score) in &mut finding.scores {
        check_name(&format!("scores.{name}"), name)?;
        if score.abs() > SCORE_MAX {
            return Err(Wrong::new(
                format!("scores.{name}"),
                format!("is not within -{SCORE_MAX} and {SCORE_MAX}"),
            ));
        }
        *score = steady(*score);
    }
    for (name, value) in &finding.facts {
        check_fact(name, value)?;
    }
    for (list, names) in [("relies_on", Some(&finding.relies_on)), ("found", finding.found.as_ref())] {
        for (at, name) in names.into_iter().flatten().enumerate() {
            check_name(&format!("{list}[{at}]"), name)?;
        }
    }
    check_issues(&mut finding, vocabulary)?;
    if let Some(said) = &mut finding.recommendation {
        check_name("recommendation", said)?;
        let place = vocabulary.recommendation(said);
        let known = place.map(|place| vocabulary.recommendations[place].clone());
        match known {
            Some(known) => *said = known,
            None if vocabulary.recommendations.is_empty() => {}
            None => return Err(not_in("recommendation", said, &vocabulary.recommendations)),
        }
    }
    Ok(finding)
}

fn check_issues(finding: &mut Finding, vocabulary: &Vocabulary) -> Result<(), Wrong> {
    for (at, issue) in finding.issues.iter_mut().enumerate() {
        let path = |field: &str| format!("issues[{at}].{field}");
        check_name(&path("topic"), &issue.topic)?;
        check_text(&path("detail"), &issue.detail)?;
        check_text(&path("evidence"), issue.evidence.as_deref().unwrap_or_default())?;
        check_text(&path("advice"), issue.advice.as_deref().unwrap_or_default())?;
        let Some(place) = vocabulary.severity(&issue.severity) else {
            return Err(not_in(&path("severity"), &issue.severity, &vocabulary.severities));
        };
        issue.severity.clone_from(&vocabulary.severities[place]);
    }
    Ok(())
}

fn check_lengths(finding: &Finding) -> Result<(), Wrong> {
    let found = finding.found.as_ref().map_or(0, Vec::len);
    let lengths = [
        ("scores", finding.scores.len()),
        ("issues", finding.issues.len()),
        ("facts", finding.facts.len()),
        ("relies_on", finding.relies_on.len()),
        ("found", found),
    ];
    match lengths.into_iter().find(|(_, length)| *length > LIST_MAX) {
        Some((path, length)) => {
            Err(Wrong::new(path, format!("has {length} entries, {LIST_MAX} at most are read")))
        }
        None => Ok(()),
    }
}

fn check_fact(name: &str, value: &Value) -> Result<(), Wrong> {
    let path = format!("facts.{name}");
    check_name(&path, name)?;
    match value {
        Value::String(text) => check_text(&path, text),
        Value::Number(_) | Value::Bool(_) => Ok(()),
        _ => Err(Wrong::new(path, "is neither a text nor a number nor true or false")),
    }
}

/// What is no confidence is said to be none.
pub(crate) fn check_confidence(path: &str, confidence: Option<f64>) -> Result<(), Wrong> {
    match confidence {
        Some(value) if !(0.0..=1.0).contains(&value) => {
            Err(Wrong::new(path, format!("is {value}, not between 0 and 1")))
        }
        _ => Ok(()),
    }
}

/// A name is there and short.
pub(crate) fn check_name(path: &str, name: &str) -> Result<(), Wrong> {
    if crate::plain::words(name).is_empty() {
        return Err(Wrong::new(path, "is empty"));
    }
    match name.chars().count() {
        length if length > NAME_CHARS_MAX => {
            Err(Wrong::new(path, format!("has {length} characters, {NAME_CHARS_MAX} at most are read")))
        }
        _ => Ok(()),
    }
}

/// A text is no book.
pub(crate) fn check_text(path: &str, text: &str) -> Result<(), Wrong> {
    match text.chars().count() {
        length if length > TEXT_CHARS_MAX => {
            Err(Wrong::new(path, format!("has {length} characters, {TEXT_CHARS_MAX} at most are read")))
        }
        _ => Ok(()),
    }
}

/// A word that is not in a list, and the list.
pub(crate) fn not_in(path: &str, said: &str, known: &[String]) -> Wrong {
    Wrong::new(path, format!("is `{said}`; it may be {}", one_of(known)))
}

/// `a`, `b` or `c`.
fn one_of(known: &[String]) -> String {
    let quoted: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    match &quoted[..] {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
