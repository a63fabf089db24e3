//! Field of each reader, its assessment of issues, and the finding that it returns.
//!
//! | reader | field |
//! |---|---|
//! | `clauses` | clauses that are present or missing; contradictions between body and schedule |
//! | `risk` | allocation of risks: liability, indemnity, termination, amendments, restrictions |
//! | `financial` | amounts; each issue by its cost relative to a year's fees |
//! | `ip` | ownership and usage rights |
//! | `compliance` | personal data under GDPR, CCPA and HIPAA, and other regulatory concerns |
//!
//! The fields overlap on purpose: readers assess shared issues from their own perspective, so they disagree for
//! reasons. Score and recommendation follow from the issues of each reader by the rule of
//! [`crate::generator::GroundTruth`].

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::document::ParsedContract;
use super::facts::{FactValue as Fact, Facts, StatedValue};
use super::issues::{self, Issue, advice, describe};
use super::{Heuristic, clauses};
use crate::generator::{Clause, Problem, Problem as P, Recommendation, Severity};

/// Maximum length of a quotation in characters.
const QUOTE_CHARS: usize = 110;
const EVIDENCE_CHARS: usize = 300;
/// Maximum number of issues in a summary.
const NAMED_MAX: usize = 6;

/// A contract with everything that a reader needs to assess it.
pub(crate) struct Review {
    pub(crate) contract: ParsedContract,
    pub(crate) facts: Facts,
    /// Issues in this reader's field with its severities, worst first.
    pub(crate) issues: Vec<Issue>,
}

impl Review {
    /// Parses a contract for this reader.
    pub(crate) fn new(reader: Heuristic, text: &str) -> Self {
        let contract = ParsedContract::parse(text);
        let facts = Facts::extract(&contract);
        let mut issues = issues::find(&contract, &facts);
        let personal = is_relevant(Heuristic::Compliance, &contract);
        issues.retain(|issue| reader.field().contains(&issue.problem));
        for issue in &mut issues {
            issue.severity = reader.assess(issue, &contract, &facts, personal);
            let paragraph = issue.paragraph.map(|place| &contract.paragraphs[place]);
            if paragraph.is_some_and(|one| contract.matches(one, "mitigated")) {
                issue.severity = milder(issue.severity);
            }
        }
        issues.sort_by_key(|issue| (std::cmp::Reverse(issue.severity), issue.problem));
        Self { contract, facts, issues }
    }

    /// Describes an issue in a sentence with its location.
    pub(crate) fn describe(&self, issue: &Issue) -> String {
        describe(issue, issue.paragraph.map_or("", |place| &self.contract.paragraphs[place].label))
    }

    /// Quotes the sentence that states the issue.
    pub(crate) fn quote(&self, issue: &Issue) -> Option<String> {
        let one = &self.contract.paragraphs[issue.paragraph?];
        Some(truncate_quote(one.sentence(issue.sentence), QUOTE_CHARS))
    }

    /// The same with severity, topic and quotation, so that others can verify it:
    /// `Section 9.1 lets … (high, free assignment: "The Vendor may …").`
    pub(crate) fn claim(&self, issue: &Issue) -> String {
        let description = self.describe(issue);
        let quote = self.quote(issue).map(|quote| format!(": \"{quote}\"")).unwrap_or_default();
        let (severity, topic) = (severity_name(issue.severity), topic(issue.problem));
        format!("{} ({severity}, {topic}{quote}).", description.trim_end_matches('.'))
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
    /// Problems in the reader's field.
    fn field(self) -> &'static [Problem] {
        match self {
            Self::Clauses => CLAUSES_FIELD,
            Self::Risk => RISK_FIELD,
            Self::Financial => FINANCIAL_FIELD,
            Self::Ip => IP_FIELD,
            Self::Compliance => COMPLIANCE_FIELD,
        }
    }

