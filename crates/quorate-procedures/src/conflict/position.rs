//! What an agent holds in a conflict.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Kind;
use crate::finding::{SCORE_MAX, Vocabulary, Wrong, steady};
use crate::{finding, plain};

/// What an agent holds, how surely and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Position {
    /// Who.
    pub agent: String,
    /// What. Those who hold the same have the same text here.
    pub position: String,
    /// How surely, from 0 to 1; nothing if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What is there, as a position.
pub(crate) const PRESENT: &str = "present";
/// What is not there, as a position.
pub(crate) const ABSENT: &str = "absent";

/// What an agent said in a discussion, as a position: in the spelling of those who hold the same, `known`.
///
/// # Errors
/// When nobody can hold that in such a conflict.
pub fn read(kind: Kind, said: &Value, known: &[String], words: &Vocabulary) -> Result<String, Wrong> {
    const PATH: &str = "revised_position";
    let text = match said {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(_) | Value::Bool(_) => plain::text(said),
        _ => return Err(Wrong::new(PATH, "is neither a text nor a number nor true or false")),
    };
    finding::check_name(PATH, &text)?;
    let in_list = |list: &[String]| {
        let place = list.iter().position(|one| plain::words(one) == plain::words(&text));
        place.map(|at| list[at].clone()).ok_or_else(|| finding::not_in(PATH, &text, list))
    };
    match kind {
        Kind::Numeric => match plain::amount(said) {
            Some(amount) if amount.abs() <= SCORE_MAX => Ok(plain::number(steady(amount))),
            Some(_) => Err(Wrong::new(PATH, format!("is not within -{SCORE_MAX} and {SCORE_MAX}"))),
            None => Err(Wrong::new(PATH, format!("is `{text}`, no number"))),
        },
        Kind::Presence => in_list(&[PRESENT.to_owned(), ABSENT.to_owned()]),
        Kind::Severity => in_list(&words.severities),
        Kind::Categorical if words.recommendations.is_empty() => Ok(in_list(known).unwrap_or(text)),
        Kind::Categorical => in_list(&words.recommendations),
        Kind::Factual => {
            let mut values: Vec<Value> = known.iter().map(|one| Value::String(one.clone())).collect();
            values.push(Value::String(text.clone()));
            let keys = plain::keys(&values);
            let same = keys.iter().take(known.len()).position(|key| Some(key) == keys.last());
            Ok(same.map_or(text, |at| known[at].clone()))
        }
    }
}
