//! What a contract states: amounts, periods, dates, the law. Body and schedule are kept apart, because they may disagree.

use std::fmt;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::numbers;
use super::reading::{Contract, Paragraph, regex};

/// A value and where it is stated.
#[derive(Clone, Debug)]
pub(crate) struct Stated {
    pub(crate) value: Value,
    pub(crate) place: usize,
    pub(crate) in_schedule: bool,
}

/// What can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Date(u64, u64, u64),
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Date(year, month, day) => write!(f, "{year:04}-{month:02}-{day:02}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The facts of a contract.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) annual_fee: Option<u64>,
    pub(crate) budget: Option<u64>,
    /// What must be bought in a year, and where that stands.
    pub(crate) minimum: Option<(usize, u64)>,
    /// Caps that protect the vendor alone: an amount, or the fees of a month.
    pub(crate) vendor_caps: Vec<(usize, Option<u64>)>,
    pub(crate) caps: Vec<Stated>,
    pub(crate) payment_days: Vec<Stated>,
    pub(crate) laws: Vec<Stated>,
    pub(crate) ends: Vec<Stated>,
}

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => { $(static $name: LazyLock<Regex> = LazyLock::new(|| regex($pattern));)* };
}

patterns! {
    FEE = "(?:annual (?:subscription |service |license )?(?:fees?|charges?|price)|(?:fees?|charges?|price)~(?:amount to|per (?:contract )?year|per annum|a year|annually)|yearly (?:fee|charge|price)|fees for the first contract year)";
    BUDGET = "budget|spending (?:limit|authority)|authori[sz]ed (?:spend|expenditure)";
    CAP = "liab[a-z]*~(?:exceed|limited to|capped|\\bcap\\b|more than|restricted to)|liability cap|maximum (?:aggregate |total )?(?:liability|amount recoverable)|cap:|recover[a-z]*~(?:from vendor|more than|exceed)|(?:damages|compensation)~(?:limited to|not exceed)|ceiling (?:of|on)";
    BOTH = "either party|each party|neither party|both parties|party's total";
    MONTH_OF_FEES = "\\(?(?:one|1|single)\\)?[ (1)]* ?month|month(?:ly)? fees|last month";
    PAYMENT = "(?:pay[a-z]*~invoices?|invoices?~(?:due|payable|paid|settled)|payment terms?|pay each invoice|amounts stated in this schedule|installments?~due|net [a-z0-9-]+ days|[a-z0-9-]+ days net|after invoicing|settle[a-z]* invoices?|payment~(?:due|within))";
    OTHER_DAYS = "disput|interest|overdue|suspend|cure|commission|net revenue|quarter|late (?:fee|charge)";
    LAW = "laws? of ((?:the )?(?:state of |commonwealth of |republic of |kingdom of |federal republic of |province of )?[a-z]+(?: (?:and )?[a-z]+){0,2})";
    LAW_STATED = "governing law: ?((?:the )?(?:state of )?[a-z]+(?: [a-z]+){0,2})";
    LAW_CUE = "govern|constru|interpret|control|appl(?:y|ies) to this agreement|decided under";
    END = "\\b(?:expir[a-z]*|terminate automatically|until|ends?|end of the [a-z]* ?term|continue[sd]?|subscription term)";
}

/// Words that end the name of a place of law.
const AFTER_LAW: &[&str] = &[
    "without",
    "and",
    "shall",
    "the",
    "by",
    "appl",
    "excluding",
    "apply",
    "applies",
    "that",
    "which",
    "place",
    "any",
    "in",
    "except",
    "to",
    "are",
    "is",
];

impl Facts {
    /// Reads them.
    pub(crate) fn read(contract: &Contract) -> Self {
        let mut facts = Self::default();
        for one in &contract.paragraphs {
            facts.read_money(one);
            facts.read_caps(one);
            facts.read_terms(one);
        }
        facts
    }

    fn read_money(&mut self, one: &Paragraph) {
        let has = |pattern: &Regex| pattern.is_match(one.plain.as_bytes());
        let amounts = numbers::amounts(&one.plain);
        let Some(&amount) = amounts.first() else { return };
        if has(&BUDGET) {
            self.budget.get_or_insert(amount);
            return;
        }
        let minimum = super::clauses::is_in(one, crate::contracts::Clause::MinimumCommitment);
        if minimum {
            self.minimum.get_or_insert((one.place, amount));
        } else if has(&FEE) && !has(&CAP) {
            self.annual_fee.get_or_insert(amount);
        }
    }

    fn read_caps(&mut self, one: &Paragraph) {
        let has = |pattern: &Regex| pattern.is_match(one.plain.as_bytes());
        if !has(&CAP) || one.plain.contains("insurance") {
            return;
        }
        let amount = numbers::amounts(&one.plain).first().copied();
        if let Some(amount) = amount {
            self.caps.push(stated(one, Value::Number(amount)));
        }
        let of_vendor = one.plain.contains("vendor") && !has(&BOTH);
        if of_vendor && !one.in_schedule && (amount.is_some() || has(&MONTH_OF_FEES)) {
            self.vendor_caps.push((one.place, amount));
        }
    }

    fn read_terms(&mut self, one: &Paragraph) {
        let due = one.plain.split(". ").find(|sentence| {
            let sentence = sentence.as_bytes();
            PAYMENT.is_match(sentence) && !OTHER_DAYS.is_match(sentence)
        });
        let days = due.and_then(|due| numbers::counted(due, "day").first().copied());
        self.payment_days.extend(days.map(|days| stated(one, Value::Number(days))));
        if let Some(law) = law(&one.plain) {
            self.laws.push(stated(one, Value::Text(law)));
        }
        let whole =
            |sentence: &str| ["term", "agreement", "expir"].iter().any(|word| sentence.contains(word));
        let sentence = |sentence: &&str| END.is_match(sentence.as_bytes()) && whole(sentence);
        let ends = one
            .plain
            .split(". ")
            .find(sentence)
            .and_then(|sentence| numbers::dates(sentence).last().copied());
        if let Some((year, month, day)) = ends {
            self.ends.push(stated(one, Value::Date(year, month, day)));
        }
    }
}

fn stated(one: &Paragraph, value: Value) -> Stated {
    Stated { value, place: one.place, in_schedule: one.in_schedule }
}

fn law(plain: &str) -> Option<String> {
    let captured = LAW_STATED
        .captures(plain.as_bytes())
        .or_else(|| LAW_CUE.is_match(plain.as_bytes()).then(|| LAW.captures(plain.as_bytes())).flatten())?;
    let name = String::from_utf8_lossy(&captured[1]).into_owned();
    let prefix = |word: &&str| {
        matches!(*word, "the" | "state" | "of" | "commonwealth" | "republic" | "kingdom" | "federal")
    };
    let words: Vec<&str> =
        name.split(' ').skip_while(prefix).take_while(|word| !AFTER_LAW.contains(word)).collect();
    (!words.is_empty()).then(|| words.join(" "))
}
