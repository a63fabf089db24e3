//! Facts that a contract states: amounts, periods, dates, the governing law. Body and schedule are kept separate,
//! because they may contradict each other.

use std::fmt;

use super::document::{Paragraph, ParsedContract};
use super::numbers;
use crate::generator::Clause;

/// A value and the paragraph that states it.
#[derive(Clone, Debug)]
pub(crate) struct StatedValue {
    pub(crate) value: FactValue,
    pub(crate) paragraph: usize,
    pub(crate) in_schedule: bool,
}

/// A value that can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FactValue {
    Number(u64),
    Date(u64, u64, u64),
    Text(String),
}

impl fmt::Display for FactValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => f.write_str(&numbers::group_digits(*number)),
            Self::Date(year, month, day) => write!(f, "{year:04}-{month:02}-{day:02}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Facts of a contract.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) annual_fee: Option<u64>,
    pub(crate) budget: Option<u64>,
    /// Minimum purchase per year, with the index of its paragraph.
    pub(crate) minimum: Option<(usize, u64)>,
    /// Caps that protect the vendor alone, with the paragraph: an amount, or `None` for a month's fees.
    pub(crate) vendor_caps: Vec<(usize, Option<u64>)>,
    pub(crate) caps: Vec<StatedValue>,
    pub(crate) payment_days: Vec<StatedValue>,
    pub(crate) laws: Vec<StatedValue>,
    pub(crate) ends: Vec<StatedValue>,
}

/// Names and adjectives of common jurisdictions, with the canonical name.
const JURISDICTIONS: &[(&str, &str)] = &[
    ("new york", "new york"),
    ("delaware", "delaware"),
    ("california", "california"),
    ("texas", "texas"),
    ("massachusetts", "massachusetts"),
    ("florida", "florida"),
    ("illinois", "illinois"),
    ("washington", "washington"),
    ("new jersey", "new jersey"),
    ("virginia", "virginia"),
    ("georgia", "georgia"),
    ("nevada", "nevada"),
    ("ohio", "ohio"),
    ("colorado", "colorado"),
    ("utah", "utah"),
    ("pennsylvania", "pennsylvania"),
    ("england", "england"),
    ("english", "england"),
    ("scotland", "scotland"),
    ("scots", "scotland"),
    ("ireland", "ireland"),
    ("irish", "ireland"),
    ("germany", "germany"),
    ("german", "germany"),
    ("france", "france"),
    ("french", "france"),
    ("switzerland", "switzerland"),
    ("swiss", "switzerland"),
    ("austria", "austria"),
    ("austrian", "austria"),
    ("netherlands", "netherlands"),
    ("dutch", "netherlands"),
    ("belgium", "belgium"),
    ("belgian", "belgium"),
    ("italy", "italy"),
    ("italian", "italy"),
    ("spain", "spain"),
    ("spanish", "spain"),
    ("sweden", "sweden"),
    ("swedish", "sweden"),
    ("denmark", "denmark"),
    ("poland", "poland"),
    ("singapore", "singapore"),
    ("hong kong", "hong kong"),
    ("india", "india"),
    ("ontario", "ontario"),
    ("new south wales", "new south wales"),
    ("victoria", "victoria"),
    ("japan", "japan"),
];

impl Facts {
    /// Extracts the facts of a contract.
    pub(crate) fn extract(contract: &ParsedContract) -> Self {
        let mut facts = Self::default();
        for one in &contract.paragraphs {
            facts.read_money(contract, one);
            facts.read_caps(contract, one);
            facts.read_terms(contract, one);
        }
        facts
    }

    fn read_money(&mut self, contract: &ParsedContract, one: &Paragraph) {
        let amount = |at: usize| numbers::amounts(one.normalised_sentence(at)).first().copied();
        if let Some(amount) = contract.match_rule(one, "budget").and_then(amount) {
            self.budget.get_or_insert(amount);
            return;
        }
        let named = Clause::MinimumCommitment.name();
        let minimum = contract.match_rule(one, named).and_then(amount);
        if let Some(minimum) = minimum.or_else(|| {
            let any = numbers::amounts(&one.normalised).first().copied();
            any.filter(|_| contract.matches(one, named))
        }) {
            self.minimum.get_or_insert((one.index, minimum));
        } else if let Some(fee) =
            contract.match_rule(one, "fee").filter(|_| !contract.matches(one, "cap")).and_then(amount)
        {
            self.annual_fee.get_or_insert(fee);
        }
    }

    fn read_caps(&mut self, contract: &ParsedContract, one: &Paragraph) {
        let Some(at) = contract.match_rule(one, "cap") else { return };
        let sentence = one.normalised_sentence(at);
        let amount = numbers::amounts(sentence).first().copied();
        if let Some(amount) = amount {
            self.caps.push(stated(one, FactValue::Number(amount)));
        }
        let of_vendor = sentence.contains("vendor") && !contract.matches(one, "of_both");
        if of_vendor && !one.in_schedule && (amount.is_some() || contract.matches(one, "month_of_fees")) {
            self.vendor_caps.push((one.index, amount));
        }
    }

    fn read_terms(&mut self, contract: &ParsedContract, one: &Paragraph) {
        let days = contract.match_rule(one, "payment_due");
        let days = days.and_then(|at| numbers::periods(one.normalised_sentence(at)).first().copied());
        self.payment_days.extend(days.map(|days| stated(one, FactValue::Number(days))));
        if let Some(law) = law(contract, one) {
            self.laws.push(stated(one, FactValue::Text(law)));
        }
        let whole = |plain: &str| {
            ["term", "agreement", "expir", "contract", "duration"].iter().any(|word| plain.contains(word))
        };
        let ends = contract
            .match_rule(one, "term_end")
            .map(|at| one.normalised_sentence(at))
            .filter(|plain| whole(plain));
        if let Some((year, month, day)) = ends.and_then(|plain| numbers::dates(plain).last().copied()) {
            self.ends.push(stated(one, FactValue::Date(year, month, day)));
        }
    }
}

fn stated(one: &Paragraph, value: FactValue) -> StatedValue {
    StatedValue { value, paragraph: one.index, in_schedule: one.in_schedule }
}

/// The jurisdiction that a paragraph chooses: the one nearest to the word "law".
fn law(contract: &ParsedContract, one: &Paragraph) -> Option<String> {
    let at = contract.match_rule(one, Clause::GoverningLaw.name())?;
    let chosen = |plain: &str| {
        let word = plain.find("law")?;
        let found = JURISDICTIONS.iter().filter_map(|(name, place)| {
            let places = plain.match_indices(name).map(|(at, _)| at.abs_diff(word));
            places.min().map(|far| (far, *place))
        });
        found.min().map(|(_, place)| place.to_owned())
    };
    chosen(one.normalised_sentence(at)).or_else(|| chosen(&one.normalised))
}
