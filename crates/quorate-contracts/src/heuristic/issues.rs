//! Detects problems for the customer: by wording (`rules.rs`), or by comparing figures or two parts of the contract.
//! Their descriptions are in `wording.rs`.

mod rules;
mod wording;

use super::document::{Paragraph, ParsedContract};
use super::facts::{Facts, StatedValue};
use super::numbers;
use crate::generator::numerals::group_digits;
use crate::generator::{Clause, Problem, Severity};
pub(crate) use rules::PROBLEM_RULES;
pub(crate) use wording::{advice, describe};

/// A problem for the customer, with its location.
#[derive(Clone)]
pub(crate) struct Issue {
    pub(crate) problem: Problem,
    pub(crate) severity: Severity,
    /// Extent in figures, if applicable: `USD 5,000, 4 % of a year's fees`.
    pub(crate) extent: String,
    /// Index of the paragraph; `None` if something is missing.
    pub(crate) paragraph: Option<usize>,
    /// Index of the sentence in the paragraph.
    pub(crate) sentence: usize,
}

impl Issue {
    fn at(problem: Problem, paragraph: usize, sentence: usize) -> Self {
        Self {
            problem,
            severity: problem.severity(),
            extent: String::new(),
            paragraph: Some(paragraph),
            sentence,
        }
    }

    fn with_extent(mut self, extent: impl Into<String>) -> Self {
        self.extent = extent.into();
        self
    }
}

/// Notice periods for renewals of at least this many days are long.
const LONG_NOTICE_DAYS: u64 = 90;
/// A breach notice after at least this many days is late; between this and [`PROMPT_NOTICE_DAYS`], somewhat late.
const SLOW_NOTICE_DAYS: u64 = 30;
const PROMPT_NOTICE_DAYS: u64 = 3;
/// Claim periods of at most this many days are short.
const SHORT_CLAIM_DAYS: u64 = 30;
/// Maximum acceptable late fee per month, in hundredths of a percent.
const LATE_FEE_MAX: u64 = 150;
/// A cap below this amount is trivial, if no fee is stated.
const TRIVIAL_CAP: u64 = 20_000;

/// Finds all problems, regardless of the analyst's field, worst first.
pub(crate) fn find(contract: &ParsedContract, facts: &Facts) -> Vec<Issue> {
    let mut issues = Vec::new();
    for problem in Problem::all() {
        let matches = contract.paragraphs.iter().filter(|paragraph| !paragraph.is_definition);
        let mut matches = matches
            .filter_map(|paragraph| Some((paragraph, contract.match_rule(paragraph, problem.name())?)));
        issues.extend(
            matches.next().map(|(paragraph, sentence)| {
                measured(Issue::at(problem, paragraph.index, sentence), paragraph)
            }),
        );
    }
    issues.extend(obligations(contract));
    issues.extend(personal_data(contract));
    issues.extend(periods(contract));
    issues.extend(late_fee(contract));
    issues.extend(money(facts));
    issues.extend(contradictions(facts));
    issues.sort_by_key(|issue| (std::cmp::Reverse(issue.severity), issue.problem));
    issues
}

/// Adjusts severity and extent by the text of the paragraph.
fn measured(mut issue: Issue, paragraph: &Paragraph) -> Issue {
    match issue.problem {
        Problem::UncappedCustomerLiability if paragraph.normalised.contains("indemnif") => {
            issue.severity = Severity::High;
            issue.with_extent("indemnity")
        }
        Problem::EarlyTerminationPenalty => {
            let percent = numbers::percents(&paragraph.normalised)
                .into_iter()
                .max()
                .filter(|percent| *percent < 10_000);
            let Some(percent) = percent else { return issue };
            issue.severity = Severity::Medium;
            issue.with_extent(format!("{} %", percent / 100))
        }
        _ => issue,
    }
}

/// Obligations of one party without a counterpart.
fn obligations(contract: &ParsedContract) -> Vec<Issue> {
    let mut issues = Vec::new();
    let mut by_customer = contract
        .paragraphs
        .iter()
        .filter_map(|paragraph| Some((paragraph, contract.match_rule(paragraph, "indemnity_by_customer")?)));
    if let Some((paragraph, sentence)) =
        by_customer.next().filter(|_| !contract.matches_anywhere("indemnity_by_vendor"))
    {
        issues.push(Issue::at(Problem::OneSidedIndemnity, paragraph.index, sentence));
    }
    let has_heading = contract.has_heading(&["confiden", "secre", "non-disclosure", "nondisclosure"]);
    let is_agreed = || {
        contract
            .paragraphs
            .iter()
            .any(|paragraph| !paragraph.is_definition && contract.matches(paragraph, "confidentiality"))
    };
    if !has_heading && !contract.paragraphs.is_empty() && !is_agreed() {
        let problem = Problem::MissingConfidentiality;
        let (severity, extent) = (problem.severity(), String::new());
        issues.push(Issue { problem, severity, extent, paragraph: None, sentence: 0 });
    }
    issues
}

