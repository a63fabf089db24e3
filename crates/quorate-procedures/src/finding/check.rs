//! Strict parsing of answers. Errors name the path of the field and are worded so that the agent can correct its answer.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    ANSWER_BYTES_MAX, Finding, LIST_MAX, NAME_CHARS_MAX, SCORE_MAX, TEXT_CHARS_MAX, Vocabulary, steady,
};

/// Path of the answer as a whole.
pub const WHOLE: &str = "answer";

/// Validation error of an answer: `issues[2].severity: …`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct Wrong {
    /// JSON path of the field; [`ROOT_PATH`] if the error is not about one field.
    pub path: String,
    /// Description of the error.
    pub why: String,
}

impl Wrong {
    /// Creates an error for a path.
    #[must_use]
    pub fn new(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self { path: path.into(), why: why.into() }
    }
}

/// Parses an answer into a given type.
///
/// # Errors
/// If the answer is too long or does not have the expected shape; the error names the field.
pub fn read_answer<T: DeserializeOwned>(body: &[u8]) -> Result<T, Wrong> {
    if body.len() > ANSWER_BYTES_MAX {
        let why = format!("has {} bytes, at most {ANSWER_BYTES_MAX} are allowed", body.len());
        return Err(Wrong::new(WHOLE, why));
    }
    read_object(body)
}

/// Parses a JSON object into a given type, without a size limit.
pub(crate) fn read_object<T: DeserializeOwned>(body: &[u8]) -> Result<T, Wrong> {
    // serde also accepts structs as sequences; reject that.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Wrong::new(WHOLE, "expected a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." || error.inner().is_eof() { WHOLE.to_owned() } else { path };
        Wrong::new(path, describe(error.inner()))
    })?;
    reader.end().map_err(|_| Wrong::new(WHOLE, "unexpected data after the JSON object"))?;
    Ok(read)
}

fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let bare = text.split(" at line ").next().unwrap_or_default();
    match (error.is_data(), error.line()) {
        (true, _) => quorate_core::misread(bare),
        (false, 1) => format!("invalid JSON: {bare} at column {}", error.column()),
        (false, line) => format!("invalid JSON: {bare} at line {line}, column {}", error.column()),
    }
}

/// Parses a finding and normalises its words to the spelling of the vocabulary.
///
/// # Errors
/// If a field is invalid; the error names its path.
pub fn read(body: &[u8], vocabulary: &Vocabulary) -> Result<Finding, Wrong> {
    let mut finding: Finding = read_answer(body)?;
    check_text("summary", &finding.summary)?;
    if finding.summary.trim().is_empty() {
        return Err(Wrong::new("summary", "must not be empty"));
    }
    check_confidence("confidence", finding.confidence)?;
    finding.confidence = finding.confidence.map(steady);
    check_lengths(&finding)?;
    for (name, score) in &mut finding.scores {
        check_name(&format!("scores.{name}"), name)?;
        if score.abs() > SCORE_MAX {
            return Err(Wrong::new(
                format!("scores.{name}"),
                format!("must be between -{SCORE_MAX} and {SCORE_MAX}"),
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
    if let Some(recommendation) = &mut finding.recommendation {
        check_name("recommendation", recommendation)?;
        let index = vocabulary.recommendation(recommendation);
        let known = index.map(|index| vocabulary.recommendations[index].clone());
        match known {
            Some(known) => *recommendation = known,
            None if vocabulary.recommendations.is_empty() => {}
            None => return Err(not_in("recommendation", recommendation, &vocabulary.recommendations)),
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
        let Some(index) = vocabulary.severity(&issue.severity) else {
            return Err(not_in(&path("severity"), &issue.severity, &vocabulary.severities));
        };
        issue.severity.clone_from(&vocabulary.severities[index]);
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
            Err(Wrong::new(path, format!("has {length} entries, at most {LIST_MAX} are allowed")))
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
        _ => Err(Wrong::new(path, "expected a string, a number or a boolean")),
    }
}

/// Checks that a confidence is between 0 and 1.
pub(crate) fn check_confidence(path: &str, confidence: Option<f64>) -> Result<(), Wrong> {
    match confidence {
        Some(value) if !(0.0..=1.0).contains(&value) => {
            Err(Wrong::new(path, format!("expected a number from 0 to 1, found {value}")))
        }
        _ => Ok(()),
    }
}

/// Checks that a name is neither empty nor too long.
pub(crate) fn check_name(path: &str, name: &str) -> Result<(), Wrong> {
    if crate::plain::words(name).is_empty() {
        return Err(Wrong::new(path, "must not be empty"));
    }
    match name.chars().count() {
        length if length > NAME_CHARS_MAX => {
            Err(Wrong::new(path, format!("has {length} characters, at most {NAME_CHARS_MAX} are allowed")))
        }
        _ => Ok(()),
    }
}

/// Checks that a text is not too long.
pub(crate) fn check_text(path: &str, text: &str) -> Result<(), Wrong> {
    match text.chars().count() {
        length if length > TEXT_CHARS_MAX => {
            Err(Wrong::new(path, format!("has {length} characters, at most {TEXT_CHARS_MAX} are allowed")))
        }
        _ => Ok(()),
    }
}

/// Error for a word that is not in the list of allowed ones.
pub(crate) fn not_in(path: &str, word: &str, known: &[String]) -> Wrong {
    Wrong::new(path, format!("expected {}, found `{word}`", one_of(known)))
}

/// Formats a list as `a`, `b` or `c`.
fn one_of(known: &[String]) -> String {
    let quoted: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    match &quoted[..] {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
