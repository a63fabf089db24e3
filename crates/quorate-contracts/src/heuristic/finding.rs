//! Field of each analyst, its assessment of issues, and the finding that it returns.
//!
//! | analyst | field |
//! |---|---|
//! | `clauses` | clauses that are present or missing; contradictions between body and schedule |
//! | `risk` | allocation of risks: liability, indemnity, termination, amendments, restrictions |
//! | `financial` | amounts; each issue by its cost relative to a year's fees |
//! | `ip` | ownership and usage rights |
//! | `compliance` | personal data under GDPR, CCPA and HIPAA, and other regulatory concerns |
//!
//! The fields overlap on purpose: analysts assess shared issues from their own perspective, so they disagree for
//! reasons. Score and recommendation follow from the issues of each analyst by the rule of
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

/// A contract with everything that an analyst needs to assess it.
pub(crate) struct Review {
    pub(crate) contract: ParsedContract,
    pub(crate) facts: Facts,
    /// Issues in this analyst's field with its severities, worst first.
    pub(crate) issues: Vec<Issue>,
}

impl Review {
    /// Parses a contract for this analyst.
    pub(crate) fn new(analyst: Heuristic, text: &str) -> Self {
        let contract = ParsedContract::parse(text);
        let facts = Facts::extract(&contract);
        let mut issues = issues::find(&contract, &facts);
        let has_personal_data = is_relevant(Heuristic::Compliance, &contract);
        issues.retain(|issue| analyst.field().contains(&issue.problem));
        for issue in &mut issues {
            issue.severity = analyst.assess(issue, &contract, &facts, has_personal_data);
            let paragraph = issue.paragraph.map(|index| &contract.paragraphs[index]);
            if paragraph.is_some_and(|paragraph| contract.matches(paragraph, "mitigated")) {
                issue.severity = milder(issue.severity);
            }
        }
        issues.sort_by_key(|issue| (std::cmp::Reverse(issue.severity), issue.problem));
        Self { contract, facts, issues }
    }

    /// Describes an issue in a sentence with its location.
    pub(crate) fn describe(&self, issue: &Issue) -> String {
        describe(issue, issue.paragraph.map_or("", |index| &self.contract.paragraphs[index].label))
    }

    /// Quotes the sentence that states the issue.
    pub(crate) fn quote(&self, issue: &Issue) -> Option<String> {
        let paragraph = &self.contract.paragraphs[issue.paragraph?];
        Some(truncate_quote(paragraph.sentence(issue.sentence), QUOTE_CHARS))
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
    /// Problems in the analyst's field.
    fn field(self) -> &'static [Problem] {
        match self {
            Self::Clauses => CLAUSES_FIELD,
            Self::Risk => RISK_FIELD,
            Self::Financial => FINANCIAL_FIELD,
            Self::Ip => IP_FIELD,
            Self::Compliance => COMPLIANCE_FIELD,
        }
    }

    /// Severity of an issue from the analyst's perspective.
    fn assess(
        self,
        issue: &Issue,
        contract: &ParsedContract,
        facts: &Facts,
        has_personal_data: bool,
    ) -> Severity {
        use Severity::{Critical, High, Low, Medium};
        let default = issue.severity;
        let fee = facts.annual_fee.unwrap_or(u64::MAX);
        let text = issue.paragraph.map_or("", |index| &contract.paragraphs[index].normalised);
        match (self, issue.problem) {
            // To the extractor, a contradiction is the same whatever it is about.
            (Self::Clauses, Problem::CapConflict) => Medium,
            (Self::Financial, Problem::TrivialVendorCap) => {
                let cap = facts.vendor_caps.first().and_then(|(_, cap)| *cap);
                if cap.is_some_and(|cap| cap < fee / 20) { Critical } else { High }
            }
            (Self::Financial, Problem::EarlyTerminationPenalty) => {
                let amount = super::numbers::amounts(text).into_iter().max();
                if amount.is_some_and(|amount| amount < fee / 2) { Medium } else { default }
            }
            (Self::Financial, Problem::LongRenewalNotice)
                if facts.annual_fee.is_some_and(|fee| fee > 500_000) =>
            {
                High
            }
            (Self::Ip, Problem::FreeAssignment) if text.contains("competitor") => High,
            (Self::Ip, Problem::FreeAssignment) => Low,
            (Self::Compliance, Problem::TrainingUse) if has_personal_data => Critical,
            (Self::Compliance, Problem::MissingConfidentiality) if !has_personal_data => Medium,
            _ => default,
        }
    }

    /// Clauses that the analyst assumes to be present, also where the stricter extractor finds only a definition.
    fn relies_on(self, contract: &ParsedContract) -> Vec<&'static str> {
        let cues = RELIED_CLAUSES.iter().filter(|(analyst, _)| *analyst == self);
        let present = cues.filter(|(_, clause)| contract.matches_anywhere(clause.name()));
        present.map(|(_, clause)| clause.name()).collect()
    }
}

/// Clauses that an analyst relies on.
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

