//! What is bad for the customer, and what it sounds like: rules as data where words suffice, functions where numbers or two
//! places must be compared.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::facts::Facts;
use super::numbers;
use super::reading::{Contract, Paragraph, any_of, regex};
use crate::contracts::{Problem, Severity};

/// Something bad for the customer, and where it stands.
#[derive(Clone)]
pub(crate) struct Issue {
    pub(crate) problem: Problem,
    pub(crate) severity: Severity,
    /// What exactly, with figures where there are any.
    pub(crate) detail: String,
    /// The paragraph that says so; nothing where something is missing.
    pub(crate) place: Option<usize>,
}

impl Issue {
    fn at(problem: Problem, place: usize, detail: impl Into<String>) -> Self {
        Self { problem, severity: problem.severity(), detail: detail.into(), place: Some(place) }
    }
}

/// What can be told by words: one of these in a paragraph, and none of those.
const SIGNS: &[(Problem, &[&str], &[&str])] = &[
    (
        Problem::UncappedCustomerLiability,
        &[
            "(?:limit|cap|exclusion)[a-z]*~(?:apply|applies|available) to vendor only",
            "customer(?:'s)?~(?:liable|liability)~(?:without limit|unlimited|not (?:be )?(?:subject to any limit|limited|capped))",
            "no (?:cap|limit)[a-z]*~(?:benefit|protect|apply to) customer",
            "customer~unlimited liability",
        ],
        &["neither party", "either party", "each party", "sessions"],
    ),
    (
        Problem::IpToVendor,
        &[
            "customer~assigns?~to vendor",
            "(?:property of|vests?~in|owned~by|belongs? to|title~in) vendor\\b",
            "vendor (?:shall own|owns)~(?:deliverables|customer data|work product|results)",
        ],
        &["vendor materials~(?:remain|are)", "vendor assigns", "assigns? this agreement", "licen[sc]e"],
    ),
    (
        Problem::UnlimitedPriceIncrease,
        &[
            "(?:increase|adjust|change|raise|revise)[a-z]*~(?:fees|prices|rates|charges)~(?:any time|any amount|sole discretion|without notice|without limit|as it sees fit)",
            "(?:fees|prices|rates|charges)~subject to change",
            "(?:fees|prices)~(?:increased|changed|adjusted)~(?:at any time|sole discretion)",
        ],
        &["not exceed", "no more than", "limited to the lesser"],
    ),
    (
        Problem::TerminationAsymmetry,
        &[
            "vendor may (?:terminate|end|cancel)~(?:convenience|without cause|any time|any reason|immediate effect)[^.]*\\. ?customer may (?:not terminate|terminate only|end|only)",
            "for convenience by vendor (?:alone|only)",
            "customer~waives any right to terminate",
            "vendor may terminate~(?:any time|without cause|convenience)[^.]*\\.[^.]*customer (?:may not|has no right to|shall not) (?:terminate|end|cancel)",
            "customer (?:has no right|may not|is not entitled)[a-z ]*terminat~vendor may",
        ],
        &[],
    ),
    (
        Problem::UnilateralAmendment,
        &[
            "vendor~(?:may|reserves the right to|is entitled to|can) (?:amend|modify|change|revise|update|vary)[a-z]* (?:the terms|this agreement|these terms|any term|the agreement)",
            "terms of this agreement may be (?:changed|amended|modified) by vendor",
        ],
        &["user interface"],
    ),
    (
        Problem::NoWarranty,
        &[
            "\"?as[ -]is\"?[ ,]~",
            "disclaims? (?:all|any)~warrant",
            "no warrant(?:y|ies)",
            "(?:does|do) not warrant",
            "without (?:any )?warrant(?:y|ies) of any kind",
            "with all faults",
        ],
        &["\"as is\" means"],
    ),
    (
        Problem::CustomerNoncompete,
        &[
            "customer(?: and its affiliates)? (?:shall not|will not|may not|agrees? not to|undertakes not to|must not)~compet",
            "neither customer nor~compet",
            "customer~(?:refrain from|agrees to refrain)~compet",
        ],
        &["nothing in", "does not apply"],
    ),
    (
        Problem::CustomerExclusivity,
        &[
            "customer shall (?:purchase|obtain|procure|buy|source|order)~(?:exclusively|only|solely) from vendor",
            "customer (?:shall|will|may) not (?:obtain|purchase|procure|buy|source|engage|use)~(?:other than vendor|any other (?:provider|supplier|person|vendor)|third part)",
            "vendor (?:shall be|is|will be) customer's (?:sole|exclusive)",
            "exclusively from vendor",
        ],
        &["sublicense"],
    ),
    (
        Problem::TrainingUse,
        &[
            "customer data~(?:train|machine learning|artificial intelligence|commercially exploit|for any purpose|own purposes|development of)",
            "(?:train|improve|exploit|commerciali[sz]e|develop|monetize)[a-z]*~customer data",
        ],
        &["no purpose other", "only to the extent", "solely", "shall not (?:use|train)"],
    ),
    (
        Problem::FreeAssignment,
        &[
            "vendor may (?:freely )?(?:assign|transfer|subcontract)[^.]*(?:without~consent|any person|competitor|any third party|anybody)",
            "vendor may freely",
            "no such restriction applies to vendor",
            "vendor~(?:free to|at liberty to) assign",
        ],
        &["\\bwith (?:the )?(?:prior )?(?:written )?consent of customer"],
    ),
    (
        Problem::EarlyTerminationPenalty,
        &[
            "customer shall~pay~(?:remainder|rest|balance|unexpired) of the~term",
            "customer shall~pay~(?:all )?fees that would have become due",
            "customer shall pay an?~(?:termination|cancellation|exit) (?:charge|fee|payment|penalty)",
            "(?:early termination|ends? before)~customer shall~pay",
        ],
        &["up to the date of termination"],
    ),
    (
        Problem::IntrusiveAudit,
        &[
            "vendor (?:may|has the right to|is entitled to|shall be entitled to)~(?:audit|inspect|enter|examine)~(?:any time|without notice|as often as|expense|unannounced)",
            "vendor~(?:inspect|audit)~customer's~(?:as often as|at any time)",
            "customer shall (?:give|grant|provide) vendor unrestricted access",
            "customer shall bear the cost of each audit",
        ],
        &["customer may"],
    ),
    (
        Problem::NonrefundablePrepayment,
        &["non-?refundable", "(?:shall|will) not be refunded", "no refund"],
        &["is refundable"],
    ),
    (
        Problem::PublicityWithoutConsent,
        &[
            "vendor (?:may|is entitled to|shall be entitled to)~(?:name|logo|trademark|publish|press release|case stud)[a-z]*~(?:without|marketing|discretion|promot)",
            "customer agrees to be named as a reference",
            "vendor may (?:use|publish|issue)[^.]*(?:name|logo|press release|case stud)",
        ],
        &["only with", "prior written consent of customer", "with customer's (?:prior )?consent"],
    ),
    (
        Problem::SuspensionWithoutNotice,
        &[
            "vendor~(?:suspend|block|discontinue|disable|interrupt)[a-z]*~without (?:prior |any )?notice",
            "(?:immediately|any time) and without notice (?:suspend|block|disable)",
            "(?:suspend|discontinue)[a-z]*~services~(?:sole discretion|without (?:prior )?notice)",
        ],
        &["only after"],
    ),
    (
        Problem::UnboundedExpenses,
        &[
            "expenses~(?:without limit|without prior approval|as incurred|considers reasonable|borne by customer)",
            "customer shall (?:reimburse|bear|pay) all~expenses",
        ],
        &["approved in advance", "only those"],
    ),
    (
        Problem::DeemedAcceptance,
        &[
            "deemed (?:to be )?accepted",
            "(?:failure to object|silence|no objection)~(?:constitut|acceptance)",
            "accepted upon delivery",
            "no right to test",
        ],
        &["continued use"],
    ),
    (
        Problem::CcpaSale,
        &[
            "(?:sell|sale of|commerciali[sz]e|monetize|disclose|license)[a-z]*~californ",
            "californ[a-z]*~(?:sell|sold|valuable consideration|commerciali[sz]e)",
        ],
        &["shall not sell", "does not sell", "not sell it", "certifies", "will not sell"],
    ),
];

