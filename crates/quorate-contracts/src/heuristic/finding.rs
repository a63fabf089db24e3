//! What each reader looks at, how bad it finds it, and the finding that it hands in.
//!
//! | reader | looks at |
//! |---|---|
//! | `clauses` | which clauses there are; what is missing; where body and schedule contradict each other |
//! | `risk` | who bears what: liability, indemnity, ending, changing, restrictions |
//! | `financial` | amounts, and each issue by what it costs against a year's fees |
//! | `ip` | who owns what, and what may be done with it |
//! | `compliance` | personal data under GDPR, CCPA and HIPAA, and what else a supervisor would ask for |
//!
//! They overlap on purpose and judge what they share from their own side, so they disagree for reasons. Score and
//! recommendation follow from the issues of each by the rule of [`crate::generator::Truth`].

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::facts::{Facts, Stated, Value as Fact};
use super::issues::{self, Issue, advice, tell};
use super::reading::Contract;
use super::{Heuristic, clauses};
use crate::generator::{Clause, Problem, Problem as P, Recommendation, Severity};

/// How many characters of a paragraph are quoted.
const QUOTE_CHARS: usize = 110;
const EVIDENCE_CHARS: usize = 300;
/// How many issues a summary names.
const NAMED_MAX: usize = 6;

/// A contract with all that a reader needs to judge it.
pub(crate) struct Case {
    pub(crate) contract: Contract,
    pub(crate) facts: Facts,
    /// The issues in this reader's field, as bad as it finds them, the worst first.
    pub(crate) issues: Vec<Issue>,
}

impl Case {
    /// Reads a contract as this reader does.
    pub(crate) fn read(reader: Heuristic, text: &str) -> Self {
        let contract = Contract::read(text);
        let facts = Facts::read(&contract);
        let mut issues = issues::find(&contract, &facts);
        let personal = is_concerned(Heuristic::Compliance, &contract);
        issues.retain(|issue| reader.looks_at().contains(&issue.problem));
        for issue in &mut issues {
            issue.severity = reader.judges(issue, &contract, &facts, personal);
            let paragraph = issue.place.map(|place| &contract.paragraphs[place]);
            if paragraph.is_some_and(|one| contract.says(one, "mitigated")) {
                issue.severity = milder(issue.severity);
            }
        }
        issues.sort_by_key(|issue| (std::cmp::Reverse(issue.severity), issue.problem));
        Self { contract, facts, issues }
    }

    /// What an issue comes to, in a sentence with its place.
    pub(crate) fn told(&self, issue: &Issue) -> String {
        tell(issue, issue.place.map_or("", |place| &self.contract.paragraphs[place].label))
    }

    /// The words that say so.
    pub(crate) fn quote(&self, issue: &Issue) -> Option<String> {
        let one = &self.contract.paragraphs[issue.place?];
        Some(short(one.sentence(issue.sentence), QUOTE_CHARS))
    }

    /// The same with what others need to check it: `Section 9.1 lets … (high, free assignment: "The Vendor may …").`
    pub(crate) fn claim(&self, issue: &Issue) -> String {
        let told = self.told(issue);
        let quote = self.quote(issue).map(|quote| format!(": \"{quote}\"")).unwrap_or_default();
        let (severity, topic) = (severity_word(issue.severity), topic(issue.problem));
        format!("{} ({severity}, {topic}{quote}).", told.trim_end_matches('.'))
    }
}

