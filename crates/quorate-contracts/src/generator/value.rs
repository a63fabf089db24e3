//! Values of facts, and the style in which a contract writes them.

use std::fmt;

use serde::Serialize;

use super::fact::FactForm;
use super::numerals::{group_digits, ordinal, spell_out};
use super::rng::SeededRng;
use crate::months::MONTHS;

/// A date, serialised as `2025-03-03`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// Year.
    pub year: u32,
    /// Month, starting at 1.
    pub month: u32,
    /// Day of the month, starting at 1; at most 28.
    pub day: u32,
}

/// Currency of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "the variants are ISO codes")]
pub enum Currency {
    Usd,
    Gbp,
    Eur,
}

/// Value of a fact, independent of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A party's role, without an article.
    Role(String),
    /// Text.
    Text(String),
    /// A date.
    Date(Date),
    /// An amount in whole units of a currency.
    Money {
        /// Currency of the amount.
        currency: Currency,
        /// The amount.
        amount: u64,
    },
    /// A count.
    Count(u64),
    /// Tenths of a percent: 15 is 1.5 %.
    PercentTenths(u64),
}

/// Style in which a contract writes dates, numbers and parties.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    date: FactForm,
    number: FactForm,
    money: FactForm,
    percent: FactForm,
    /// `USD 500,000` instead of `$500,000`.
    codes: bool,
    /// "the Supplier" instead of "Supplier".
    article: bool,
}

impl Style {
    pub(super) fn random(rng: &mut SeededRng) -> Self {
        Self {
            date: *rng.pick(&[FactForm::Long, FactForm::Long, FactForm::Day, FactForm::Day, FactForm::Iso]),
            number: *rng.pick(&[FactForm::Figures, FactForm::Both, FactForm::Both, FactForm::Words]),
            money: *rng.pick(&[FactForm::Figures, FactForm::Figures, FactForm::Both]),
            percent: *rng.pick(&[FactForm::Figures, FactForm::Figures, FactForm::Both, FactForm::Words]),
            codes: rng.with_percent(30),
            article: rng.with_percent(50),
        }
    }

    /// Formats a value in the form that the phrasing specifies, else in the contract's own.
    pub(super) fn write(&self, value: &Value, form: FactForm) -> String {
        let or_style = |own: FactForm| if form == FactForm::Plain { own } else { form };
        match value {
            Value::Role(role) => self.role(role, form),
            Value::Text(text) if form == FactForm::Upper => text.to_uppercase(),
            Value::Text(text) => text.clone(),
            Value::Date(date) => date.write(or_style(self.date)),
            Value::Money { currency, amount } => self.money(*currency, *amount, or_style(self.money)),
            Value::Count(count) => match or_style(self.number) {
                FactForm::Words => spell_out(*count),
                FactForm::Both => format!("{} ({})", spell_out(*count), group_digits(*count)),
                _ => group_digits(*count),
            },
            Value::PercentTenths(tenths) => percent(*tenths, or_style(self.percent)),
        }
    }

    fn role(&self, role: &str, form: FactForm) -> String {
        let article = match form {
            FactForm::Term => "",
            _ if !self.article => "",
            FactForm::Sentence => "The ",
            _ => "the ",
        };
        let text = format!("{article}{role}");
        if form == FactForm::Upper { text.to_uppercase() } else { text }
    }

    fn money(&self, currency: Currency, amount: u64, form: FactForm) -> String {
        let (sign, code, name) = match currency {
            Currency::Usd => ("$", "USD", "United States dollars"),
            Currency::Gbp => ("£", "GBP", "pounds sterling"),
            Currency::Eur => ("€", "EUR", "euros"),
        };
        let figures = group_digits(amount);
        let figures = if self.codes { format!("{code} {figures}") } else { format!("{sign}{figures}") };
        match form {
            FactForm::Words => format!("{} {name}", spell_out(amount)),
            FactForm::Both => format!("{} {name} ({figures})", spell_out(amount)),
            _ => figures,
        }
    }
}

fn percent(tenths: u64, form: FactForm) -> String {
    let (whole, part) = (tenths / 10, tenths % 10);
    let figures = if part == 0 { whole.to_string() } else { format!("{whole}.{part}") };
    let words = match part {
        0 => spell_out(whole),
        5 if whole == 0 => "one-half of one".to_owned(),
        5 => format!("{} and one-half", spell_out(whole)),
        _ => format!("{} point {}", spell_out(whole), spell_out(part)),
    };
    match form {
        FactForm::Words => format!("{figures} per cent"),
        FactForm::Both => format!("{words} percent ({figures}%)"),
        _ => format!("{figures}%"),
    }
}

impl Date {
    fn write(self, form: FactForm) -> String {
        let Self { year, month, day } = self;
        let name = MONTHS[(month as usize - 1) % 12];
        match form {
            FactForm::Long => format!("{name} {day}, {year}"),
            FactForm::Day => format!("{day} {name} {year}"),
            FactForm::Legal => format!("the {} day of {name}, {year}", ordinal(day)),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl Serialize for Date {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_written_in_the_requested_form() {
        let style = Style {
            date: FactForm::Long,
            number: FactForm::Both,
            money: FactForm::Both,
            percent: FactForm::Both,
            codes: false,
            article: true,
        };
        let date = Value::Date(Date { year: 2025, month: 3, day: 3 });
        let cap = Value::Money { currency: Currency::Gbp, amount: 45_000 };
        let role = Value::Role("Supplier".to_owned());
        for (value, form, written) in [
            (&date, FactForm::Plain, "March 3, 2025"),
            (&date, FactForm::Day, "3 March 2025"),
            (&date, FactForm::Iso, "2025-03-03"),
            (&date, FactForm::Legal, "the 3rd day of March, 2025"),
            (&cap, FactForm::Plain, "forty-five thousand pounds sterling (£45,000)"),
            (&cap, FactForm::Figures, "£45,000"),
            (&Value::Count(30), FactForm::Plain, "thirty (30)"),
            (&Value::PercentTenths(15), FactForm::Plain, "one and one-half percent (1.5%)"),
            (&Value::PercentTenths(50), FactForm::Figures, "5%"),
            (&role, FactForm::Plain, "the Supplier"),
            (&role, FactForm::Sentence, "The Supplier"),
            (&role, FactForm::Upper, "THE SUPPLIER"),
            (&role, FactForm::Term, "Supplier"),
        ] {
            assert_eq!(style.write(value, form), written);
        }
    }
}