static COMPILED: LazyLock<Vec<(Problem, Regex, Option<Regex>)>> = LazyLock::new(|| {
    let sign = |(problem, any, not): &(Problem, &[&str], &[&str])| {
        (*problem, any_of(any), (!not.is_empty()).then(|| any_of(not)))
    };
    SIGNS.iter().map(sign).collect()
});

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => { $(static $name: LazyLock<Regex> = LazyLock::new(|| regex($pattern));)* };
}

patterns! {
    INDEMNITY_BY_CUSTOMER = "customer (?:shall|agrees to|will|must)~(?:indemnif|hold vendor harmless|hold harmless|hold~harmless|defend)";
    INDEMNITY_BY_VENDOR = "(?:vendor (?:shall|agrees to|will)~(?:indemnif|hold~harmless|defend)|each party (?:shall|agrees|will)~(?:indemnif|harmless|defend)|mutual(?:ly)? indemnif|parties shall indemnif)";
    CONFIDENCE = "(?:(?:shall|will|must|agrees? to|undertakes? to)~(?:hold|keep|protect|maintain|treat|safeguard|preserve|not disclose|use)~(?:confiden|secre)|confidential information~(?:shall|will|must) (?:be kept|not be disclosed|be held|be protected))";
    COMPELLED = "compelled|required by law to disclose";
    PERSONAL = "personal data|personal information|personnel files|employee (?:files|records|data)|names, addresses|purchase histor|consumer profiles|contact details";
    EUROPEANS = "(?:european union|\\beu\\b|european economic area|european (?:data subjects|residents|customers|individuals)|in (?:germany|france|ireland|spain|italy|the netherlands|belgium|austria|poland))";
    NO_PERSONAL = "do(?:es)? not involve~personal data|shall not (?:submit|upload)|does not collect personal";
    PROCESSING_TERMS = "documented instructions|data processing (?:addendum|agreement)|article 28|acts? as (?:a )?processor|as processor";
    TRANSFER = "(?:transfer|access|host|export|replicat)[a-z]*~(?:personal data|european)|personal data~(?:transfer|access|host|export|replicat|sent|outside)";
    TRANSFER_TERMS = "standard contractual clauses|adequacy decision|binding corporate rules|model clauses";
    HEALTH = "protected health information|\\bphi\\b|medical records|health records|health information|patient|diagnos|treatment histor|insurance claims of";
    ASSOCIATE = "business associate";
    BREACH = "(?:breach|incident|unauthori[sz]ed access|compromise)[a-z]*";
    NOTIFY = "(?:notif|inform|notice of|told|advise)";
    AT_WILL = "if and when|considers (?:this |it )?appropriate|deems|at its discretion|sole discretion";
    INTEREST = "(?:interest|late (?:charge|fee|payment)|overdue|default charge)";
    CLAIM = "(?:claim|action|suit|proceeding)[a-z]*";
    BARRED = "(?:barred|waived|deemed waived|may be brought|forfeit|lapse|extinguish|excluded unless|time-barred)";
}