const CLAUSES_FIELD: &[P] = &[
    P::GoverningLawMismatch,
    P::TermConflict,
    P::CapConflict,
    P::PaymentConflict,
    P::MissingConfidentiality,
    P::NoWarranty,
    P::UncappedCustomerLiability,
    P::IpToVendor,
    P::TerminationAsymmetry,
];
const RISK_FIELD: &[P] = &[
    P::UncappedCustomerLiability,
    P::TrivialVendorCap,
    P::OneSidedIndemnity,
    P::LongRenewalNotice,
    P::IpToVendor,
    P::TerminationAsymmetry,
    P::MissingConfidentiality,
    P::UnilateralAmendment,
    P::NoWarranty,
    P::CustomerNoncompete,
    P::CustomerExclusivity,
    P::FreeAssignment,
    P::EarlyTerminationPenalty,
    P::IntrusiveAudit,
    P::ShortClaimPeriod,
    P::SuspensionWithoutNotice,
    P::DeemedAcceptance,
    P::UnlimitedPriceIncrease,
    P::PhiWithoutBaa,
];
const FINANCIAL_FIELD: &[P] = &[
    P::ExcessiveLateFee,
    P::PaymentConflict,
    P::CapConflict,
    P::MinimumOverBudget,
    P::UnlimitedPriceIncrease,
    P::NonrefundablePrepayment,
    P::UnboundedExpenses,
    P::EarlyTerminationPenalty,
    P::LongRenewalNotice,
    P::TrivialVendorCap,
    P::UncappedCustomerLiability,
    P::CustomerExclusivity,
    P::TermConflict,
];
const IP_FIELD: &[P] = &[
    P::IpToVendor,
    P::TrainingUse,
    P::CustomerNoncompete,
    P::PublicityWithoutConsent,
    P::FreeAssignment,
    P::MissingConfidentiality,
    P::OneSidedIndemnity,
    P::NoWarranty,
];
const COMPLIANCE_FIELD: &[P] = &[
    P::MissingDataProcessing,
    P::MissingTransferTerms,
    P::PhiWithoutBaa,
    P::CcpaSale,
    P::SlowBreachNotice,
    P::TrainingUse,
    P::MissingConfidentiality,
    P::IntrusiveAudit,
    P::GoverningLawMismatch,
    P::UnilateralAmendment,
];

impl Heuristic {
    /// The issues in its field.
    fn looks_at(self) -> &'static [Problem] {
        match self {
            Self::Clauses => CLAUSES_FIELD,
            Self::Risk => RISK_FIELD,
            Self::Financial => FINANCIAL_FIELD,
            Self::Ip => IP_FIELD,
            Self::Compliance => COMPLIANCE_FIELD,
        }
    }

    /// How bad it finds an issue, from its own side.
    fn judges(self, issue: &Issue, contract: &Contract, facts: &Facts, personal: bool) -> Severity {
        use Severity::{Critical, High, Low, Medium};
        let usual = issue.severity;
        let fee = facts.annual_fee.unwrap_or(u64::MAX);
        let plain = issue.place.map_or("", |place| &contract.paragraphs[place].plain);
        match (self, issue.problem) {
            // A contradiction is one to the extractor, whatever it is about.
            (Self::Clauses, Problem::CapConflict) => Medium,
            (Self::Financial, Problem::TrivialVendorCap) => {
                let cap = facts.vendor_caps.first().and_then(|(_, cap)| *cap);
                if cap.is_some_and(|cap| cap < fee / 20) { Critical } else { High }
            }
            (Self::Financial, Problem::EarlyTerminationPenalty) => {
                let amount = super::numbers::amounts(plain).into_iter().max();
                if amount.is_some_and(|amount| amount < fee / 2) { Medium } else { usual }
            }
            (Self::Financial, Problem::LongRenewalNotice)
                if facts.annual_fee.is_some_and(|fee| fee > 500_000) =>
            {
                High
            }
            (Self::Ip, Problem::FreeAssignment) if plain.contains("competitor") => High,
            (Self::Ip, Problem::FreeAssignment) => Low,
            (Self::Compliance, Problem::TrainingUse) if personal => Critical,
            (Self::Compliance, Problem::MissingConfidentiality) if !personal => Medium,
            _ => usual,
        }
    }

    /// What it takes to be there, also where the extractor's stricter look finds only a definition.
    fn relies_on(self, contract: &Contract) -> Vec<&'static str> {
        let cues = LOOKS_FOR.iter().filter(|(reader, _)| *reader == self);
        let there = cues.filter(|(_, clause)| contract.any(clause.name()));
        there.map(|(_, clause)| clause.name()).collect()
    }
}

