//! Auxiliary rules in addition to clauses and problems: who indemnifies, whose data, payment dates. The syntax is
//! described in `grammar.rs`.

use super::grammar::RuleSource;

/// Named auxiliary rules.
pub(crate) const CUE_RULES: &[RuleSource] = &[
    ("denied", &["<denied>"], &[]),
    // Indemnities.
    (
        "indemnity_by_customer",
        &[
            "customer ~6 (<must> | indemnif* | holds) ~8 (indemnif* | harmless | defend* | make good | make whole | compensat* vendor | keep vendor free | keep vendor safe | protect vendor | stand in for)",
            "(indemnif* | indemnity | harmless) ~4 by customer",
            "vendor ~10 (indemnified | held harmless | defended | kept harmless | compensated) ~4 by customer",
            "customer indemnif*",
        ],
        &[
            "customer ~3 (not | no) ~6 indemnif*",
            "customer ~3 (may | is entitled | seek*) ~6 (indemnif* | defen*)",
        ],
    ),
    (
        "indemnity_by_vendor",
        &[
            "vendor ~6 <must> ~6!be (indemnif* | harmless | defend* | compensat* customer | make good | make whole | protect customer | stand in for | keep customer) & !(vendor ~4 (not | no) ~4 (indemnif* | indemnit*))",
            "vendor ~2 (indemnifies | holds | defends) ~6 (customer | harmless)",
            "(each | either | every) (party | of parties | side | of them) ~8 (indemnif* | harmless | defend* | compensat* other)",
            "(mutual* | reciprocal*) ~3 (indemnif* | indemnit* | hold harmless)",
            "parties ~4 (shall | agree to | will | undertake to) ~6 (indemnif* | hold ~4 harmless | defend)",
            "customer ~4 (indemnified | held harmless | defended | kept harmless) ~4 by vendor",
            "(indemnif* | indemnity | harmless) ~4 by vendor",
            "(party at fault | defaulting party | responsible party | breaching party | indemnifying party | one party) ~6 (<must> | indemnif* | holds) ~6 (indemnif* | harmless | defend* | other)",
            "party ~8 (<must>) ~2 (indemnif* | defend) ~6 other",
        ],
        &[
            "vendor ~3 (gives | give | grants | provides | owes | offers) ~2 no ~4 indemnit*",
            "party seeking",
            "no indemnit* ~4 vendor",
            "customer ~4 <must> ~6 (indemnif* | defend* | harmless) & !(vendor ~2 <must>) & !each party & !either party & !parties shall",
        ],
    ),
    // Confidentiality.
    (
        "confidentiality",
        &[
            "(<must> | <maynot> | neither | agrees | undertakes | bound) ~ (hold* | keep* | kept | protect* | maintain* | treat* | safeguard* | preserv* | disclos* | guard* | reveal* | divulg* | use | respect* | share* | observ* | publish* | pass on | communicat*) ~ (confiden* | secre* | proprietary information | non public | nonpublic | sensitive information | trade secret*)",
            "(confidential | proprietary | non public | secret | sensitive) (information | matters | data | material*)? ~12 (shall | will | must | may | is to | are to | remains | is) ~6 (kept | held | protected | disclosed | used | treated | only | not | safeguarded | shared | secret | confidential)",
            "(<maynot> | not | neither) ~8 (disclos* | reveal* | divulg* | share | publish | pass on | make available) ~10 (information | secret* | confiden* | knowledge | documents | know how) & (other* | third part* | party | parties | anyone | anybody | outside*)",
            "(duty | duties | obligation | obligations | undertaking) of (confiden* | secrecy | non disclosure)",
            "(strict* | strictest) (confiden* | secre*)",
            "(recipient | receiving party) ~6 (<must> | <maynot>) ~ (information | it)",
            "non disclosure (agreement | obligations | duties)",
            "T: (confidentiality | non disclosure | secrecy | confidential information | duty of confidence)",
        ],
        &[
            "(compelled | required ~2 by law | court order | order of court) & !(hold | keep | strict)",
            "<waived>",
            "credential* | password* & !confiden*",
            "means | solicit* | compet* | no confidential information",
            "(personal information | personal data) & !confiden* & !secre*",
            "(persons | personnel | employees | auditor | those) ~8 bound ~4 (confiden* | secre*) & !(each party | neither party | shall keep | shall hold)",
        ],
    ),
    // Personal data.
    (
        "eu_people",
        &[
            "<people> & <eu>",
            "(data | records | files | details | information | profiles | histor* | accounts) ~8 (of | about | on | relating to | concerning | from | belonging to) ~6 (employees | customers | users | members | individuals | persons | people | consumers | residents | subscribers | visitors | applicants | citizens | staff | workers | guests | policyholders) & <eu>",
            "P: (personal data | personal information) & <eu>",
        ],
        &[
            "(not | neither | no) ~4 (involve* | process* | contain* | include* | receive* | collect*) ~6 (personal data | personal information | such data)",
            "customer ~2 (<maynot>) ~4 (submit* | upload* | transmit* | provide* | enter)",
            "governing law | governed by | business contact details",
        ],
    ),
    (
        "processing_terms",
        &[
            "documented instruction* | written instructions ~6 (controller | customer) | data processing (addendum | agreement | annex | terms | schedule) | data protection (addendum | agreement | annex | schedule) | dpa | article 28 | art 28",
            "(act* | is | be | as) ~4 processor ~ (controller | customer | behalf | gdpr | article | data)",
            "(process* | handle* | use*) ~10 (only | solely | exclusively | strictly) ~8 instruct*",
            "(on | in accordance with | according to | following | under | upon) ~3 instruct* of (customer | controller)",
            "controller ~8 processor | processor ~8 controller",
            "customer (written | lawful | documented)? instructions | as instructed by (customer | controller)",
            "subprocessor* ~ (authoriz* | consent | approval)",
        ],
        &["no (data processing | dpa) | without ~4 data processing agreement | <waived>"],
    ),
    (
        "transfer",
        &[
            "(transfer* | access* | host* | export* | replicat* | sent | send* | stor* | process* | locat* | moved | relay* | routed | viewed | handled | kept | maintain* | support*) ~ <abroad> & (<people> | data | records)",
            "<people> ~ <abroad>",
        ],
        &[
            "<maynot> ~8 (transfer* | export* | sent | leave* | moved) ~ (outside | abroad | third countr*) & !except",
            "only within | court* | principal place | govern* by",
        ],
    ),
    (
        "located_abroad",
        &[
            "(data center* | hosted | hosting | support center | support staff | support team | servers | subprocessor* | subprocessor* | places of processing) ~ <abroad>",
        ],
        &["court* | governed"],
    ),
    (
        "transfer_terms",
        &[
            "standard contractual clause* | model clause* | adequacy | binding corporate rule* | article 46 | chapter v | transfer mechanism | appropriate safeguards | sccs | data privacy framework | transfer impact assessment | idta | international data transfer a*",
        ],
        &["(no | without | neither) ~4 (standard contractual clause* | adequacy | safeguards | sccs)"],
    ),
    (
        "health",
        &["<health>"],
        &[
            "<maynot> ~8 (submit* | upload* | transmit* | provide* | enter | include* | contain* | send) ~8 <health>",
            "(not | no | neither) ~6 (involve* | process* | contain* | include* | receive* | collect* | designed) ~8 <health>",
            "<health> ~8 (not | prohibited | excluded) ~4 (submit* | upload* | permitted | allowed | processed)",
            "does not ~6 <health>",
        ],
    ),
    (
        "associate",
        &[
            "business associate (agreement | addendum | contract | terms | annex) | baa",
            "business associate ~ (signed | executed | attached | entered | applies | governs | concluded | act*)",
        ],
        &["(no | without | not ~4) business associate", "(no | without) baa"],
    ),
    (
        "no_people",
        &[
            "(not | neither | no) ~4 (involve* | process* | contain* | include* | receive* | collect* | handle* | access*) ~6 (personal data | personal information)",
            "<maynot> ~6 (submit* | upload* | transmit* | provide* | enter | send | include) ~8 (personal data | personal information | protected health | medical record* | health information | phi)",
            "business contact details",
            "no (personal data | personal information)",
        ],
        &[],
    ),
    // Breach notices.
    (
        "breach_notice",
        &[
            "(breach* | incident* | unauthori* access | compromis* | intrusion* | leak* | loss of data | data loss | cyber attack* | unauthori* disclosure) & <notice> & customer",
            "(notice | notification) of ~8 (breach* | incident* | unauthori* | compromis* | intrusion*)",
        ],
        &[
            "material* breach* & !(security | data | incident*)",
            "breach of (this agreement | contract | confidential*) & !(security | data)",
            "cure* | uncured | terminat* | material default",
            "prevail*",
            "priority | help desk | ticket*",
            "claim*",
        ],
    ),
    (
        "at_will_notice",
        &[
            "if and when | when it considers | considers ~3 (appropriate | necessary | fit) | deems | discretion | no obligation to (notif* | inform* | report*) | not ~3 (obliged | required | obligated) to (notif* | inform* | report* | tell) | as it sees fit | if it wishes | if vendor ~3 (considers | deems | believes | thinks) | need not ~3 (notif* | inform* | tell*) | when convenient | at its convenience | in its own time | where it sees fit | material in its",
        ],
        &[],
    ),
    // Money.
    (
        "interest",
        &[
            "(interest | late charge* | late fee* | late payment* | overdue | default charge* | default interest | past due | delinquent | arrears | finance charge | surcharge | unpaid | service charge) & @percent",
        ],
        &["expense* | liab* | increase* | price* | tax* | discount*"],
    ),
    (
        "fee",
        &[
            "(annual | yearly) ~4 (fee* | charge* | price | subscription | remuneration | rate)",
            "(fee | fees | charge | charges | price | remuneration | subscription) ~12 (@money) ~4 (per | a | each | every)? (contract)? (year | annum | annually)",
            "(fee | fees | charge | charges | price | remuneration) ~8 (amount* to | is | are | of | total*) @money",
            "@money ~4 (per | each | every)? (contract)? (year | annum | annually | yearly) & (fee* | charge* | pay* | price | remuneration | services)",
            "fees for first contract year",
            "pay* ~8 @money ~4 (per | each | every | a)? (contract)? (year | annum | annually)",
        ],
        &["set up & !annual*"],
    ),
    (
        "budget",
        &[
            "budget* | spending limit | spending authority | authoriz* spend* | authoriz* expenditure | approved spend* | spend ceiling | appropriat* ~4 @money | expenditure ceiling | financial limit set by | (may | authoriz* to) spend ~6 @money | (approved | allocated | earmarked | released | set aside) ~6 @money | @money ~6 (approved | allocated | earmarked | set aside) | funds ~4 available | (approved | available) funding | spending ~3 (cap | ceiling | approval)",
        ],
        &["liab*"],
    ),
    (
        "cap",
        &[
            "<liable> ~ <capped> & @money",
            "liab* ~3 (cap | limit | ceiling | limited) & (@money | fee* | charges)",
            "(maximum | total | aggregate | cumulative | entire | overall | combined) ~6 (liab* | exposure | recoverable | damages | compensation | recovery) & (@money | fee* | charges | month*)",
            "(damages | recover* | compensation | claims) ~ (limited to | not exceed | exceed* | capped | no more than | more than | maximum | at most | up to) ~ @money",
            "(cap | ceiling | limit) (on | of | for) ~4 (<liable> | damages | claims)",
            "<liable> ~ <capped> ~ (fee* | charges | remuneration | paid)",
            "<capped> ~ <liable> & @money",
            "@money ~ (is | be | as) ~4 (limit | maximum | most | cap | ceiling | extent) ~ <damages>",
        ],
        &[
            "insur*",
            "nothing ~ limit*",
            "liquidated | delay* | credit* | late",
            "<uncapped> & !exceed* & !limited to",
        ],
    ),
    (
        "of_both",
        &[
            "either party | each party | neither party | both parties | party total | party liab* | party ~3 liab* | liab* of party | liab* of parties | each of parties | parties liab*",
        ],
        &[],
    ),
    (
        "month_of_fees",
        &[
            "(one | @n | single | last | preceding | previous | prior) ~2 (calendar)? month & !(@n ~3 months)",
            "monthly (fee* | charge* | subscription) | month of fees | fees ~6 (for | of | in) ~4 (last | preceding | previous | single | one | that) ~2 month & !months",
            "one twelfth",
        ],
        &["@n ~3 months"],
    ),
    (
        "payment_due",
        &[
            "(pay* | settl* | discharg* | remit*) ~8 (invoice* | bill* | amounts | fees | sums | charges) ~10 (within | days | after | from | of | no later than | not later than)",
            "(invoice* | bill*) ~12 (due | payable | paid | settled | falls due | fall due | discharged) ",
            "(payment term* | terms of payment | payment period | payment target | payment deadline | credit period | credit term*)",
            "(net | strictly) @n days | @n days net | net @n",
            "(fee | fees | charges | amounts | sums | instal*) ~10 (due | payable | paid | settled) ~8 @n (days | day | calendar | business)",
            "payment* ~8 (due | within | made | falls due) ~8 @n ~2 (days | day | calendar | business)",
            "(has | have) @n ~2 days ~4 (pay | settle)",
            "@n ~2 days ~10 (invoice*) & (pay* | due | settl*)",
        ],
        &[
            "disput* & !undisputed | interest & !invoices are | overdue & !due and | suspend* | cure | commission | net revenue* | late (fee* | charge*) | refund* | revenue* | royalt* | shortfall | expense* | profit*",
            "terminat*",
        ],
    ),
    (
        "law_stated",
        &["(law | laws | jurisdiction)"],
        &[
            "(comply | complies | compliance | data protection | permitted by | required by | applicable) ~3 law*  & !govern* & !constru*",
        ],
    ),
    (
        "law_cue",
        &[
            "govern* | constru* | interpret* | control* | appl* | decided | determined | subject to | accordance | choice of | resolved | under law* | applicable law | jurisdiction | law and",
        ],
        &["(comply | complies | compliance) ~6 law* & !govern*", "section ~8 govern* ~6 law* ~6 as far as"],
    ),
    (
        "term_end",
        &[
            "<ends> ~6!<begins> @date",
            "(expir* | end) date ~4 @date",
            "(term | duration | period) ~8 @date ~3 (to | until | through) @date",
            "from ~8 to ~3 @date",
            "(end of ~4 term | expiry | expiration | end) ~4 @date",
        ],
        &["invoice* | milestone* | deliver* | payment* | interest", "go live"],
    ),
    (
        "claim_barred",
        &[
            "(claim* | action* | suit* | proceeding* | cause of action | demand* | complaint* | right* of action) & (barred | waived | may be brought | brought | forfeit* | laps* | extinguish* | excluded | time barred | lost | precluded | no longer | expire* | void | not be entertained | not be made | not be accepted | notified | raised | asserted | submitted | filed | commenced | prescribed | notify | give notice | inadmissible | not be valid | invalid | released | relinquish* | loses | lose) & @n ~3 (days | day | weeks | month | months)",
        ],
        &[
            "third party & !customer ~ claim*",
            "indemnif* | vendor ~2 (shall | will) ~4 respon* | insur* | settle*",
            "invoice* ~ disput* & !(waive* | barred)",
            "either party | neither party | each party",
            "audit*",
        ],
    ),
    // Relevance for an analyst.
    (
        "money",
        &[
            "@money",
            "(fee | fees | invoice* | price* | charges | remuneration | payment*) & (pay* | due | charge* | invoice* | is | are | shall | amount*)",
        ],
        &["no fee* | free of charge & !@money"],
    ),
    (
        "rights",
        &[
            "intellectual property & (assign* | own* | vest* | grant* | licens* | property | belong* | retain* | remain* | title | transfer*)",
            "(license | licenses | licensed | sublicens*) & (grant* | use | software | product | right* | perpetual* | irrevocable* | personal | non exclusive | customer | platform | documentation | user*)",
            "(work product | deliverable* | invention* | result* | customer data | data | material*) ~ (owned | own | owns | property of | belong* | vest* | title | assign*)",
            "(assign* | transfer* | vest* | own* | belong*) ~8 (title | copyright* | work product | deliverable* | invention* | intellectual | right title | patents)",
            "source code & (escrow | deposit* | release*)",
            "(copyright* | patent* | trademark*) & (assign* | own* | vest* | licens* | property)",
            "(right* to use | right* of use)",
            "made for hire | escrow",
        ],
        &[
            "no license ~ granted | not intend to create | not required to disclose | indemnif* | comply with | accordance with ~ licens* | licenses and permits | contest* | challeng* | consumer* | not license",
            "infring* & !grant*",
            "customer data ~6 (property of customer | belong* to customer | remain*)",
            "customer ~2 (own* | retain*) ~4 customer data",
            "assign* this agreement & !title",
            "means",
        ],
    ),
    (
        "personal",
        &[
            "<people> & !business contact",
            "<health>",
            "gdpr | hipaa | ccpa | cpra | data subject* | data protection regulation | consumer privacy",
            "californ* ~8 (consumer* | resident* | personal | user*)",
            "(consumer* | resident*) ~6 californ*",
        ],
        &[
            "(not | neither | no) ~4 (involve* | process* | contain* | include* | receive* | collect* | handle*) ~6 (personal data | personal information)",
            "<maynot> ~6 (submit* | upload* | transmit* | provide* | enter | send) ~8 (personal | protected health | <health>)",
            "business contact details",
            "discriminat* | labor",
            "means",
            "clothing",
        ],
    ),
    (
        "mitigated",
        &[
            "except (where | if | when | in case | to extent | under) | provided that | no longer relate | in which case vendor <must> | unless vendor",
        ],
        &["without limit*"],
    ),
    (
        "schedule_prevails",
        &[
            "(schedule* | order form | exhibit* | annex | appendix | statement of work) ~4 (prevail* | take precedence | takes precedence | control | controls | shall prevail)",
        ],
        &["otherwise main body"],
    ),
    (
        "body_prevails",
        &[
            "otherwise main body | (main body | body | main agreement | this agreement | terms of this agreement) ~6 (prevail* | take precedence | takes precedence | control | controls | shall prevail)",
        ],
        &[],
    ),
];