    /// Severity of an issue from the reader's perspective.
    fn assess(self, issue: &Issue, contract: &ParsedContract, facts: &Facts, personal: bool) -> Severity {
        use Severity::{Critical, High, Low, Medium};
        let default = issue.severity;
        let fee = facts.annual_fee.unwrap_or(u64::MAX);
        let plain = issue.paragraph.map_or("", |place| &contract.paragraphs[place].normalised);
        match (self, issue.problem) {
            // To the extractor, a contradiction is the same whatever it is about.
            (Self::Clauses, Problem::CapConflict) => Medium,
            (Self::Financial, Problem::TrivialVendorCap) => {
                let cap = facts.vendor_caps.first().and_then(|(_, cap)| *cap);
                if cap.is_some_and(|cap| cap < fee / 20) { Critical } else { High }
            }
            (Self::Financial, Problem::EarlyTerminationPenalty) => {
                let amount = super::numbers::amounts(plain).into_iter().max();
                if amount.is_some_and(|amount| amount < fee / 2) { Medium } else { default }
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
            _ => default,
        }
    }

    /// Clauses that the reader assumes to be present, also where the stricter extractor finds only a definition.
    fn relies_on(self, contract: &ParsedContract) -> Vec<&'static str> {
        let cues = RELIED_CLAUSES.iter().filter(|(reader, _)| *reader == self);
        let present = cues.filter(|(_, clause)| contract.matches_anywhere(clause.name()));
        present.map(|(_, clause)| clause.name()).collect()
    }
}

/// Clauses that a reader relies on.
const RELIED_CLAUSES: &[(Heuristic, Clause)] = &[
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

/// Whether a contract contains anything in a reader's field.
///
/// - `clauses` and `risk`: any text with a paragraph.
/// - `financial`: an amount, or an obligation to pay fees.
/// - `ip`: a paragraph that grants or reserves rights: a license, ownership of results, escrow. Sentences that grant no
///   license, require compliance with laws or indemnify for infringement do not count, and neither do definitions.
/// - `compliance`: personal data beyond the parties' business contacts, or a law about it. Sentences that exclude the
///   processing or submission of such data do not count.
pub(crate) fn is_relevant(reader: Heuristic, contract: &ParsedContract) -> bool {
    let cue = match reader {
        Heuristic::Clauses | Heuristic::Risk => return !contract.paragraphs.is_empty(),
        Heuristic::Financial => "money",
        Heuristic::Ip => "rights",
        Heuristic::Compliance => "personal",
    };
    contract.paragraphs.iter().any(|one| !one.is_definition && contract.matches(one, cue))
}

/// Returns the finding of a reader on a contract.
pub(crate) fn finding(reader: Heuristic, text: &str) -> Value {
    let case = Review::new(reader, text);
    if !is_relevant(reader, &case.contract) {
        let summary = format!("Nothing in this contract is in my field ({}).", field(reader));
        return json!({ "summary": summary, "confidence": 0.2 });
    }
    let score = score(case.issues.iter().map(|issue| issue.severity));
    let issues: Vec<Value> = case.issues.iter().map(|issue| issue_json(&case, issue)).collect();
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
    if case.contract.truncated {
        finding["details"]["cut"] =
            json!(format!("only the first {} bytes were read", super::document::TEXT_BYTES_MAX));
    }
    finding
}

/// All types of clauses with presence and location.
fn extract(contract: &ParsedContract, found: &[clauses::FoundClause]) -> Value {
    let one = |clause: Clause| {
        let found = found.iter().find(|one| one.clause == clause);
        let place = found.and_then(|one| one.paragraph).map(|place| &contract.paragraphs[place]);
        json!({
            "type": clause.name(),
            "present": found.is_some(),
            "section": place.map(|one| one.label.as_str()),
            "quote": place.map(|one| truncate_quote(&one.quote, QUOTE_CHARS)),
        })
    };
    Clause::all().map(one).collect()
}

fn issue_json(case: &Review, issue: &Issue) -> Value {
    let place = issue.paragraph.map(|place| &case.contract.paragraphs[place]);
    let mut json = json!({
        "topic": topic(issue.problem),
        "severity": severity_name(issue.severity),
        "detail": case.describe(issue),
        "advice": advice(issue.problem),
    });
    if let Some(one) = place {
        json["evidence"] =
            format!("{}: \"{}\"", one.label, truncate_quote(&one.quote, EVIDENCE_CHARS)).into();
    }
    json
}

fn summary(case: &Review) -> String {
    let claims: Vec<String> = case.issues.iter().take(NAMED_MAX).map(|issue| case.claim(issue)).collect();
    match case.issues.len().saturating_sub(NAMED_MAX) {
        _ if case.issues.is_empty() => "Nothing in my field speaks against signing.".to_owned(),
        0 => claims.join(" "),
        1 => format!("{} One lesser issue is listed.", claims.join(" ")),
        more => format!("{} {more} lesser issues are listed.", claims.join(" ")),
    }
}

/// Confidence grows with the number of issues, but never reaches certainty.
fn confidence(case: &Review) -> f64 {
    let shown = u32::try_from(case.issues.len().min(5)).unwrap_or(5);
    (60.0 + 5.0 * f64::from(shown)) / 100.0
}

fn facts(reader: Heuristic, facts: &Facts) -> BTreeMap<&'static str, Value> {
    // Commercial terms are in the schedule; everything else is in the body.
    let schedule_first = reader == Heuristic::Financial;
    let mut stated_facts = BTreeMap::new();
    let mut add = |name, stated: &[StatedValue]| {
        if let Some(one) = first(stated, schedule_first) {
            stated_facts.insert(name, value(&one.value));
        }
    };
    match reader {
        Heuristic::Clauses => {
            add("governing_law", &facts.laws);
            add("end_of_term", &facts.ends);
            add("payment_days", &facts.payment_days);
        }
        Heuristic::Risk => {
            add("liability_cap", &facts.caps);
            add("governing_law", &facts.laws);
            add("end_of_term", &facts.ends);
        }
        Heuristic::Financial => {
            add("liability_cap", &facts.caps);
            add("payment_days", &facts.payment_days);
            add("end_of_term", &facts.ends);
            if let Some(fee) = facts.annual_fee {
                stated_facts.insert("annual_fee", fee.into());
            }
        }
        Heuristic::Ip | Heuristic::Compliance => {}
    }
    stated_facts
}