fn has(paragraph: &Paragraph, pattern: &Regex) -> bool {
    pattern.is_match(paragraph.plain.as_bytes())
}

/// All that is bad for the customer, whoever's field it is.
pub(crate) fn find(contract: &Contract, facts: &Facts) -> Vec<Issue> {
    let mut issues = Vec::new();
    for (problem, any, not) in COMPILED.iter() {
        let is = |one: &&Paragraph| has(one, any) && !not.as_ref().is_some_and(|not| has(one, not));
        let said = contract.paragraphs.iter().find(is);
        issues.extend(said.map(|one| Issue::at(*problem, one.place, "")));
    }
    issues.extend(obligations(contract));
    issues.extend(personal_data(contract));
    issues.extend(periods(contract));
    issues.extend(money(contract, facts));
    issues.extend(contradictions(facts));
    issues.sort_by_key(|issue| (std::cmp::Reverse(issue.severity), issue.problem));
    issues
}

/// What one side owes and the other does not.
fn obligations(contract: &Contract) -> Vec<Issue> {
    let mut issues = Vec::new();
    let by_customer = contract
        .paragraphs
        .iter()
        .find(|one| has(one, &INDEMNITY_BY_CUSTOMER) && !has(one, &INDEMNITY_BY_VENDOR));
    if let Some(one) = by_customer.filter(|_| !contract.any(&INDEMNITY_BY_VENDOR)) {
        let detail = "only the customer indemnifies; the vendor gives no indemnity anywhere";
        issues.push(Issue::at(Problem::OneSidedIndemnity, one.place, detail));
    }
    let kept = contract.paragraphs.iter().any(|one| has(one, &CONFIDENCE) && !has(one, &COMPELLED));
    if !kept && !contract.paragraphs.is_empty() {
        issues.push(Issue {
            problem: Problem::MissingConfidentiality,
            severity: Problem::MissingConfidentiality.severity(),
            detail: "no paragraph obliges anybody to keep anything confidential".into(),
            place: None,
        });
    }
    issues
}

