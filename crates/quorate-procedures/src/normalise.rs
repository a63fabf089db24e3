//! Normalises texts, numbers, dates and amounts of money, so that equal values in different formats compare equal.
//!
//! | kind | equal | not equal |
//! |---|---|---|
//! | words | `Do not sign`, `do_not-sign` | |
//! | booleans | `true`, `Yes`, `"true"` | `1` |
//! | numbers | `1200`, `1,200.00`, `"1200"`, `1.2 thousand` | `1.200` (the point is a decimal point) |
//! | percent | `15%`, `15 percent` | `0.15` |
//! | money | `$1,200.00`, `1200 USD`, `US$ 1,200`, `1.2 thousand dollars` | `1200 EUR` |
//! | dates | `1 Jan 2027`, `January 1st, 2027`, `2027-01-01` | `01/02/2027` (ambiguous day and month: compared as text) |
//!
//! `$` is the US dollar. A number without a currency equals that amount of money if only one currency occurs among the
//! compared values: leaving out the obvious currency is not a contradiction.

mod date;
mod money;

#[cfg(test)]
mod tests;

use serde_json::Value;

/// Normalises a text to lower-case words separated by single spaces; names and choices are compared in this form.
#[must_use]
pub fn normalise_words(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|ch: char| !ch.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Formats a number without trailing zeros.
#[must_use]
pub fn format_number(value: f64) -> String {
    // Normalises -0 to 0.
    let value = if value == 0.0 { 0.0 } else { value };
    value.to_string()
}

/// Formats a value as text, without quotes around strings.
#[must_use]
pub fn value_to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Parsed meaning of a value.
#[derive(Clone, PartialEq, Debug)]
enum ParsedValue {
    Number(f64),
    Percent(f64),
    Money { currency: String, amount: f64 },
    Date(String),
    Bool(bool),
    Words(String),
}

impl ParsedValue {
    fn of(value: &Value) -> Self {
        match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => number.as_f64().map_or(Self::Words(number.to_string()), Self::Number),
            Value::String(text) => Self::of_text(text),
            other => Self::Words(other.to_string()),
        }
    }

    fn of_text(text: &str) -> Self {
        let text = text.trim().trim_end_matches('.').trim();
        let lower = text.to_lowercase();
        match lower.as_str() {
            "yes" | "true" => return Self::Bool(true),
            "no" | "false" => return Self::Bool(false),
            _ => {}
        }
        if let Some(date) = date::parse_date(&lower) {
            return Self::Date(date);
        }
        if let Some(number) = money::parse_number(&lower) {
            return Self::Number(number);
        }
        let percent = ["%", "percent", "per cent"].iter().find_map(|suffix| lower.strip_suffix(suffix));
        if let Some(number) = percent.and_then(|rest| money::parse_number(rest.trim())) {
            return Self::Percent(number);
        }
        match money::parse_money(text) {
            Some((currency, amount)) => Self::Money { currency, amount },
            None => Self::Words(lower.split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }

    fn key(&self) -> String {
        match self {
            Self::Number(value) => format_number(*value),
            Self::Percent(value) => format!("{}%", format_number(*value)),
            Self::Money { currency, amount } => format!("{currency} {}", format_number(*amount)),
            Self::Date(date) => date.clone(),
            Self::Bool(value) => value.to_string(),
            Self::Words(words) => words.clone(),
        }
    }
}

/// Maps each value to a key; values with the same meaning have the same key.
#[must_use]
pub fn canonical_keys(values: &[Value]) -> Vec<String> {
    let parsed: Vec<ParsedValue> = values.iter().map(ParsedValue::of).collect();
    let mut currencies: Vec<&String> = parsed
        .iter()
        .filter_map(
            |value| if let ParsedValue::Money { currency, .. } = value { Some(currency) } else { None },
        )
        .collect();
    currencies.sort();
    currencies.dedup();
    let single_currency = if let [value] = currencies[..] { Some(value.clone()) } else { None };
    let key = |value: &ParsedValue| match (value, &single_currency) {
        (ParsedValue::Number(amount), Some(currency)) => {
            ParsedValue::Money { currency: currency.clone(), amount: *amount }.key()
        }
        _ => value.key(),
    };
    parsed.iter().map(key).collect()
}

/// Parses a number, with or without a currency or percent sign.
#[must_use]
pub fn parse_amount(value: &Value) -> Option<f64> {
    match ParsedValue::of(value) {
        ParsedValue::Number(value)
        | ParsedValue::Percent(value)
        | ParsedValue::Money { amount: value, .. } => Some(value),
        _ => None,
    }
}