/// The clauses that a reader builds on.
const LOOKS_FOR: &[(Heuristic, Clause)] = &[
    (Heuristic::Risk, Clause::CapOnLiability),
    (Heuristic::Risk, Clause::TerminationForConvenience),
    (Heuristic::Risk, Clause::GoverningLaw),
    (Heuristic::Financial, Clause::MinimumCommitment),
    (Heuristic::Financial, Clause::PriceRestrictions),
    (Heuristic::Ip, Clause::LicenseGrant),
    (Heuristic::Ip, Clause::IpOwnershipAssignment),
    (Heuristic::Compliance, Clause::AuditRights),
];

fn milder(severity: Severity) -> Severity {
    match severity {
        Severity::Critical => Severity::High,
        Severity::High => Severity::Medium,
        Severity::Medium | Severity::Low => Severity::Low,
    }
}

/// Whether a contract has anything in a reader's field.
///
/// - `clauses` and `risk`: any text that has a paragraph.
/// - `financial`: an amount, or fees that somebody pays.
/// - `ip`: a paragraph that gives or keeps rights in something: a license, ownership of what is made, escrow. A sentence that
///   no license is granted, that laws are kept or that infringement is indemnified does not count, and neither does a definition.
/// - `compliance`: personal data of anybody beyond the parties' business contacts, or a law on it. A sentence that says that
///   none are processed or may be sent does not count.
pub(crate) fn is_concerned(reader: Heuristic, contract: &Contract) -> bool {
    let cue = match reader {
        Heuristic::Clauses | Heuristic::Risk => return !contract.paragraphs.is_empty(),
        Heuristic::Financial => "money",
        Heuristic::Ip => "rights",
        Heuristic::Compliance => "personal",
    };
    contract.paragraphs.iter().any(|one| !one.defines && contract.says(one, cue))
}

/// The finding of a reader on a contract.
pub(crate) fn finding(reader: Heuristic, text: &str) -> Value {
    let case = Case::read(reader, text);
    if !is_concerned(reader, &case.contract) {
        let summary = format!("Nothing in this contract is in my field ({}).", field(reader));
        return json!({ "summary": summary, "confidence": 0.2 });
    }
    let score = score(case.issues.iter().map(|issue| issue.severity));
    let issues: Vec<Value> = case.issues.iter().map(|issue| told(&case, issue)).collect();
    let mut finding = json!({
        "summary": summary(&case),
        "confidence": confidence(&case),
        "scores": { "overall_risk_score": score },
        "recommendation": recommendation(score),
        "issues": issues,
        "facts": facts(reader, &case.facts),
        "relies_on": reader.relies_on(&case.contract),
    });
    if reader == Heuristic::Clauses {
        let found = clauses::find(&case.contract);
        finding["found"] = found.iter().map(|one| one.clause.name()).collect();
        finding["details"] = json!({ "clauses": extract(&case.contract, &found) });
    }
    if case.contract.cut {
        finding["details"]["cut"] =
            json!(format!("only the first {} bytes were read", super::reading::TEXT_BYTES_MAX));
    }
    finding
}

/// Every type of clause: whether it is there, and where.
fn extract(contract: &Contract, found: &[clauses::Found]) -> Value {
    let one = |clause: Clause| {
        let found = found.iter().find(|one| one.clause == clause);
        let place = found.and_then(|one| one.place).map(|place| &contract.paragraphs[place]);
        json!({
            "type": clause.name(),
            "present": found.is_some(),
            "section": place.map(|one| one.label.as_str()),
            "quote": place.map(|one| short(&one.quote, QUOTE_CHARS)),
        })
    };
    Clause::all().map(one).collect()
}

fn told(case: &Case, issue: &Issue) -> Value {
    let place = issue.place.map(|place| &case.contract.paragraphs[place]);
    let mut told = json!({
        "topic": topic(issue.problem),
        "severity": severity_word(issue.severity),
        "detail": case.told(issue),
        "advice": advice(issue.problem),
    });
    if let Some(one) = place {
        told["evidence"] = format!("{}: \"{}\"", one.label, short(&one.quote, EVIDENCE_CHARS)).into();
    }
    told
}