/// Personal data without the terms that the law requires.
fn personal_data(contract: &ParsedContract) -> Vec<Issue> {
    let mut issues = Vec::new();
    let paragraphs = || contract.paragraphs.iter().filter(|paragraph| !paragraph.is_definition);
    let of_europeans = |paragraph: &Paragraph| {
        contract.matches(paragraph, "eu_people") && !contract.matches(paragraph, "no_people")
    };
    let has_terms = contract.matches_anywhere("processing_terms");
    let processes = has_terms || paragraphs().any(of_europeans);
    let direct = || {
        let candidates = paragraphs()
            .filter(|paragraph| of_europeans(paragraph) || paragraph.normalised.contains("personal data"));
        candidates
            .filter_map(|paragraph| Some((paragraph, contract.match_rule(paragraph, "transfer")?)))
            .next()
    };
    let by_location = || {
        paragraphs()
            .filter_map(|paragraph| Some((paragraph, contract.match_rule(paragraph, "located_abroad")?)))
            .next()
    };
    let abroad = if processes { direct().or_else(by_location) } else { None };
    let has_safeguards = contract.matches_anywhere("transfer_terms");
    if let Some((paragraph, sentence)) = abroad.filter(|_| !has_safeguards) {
        issues.push(Issue::at(Problem::MissingTransferTerms, paragraph.index, sentence));
    }
    let transfer = issues.first().and_then(|issue| issue.paragraph);
    let processed =
        paragraphs().filter(|paragraph| of_europeans(paragraph) && Some(paragraph.index) != transfer);
    let processed = processed
        .filter_map(|paragraph| Some((paragraph, contract.match_rule(paragraph, "eu_people")?)))
        .next();
    if let Some((paragraph, sentence)) = processed.filter(|_| !has_terms) {
        issues.push(Issue::at(Problem::MissingDataProcessing, paragraph.index, sentence));
    }
    let health = paragraphs()
        .filter_map(|paragraph| Some((paragraph, contract.match_rule(paragraph, "health")?)))
        .next();
    if let Some((paragraph, sentence)) = health.filter(|_| !contract.matches_anywhere("associate")) {
        issues.push(Issue::at(Problem::PhiWithoutBaa, paragraph.index, sentence));
    }
    issues
}

/// Periods that are too long or too short.
fn periods(contract: &ParsedContract) -> Vec<Issue> {
    let mut issues = Vec::new();
    for index in super::clauses::paragraph_indices(contract, Clause::NoticePeriodToTerminateRenewal) {
        let paragraph = &contract.paragraphs[index];
        let days = notice_days(&paragraph.normalised);
        if days >= LONG_NOTICE_DAYS {
            let sentence =
                paragraph.normalised_sentences.iter().position(|text| notice_days(text) == days).unwrap_or(0);
            let issue = Issue::at(Problem::LongRenewalNotice, index, sentence);
            issues.push(issue.with_extent(format!("{days} days")));
            break;
        }
    }
    let notices = contract
        .paragraphs
        .iter()
        .filter_map(|paragraph| Some((paragraph, contract.match_rule(paragraph, "breach_notice")?)));
    for (paragraph, sentence) in notices {
        let text = paragraph.normalised_sentence(sentence);
        let days = numbers::periods(text).into_iter().max().unwrap_or(0);
        // A notice within hours may be followed by details within days.
        let is_prompt = text.contains("hour");
        if !is_prompt
            && (days > PROMPT_NOTICE_DAYS || days == 0 && contract.matches(paragraph, "at_will_notice"))
        {
            let mut issue = Issue::at(Problem::SlowBreachNotice, paragraph.index, sentence);
            if days > 0 {
                issue = issue.with_extent(format!("{days} days"));
            }
            if days > 0 && days < SLOW_NOTICE_DAYS {
                issue.severity = Severity::Low;
            }
            issues.push(issue);
            break;
        }
    }
    let barred = contract
        .paragraphs
        .iter()
        .filter_map(|paragraph| Some((paragraph, contract.match_rule(paragraph, "claim_barred")?)));
    for (paragraph, sentence) in barred.filter(|(paragraph, _)| paragraph.normalised.contains("customer")) {
        let days =
            numbers::periods(paragraph.normalised_sentence(sentence)).into_iter().min().unwrap_or(u64::MAX);
        if days <= SHORT_CLAIM_DAYS {
            issues.push(
                Issue::at(Problem::ShortClaimPeriod, paragraph.index, sentence)
                    .with_extent(format!("{days} days")),
            );
            break;
        }
    }
    issues
}