/// Personal data without the terms that the law asks for.
fn personal_data(contract: &Contract) -> Vec<Issue> {
    let mut issues = Vec::new();
    let of_europeans =
        |one: &&Paragraph| has(one, &PERSONAL) && has(one, &EUROPEANS) && !has(one, &NO_PERSONAL);
    let abroad = contract
        .paragraphs
        .iter()
        .filter(of_europeans)
        .find(|one| has(one, &TRANSFER) && !has(one, &PROCESSING_TERMS));
    if let Some(one) = abroad.filter(|_| !contract.any(&TRANSFER_TERMS)) {
        let detail = "personal data leave the European Union, and nothing safeguards the transfer";
        issues.push(Issue::at(Problem::MissingTransferTerms, one.place, detail));
    }
    let transfer = issues.first().and_then(|issue: &Issue| issue.place);
    let processed = contract.paragraphs.iter().filter(of_europeans).find(|one| Some(one.place) != transfer);
    let missing = !contract.any(&PROCESSING_TERMS);
    if let Some(one) = processed.filter(|_| missing) {
        let detail = "personal data of Europeans, and none of the terms of Article 28 GDPR";
        issues.push(Issue::at(Problem::MissingDataProcessing, one.place, detail));
    }
    let health = contract.paragraphs.iter().find(|one| has(one, &HEALTH) && !has(one, &NO_PERSONAL));
    if let Some(one) = health.filter(|_| !contract.any(&ASSOCIATE)) {
        let detail = "health information, and no business associate agreement";
        issues.push(Issue::at(Problem::PhiWithoutBaa, one.place, detail));
    }
    issues
}

/// Periods that are too long or too short.
fn periods(contract: &Contract) -> Vec<Issue> {
    let mut issues = Vec::new();
    for place in super::clauses::places(contract, crate::contracts::Clause::NoticePeriodToTerminateRenewal) {
        let one = &contract.paragraphs[place];
        let days = numbers::counted(&one.plain, "day").into_iter().max().unwrap_or(0);
        let automatic =
            ["automatic", "renews", "shall renew", "is extended", "evergreen", "unless cancelled"];
        if days >= 90 && automatic.iter().any(|word| one.plain.contains(word)) {
            let detail = format!("notice is due {days} days ahead, or it renews by itself");
            issues.push(Issue::at(Problem::LongRenewalNotice, place, detail));
        }
    }
    let told = contract
        .paragraphs
        .iter()
        .filter(|one| has(one, &BREACH) && has(one, &NOTIFY) && one.plain.contains("customer"));
    for one in told.filter(|one| one.plain.contains("data") || one.plain.contains("security")) {
        let days = numbers::counted(&one.plain, "day").into_iter().max().unwrap_or(0);
        let hours = one.plain.contains("hours");
        if days >= 30 && !hours || has(one, &AT_WILL) && !hours && one.plain.contains("breach") {
            let detail = if days >= 30 {
                format!("the customer hears of a breach after {days} days")
            } else {
                "the customer hears of a breach if the vendor likes".into()
            };
            issues.push(Issue::at(Problem::SlowBreachNotice, one.place, detail));
            break;
        }
    }
    let barred = contract
        .paragraphs
        .iter()
        .filter(|one| has(one, &CLAIM) && has(one, &BARRED) && one.plain.contains("customer"));
    for one in barred {
        let days = numbers::counted(&one.plain, "day").into_iter().min().unwrap_or(u64::MAX);
        if days <= 30 {
            let detail = format!("the customer's claims end after {days} days");
            issues.push(Issue::at(Problem::ShortClaimPeriod, one.place, detail));
            break;
        }
    }
    issues
}