fn summary(case: &Case) -> String {
    let claims: Vec<String> = case.issues.iter().take(NAMED_MAX).map(|issue| case.claim(issue)).collect();
    match case.issues.len().saturating_sub(NAMED_MAX) {
        _ if case.issues.is_empty() => "Nothing in my field speaks against signing.".to_owned(),
        0 => claims.join(" "),
        1 => format!("{} One lesser issue is listed.", claims.join(" ")),
        more => format!("{} {more} lesser issues are listed.", claims.join(" ")),
    }
}

/// Surer with more to show, never certain.
fn confidence(case: &Case) -> f64 {
    let shown = u32::try_from(case.issues.len().min(5)).unwrap_or(5);
    (60.0 + 5.0 * f64::from(shown)) / 100.0
}

fn facts(reader: Heuristic, facts: &Facts) -> BTreeMap<&'static str, Value> {
    // Commercial terms are in the schedule; everything else is in the body.
    let schedule_first = reader == Heuristic::Financial;
    let mut told = BTreeMap::new();
    let mut tell = |name, stated: &[Stated]| {
        if let Some(one) = first(stated, schedule_first) {
            told.insert(name, value(&one.value));
        }
    };
    match reader {
        Heuristic::Clauses => {
            tell("governing_law", &facts.laws);
            tell("end_of_term", &facts.ends);
            tell("payment_days", &facts.payment_days);
        }
        Heuristic::Risk => {
            tell("liability_cap", &facts.caps);
            tell("governing_law", &facts.laws);
            tell("end_of_term", &facts.ends);
        }
        Heuristic::Financial => {
            tell("liability_cap", &facts.caps);
            tell("payment_days", &facts.payment_days);
            tell("end_of_term", &facts.ends);
            if let Some(fee) = facts.annual_fee {
                told.insert("annual_fee", fee.into());
            }
        }
        Heuristic::Ip | Heuristic::Compliance => {}
    }
    told
}

/// The value that is stated first, in the body or in the schedule.
pub(crate) fn first(stated: &[Stated], schedule_first: bool) -> Option<&Stated> {
    stated.iter().find(|one| one.in_schedule == schedule_first).or_else(|| stated.first())
}

pub(crate) fn value(fact: &Fact) -> Value {
    match fact {
        Fact::Number(number) => (*number).into(),
        other => other.to_string().into(),
    }
}

/// The score of issues with these severities.
pub(crate) fn score(severities: impl Iterator<Item = Severity>) -> u32 {
    (crate::generator::risk_score([]) + severities.map(Severity::weight).sum::<u32>()).min(100)
}

/// What to do at a score, in the words of the review.
pub(crate) fn recommendation(score: u32) -> &'static str {
    Recommendation::for_score(score).words()
}

/// The topic of an issue.
pub(crate) fn topic(problem: Problem) -> String {
    problem.name().replace('_', " ")
}

pub(crate) fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Low => "low",
        Severity::Medium => "medium",
        Severity::High => "high",
        Severity::Critical => "critical",
    }
}

fn field(reader: Heuristic) -> &'static str {
    match reader {
        Heuristic::Clauses => "clauses",
        Heuristic::Risk => "risk",
        Heuristic::Financial => "money",
        Heuristic::Ip => "rights in what is made or used",
        Heuristic::Compliance => "personal data",
    }
}

/// The beginning of a text, to the end of a part of a sentence or at least of a word, without double quotes. What is left out
/// is marked.
pub(crate) fn short(text: &str, chars: usize) -> String {
    let text = text.replace(['"', '\u{201c}', '\u{201d}'], "'");
    let Some((end, _)) = text.char_indices().nth(chars) else { return text };
    let head = &text[..end];
    let part = head.rfind([',', ';', ':']).filter(|at| *at * 2 > head.len());
    let head = part.or_else(|| head.rfind(' ')).map_or(head, |at| &head[..at]);
    format!("{} \u{2026}", head.trim_end_matches([',', ';', ':', ' ']))
}
