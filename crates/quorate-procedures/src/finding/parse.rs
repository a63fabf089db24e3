//! Strict parsing of answers. Errors name the path of the field and are worded so that the agent can correct its answer.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    ANSWER_BYTES_MAX, Finding, LIST_MAX, NAME_CHARS_MAX, SCORE_MAX, TEXT_CHARS_MAX, Vocabulary,
    round_to_micros,
};

/// Path of the answer as a whole.
pub const ROOT_PATH: &str = "answer";

/// Validation error of an answer: `issues[2].severity: …`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct FieldError {
    /// JSON path of the field; [`ROOT_PATH`] if the error is not about one field.
    pub path: String,
    /// Description of the error.
    pub reason: String,
}

impl FieldError {
    /// Creates an error for a path.
    #[must_use]
    pub fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}

/// Parses an answer into a given type.
///
/// # Errors
/// If the answer is too long or does not have the expected structure; the error names the field.
pub fn parse_answer<T: DeserializeOwned>(body: &[u8]) -> Result<T, FieldError> {
    if body.len() > ANSWER_BYTES_MAX {
        let reason = format!("has {} bytes, at most {ANSWER_BYTES_MAX} are allowed", body.len());
        return Err(FieldError::new(ROOT_PATH, reason));
    }
    parse_object(body)
}

/// Parses a JSON object into a given type, without a size limit.
pub(crate) fn parse_object<T: DeserializeOwned>(body: &[u8]) -> Result<T, FieldError> {
    // serde also accepts structs as sequences; reject that.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(FieldError::new(ROOT_PATH, "expected a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let parsed: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." || error.inner().is_eof() { ROOT_PATH.to_owned() } else { path };
        FieldError::new(path, describe(error.inner()))
    })?;
    reader.end().map_err(|_| FieldError::new(ROOT_PATH, "unexpected data after the JSON object"))?;
    Ok(parsed)
}

fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let bare = text.split(" at line ").next().unwrap_or_default();
    match (error.is_data(), error.line()) {
        (true, _) => quorate_core::describe_json_error(bare),
        (false, 1) => format!("invalid JSON: {bare} at column {}", error.column()),
        (false, line) => format!("invalid JSON: {bare} at line {line}, column {}", error.column()),
    }
}

/// Parses a finding and normalises its words to the spelling of the vocabulary.
///
/// # Errors
/// If a field is invalid; the error names its path.
pub fn parse(body: &[u8], vocabulary: &Vocabulary) -> Result<Finding, FieldError> {
    let mut finding: Finding = parse_answer(body)?;
    check_text("summary", &finding.summary)?;
    if finding.summary.trim().is_empty() {
        return Err(FieldError::new("summary", "must not be empty"));
    }
    check_confidence("confidence", finding.confidence)?;
    finding.confidence = finding.confidence.map(round_to_micros);
    check_lengths(&finding)?;
    for (name, score) in &mut finding.scores {
        check_name(&format!("scores.{name}"), name)?;
        if score.abs() > SCORE_MAX {
            return Err(FieldError::new(
                format!("scores.{name}"),
                format!("must be between -{SCORE_MAX} and {SCORE_MAX}"),
            ));
        }
        *score = round_to_micros(*score);
    }
    for (name, value) in &finding.facts {
        check_fact(name, value)?;
    }
    for (list, names) in [("relies_on", Some(&finding.relies_on)), ("found", finding.found.as_ref())] {
        for (index, name) in names.into_iter().flatten().enumerate() {
            check_name(&format!("{list}[{index}]"), name)?;
        }
    }
    check_issues(&mut finding, vocabulary)?;
    if let Some(recommendation) = &mut finding.recommendation {
        check_name("recommendation", recommendation)?;
        let index = vocabulary.recommendation_index(recommendation);
        let known = index.map(|index| vocabulary.recommendations[index].clone());
        match known {
            Some(known) => *recommendation = known,
            None if vocabulary.recommendations.is_empty() => {}
            None => return Err(not_allowed("recommendation", recommendation, &vocabulary.recommendations)),
        }
    }
    Ok(finding)
}

fn check_issues(finding: &mut Finding, vocabulary: &Vocabulary) -> Result<(), FieldError> {
    for (issue_index, issue) in finding.issues.iter_mut().enumerate() {
        let path = |field: &str| format!("issues[{issue_index}].{field}");
        check_name(&path("topic"), &issue.topic)?;
        check_text(&path("detail"), &issue.detail)?;
        check_text(&path("evidence"), issue.evidence.as_deref().unwrap_or_default())?;
        check_text(&path("advice"), issue.advice.as_deref().unwrap_or_default())?;
        let Some(index) = vocabulary.severity_index(&issue.severity) else {
            return Err(not_allowed(&path("severity"), &issue.severity, &vocabulary.severities));
        };
        issue.severity.clone_from(&vocabulary.severities[index]);
    }
    Ok(())
}

fn check_lengths(finding: &Finding) -> Result<(), FieldError> {
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
            Err(FieldError::new(path, format!("has {length} entries, at most {LIST_MAX} are allowed")))
        }
        None => Ok(()),
    }
}

fn check_fact(name: &str, value: &Value) -> Result<(), FieldError> {
    let path = format!("facts.{name}");
    check_name(&path, name)?;
    match value {
        Value::String(text) => check_text(&path, text),
        Value::Number(_) | Value::Bool(_) => Ok(()),
        _ => Err(FieldError::new(path, "expected a string, a number or a boolean")),
    }
}

/// Checks that a confidence is between 0 and 1.
pub(crate) fn check_confidence(path: &str, confidence: Option<f64>) -> Result<(), FieldError> {
    match confidence {
        Some(value) if !(0.0..=1.0).contains(&value) => {
            Err(FieldError::new(path, format!("expected a number from 0 to 1, found {value}")))
        }
        _ => Ok(()),
    }
}

/// Checks that a name is neither empty nor too long.
pub(crate) fn check_name(path: &str, name: &str) -> Result<(), FieldError> {
    if crate::normalise::normalise_words(name).is_empty() {
        return Err(FieldError::new(path, "must not be empty"));
    }
    match name.chars().count() {
        length if length > NAME_CHARS_MAX => Err(FieldError::new(
            path,
            format!("has {length} characters, at most {NAME_CHARS_MAX} are allowed"),
        )),
        _ => Ok(()),
    }
}

/// Checks that a text is not too long.
pub(crate) fn check_text(path: &str, text: &str) -> Result<(), FieldError> {
    match text.chars().count() {
        length if length > TEXT_CHARS_MAX => Err(FieldError::new(
            path,
            format!("has {length} characters, at most {TEXT_CHARS_MAX} are allowed"),
        )),
        _ => Ok(()),
    }
}

/// Error for a word that is not in the list of allowed ones.
pub(crate) fn not_allowed(path: &str, word: &str, allowed: &[String]) -> FieldError {
    FieldError::new(path, format!("expected {}, found `{word}`", one_of(allowed)))
}

/// Formats a list as `a`, `b` or `c`.
fn one_of(allowed: &[String]) -> String {
    let quoted: Vec<String> = allowed.iter().map(|word| format!("`{word}`")).collect();
    match &quoted[..] {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
