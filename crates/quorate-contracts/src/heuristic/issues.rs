//! Detects problems for the customer: by wording (`rules.rs`), or by comparing figures or two parts of the contract.
//! Their descriptions are in `wording.rs`.

mod rules;
mod wording;

use super::document::{Paragraph, ParsedContract};
use super::facts::{Facts, StatedValue};
use super::numbers;
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
    fn at(problem: Problem, place: usize, sentence: usize) -> Self {
        Self {
            problem,
            severity: problem.severity(),
            extent: String::new(),
            paragraph: Some(place),
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

/// Finds all problems, regardless of the reader's field, worst first.
pub(crate) fn find(contract: &ParsedContract, facts: &Facts) -> Vec<Issue> {
    let mut issues = Vec::new();
    for problem in Problem::all() {
        let matches = contract.paragraphs.iter().filter(|one| !one.is_definition);
        let mut matches = matches.filter_map(|one| Some((one, contract.match_rule(one, problem.name())?)));
        issues.extend(matches.next().map(|(one, at)| measured(Issue::at(problem, one.index, at), one)));
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
fn measured(mut issue: Issue, one: &Paragraph) -> Issue {
    match issue.problem {
        Problem::UncappedCustomerLiability if one.normalised.contains("indemnif") => {
            issue.severity = Severity::High;
            issue.with_extent("indemnity")
        }
        Problem::EarlyTerminationPenalty => {
            let part =
                numbers::percents(&one.normalised).into_iter().max().filter(|percent| *percent < 10_000);
            let Some(part) = part else { return issue };
            issue.severity = Severity::Medium;
            issue.with_extent(format!("{} %", part / 100))
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
        .filter_map(|one| Some((one, contract.match_rule(one, "indemnity_by_customer")?)));
    if let Some((one, at)) = by_customer.next().filter(|_| !contract.matches_anywhere("indemnity_by_vendor"))
    {
        issues.push(Issue::at(Problem::OneSidedIndemnity, one.index, at));
    }
    let headed = contract.has_heading(&["confiden", "secre", "non-disclosure", "nondisclosure"]);
    let kept = || {
        contract.paragraphs.iter().any(|one| !one.is_definition && contract.matches(one, "confidentiality"))
    };
    if !headed && !contract.paragraphs.is_empty() && !kept() {
        let problem = Problem::MissingConfidentiality;
        let (severity, extent) = (problem.severity(), String::new());
        issues.push(Issue { problem, severity, extent, paragraph: None, sentence: 0 });
    }
    issues
}

/// Personal data without the terms that the law requires.
fn personal_data(contract: &ParsedContract) -> Vec<Issue> {
    let mut issues = Vec::new();
    let all = || contract.paragraphs.iter().filter(|one| !one.is_definition);
    let of_europeans =
        |one: &Paragraph| contract.matches(one, "eu_people") && !contract.matches(one, "no_people");
    let terms = contract.matches_anywhere("processing_terms");
    let processes = terms || all().any(of_europeans);
    let direct = || {
        let leaves = all().filter(|one| of_europeans(one) || one.normalised.contains("personal data"));
        leaves.filter_map(|one| Some((one, contract.match_rule(one, "transfer")?))).next()
    };
    let by_place = || all().filter_map(|one| Some((one, contract.match_rule(one, "located_abroad")?))).next();
    let abroad = if processes { direct().or_else(by_place) } else { None };
    let safe = contract.matches_anywhere("transfer_terms");
    if let Some((one, at)) = abroad.filter(|_| !safe) {
        issues.push(Issue::at(Problem::MissingTransferTerms, one.index, at));
    }
    let transfer = issues.first().and_then(|issue| issue.paragraph);
    let processed = all().filter(|one| of_europeans(one) && Some(one.index) != transfer);
    let processed = processed.filter_map(|one| Some((one, contract.match_rule(one, "eu_people")?))).next();
    if let Some((one, at)) = processed.filter(|_| !terms) {
        issues.push(Issue::at(Problem::MissingDataProcessing, one.index, at));
    }
    let health = all().filter_map(|one| Some((one, contract.match_rule(one, "health")?))).next();
    if let Some((one, at)) = health.filter(|_| !contract.matches_anywhere("associate")) {
        issues.push(Issue::at(Problem::PhiWithoutBaa, one.index, at));
    }
    issues
}

/// Periods that are too long or too short.
fn periods(contract: &ParsedContract) -> Vec<Issue> {
    let mut issues = Vec::new();
    for place in super::clauses::paragraph_indices(contract, Clause::NoticePeriodToTerminateRenewal) {
        let one = &contract.paragraphs[place];
        let days = notice_days(&one.normalised);
        if days >= LONG_NOTICE_DAYS {
            let at =
                one.normalised_sentences.iter().position(|plain| notice_days(plain) == days).unwrap_or(0);
            let issue = Issue::at(Problem::LongRenewalNotice, place, at);
            issues.push(issue.with_extent(format!("{days} days")));
            break;
        }
    }
    let notices =
        contract.paragraphs.iter().filter_map(|one| Some((one, contract.match_rule(one, "breach_notice")?)));
    for (one, at) in notices {
        let sentence = one.normalised_sentence(at);
        let days = numbers::periods(sentence).into_iter().max().unwrap_or(0);
        // A notice within hours may be followed by details within days.
        let prompt = sentence.contains("hour");
        if !prompt && (days > PROMPT_NOTICE_DAYS || days == 0 && contract.matches(one, "at_will_notice")) {
            let mut issue = Issue::at(Problem::SlowBreachNotice, one.index, at);
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
    let barred =
        contract.paragraphs.iter().filter_map(|one| Some((one, contract.match_rule(one, "claim_barred")?)));
    for (one, at) in barred.filter(|(one, _)| one.normalised.contains("customer")) {
        let days = numbers::periods(one.normalised_sentence(at)).into_iter().min().unwrap_or(u64::MAX);
        if days <= SHORT_CLAIM_DAYS {
            issues.push(
                Issue::at(Problem::ShortClaimPeriod, one.index, at).with_extent(format!("{days} days")),
            );
            break;
        }
    }
    issues
}

/// Notice period in days: the period next to the word "notice" or similar, not the renewal term.
fn notice_days(plain: &str) -> u64 {
    let cues = ["notice", "before", "prior", "ahead", "advance", "preceding", "earlier"];
    let words: Vec<&str> = plain.split(' ').collect();
    let mut most = 0;
    for (at, word) in words.iter().enumerate() {
        let unit = word.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        if !["day", "days", "month", "months", "week", "weeks"].contains(&unit) {
            continue;
        }
        let begin = at.saturating_sub(7);
        let near = words[at + 1..].iter().take(4).any(|next| cues.iter().any(|cue| next.starts_with(cue)))
            || words[begin..at]
                .windows(2)
                .any(|pair| pair[0] == "notice" && matches!(pair[1], "of" | "period"));
        let days = numbers::periods(&words[begin..=at].join(" ")).last().copied().unwrap_or(0);
        if near {
            most = most.max(days);
        }
    }
    most
}

/// Late fee per month.
fn late_fee(contract: &ParsedContract) -> Option<Issue> {
    let late =
        contract.paragraphs.iter().filter_map(|one| Some((one, contract.match_rule(one, "interest")?)));
    let excessive = late.filter_map(|(one, at)| {
        let rate = numbers::monthly_rates(one.normalised_sentence(at)).into_iter().max()?;
        #[allow(clippy::cast_precision_loss, reason = "a rate is small")]
        let extent = format!("{} % a month", rate as f64 / 100.0);
        (rate > LATE_FEE_MAX).then(|| Issue::at(Problem::ExcessiveLateFee, one.index, at).with_extent(extent))
    });
    {
        let mut excessive = excessive;
        excessive.next()
    }
}

/// Amounts compared with a year's fees and the budget.
fn money(facts: &Facts) -> Vec<Issue> {
    let mut issues = Vec::new();
    let month = facts.annual_fee.map_or(TRIVIAL_CAP, |fee| fee / 12 + fee / 600);
    for (place, cap) in &facts.vendor_caps {
        if cap.is_none_or(|cap| cap <= month) {
            let extent = match (cap, facts.annual_fee) {
                (Some(cap), Some(fee)) => {
                    format!("{}, {} % of a year's fees", numbers::group_digits(*cap), cap * 100 / fee.max(1))
                }
                (Some(cap), None) => numbers::group_digits(*cap),
                (None, _) => "the fees of one month".to_owned(),
            };
            issues.push(Issue::at(Problem::TrivialVendorCap, *place, 0).with_extent(extent));
            break;
        }
    }
    if let (Some((place, minimum)), Some(budget)) = (facts.minimum, facts.budget)
        && minimum > budget
    {
        let extent = format!(
            "{} against a budget of {}",
            numbers::group_digits(minimum),
            numbers::group_digits(budget)
        );
        issues.push(Issue::at(Problem::MinimumOverBudget, place, 0).with_extent(extent));
    }
    issues
}

/// Contradictions between body and schedule.
fn contradictions(facts: &Facts) -> Vec<Issue> {
    let mut issues = Vec::new();
    let mut differ = |problem, unit: &str, stated: &[StatedValue]| {
        let first = stated.iter().find(|one| !one.in_schedule);
        let second = stated.iter().find(|one| one.in_schedule);
        if let (Some(first), Some(second)) = (first, second)
            && first.value != second.value
        {
            let extent = format!("{}{unit} and {}{unit}", first.value, second.value);
            issues.push(Issue::at(problem, second.paragraph, 0).with_extent(extent));
        }
    };
    differ(Problem::PaymentConflict, " days", &facts.payment_days);
    differ(Problem::CapConflict, "", &facts.caps);
    differ(Problem::GoverningLawMismatch, "", &facts.laws);
    differ(Problem::TermConflict, "", &facts.ends);
    issues
}