/// Whether a contract contains anything in an analyst's field.
///
/// - `clauses` and `risk`: any text with a paragraph.
/// - `financial`: an amount, or an obligation to pay fees.
/// - `ip`: a paragraph that grants or reserves rights: a license, ownership of results, escrow. Sentences that grant no
///   license, require compliance with laws or indemnify for infringement do not count, and neither do definitions.
/// - `compliance`: personal data beyond the parties' business contacts, or a law about it. Sentences that exclude the
///   processing or submission of such data do not count.
pub(crate) fn is_relevant(analyst: Heuristic, contract: &ParsedContract) -> bool {
    let cue = match analyst {
        Heuristic::Clauses | Heuristic::Risk => return !contract.paragraphs.is_empty(),
        Heuristic::Financial => "money",
        Heuristic::Ip => "rights",
        Heuristic::Compliance => "personal",
    };
    contract.paragraphs.iter().any(|paragraph| !paragraph.is_definition && contract.matches(paragraph, cue))
}

/// Returns the finding of an analyst on a contract.
pub(crate) fn finding(analyst: Heuristic, text: &str) -> Value {
    let review = Review::new(analyst, text);
    if !is_relevant(analyst, &review.contract) {
        let summary = format!("Nothing in this contract is in my field ({}).", field(analyst));
        return json!({ "summary": summary, "confidence": 0.2 });
    }
    let score = score(review.issues.iter().map(|issue| issue.severity));
    let issues: Vec<Value> = review.issues.iter().map(|issue| issue_json(&review, issue)).collect();
    let mut finding = json!({
        "summary": summary(&review),
        "confidence": confidence(&review),
        "scores": { "overall_risk_score": score },
        "recommendation": recommendation(score),
        "issues": issues,
        "facts": facts(analyst, &review.facts),
        "relies_on": analyst.relies_on(&review.contract),
    });
    if analyst == Heuristic::Clauses {
        let found = clauses::find(&review.contract);
        finding["found"] = found.iter().map(|found_clause| found_clause.clause.name()).collect();
        finding["details"] = json!({ "clauses": extract(&review.contract, &found) });
    }
    if review.contract.truncated {
        finding["details"]["cut"] =
            json!(format!("only the first {} bytes were read", super::document::TEXT_BYTES_MAX));
    }
    finding
}

/// All types of clauses with presence and location.
fn extract(contract: &ParsedContract, found: &[clauses::FoundClause]) -> Value {
    let clause_json = |clause: Clause| {
        let found = found.iter().find(|found| found.clause == clause);
        let paragraph = found.and_then(|found| found.paragraph).map(|index| &contract.paragraphs[index]);
        json!({
            "type": clause.name(),
            "present": found.is_some(),
            "section": paragraph.map(|paragraph| paragraph.label.as_str()),
            "quote": paragraph.map(|paragraph| truncate_quote(&paragraph.quote, QUOTE_CHARS)),
        })
    };
    Clause::all().map(clause_json).collect()
}

fn issue_json(review: &Review, issue: &Issue) -> Value {
    let paragraph = issue.paragraph.map(|index| &review.contract.paragraphs[index]);
    let mut json = json!({
        "topic": topic(issue.problem),
        "severity": severity_name(issue.severity),
        "detail": review.describe(issue),
        "advice": advice(issue.problem),
    });
    if let Some(paragraph) = paragraph {
        json["evidence"] =
            format!("{}: \"{}\"", paragraph.label, truncate_quote(&paragraph.quote, EVIDENCE_CHARS)).into();
    }
    json
}

fn summary(review: &Review) -> String {
    let claims: Vec<String> = review.issues.iter().take(NAMED_MAX).map(|issue| review.claim(issue)).collect();
    match review.issues.len().saturating_sub(NAMED_MAX) {
        _ if review.issues.is_empty() => "Nothing in my field speaks against signing.".to_owned(),
        0 => claims.join(" "),
        1 => format!("{} One lesser issue is listed.", claims.join(" ")),
        more => format!("{} {more} lesser issues are listed.", claims.join(" ")),
    }
}

/// Confidence grows with the number of issues, but never reaches certainty.
fn confidence(review: &Review) -> f64 {
    let count = u32::try_from(review.issues.len().min(5)).unwrap_or(5);
    (60.0 + 5.0 * f64::from(count)) / 100.0
}

fn facts(analyst: Heuristic, facts: &Facts) -> BTreeMap<&'static str, Value> {
    // Commercial terms are in the schedule; everything else is in the body.
    let schedule_first = analyst == Heuristic::Financial;
    let mut stated_facts = BTreeMap::new();
    let mut add = |name, stated: &[StatedValue]| {
        if let Some(stated_value) = first(stated, schedule_first) {
            stated_facts.insert(name, value(&stated_value.value));
        }
    };
    match analyst {
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
    stated.iter().find(|value| value.in_schedule == schedule_first).or_else(|| stated.first())
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

fn field(analyst: Heuristic) -> &'static str {
    match analyst {
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
    let clause_end = head.rfind([',', ';', ':']).filter(|offset| *offset * 2 > head.len());
    let head = clause_end.or_else(|| head.rfind(' ')).map_or(head, |offset| &head[..offset]);
    format!("{} \u{2026}", head.trim_end_matches([',', ';', ':', ' ']))
}
