//! Which of the 41 types of clauses a contract has: rules as data, over plain paragraphs.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::reading::{Contract, Paragraph, any_of};
use crate::contracts::Clause;

/// What a type of clause sounds like. A paragraph has it if one of `any` is in it and none of `not`.
struct Rule {
    clause: Clause,
    any: Regex,
    not: Option<Regex>,
}

/// A clause that was found.
pub(crate) struct Found {
    pub(crate) clause: Clause,
    /// The paragraph that has it; nothing for the title.
    pub(crate) place: Option<usize>,
}

const DATE: &str = r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|(?:january|february|march|april|may|june|july|august|september|october|november|december) [0-9]{1,2}|[0-9]{1,2}(?:st|nd|rd|th)?(?: day of)? (?:january|february|march|april|may|june|july|august|september|october|november|december))";

/// In the order of CUAD. `~` is a short way within a sentence, `DATE` a date.
const RULES: &[(Clause, &[&str], &[&str])] = &[
    (
        Clause::AgreementDate,
        &["(?:is dated|dated as of|dated|agreement date|entered into|made|executed|signed)~DATE"],
        &["effective date"],
    ),
    (
        Clause::EffectiveDate,
        &[
            "(?:commencement|start|starting) date[^.]{0,12} DATE",
            "with effect from DATE",
            "(?:comes?|enters?|entry) into force~DATE",
            "(?:shall )?(?:commence|begin|start)s? on DATE",
            "effective date\" (?:means|is|shall)~DATE",
            "(?:takes? effect|becomes? effective|effective (?:as of|from|on)|in force from|commences?)~DATE",
            "effective date: ?DATE",
            "effective date:? ?(?:is )?DATE",
        ],
        &["(?:expire|expiring|expiration|terminate automatically)~DATE"],
    ),
    (
        Clause::ExpirationDate,
        &[
            "(?:expiry|runs?|lasts?|valid|in force|in effect|lapses?|end date)~DATE",
            "(?:expir[a-z]+|terminate automatically|until|ends?|end of the [a-z]* ?term|continue[sd]?|through|subscription term)~DATE",
        ],
        &["take[s]? effect"],
    ),
    (
        Clause::RenewalTerm,
        &[
            "extended automatically",
            "further (?:term|period)s? of",
            "tacit",
            "evergreen",
            "(?:is|be|are) prolonged",
            "(?:additional|further|successive)[a-z -]* (?:terms|periods) of",
            "(?:automatically (?:renew|extend)|renews? (?:automatically|for)|(?:shall|will) (?:renew|be renewed|be extended|be prolonged)|may be renewed|be renewed for|(?:is|are) (?:extended|renewed|prolonged) (?:by|for)|option to (?:extend|renew)|(?:extend|renew|prolong) the (?:term|agreement)|roll(?:s)? over|successive (?:terms?|periods?|renewal))",
        ],
        &["do not renew", "does not renew automatically"],
    ),
    (
        Clause::NoticePeriodToTerminateRenewal,
        &[
            "(?:renew|extend|prolong|roll)[a-z]*~(?:notice|notif|inform|cancel|object)[a-z]*~(?:days|months)",
            "(?:notice|notif|inform|cancel|object)[a-z]*~(?:renew|extend|prolong)[a-z]*~(?:days|months)",
            "(?:notice|cancel|notif)[a-z]*~(?:days|months)~(?:renew|extended|prolonged)",
            "renews?~\\. ?to prevent~days",
            "(?:renew|extend|prolong)[a-z]*~(?:days|months)[^.]{0,30} notice",
        ],
        &["option to (?:extend|renew)", "may be renewed"],
    ),
    (
        Clause::GoverningLaw,
        &[
            "law applicable to this agreement",
            "(?:in accordance with|subject to|governed by) (?:the )?(?:english|german|irish|french|swiss|dutch|austrian|italian|spanish|scottish|new york|californian?|delaware|texas) law",
            "(?:govern|constru|control|interpret|decided|resolved|subject)[a-z]*~laws? of",
            "governing law:",
            "laws? of [a-z ]+ (?:shall )?(?:appl(?:y|ies)|governs?)",
            "governed by [a-z]+ law",
        ],
        &[],
    ),
    (
        Clause::MostFavoredNation,
        &[
            "not (?:be )?higher than~(?:any|other)",
            "as favou?rable as",
            "(?:lower|better|more favou?rable)[a-z ]* (?:price|rate|fee|term|condition)s?~(?:other|third|anyone|comparable|similar)",
            "match~(?:lower|better) (?:price|offer)",
            "no less favou?rable than",
            "more favou?rable (?:terms|prices?|conditions)",
            "best price",
            "lowest price",
            "offers? (?:a )?(?:lower|better) (?:price|terms)",
            "most favou?red (?:nation|customer)[^.]*\\. ?should",
        ],
        &["no claim to"],
    ),
    (
        Clause::NonCompete,
        &[
            "(?:not|neither|nor|refrain|abstain)~(?:in competition with|rival)",
            "(?:shall not|will not|may not|must not|agrees? not to|undertakes not to|covenants not to|refrain from|neither|nor)~(?:compet(?:e|es|ing|itive)\\b)",
        ],
        &[
            "nothing in",
            "shall not apply",
            "does not apply",
            "confidential information",
            "exclusively",
            "and may compete with",
            "freely assign",
            "acquired by",
        ],
    ),
    (
        Clause::Exclusivity,
        &[
            "(?:appoint|engage|use|retain) (?:any|no) other",
            "sole source",
            "solely (?:from|with|through) (?:vendor|customer)",
            "only (?:from|to|with|through) (?:vendor|customer)\\b",
            "to no (?:other|one else)",
            "exclusively (?:to|from|with|for) (?:customer|vendor)",
            "(?:sole(?: and exclusive)?|exclusive) (?:distributor|provider|supplier|dealer|reseller|source|vendor|agent)",
            "(?:shall|will) not (?:license|provide|supply|offer|obtain|purchase|procure|buy|sell|source)~(?:any other|any third|third part|other than|from others)",
            "all of its requirements",
            "exclusively within",
            "exclusive(?:ly)? basis",
        ],
        &[
            "not exclusive",
            "non-exclusive (?:and|relationship)",
            "negotiate exclusively",
            "not imply",
            "sublicense",
            "personal information",
            "customers? of customer",
        ],
    ),
    (
        Clause::NoSolicitOfCustomers,
        &[
            "(?:not|neither|nor|refrain|abstain)~(?:poach|lure|target|market to|entice|approach)[a-z]*~(?:customers|clients|clientele|any customer)",
            "(?:not|neither|refrain|nor)~(?:solicit|divert|induce|contact|approach|canvass|entice)[a-z]*~(?:customers|clients|any customer|any client|clientele)",
        ],
        &[],
    ),
    (
        Clause::CompetitiveRestrictionException,
        &[
            "(?:restriction|non-compet[a-z]+|covenant|prohibition)[a-z]*~(?:shall|does|do|will) not (?:apply|extend|prevent)",
            "nothing~(?:prohibit|prevent|restrict|preclude)[a-z]*~compet",
            "notwithstanding~(?:restriction|compet[a-z]+)~may",
        ],
        &["liab"],
    ),
    (
        Clause::NoSolicitOfEmployees,
        &[
            "(?:not|neither|nor|refrain|abstain)~(?:poach|lure|offer employment|head-?hunt|make an offer|entice|approach)[a-z]*~(?:employees?|personnel|staff|team)",
            "(?:not|neither|refrain|nor)~(?:solicit|hire|recruit|induce|employ|engage|entice|poach)[a-z]*~(?:employees?|personnel|staff|workforce)",
            "not to solicit~employees",
            "engages? an employee of the other",
        ],
        &["are not employees", "not entitled to any benefit"],
    ),
    (
        Clause::NonDisparagement,
        &[
            "denigrat",
            "belittl",
            "(?:negative|detrimental|damaging|unfavou?rable|critical) (?:statement|comment|remark)",
            "(?:bring|brings)~into disrepute",
            "(?:harm|damage|injure)[a-z]* the (?:reputation|good name|standing)",
            "disparag",
            "derogatory",
            "defamatory",
            "speak ill of",
        ],
        &["truthful reviews"],
    ),
    (
        Clause::TerminationForConvenience,
        &[
            "\\b(?:terminate|end|cancel|withdraw from)\\b~(?:without (?:stating|giving|having to give|need for) (?:a |any )?reasons?|at its (?:sole )?(?:discretion|option)|for whatever reason|whenever it|at will)",
            "terminat[a-z]+~(?:for (?:its |their |his )?(?:own )?convenience|without cause|for any reason or|for any or no reason|with or without cause|without giving (?:any )?reasons?)",
            "(?:may|right to|entitled to) (?:terminate|end|cancel) this agreement at any time",
            "for convenience by",
        ],
        &[],
    ),
    (
        Clause::RofrRofoRofn,
        &[
            "first (?:right|option|chance) to",
            "pre-?empti",
            "before (?:offering|selling|negotiating)[^.]*(?:third part|anyone else|others)[^.]*(?:offer|customer)",
            "rights? of first (?:refusal|offer|negotiation)",
            "(?:shall|must) first offer",
            "first opportunity to",
        ],
        &[],
    ),
    (
        Clause::ChangeOfControl,
        &[
            "acquires? (?:the )?control",
            "(?:merger|acquisition|sale of (?:all|substantially all))[^.]*(?:terminat|notif|consent|withdraw)",
            "(?:ownership|shareholding|voting)[^.]*(?:change|transfer)[a-z]*~terminat",
            "(?:taken over|takeover)",
            "change (?:of|in) control~(?:terminat|notif|consent|end this|inform)",
            "control of (?:vendor|customer|a party|either party)~acquired",
            "(?:acquired by|merges? with) a competitor~(?:terminat|end)",
            "(?:terminat|end)[a-z]*~(?:change (?:of|in) control|comes under the control)",
        ],
        &["has the meaning given"],
    ),
    (
        Clause::AntiAssignment,
        &[
            "(?:non-?|not )assignable",
            "assign[a-z]*~(?:requires?|subject to|only with|needs?)~(?:consent|agreement|approval)",
            "without~(?:consent|approval)~(?:assign|transfer)[a-z]* this agreement",
            "assign[a-z]*~(?:null and void|is void|of no effect)",
            "(?:may|shall|can|will|must) ?not~(?:assign|transfer|delegate|novate)[a-z]*~(?:this agreement|the agreement|rights or obligations|its rights)",
            "neither party~(?:assign|transfer)",
            "(?:agreement|rights)~(?:may|shall|can) ?not be (?:assigned|transferred)",
            "no assignment~(?:without|unless)",
        ],
        &["license granted", "use (?:the )?documentation", "rights to use"],
    ),
    (
        Clause::RevenueProfitSharing,
        &[
            "(?:share|percentage|portion|part) of (?:the |its |all )?(?:net |gross )?(?:revenues?|proceeds|profits|income|sales|receipts|turnover)",
            "referral fee",
            "(?:split|divide)[a-z]*~(?:revenue|profit|proceeds)",
            "share (?:in )?the (?:profits|revenues?)",
            "of the (?:net|gross) (?:revenue|proceeds|sales)",
            "commission of",
            "(?:revenue|profit)[ -]shar",
            "royalt(?:y|ies) of",
            "percent[a-z]* of~(?:revenues?|profits|sales|amounts actually collected)",
        ],
        &["do not share", "less than ten percent", "from competing"],
    ),
    (
        Clause::PriceRestrictions,
        &[
            "(?:fees|prices|rates|charges)[^.]*(?:may|shall|will) not (?:be )?(?:increase|rise|raised|go up)",
            "price (?:lock|freeze|hold|protection)",
            "(?:ceiling|cap) on~(?:price|fee|increase)",
            "inflation|consumer price",
            "(?:increase|raise|adjust|rise|escalat)[a-z]*~(?:exceed|more than|limited to|lesser of|capped|beyond)",
            "(?:fees|prices|rates|charges) (?:are|shall be|remain|shall remain) (?:fixed|firm|unchanged)",
            "more than [^.]{0,40}(?:percent|per cent|%) (?:per|a) year",
        ],
        &["at any time and in any amount", "without limitation as to", "liab"],
    ),
    (
        Clause::MinimumCommitment,
        &[
            "commits? (?:itself )?to (?:spend|purchase|buy|order)",
            "minimum that customer",
            "guaranteed minimum",
            "(?:makes? up|pay)~shortfall",
            "(?:spend|purchases?|orders?|volume) of (?:at least|no less than|not less than)",
            "minimum (?:commitment|annual|purchase|spend|order|quantit|volume)",
            "(?:purchase|order|buy|spend)[a-z]*~(?:no less than|not less than|at least|a minimum of)",
            "minimum purchases",
            "take[ -]or[ -]pay",
            "guarantees? (?:a )?minimum",
        ],
        &["not binding", "not oblige", "no obligation"],
    ),
    (
        Clause::VolumeRestriction,
        &[
            "(?:up to|no more than|at most|not exceed) [0-9][0-9,]* (?:[a-z]+ ){0,3}(?:profiles|users|transactions|records|seats|devices|requests|calls|queries|orders)",
            "(?:quota|allowance|ceiling|threshold) of~(?:users|transactions|requests|calls|records|seats)",
            "(?:up to|no more than|not more than|not exceed|maximum of|limited to)~(?:users|transactions|requests|seats|calls|records|gigabytes|units|queries)~(?:excess|beyond|further|additional|throttle|per (?:month|year|contract year)|surcharge|overage)",
            "(?:up to|no more than|maximum of|limited to)[^.]{0,60}(?:authorized users|named users|transactions per|requests per|support requests)",
        ],
        &["unlimited", "train up to"],
    ),
    (
        Clause::IpOwnershipAssignment,
        &[
            "(?:transfers?|conveys?|cedes?)\\b~(?:ownership|title|intellectual property|copyright)",
            "(?:deliverables|work product|results|inventions|developments)[^.]*(?:belongs?|shall belong) to (?:customer|vendor)",
            "becomes? the (?:sole |exclusive )?property of",
            "customer (?:shall own|owns|will own|is the owner of)~(?:deliverables|work product|results|inventions|developments)",
            "assigns?\\b~(?:right,? title|all (?:of its )?rights|title and interest|intellectual property|to customer|to vendor)",
            "works? made for hire",
            "(?:ownership|title)~(?:vests?|pass(?:es)?|transfers?)\\b",
            "(?:deliverables|work product|results|inventions)~(?:sole|exclusive) (?:and exclusive )?property of",
            "(?:deliverables|work product|results)~(?:shall be|are|is) owned (?:exclusively |solely )?by (?:customer|vendor)",
        ],
        &["assigns? this agreement"],
    ),
    (
        Clause::JointIpOwnership,
        &[
            "owned by (?:the parties|both parties|them|both) (?:jointly|in common|together|in equal)",
            "belongs? to (?:both|the) parties (?:jointly|in equal|in common|together)",
            "tenants in common",
            "held in common",
            "jointly own",
            "joint(?:ly)? owne[rd]",
            "joint ownership",
            "equal undivided",
            "co-own",
            "owned jointly",
        ],
        &["do not intend", "no joint", "not create any joint"],
    ),
    (
        Clause::LicenseGrant,
        &[
            "\\bgrants?\\b~permission to use",
            "hereby licenses",
            "licenses~to customer",
            "(?:has|have|shall have|is given) (?:a|the) (?:non-exclusive|limited|worldwide|perpetual)[^.]*licen[sc]e",
            "\\bgrants\\b~licen[sc]es?\\b",
            "receives? an?~license",
            "includes a license",
            "is (?:hereby )?granted an?~licen[sc]e",
            "\\bgrants\\b~right (?:and license )?to (?:use|access|install)",
        ],
        &["no license is granted", "right of first"],
    ),
    (
        Clause::NonTransferableLicense,
        &[
            "licen[sc]e[^.]*(?:cannot|may not|must not|not be|shall not)~(?:transfer|sub-?licen|assign|pass)",
            "(?:not|never)~sub-?licen[sc]e",
            "non-?transferable",
            "(?:license|rights?)~(?:may|shall|can) ?not be~(?:transferred|sublicensed)",
            "(?:shall|may|will) not (?:sublicense|sell|rent|lend|transfer)~(?:rights to use|license|licence)",
            "license~personal to",
        ],
        &[],
    ),
    (
        Clause::AffiliateLicenseLicensor,
        &[
            "(?:group companies|parent compan(?:y|ies)|sister companies|subsidiaries) of vendor",
            "vendor shall (?:procure|ensure)~affiliates?~(?:grant|licen)",
            "vendor's (?:affiliates?|parent|subsidiaries)~(?:licen|grant|own)",
            "vendor,? (?:on behalf of itself and|and|or any of) its affiliates~(?:grants?|licen|infring)",
            "affiliates? of vendor~(?:own|grant)",
            "owned by vendor(?:'s| or)~(?:parent|subsidiar|affiliate)",
            "cause~affiliates? to grant",
        ],
        &[],
    ),
    (
        Clause::AffiliateLicenseLicensee,
        &[
            "customer's (?:affiliates|subsidiaries|group)[^.]*(?:may|entitled to|right to)~(?:use|access)",
            "(?:affiliates|subsidiaries|group companies)[^.]{0,40}of customer[^.]*(?:may|entitled to|right to)~(?:use|access)",
            "customer and (?:any|each|all) of its~(?:affiliates|subsidiaries)~(?:use|licen)",
            "customer and its (?:affiliates|subsidiaries|group)~licen",
            "licen[a-z]+~customer and its (?:affiliates|subsidiaries|group)",
            "grants?~customer and its (?:affiliates|subsidiaries)",
            "affiliates of customer (?:may|are entitled to|shall be entitled to) use",
            "extend~(?:license|rights)~(?:subsidiar|affiliate)",
        ],
        &["third[- ]party beneficiar"],
    ),
    (
        Clause::UnlimitedLicense,
        &[
            "any number of (?:users|copies|devices|seats|employees)",
            "unlimited (?:quantity|access|seats|copies|deployment)",
            "as many~(?:users|copies|devices)~as",
            "without (?:any )?(?:limit|restriction|cap)[a-z]*~(?:users|copies|seats|devices)",
            "unlimited (?:number of )?(?:users|copies|installations|use|license)",
            "enterprise-wide licen",
            "no limit on the number of (?:users|copies|devices|seats|installations)",
            "all[- ]you[- ]can[- ]eat",
            "without limit(?:ation)? (?:as to|on) the number of",
        ],
        &["channels", "sessions"],
    ),
    (
        Clause::IrrevocableOrPerpetualLicense,
        &[
            "(?:licen[sc]e|right to use|rights?)[^.]*(?:in perpetuity|for ever|forever|cannot be revoked|may not be revoked|never (?:end|expire)|does not end)",
            "(?:perpetual|irrevocable)[^.]{0,80}(?:license|licence|right to use)",
            "(?:license|licence|right to use)[^.]{0,160}(?:perpetual|irrevocable|unlimited in time|without limit in time)",
        ],
        &["irrevocably assigns", "vest"],
    ),
    (
        Clause::SourceCodeEscrow,
        &[
            "(?:deposit|lodge)[a-z]*~source code",
            "source code~(?:trustee|custodian|depositary|independent third party)",
            "escrow",
        ],
        &["not required", "no obligation", "shall not be (?:required|obliged)"],
    ),
    (
        Clause::PostTerminationServices,
        &[
            "(?:after|following|upon|on) (?:the )?(?:end|expir[a-z]+|termination|cessation)[^.]*(?:shall|will|may)~(?:continue|assist|export|hand over|return|support|migrat|retrieve|transition)",
            "(?:transition|termination|exit|disengagement) (?:assistance|services|support)",
            "wind-?down",
            "(?:after|upon|following)~(?:expiration|termination|expiry|the end of (?:this|the) agreement)~(?:shall|will) (?:provide|continue|make|assist|support|return|deliver|cooperate)",
            "(?:days|months) after termination~(?:shall|will) (?:make|provide|continue)",
            "(?:delete|return)[a-z]* (?:or|and) (?:return|delete)~(?:at|upon|after) (?:the )?(?:end|termination|expir)",
            "assist~(?:orderly|migration)",
        ],
        &[],
    ),
    (
        Clause::AuditRights,
        &[
            "(?:may|right to|permit|entitled to|allow)~(?:review|verify|check)~(?:books|records|premises|facilities|controls)",
            "access to~(?:books|records)~(?:verif|audit|inspect|check)",
            "(?:may|right to|permit|entitled to|allow)~(?:audit|inspect|examine)",
            "unrestricted access~(?:systems|records|premises|verif)",
            "rights? of (?:audit|inspection)",
        ],
        &["audit report\" means"],
    ),
    (
        Clause::UncappedLiability,
        &[
            "liab[a-z]*~(?:no (?:limit|cap|ceiling)|not (?:be )?(?:limited|capped|restricted))",
            "(?:without (?:any )?(?:limit|limitation|cap|ceiling))[^.]*liab",
            "liab~(?:unlimited|without limit|uncapped|not be subject to any (?:limit|cap))",
            "unlimited~liab",
            "(?:limitations?|caps?|limits?|exclusions?)~(?:shall|does|do|will) not (?:apply|benefit|extend)",
            "nothing~(?:limit|exclud)[a-z]*~liab",
            "limitations?~apply to vendor only",
            "no (?:cap|limit)~(?:benefit|apply|liab)",
        ],
        &["restriction", "compet", "number of", "consent of"],
    ),
    (
        Clause::CapOnLiability,
        &[
            "liab[a-z]*~(?:not be greater than|no(?:t)? more than|up to (?:a maximum|an amount|usd|eur|gbp)|restricted to|ceiling)",
            "(?:damages|compensation|claims)[^.]*(?:limited to|not exceed|shall not be more than)[^.]*(?:fees|usd|eur|gbp|amount)",
            "ceiling (?:on|of)~liab",
            "liab[a-z]*~(?:exceed|limited to|capped at)",
            "liability cap",
            "maximum (?:aggregate )?(?:liability|amount recoverable)",
            "(?:cap|ceiling|limit) (?:on|of) (?:its |the |their )?liability (?:is|of|shall)",
            "not be liable~(?:more than|in excess of|exceeding)",
        ],
        &["insurance with limits"],
    ),
    (
        Clause::LiquidatedDamages,
        &[
            "(?:fixed|lump[- ]sum|predetermined|stipulated|agreed) (?:damages|compensation)",
            "genuine pre-?estimate",
            "for (?:each|every)[a-z ]* (?:day|week)[^.]*(?:delay|late)",
            "liquidated damages",
            "reasonable (?:pre-)?estimate of",
            "termination (?:charge|fee|payment) (?:of|equal)",
            "fees that would have become due",
            "agreed damages",
            "contractual penalty",
        ],
        &["decided not", "not to provide for"],
    ),
    (
        Clause::WarrantyDuration,
        &[
            "(?:defects?|non-conformit[a-z]*|faults?)[^.]*(?:within|during|for)[^.]*(?:days|months|years)[^.]*(?:delivery|acceptance|go-live)",
            "guarantee[sd]?~(?:for|period)~(?:days|months|years)",
            "warrant[a-z]*~(?:for a period|period of|expires?|lasts?|within that period|(?:for|during)[^.]{0,40}(?:days|months|years))",
            "warranty period",
        ],
        &["disclaims"],
    ),
    (
        Clause::Insurance,
        &[
            "(?:shall|will|must)[^.]*(?:be insured|insurance polic|policy of insurance)",
            "certificates? of insurance",
            "(?:maintain|carry|keep|procure|obtain|hold|take out|effect)[a-z]*~(?:insurance|insured|coverage)",
        ],
        &["insurance costs\" means"],
    ),
    (
        Clause::CovenantNotToSue,
        &[
            "not (?:to )?(?:assert|pursue|commence|institute|initiate)[^.]*(?:claim|action|suit|proceedings)[^.]*against",
            "waives? (?:any|all|its) (?:right to sue)",
            "never (?:question|oppose|attack|challenge)",
            "not to sue",
            "(?:not|never)~(?:contest|challenge|dispute|attack)~(?:validity|ownership|title|enforceab)",
            "(?:not|never) bring~(?:claim|action|suit)~(?:against|releases)",
            "releases all~claims",
            "covenants? not to (?:sue|assert)",
        ],
        &["barred", "more than"],
    ),
    (
        Clause::ThirdPartyBeneficiary,
        &[
            "(?:affiliates|licensors|indemnitees|indemnified persons|third part[a-z]*)[^.]*(?:may|can|entitled to|right to) (?:directly )?enforce",
            "third[- ]party beneficiar",
            "entitled to enforce~as if",
            "may enforce (?:it|this|these)~own name",
        ],
        &["no other person", "no third part", "not intended", "sole benefit", "no person"],
    ),
];

