//! When two texts say the same: words, numbers, dates and money without their dress.
//!
//! | kind | the same | not the same |
//! |---|---|---|
//! | words | `Do not sign`, `do_not-sign` | |
//! | yes and no | `true`, `Yes`, `"true"` | `1` |
//! | numbers | `1200`, `1,200.00`, `"1200"`, `1.2 thousand` | `1.200` (a point is a decimal point) |
//! | percent | `15%`, `15 percent` | `0.15` |
//! | money | `$1,200.00`, `1200 USD`, `US$ 1,200`, `1.2 thousand dollars` | `1200 EUR` |
//! | dates | `1 Jan 2027`, `January 1st, 2027`, `2027-01-01` | `01/02/2027` (nobody knows which is the month: it stays a text) |
//!
//! `$` is the US dollar. A number without a currency is the same as that amount of money if only one currency is named
//! beside it: not to say what is clear contradicts nobody.

mod date;
mod money;

#[cfg(test)]
mod tests;

use serde_json::Value;

/// A text as words in lower case, one space between them: what names and choices are compared by.
#[must_use]
pub fn words(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// A number as people write it: without needless zeros.
#[must_use]
pub fn number(value: f64) -> String {
    // There is no minus nothing.
    let value = if value == 0.0 { 0.0 } else { value };
    value.to_string()
}

/// A value as people write it.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What a value says.
#[derive(Clone, PartialEq, Debug)]
enum Meant {
    Number(f64),
    Percent(f64),
    Money { currency: String, amount: f64 },
    Date(String),
    Truth(bool),
    Words(String),
}

impl Meant {
    fn of(value: &Value) -> Self {
        match value {
            Value::Bool(truth) => Self::Truth(*truth),
            Value::Number(number) => number.as_f64().map_or(Self::Words(number.to_string()), Self::Number),
            Value::String(text) => Self::of_text(text),
            other => Self::Words(other.to_string()),
        }
    }

    fn of_text(text: &str) -> Self {
        let text = text.trim().trim_end_matches('.').trim();
        let lower = text.to_lowercase();
        match lower.as_str() {
            "yes" | "true" => return Self::Truth(true),
            "no" | "false" => return Self::Truth(false),
            _ => {}
        }
        if let Some(date) = date::read(&lower) {
            return Self::Date(date);
        }
        if let Some(number) = money::number(&lower) {
            return Self::Number(number);
        }
        let percent = ["%", "percent", "per cent"].iter().find_map(|end| lower.strip_suffix(end));
        if let Some(number) = percent.and_then(|rest| money::number(rest.trim())) {
            return Self::Percent(number);
        }
        match money::read(text) {
            Some((currency, amount)) => Self::Money { currency, amount },
            None => Self::Words(lower.split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }

    fn key(&self) -> String {
        match self {
            Self::Number(value) => number(*value),
            Self::Percent(value) => format!("{}%", number(*value)),
            Self::Money { currency, amount } => format!("{currency} {}", number(*amount)),
            Self::Date(date) => date.clone(),
            Self::Truth(truth) => truth.to_string(),
            Self::Words(words) => words.clone(),
        }
    }
}

/// For each value a text that is the same for those that say the same.
#[must_use]
pub fn keys(values: &[Value]) -> Vec<String> {
    let meant: Vec<Meant> = values.iter().map(Meant::of).collect();
    let mut currencies: Vec<&String> = meant
        .iter()
        .filter_map(|one| if let Meant::Money { currency, .. } = one { Some(currency) } else { None })
        .collect();
    currencies.sort();
    currencies.dedup();
    let only = if let [one] = currencies[..] { Some(one.clone()) } else { None };
    let key = |one: &Meant| match (one, &only) {
        (Meant::Number(amount), Some(currency)) => {
            Meant::Money { currency: currency.clone(), amount: *amount }.key()
        }
        _ => one.key(),
    };
    meant.iter().map(key).collect()
}

/// A number, however it is dressed: also money and percent.
#[must_use]
pub fn amount(value: &Value) -> Option<f64> {
    match Meant::of(value) {
        Meant::Number(value) | Meant::Percent(value) | Meant::Money { amount: value, .. } => Some(value),
        _ => None,
    }
}