/// Amounts and rates.
fn money(contract: &Contract, facts: &Facts) -> Vec<Issue> {
    let mut issues = Vec::new();
    let late = contract.paragraphs.iter().filter(|one| has(one, &INTEREST) && one.plain.contains("month"));
    for one in late {
        let rate = numbers::percents(&one.plain).into_iter().max().unwrap_or(0);
        if rate > 150 {
            #[allow(clippy::cast_precision_loss, reason = "a rate is small")]
            let detail = format!("{} % a month on what is overdue", rate as f64 / 100.0);
            issues.push(Issue::at(Problem::ExcessiveLateFee, one.place, detail));
            break;
        }
    }
    let month = facts.annual_fee.map_or(20_000, |fee| fee / 12 + fee / 600);
    for (place, cap) in &facts.vendor_caps {
        if cap.is_none_or(|cap| cap <= month) {
            let detail = match (cap, facts.annual_fee) {
                (Some(cap), Some(fee)) => {
                    format!("the vendor pays at most {cap}, {} % of a year's fees", cap * 100 / fee.max(1))
                }
                (Some(cap), None) => format!("the vendor pays at most {cap}"),
                (None, _) => "the vendor pays at most the fees of a month".to_owned(),
            };
            issues.push(Issue::at(Problem::TrivialVendorCap, *place, detail));
            break;
        }
    }
    if let (Some((place, minimum)), Some(budget)) = (facts.minimum, facts.budget)
        && minimum > budget
    {
        let detail = format!("the minimum of {minimum} is above the budget of {budget}");
        issues.push(Issue::at(Problem::MinimumOverBudget, place, detail));
    }
    issues
}

/// Two places of the contract that do not agree.
fn contradictions(facts: &Facts) -> Vec<Issue> {
    let mut issues = Vec::new();
    let mut differ = |problem, what: &str, stated: &[super::facts::Stated]| {
        let first = stated.iter().find(|one| !one.in_schedule);
        let second = stated.iter().find(|one| one.in_schedule);
        if let (Some(first), Some(second)) = (first, second)
            && first.value != second.value
        {
            let detail =
                format!("{what} is {} in the body and {} in the schedule", first.value, second.value);
            issues.push(Issue::at(problem, second.place, detail));
        }
    };
    differ(Problem::PaymentConflict, "the payment term in days", &facts.payment_days);
    differ(Problem::CapConflict, "the cap on liability", &facts.caps);
    differ(Problem::GoverningLawMismatch, "the governing law", &facts.laws);
    differ(Problem::TermConflict, "the end of the term", &facts.ends);
    issues
}

/// What to ask for instead.
pub(crate) fn advice(problem: Problem) -> &'static str {
    match problem {
        Problem::UncappedCustomerLiability => "cap the customer's liability like the vendor's",
        Problem::TrivialVendorCap => "raise the vendor's cap to at least a year's fees",
        Problem::OneSidedIndemnity => "make the indemnity mutual",
        Problem::LongRenewalNotice => "shorten the notice to 30 days",
        Problem::IpToVendor => "the customer owns its data and what it pays for",
        Problem::MissingDataProcessing => "add a data processing agreement under Article 28 GDPR",
        Problem::MissingTransferTerms => "add the Standard Contractual Clauses",
        Problem::PhiWithoutBaa => "sign a business associate agreement first",
        Problem::CcpaSale => "forbid the sale of personal information",
        Problem::ExcessiveLateFee => "limit interest to 1.5 % a month on undisputed amounts",
        Problem::PaymentConflict
        | Problem::CapConflict
        | Problem::GoverningLawMismatch
        | Problem::TermConflict => "say it once, and say which place prevails",
        Problem::MinimumOverBudget => "lower the minimum below the budget, or strike it",
        Problem::UnlimitedPriceIncrease => "cap increases at a few percent a year with notice",
        Problem::TerminationAsymmetry => "give both sides the same right to terminate",
        Problem::MissingConfidentiality => "add mutual confidentiality",
        Problem::UnilateralAmendment => "changes need both signatures",
        Problem::NoWarranty => "add a warranty of professional performance",
        Problem::CustomerNoncompete => "strike the restriction on the customer",
        Problem::CustomerExclusivity => "leave the customer free to buy elsewhere",
        Problem::TrainingUse => "limit use of customer data to the services",
        Problem::SlowBreachNotice => "notice within 72 hours of discovery",
        Problem::FreeAssignment => "assignment by either side needs consent",
        Problem::EarlyTerminationPenalty => "pay for work done, nothing more",
        Problem::IntrusiveAudit => "audits once a year, on notice, at the vendor's cost",
        Problem::NonrefundablePrepayment => "refund what was not performed",
        Problem::ShortClaimPeriod => "leave the statutory period for claims",
        Problem::PublicityWithoutConsent => "names and logos with consent only",
        Problem::SuspensionWithoutNotice => "suspension only after notice and time to cure",
        Problem::UnboundedExpenses => "expenses approved in advance only",
        Problem::DeemedAcceptance => "acceptance in writing after a test",
    }
}
