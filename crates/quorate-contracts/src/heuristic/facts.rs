//! Facts that a contract states: amounts, periods, dates, the governing law. Body and schedule are kept separate,
//! because they may contradict each other.

use std::fmt;

use super::document::{Paragraph, ParsedContract};
use super::numbers;
use crate::generator::Clause;
use crate::generator::numerals::group_digits;

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
            Self::Number(number) => f.write_str(&group_digits(*number)),
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
        for paragraph in &contract.paragraphs {
            facts.read_money(contract, paragraph);
            facts.read_caps(contract, paragraph);
            facts.read_terms(contract, paragraph);
        }
        facts
    }

    fn read_money(&mut self, contract: &ParsedContract, paragraph: &Paragraph) {
        let amount =
            |sentence: usize| numbers::amounts(paragraph.normalised_sentence(sentence)).first().copied();
        if let Some(amount) = contract.match_rule(paragraph, "budget").and_then(amount) {
            self.budget.get_or_insert(amount);
            return;
        }
        let rule = Clause::MinimumCommitment.name();
        let minimum = contract.match_rule(paragraph, rule).and_then(amount);
        if let Some(minimum) = minimum.or_else(|| {
            let first_amount = numbers::amounts(&paragraph.normalised).first().copied();
            first_amount.filter(|_| contract.matches(paragraph, rule))
        }) {
            self.minimum.get_or_insert((paragraph.index, minimum));
        } else if let Some(fee) = contract
            .match_rule(paragraph, "fee")
            .filter(|_| !contract.matches(paragraph, "cap"))
            .and_then(amount)
        {
            self.annual_fee.get_or_insert(fee);
        }
    }

    fn read_caps(&mut self, contract: &ParsedContract, paragraph: &Paragraph) {
        let Some(sentence) = contract.match_rule(paragraph, "cap") else { return };
        let text = paragraph.normalised_sentence(sentence);
        let amount = numbers::amounts(text).first().copied();
        if let Some(amount) = amount {
            self.caps.push(stated(paragraph, FactValue::Number(amount)));
        }
        let caps_vendor = text.contains("vendor") && !contract.matches(paragraph, "of_both");
        if caps_vendor
            && !paragraph.in_schedule
            && (amount.is_some() || contract.matches(paragraph, "month_of_fees"))
        {
            self.vendor_caps.push((paragraph.index, amount));
        }
    }

    fn read_terms(&mut self, contract: &ParsedContract, paragraph: &Paragraph) {
        let days = contract.match_rule(paragraph, "payment_due");
        let days = days
            .and_then(|sentence| numbers::periods(paragraph.normalised_sentence(sentence)).first().copied());
        self.payment_days.extend(days.map(|days| stated(paragraph, FactValue::Number(days))));
        if let Some(law) = law(contract, paragraph) {
            self.laws.push(stated(paragraph, FactValue::Text(law)));
        }
        let is_about_term = |text: &str| {
            ["term", "agreement", "expir", "contract", "duration"].iter().any(|word| text.contains(word))
        };
        let ends = contract
            .match_rule(paragraph, "term_end")
            .map(|sentence| paragraph.normalised_sentence(sentence))
            .filter(|text| is_about_term(text));
        if let Some((year, month, day)) = ends.and_then(|text| numbers::dates(text).last().copied()) {
            self.ends.push(stated(paragraph, FactValue::Date(year, month, day)));
        }
    }
}

fn stated(paragraph: &Paragraph, value: FactValue) -> StatedValue {
    StatedValue { value, paragraph: paragraph.index, in_schedule: paragraph.in_schedule }
}

/// The jurisdiction that a paragraph chooses: the one nearest to the word "law".
fn law(contract: &ParsedContract, paragraph: &Paragraph) -> Option<String> {
    let sentence = contract.match_rule(paragraph, Clause::GoverningLaw.name())?;
    let nearest = |text: &str| {
        let law_offset = text.find("law")?;
        let candidates = JURISDICTIONS.iter().filter_map(|(name, jurisdiction)| {
            let distances = text.match_indices(name).map(|(offset, _)| offset.abs_diff(law_offset));
            distances.min().map(|distance| (distance, *jurisdiction))
        });
        candidates.min().map(|(_, jurisdiction)| jurisdiction.to_owned())
    };
    nearest(paragraph.normalised_sentence(sentence)).or_else(|| nearest(&paragraph.normalised))
}