static COMPILED: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let all = |patterns: &[&str]| {
        let dated: Vec<String> = patterns.iter().map(|one| one.replace("DATE", DATE)).collect();
        any_of(&dated.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let rule = |(clause, any, not): &(Clause, &[&str], &[&str])| Rule {
        clause: *clause,
        any: all(any),
        not: (!not.is_empty()).then(|| all(not)),
    };
    RULES.iter().map(rule).collect()
});

/// The clauses of a contract, in the order of CUAD; each once, where it stands first.
pub(crate) fn find(contract: &Contract) -> Vec<Found> {
    let mut found = Vec::new();
    let title = contract.title.to_lowercase();
    if ["agreement", "contract", "terms", "addendum", "order"].iter().any(|word| title.contains(word)) {
        found.push(Found { clause: Clause::DocumentName, place: None });
    }
    if contract.has_parties {
        found.push(Found { clause: Clause::Parties, place: Some(0) });
    }
    for rule in COMPILED.iter() {
        let paragraphs = contract.paragraphs.iter();
        let place = paragraphs.filter(|one| rule.fits(one.plain.as_bytes())).map(|one| one.place).next();
        // A date of the agreement stands where it begins: later ones are of something else.
        let place = place.filter(|place| rule.clause != Clause::AgreementDate || *place < 8);
        found.extend(place.map(|place| Found { clause: rule.clause, place: Some(place) }));
    }
    // Where nothing is restricted there is nothing to except from.
    let restricts = |one: &Found| matches!(one.clause, Clause::NonCompete | Clause::Exclusivity);
    if !found.iter().any(restricts) {
        found.retain(|one| one.clause != Clause::CompetitiveRestrictionException);
    }
    found
}

impl Rule {
    fn fits(&self, plain: &[u8]) -> bool {
        self.any.is_match(plain) && !self.not.as_ref().is_some_and(|not| not.is_match(plain))
    }
}

/// The places of all paragraphs that sound like a type of clause.
pub(crate) fn places(contract: &Contract, clause: Clause) -> Vec<usize> {
    let rules = COMPILED.iter().filter(|rule| rule.clause == clause);
    let fits =
        rules.flat_map(|rule| contract.paragraphs.iter().filter(|one| rule.fits(one.plain.as_bytes())));
    fits.map(|one| one.place).collect()
}

/// Whether a paragraph sounds like a type of clause.
pub(crate) fn is_in(paragraph: &Paragraph, clause: Clause) -> bool {
    COMPILED.iter().any(|rule| rule.clause == clause && rule.fits(paragraph.plain.as_bytes()))
}
