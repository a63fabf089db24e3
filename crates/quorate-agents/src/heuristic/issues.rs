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
            "customer (?:shall|will|agrees to)[^.]*indemnif.*(?:limitation|cap)s?[^.]*(?:do|does|shall|will) not apply",
            "customer(?:'s)? (?:liability|obligations?|responsibility)[^.]*(?:no (?:limit|cap|ceiling)|uncapped)",
            "customer[^.]*liable[^.]*(?:in full|to any extent|for any amount)",
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
            "vendor (?:becomes?|shall become|is|shall be) the (?:sole |exclusive )?owner",
            "customer (?:transfers?|conveys?|cedes?|surrenders?)~(?:to vendor|right|title|ownership)",
            "(?:deliverables|customer data|work product|results|materials|data)[^.]*(?:belongs?|shall belong|pass|passes) to vendor",
            "customer~assigns?~to vendor",
            "(?:property of|vests?~in|owned~by|belongs? to|title~in) vendor\\b",
            "vendor (?:shall own|owns)~(?:deliverables|customer data|work product|results)",
        ],
        &[
            "statistic|anonym|aggregat|no longer relate",
            "vendor materials~(?:remain|are)",
            "vendor assigns",
            "assigns? this agreement",
            "licen[sc]e",
        ],
    ),
    (
        Problem::UnlimitedPriceIncrease,
        &[
            "vendor (?:may|can|is free to|reserves the right to)[^.]*(?:increase|raise|adjust|change|revise|set)[^.]*(?:fees|prices|rates|charges)[^.]*(?:unlimited|whenever|as it|any time|discretion|without)",
            "(?:fees|prices|rates|charges)[^.]*(?:whenever|as vendor|vendor's discretion|discretion of vendor)",
            "(?:increase|adjust|change|raise|revise)[a-z]*~(?:fees|prices|rates|charges)~(?:any time|any amount|sole discretion|without notice|without limit|as it sees fit)",
            "(?:fees|prices|rates|charges)~subject to change",
            "(?:fees|prices)~(?:increased|changed|adjusted)~(?:at any time|sole discretion)",
        ],
        &["not exceed", "no more than", "limited to the lesser"],
    ),
    (
        Problem::TerminationAsymmetry,
        &[
            "vendor (?:may|can|is entitled to)[^.]*(?:terminate|end|cancel|withdraw)[^.]*(?:any time|without cause|convenience|any reason|whenever|at will|discretion)[^.]*[.;,] ?(?:while |whereas |but )?customer[^.]*(?:not|no right|only|bound|until the end)",
            "only vendor (?:may|can)~(?:terminat|end|cancel)",
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
            "vendor~(?:may|reserves the right to|is entitled to|can)~(?:unilaterally|from time to time|at any time)~(?:amend|modify|change|revise|update|vary)[a-z]*~(?:terms|agreement|conditions)",
            "(?:amend|modif|chang|revis|vari)[a-z]* (?:of|to) (?:this agreement|the terms|these terms)[^.]*(?:bind|effective|take effect)[^.]*(?:upon|when|once)[^.]*(?:post|publish|notice)",
            "vendor~(?:may|reserves the right to|is entitled to|can) (?:amend|modify|change|revise|update|vary)[a-z]* (?:the terms|this agreement|these terms|any term|the agreement)",
            "terms of this agreement may be (?:changed|amended|modified) by vendor",
        ],
        &["user interface"],
    ),
    (
        Problem::NoWarranty,
        &[
            "(?:no|any) (?:representation|guarantee|promise)s?[^.]*(?:quality|fitness|performance)",
            "at (?:customer's|its) own risk",
            "excludes? all~warrant",
            "\"as[ -]is\"",
            "disclaims? (?:all|any)~warrant",
            "no warrant(?:y|ies)",
            "(?:does|do) not warrant",
            "without (?:any )?warrant(?:y|ies) of any kind",
            "with all faults",
        ],
        &["except as (?:expressly )?(?:stated|set out|provided)", "\"as is\" means"],
    ),
    (
        Problem::CustomerNoncompete,
        &[
            "customer[^.]*(?:not|refrain|abstain)[^.]*(?:in competition with|rival|compet)[^.]*(?:vendor|product|services)",
            "customer(?: and its affiliates)? (?:shall not|will not|may not|agrees? not to|undertakes not to|must not)~compet",
            "neither customer nor~compet",
            "customer~(?:refrain from|agrees to refrain)~compet",
        ],
        &["nothing in", "does not apply"],
    ),
    (
        Problem::CustomerExclusivity,
        &[
            "customer[^.]*(?:shall|must|will|agrees to|undertakes to)[^.]*(?:exclusively|solely|only)[^.]*(?:from|with|through|by) vendor",
            "customer[^.]*(?:no|not)[^.]*(?:any )?other (?:provider|supplier|vendor|source)",
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
            "vendor (?:may|can|is entitled to|is free to)[^.]*customer data[^.]*(?:improv|model|algorithm|analytic|benchmark|own (?:products|business|benefit)|other customers)",
            "(?:algorithms?|models?|artificial intelligence|statistics)[^.]*(?:customer data|customer's data|data of customer)",
            "customer data~(?:train|machine learning|artificial intelligence|commercially exploit|for any purpose|own purposes|development of)",
            "(?:train|improve|exploit|commerciali[sz]e|develop|monetize)[a-z]*~customer data",
        ],
        &["statistics of use", "no purpose other", "only to the extent", "solely", "shall not (?:use|train)"],
    ),
    (
        Problem::FreeAssignment,
        &[
            "vendor[^.]*(?:may|can|free to|entitled to)[^.]*(?:assign|transfer|novate)[^.]*(?:without|no)[^.]*(?:consent|approval|agreement|permission)",
            "vendor[^.]*(?:assign|transfer)[^.]*(?:to whomever|to anyone|as it sees fit|at its discretion)",
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
            "customer[^.]*(?:owes?|shall owe|is liable for|forfeits?|must pay)[^.]*(?:remaining|remainder|rest|balance|unexpired)",
            "(?:termination|cancellation|exit|break) (?:charge|fee|penalty)[^.]*(?:percent|%|remaining|remainder|usd|eur|gbp)",
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
            "vendor[^.]*\\b(?:audit|inspect|enter|search|examine)\\b[^.]*(?:unannounced|whenever|any time|without (?:prior )?(?:notice|warning)|cost of customer|customer's (?:cost|expense))",
            "vendor (?:may|has the right to|is entitled to|shall be entitled to)~(?:audit|inspect|enter|examine)~(?:any time|without notice|as often as|expense|unannounced)",
            "vendor~(?:inspect|audit)~customer's~(?:as often as|at any time)",
            "customer shall (?:give|grant|provide) vendor unrestricted access",
            "customer shall bear the cost of each audit",
        ],
        &["customer may"],
    ),
    (
        Problem::NonrefundablePrepayment,
        &[
            "(?:not|never|no part)[^.]*(?:refund|reimburs|repa(?:id|y))[a-z]*[^.]*(?:advance|prepa|upfront|up-front|deposit)",
            "(?:advance|prepa|upfront|up-front|deposit)[a-z]*[^.]*(?:not|never|no part)[^.]*(?:refund|return|repa(?:id|y))",
            "forfeit",
            "non-?refundable",
            "(?:shall|will) not be refunded",
            "no refund",
        ],
        &["is refundable"],
    ),
    (
        Problem::PublicityWithoutConsent,
        &[
            "vendor[^.]*(?:may|free to|entitled to)[^.]*(?:advertis|promot|refer to|mention|list)[a-z]*[^.]*customer",
            "vendor (?:may|is entitled to|shall be entitled to)~(?:name|logo|trademark|publish|press release|case stud)[a-z]*~(?:without|marketing|discretion|promot)",
            "customer agrees to be named as a reference",
            "vendor may (?:use|publish|issue)[^.]*(?:name|logo|press release|case stud)",
        ],
        &[
            "neither party",
            "only with",
            "prior written consent of customer",
            "with customer's (?:prior )?consent",
        ],
    ),
    (
        Problem::SuspensionWithoutNotice,
        &[
            "vendor[^.]*(?:suspend|cut off|shut down|switch off|block|halt|stop)[^.]*(?:immediately|at once|without (?:prior |any )?(?:notice|warning)|at its discretion|sole discretion)",
            "vendor~(?:suspend|block|discontinue|disable|interrupt)[a-z]*~without (?:prior |any )?notice",
            "(?:immediately|any time) and without notice (?:suspend|block|disable)",
            "(?:suspend|discontinue)[a-z]*~services~(?:sole discretion|without (?:prior )?notice)",
        ],
        &["only after"],
    ),
    (
        Problem::UnboundedExpenses,
        &[
            "(?:any|all|every)[^.]*(?:expense|cost|disbursement)[^.]*(?:incur|of vendor)[^.]*(?:charged|billed|reimburs|borne|paid)[^.]*customer",
            "customer[^.]*(?:reimburse|bear|pay)[^.]*(?:any|all|whatever)[^.]*(?:expenses|costs|disbursements)",
            "expenses~(?:without limit|without prior approval|as incurred|considers reasonable|borne by customer)",
            "customer shall (?:reimburse|bear|pay) all~expenses",
        ],
        &[
            "bank charges",
            "each party",
            "audit",
            "approved",
            "fines",
            "indemnif",
            "approved in advance",
            "only those",
        ],
    ),
    (
        Problem::DeemedAcceptance,
        &[
            "(?:considered|regarded as|treated as|taken to be|deemed)[^.]*accept",
            "accept[a-z]*[^.]*(?:by silence|if customer does not|unless customer)",
            "deemed (?:to be )?accepted",
            "(?:failure to object|silence|no objection)~(?:constitut|acceptance)",
            "accepted upon delivery",
            "no right to test",
        ],
        &["in writing, stating", "when customer confirms", "continued use"],
    ),
    (
        Problem::CcpaSale,
        &[
            "(?:personal (?:information|data)|profiles|consumer)[^.]*californ[^.]*(?:sold|sale|trade|money|consideration|monetar)",
            "(?:sell|sale of|commerciali[sz]e|monetize|disclose|license)[a-z]*~californ",
            "californ[a-z]*~(?:sell|sold|valuable consideration|commerciali[sz]e)",
        ],
        &[
            "clothing|goods|shops",
            "not (?:to )?(?:sell|be sold)",
            "shall not sell",
            "does not sell",
            "not sell it",
            "certifies",
            "will not sell",
        ],
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
    INDEMNITY_BY_CUSTOMER = "customer (?:shall|agrees to|will|must|undertakes to)~(?:indemnif|harmless|defend|compensate vendor|make vendor whole|keep vendor (?:free|safe))";
    INDEMNITY_BY_VENDOR = "(?:vendor (?:shall|agrees to|will|must|undertakes to)~(?:indemnif|harmless|defend customer|compensate customer)|(?:each|either) party (?:shall|agrees|will|must)~(?:indemnif|harmless|defend)|mutual(?:ly)? indemnif|parties (?:shall|agree to|will)~indemnif)";
    CONFIDENCE = "(?:(?:shall|will|must|agrees? to|undertakes? to)~(?:hold|keep|protect|maintain|treat|safeguard|preserve|not disclose|use|guard)~(?:confiden|secre|proprietary|non-public)|(?:confidential|proprietary|non-public) information~(?:shall|will|must|may) (?:be kept|not be disclosed|be held|be protected|only be|be used only)|(?:neither party|not|no party)~(?:disclose|reveal|divulge)~(?:confiden|secre|proprietary|non-public))";
    COMPELLED = "compelled|required by law to disclose";
    PERSONAL = "personal (?:data|information|details)|personnel (?:files|records|data)|employee (?:files|records|data)|names,? (?:and )?addresses|purchase histor|consumer profiles|contact details|customer records|e-?mail addresses|location data|data (?:about|of|on|concerning|relating to) (?:individuals|people|persons|natural persons|employees|consumers|residents|citizens)";
    EUROPEANS = "(?:european union|\\beu\\b|\\beea\\b|european economic area|european (?:data subjects|residents|customers|individuals|citizens|consumers|employees|users)|europeans|in europe|(?:in|of|from|residents of|employees in) (?:germany|france|ireland|spain|italy|the netherlands|belgium|austria|poland|sweden|denmark|portugal|finland))";
    NO_PERSONAL = "do(?:es)? not involve~personal data|shall not (?:submit|upload)|does not collect personal";
    PROCESSING_TERMS = "documented instruction|data (?:processing|protection) (?:addendum|agreement|terms|annex)|article 28|acts? as (?:a )?processor|as processor|only (?:on|upon|under|in accordance with)[a-z ]*instructions";
    TRANSFER = "(?:transfer|access|host|export|replicat)[a-z]*~(?:personal data|european)|personal data~(?:transfer|access|host|export|replicat|sent|outside)";
    TRANSFER_TERMS = "standard contractual clauses|adequacy|binding corporate rules|model clauses|article 46|transfer mechanism|appropriate safeguards";
    MONTHS_AHEAD = "(?:three|four|five|six|nine|twelve|[3-9]|12)(?: \\([0-9]+\\))? (?:full |calendar )?months'? ?(?:prior |written |advance )*(?:notice|before|prior|ahead|in advance)";
    OUTSIDE = "(?:data cent|hosted|hosting|support (?:cent|staff|team)|servers?|sub-?processors?|personal data|located)[^;]*(?:united states|\\busa\\b|virginia|california|india|philippines|brazil|china|singapore|vietnam|mexico|serbia|turkey|south africa|morocco|egypt|ukraine|malaysia|indonesia|pakistan|bangladesh|sri lanka|costa rica|colombia|australia|third countr)";
    HEALTH = "protected health information|\\bphi\\b|medical (?:record|histor|data|information|file)|health (?:record|data|information|histor)|patient|diagnos|treatment (?:histor|record)|clinical (?:data|record|note)|prescription|insurance claims of";
    ASSOCIATE = "business associate";
    BREACH = "(?:breach|incident|unauthori[sz]ed access|compromis|intrusion|leak|loss of data)[a-z]*";
    NOTIFY = "(?:notif|inform|notice of|told|\\btell\\b|advise|report)";
    AT_WILL = "if and when|considers? (?:this |it )?(?:appropriate|necessary|fit)|deems|at its (?:sole )?discretion|sole discretion|no obligation to (?:notify|inform)|not (?:be )?(?:obliged|required) to (?:notify|inform)";
    INTEREST = "(?:interest|late (?:charge|fee|payment)|overdue|default charge)";
    PERIOD = "month|per annum|per year|a year|annual";
    CLAIM = "(?:claim|action|suit|proceeding)[a-z]*";
    BARRED = "(?:barred|waived|may be brought|forfeit|lapse|extinguish|excluded unless|time-barred|\\blost\\b|precluded|no longer be|expires?\\b|void|not be entertained)";
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
    let processes = contract.paragraphs.iter().any(|one| of_europeans(&one) || has(one, &PROCESSING_TERMS));
    let direct = contract
        .paragraphs
        .iter()
        .filter(of_europeans)
        .find(|one| has(one, &TRANSFER) && !has(one, &PROCESSING_TERMS));
    let courts = |one: &Paragraph| one.plain.contains("court") || one.plain.contains("place of business");
    let by_place = || contract.paragraphs.iter().find(|one| processes && has(one, &OUTSIDE) && !courts(one));
    let abroad = direct.or_else(by_place);
    if let Some(one) = abroad.filter(|_| !contract.any(&TRANSFER_TERMS)) {
        let detail = "personal data leave the European Union, and nothing safeguards the transfer";
        issues.push(Issue::at(Problem::MissingTransferTerms, one.place, detail));
    }
    let transfer = direct.filter(|_| !issues.is_empty()).map(|one| one.place);
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
        let automatic = [
            "automatic",
            "renews",
            "shall renew",
            "is extended",
            "evergreen",
            "unless cancelled",
            "prolong",
            "roll",
            "tacit",
            "unless customer",
            "be extended",
            "be renewed",
        ];
        let days = if MONTHS_AHEAD.is_match(one.plain.as_bytes()) { days.max(90) } else { days };
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
        if days >= 4 && !hours || has(one, &AT_WILL) && !hours && one.plain.contains("breach") {
            let detail = if days > 0 {
                format!("the customer hears of a breach after {days} days")
            } else {
                "the customer hears of a breach if the vendor likes".into()
            };
            let mut issue = Issue::at(Problem::SlowBreachNotice, one.place, detail);
            if (4..30).contains(&days) {
                issue.severity = Severity::Low;
            }
            issues.push(issue);
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
    let late = contract.paragraphs.iter().filter(|one| has(one, &INTEREST) && has(one, &PERIOD));
    for one in late {
        let rate = numbers::percents(&one.plain).into_iter().max().unwrap_or(0);
        let rate = if one.plain.contains("month") { rate } else { rate / 12 };
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