/// Notice period in days: the period next to the word "notice" or similar, not the renewal term.
fn notice_days(text: &str) -> u64 {
    let cues = ["notice", "before", "prior", "ahead", "advance", "preceding", "earlier"];
    let words: Vec<&str> = text.split(' ').collect();
    let mut longest = 0;
    for (index, word) in words.iter().enumerate() {
        let unit = word.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        if !["day", "days", "month", "months", "week", "weeks"].contains(&unit) {
            continue;
        }
        let start = index.saturating_sub(7);
        let is_near_cue =
            words[index + 1..].iter().take(4).any(|next| cues.iter().any(|cue| next.starts_with(cue)))
                || words[start..index]
                    .windows(2)
                    .any(|pair| pair[0] == "notice" && matches!(pair[1], "of" | "period"));
        let days = numbers::periods(&words[start..=index].join(" ")).last().copied().unwrap_or(0);
        if is_near_cue {
            longest = longest.max(days);
        }
    }
    longest
}

/// Late fee per month.
fn late_fee(contract: &ParsedContract) -> Option<Issue> {
    let matches = contract
        .paragraphs
        .iter()
        .filter_map(|paragraph| Some((paragraph, contract.match_rule(paragraph, "interest")?)));
    let mut excessive = matches.filter_map(|(paragraph, sentence)| {
        let rate = numbers::monthly_rates(paragraph.normalised_sentence(sentence)).into_iter().max()?;
        #[allow(clippy::cast_precision_loss, reason = "a rate is small")]
        let extent = format!("{} % a month", rate as f64 / 100.0);
        (rate > LATE_FEE_MAX)
            .then(|| Issue::at(Problem::ExcessiveLateFee, paragraph.index, sentence).with_extent(extent))
    });
    excessive.next()
}

/// Amounts compared with a year's fees and the budget.
fn money(facts: &Facts) -> Vec<Issue> {
    let mut issues = Vec::new();
    let month = facts.annual_fee.map_or(TRIVIAL_CAP, |fee| fee / 12 + fee / 600);
    for (paragraph, cap) in &facts.vendor_caps {
        if cap.is_none_or(|cap| cap <= month) {
            let extent = match (cap, facts.annual_fee) {
                (Some(cap), Some(fee)) => {
                    format!("{}, {} % of a year's fees", group_digits(*cap), cap * 100 / fee.max(1))
                }
                (Some(cap), None) => group_digits(*cap),
                (None, _) => "the fees of one month".to_owned(),
            };
            issues.push(Issue::at(Problem::TrivialVendorCap, *paragraph, 0).with_extent(extent));
            break;
        }
    }
    if let (Some((paragraph, minimum)), Some(budget)) = (facts.minimum, facts.budget)
        && minimum > budget
    {
        let extent = format!("{} against a budget of {}", group_digits(minimum), group_digits(budget));
        issues.push(Issue::at(Problem::MinimumOverBudget, paragraph, 0).with_extent(extent));
    }
    issues
}

/// Contradictions between body and schedule.
fn contradictions(facts: &Facts) -> Vec<Issue> {
    let mut issues = Vec::new();
    let mut compare = |problem, unit: &str, stated: &[StatedValue]| {
        let in_body = stated.iter().find(|value| !value.in_schedule);
        let in_schedule = stated.iter().find(|value| value.in_schedule);
        if let (Some(in_body), Some(in_schedule)) = (in_body, in_schedule)
            && in_body.value != in_schedule.value
        {
            let extent = format!("{}{unit} and {}{unit}", in_body.value, in_schedule.value);
            issues.push(Issue::at(problem, in_schedule.paragraph, 0).with_extent(extent));
        }
    };
    compare(Problem::PaymentConflict, " days", &facts.payment_days);
    compare(Problem::CapConflict, "", &facts.caps);
    compare(Problem::GoverningLawMismatch, "", &facts.laws);
    compare(Problem::TermConflict, "", &facts.ends);
    issues
}
