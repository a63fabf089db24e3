//! Positions of agents in a conflict.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::ConflictKind;
use crate::finding::{FieldError, SCORE_MAX, Vocabulary, round_to_micros};
use crate::{finding, normalise};

/// Value of a position: a JSON number in a numeric conflict, a string in every other.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(untagged)]
pub enum PositionValue {
    /// In a numeric conflict.
    Number(f64),
    /// In every other conflict. Agents that hold the same position have the same text.
    Text(String),
}

impl PositionValue {
    /// Returns the number, also from a text that contains one.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

impl Serialize for PositionValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // Serialised as 35, not 35.0.
            #[allow(clippy::cast_possible_truncation, reason = "whole and within SCORE_MAX")]
            Self::Number(value) if value.fract() == 0.0 && value.abs() <= SCORE_MAX => {
                serializer.serialize_i64(*value as i64)
            }
            Self::Number(value) => serializer.serialize_f64(*value),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl fmt::Display for PositionValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => out.pad(&normalise::format_number(*value)),
            Self::Text(text) => out.pad(text),
        }
    }
}

impl From<f64> for PositionValue {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for PositionValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for PositionValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for PositionValue {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl PartialEq<str> for PositionValue {
    fn eq(&self, other: &str) -> bool {
        match self {
            Self::Number(value) => normalise::format_number(*value) == other,
            Self::Text(text) => text == other,
        }
    }
}

impl PartialEq<&str> for PositionValue {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

/// Position of an agent, with confidence and reason.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Position {
    /// The agent.
    pub agent: String,
    /// Value of the position. Agents that hold the same position have the same value here.
    pub position: PositionValue,
    /// Confidence from 0 to 1, if stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Reason that the agent gives.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Position that an item is present.
pub(crate) const PRESENT: &str = "present";
/// Position that an item is absent.
pub(crate) const ABSENT: &str = "absent";

/// Parses a position stated in a discussion. If it equals one of the `known` positions, that spelling is used.
///
/// # Errors
/// If the value is not a valid position in this kind of conflict.
pub fn parse_position(
    kind: ConflictKind,
    value: &Value,
    known: &[PositionValue],
    vocabulary: &Vocabulary,
) -> Result<PositionValue, FieldError> {
    const PATH: &str = "revised_position";
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(_) | Value::Bool(_) => normalise::value_to_text(value),
        _ => return Err(FieldError::new(PATH, "expected a string, a number or a boolean")),
    };
    finding::check_name(PATH, &text)?;
    let in_list = |list: &[String]| {
        let index = list
            .iter()
            .position(|item| normalise::normalise_words(item) == normalise::normalise_words(&text));
        index.map(|index| list[index].clone()).ok_or_else(|| finding::not_allowed(PATH, &text, list))
    };
    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
    let text = match kind {
        ConflictKind::Numeric => {
            return match normalise::parse_amount(value) {
                Some(amount) if amount.abs() <= SCORE_MAX => {
                    Ok(PositionValue::Number(round_to_micros(amount)))
                }
                Some(_) => {
                    Err(FieldError::new(PATH, format!("must be between -{SCORE_MAX} and {SCORE_MAX}")))
                }
                None => Err(FieldError::new(PATH, format!("expected a number, found `{text}`"))),
            };
        }
        ConflictKind::Presence => in_list(&[PRESENT.to_owned(), ABSENT.to_owned()])?,
        ConflictKind::Severity => in_list(&vocabulary.severities)?,
        ConflictKind::Categorical if vocabulary.recommendations.is_empty() => in_list(&known).unwrap_or(text),
        ConflictKind::Categorical => in_list(&vocabulary.recommendations)?,
        ConflictKind::Factual => {
            let mut values: Vec<Value> =
                known.iter().map(|position| Value::String(position.clone())).collect();
            values.push(Value::String(text.clone()));
            let keys = normalise::canonical_keys(&values);
            let equal = keys.iter().take(known.len()).position(|key| Some(key) == keys.last());
            equal.map_or(text, |index| known[index].clone())
        }
    };
    Ok(PositionValue::Text(text))
}