/// The first stated value, preferring the schedule or the body.
pub(crate) fn first(stated: &[StatedValue], schedule_first: bool) -> Option<&StatedValue> {
    stated.iter().find(|one| one.in_schedule == schedule_first).or_else(|| stated.first())
}

pub(crate) fn value(fact: &Fact) -> Value {
    match fact {
        Fact::Number(number) => (*number).into(),
        other => other.to_string().into(),
    }
}

/// Risk score of issues with these severities.
pub(crate) fn score(severities: impl Iterator<Item = Severity>) -> u32 {
    (crate::generator::risk_score([]) + severities.map(Severity::weight).sum::<u32>()).min(100)
}

/// Recommendation for a score.
pub(crate) fn recommendation(score: u32) -> &'static str {
    Recommendation::for_score(score).as_str()
}

/// Topic of an issue.
pub(crate) fn topic(problem: Problem) -> String {
    problem.name().replace('_', " ")
}

pub(crate) fn severity_name(severity: Severity) -> &'static str {
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

/// Truncates a text at the end of a clause or at least of a word, and replaces double quotes. An omission is marked.
pub(crate) fn truncate_quote(text: &str, chars: usize) -> String {
    let text = text.replace(['"', '\u{201c}', '\u{201d}'], "'");
    let Some((end, _)) = text.char_indices().nth(chars) else { return text };
    let head = &text[..end];
    let part = head.rfind([',', ';', ':']).filter(|at| *at * 2 > head.len());
    let head = part.or_else(|| head.rfind(' ')).map_or(head, |at| &head[..at]);
    format!("{} \u{2026}", head.trim_end_matches([',', ';', ':', ' ']))
}
