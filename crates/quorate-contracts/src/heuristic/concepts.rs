//! Concepts used by the rules: groups of synonyms in contracts. The syntax is described in `grammar.rs`.
//!
//! A concept may use those above it. Articles are dropped, `licence` is `license`, and the parties are `vendor` and
//! `customer`.

/// Names and patterns of the concepts.
pub(crate) const CONCEPTS: &[(&str, &str)] = &[
    // Parties and subjects.
    (
        "both",
        "either party | each party | neither party | both parties | each of parties | either of them | parties | party | one party | each side | either side | both sides",
    ),
    ("someone", "vendor | customer | <both>"),
    (
        "agreement",
        "agreement | contract | terms | it | this document | statement of work | order | subscription | engagement | arrangement | relationship",
    ),
    (
        "results",
        "deliverable* | work product | result* | invention* | development* | output* | work* | foreground | material* | creation* | improvement* | whatever | everything | anything | report* | software",
    ),
    (
        "ip",
        "intellectual property | copyright* | patent* | title | ownership | proprietary right* | right title | moral right* | all rights | rights title | property right*",
    ),
    (
        "group",
        "affiliate* | subsidiar* | group | group compan* | parent | sister compan* | associated compan* | holding compan* | group member* | related compan*",
    ),
    (
        "others",
        "other* | third part* | anyone | anybody | someone else | another | elsewhere | any person | any customer | any client | customers | clients | comparable | similar* | competitor* | competing",
    ),
    (
        "price",
        "fee | fees | price* | pricing | rate | rates | charge | charges | tariff* | remuneration | subscription | cost of services | price list | hourly rates",
    ),
    (
        "cdata",
        "customer data | customer content | customer information | customer materials | customer records | customer inputs | customer files | customer own data | customer confidential data | data of customer | data provided by customer | data supplied by customer | data uploaded | data submitted | content uploaded | data that customer | data which customer | content that customer | data entrusted | data customer | information that customer | data belonging to customer | customer business data | production data | customer documents | uploaded content | uploaded data",
    ),
    (
        "people",
        "personal data | personal information | personally identifiable | personnel file* | personnel record* | employee record* | employee data | names addresses | name address* | names and addresses | contact details | purchase histor* | e mail address* | email address* | location data | data subject* | consumer profile* | profiles of | individuals | natural persons | payroll data | staff record* | hr data | private data | data about people | identity data | data of employees | customer employees | shoppers | end customers",
    ),
    (
        "health",
        "protected health information | phi | medical record* | medical data | medical information | medical histor* | medical file* | health record* | health data | health information | patient* | diagnos* | clinical | treatment histor* | treatment record* | prescription* | lab result* | laboratory result* | health plan member* | ephi | health care record* | healthcare record* | health insurance claim* | hospital",
    ),
    (
        "eu",
        "european union | eu | eea | european economic area | europe | european | europeans | gdpr | germany | france | ireland | spain | italy | netherlands | belgium | austria | poland | sweden | denmark | portugal | finland | member state | member states | german | french | irish | dutch | italian | spanish",
    ),
    (
        "abroad",
        "united states | usa | india | philippines | brazil | china | singapore | vietnam | mexico | serbia | turkey | south africa | morocco | egypt | ukraine | malaysia | indonesia | pakistan | bangladesh | sri lanka | costa rica | colombia | australia | third country | third countries | outside eea | outside eu | outside european | offshore | other countries | any country | any other country | manila | bangalore | mumbai | non eu | russia | nigeria | kenya | thailand | argentina | virginia",
    ),
    // Obligations, permissions and prohibitions.
    (
        "must",
        "shall | will | must | agrees to | agree to | undertakes to | undertake to | is to | are to | is obliged to | are obliged to | is required to | is obligated to | commits to | commit to | has to | have to | covenants to | needs to | is bound to | is under obligation to | promises to",
    ),
    (
        "may",
        "may | can | is entitled | are entitled | be entitled | has right | have right | is free | are free | reserves right | reserve right | retains right | is authorized | is permitted | is allowed | are allowed | be allowed | be permitted | at liberty | has option | have option | be free | could | has power | enjoys right | right to | authorizes | permits | permit | option to | has discretion | is at liberty | nothing stops | does not need | need not ask | as it likes | chooses to | is welcome to | holds right | shall have right | shall be able | is able",
    ),
    (
        "not",
        "not | neither | nor | never | refrain* | abstain* | prohibited | forbidden | cannot | desist* | forbear* | barred from | precluded from | no party | under no circumstances | in no event | at no time | without",
    ),
    (
        "maynot",
        "may not | shall not | will not | must not | cannot | can not | agree not to | agrees not to | agree to not | undertakes not to | undertake not to | covenants not to | covenant not to | is not permitted to | is not entitled to | is not allowed to | are not allowed to | prohibited from | refrain* from | abstain* from | neither | nor | has no right to | have no right to | shall have no right to | no right to | waives right to | waives any right to | is barred from | never | is precluded from | at no time | forbidden to | forbidden from | commits not to | promise* not to | desist from | is not to | are not to | not be entitled to | not be permitted to | not be allowed to | is unable to | has no entitlement to | does not have right to",
    ),
    (
        "waived",
        "not required | not obliged | not obligated | not bound | no obligation | no duty | no requirement | not oblige | not obligate | does not create | do not create | does not constitute | does not imply | does not give rise | does not grant | does not confer | not intended | not intend | do not intend | does not require | not to be construed | not be construed | not construed | need not | no commitment | not binding | does not provide | do not provide | decided not | agreed not to include | deliberately | no provision | not entitle | is under no | not be obliged | not be required | not be obligated | not be bound | without obligation",
    ),
    (
        "denied",
        "<waived> | nothing in this | not apply | none of | non exclusive | not exclusive | no exclusiv* | no right of first | no minimum | no escrow | no warrant* period | no third party | not agreed | no such",
    ),
    (
        "consent",
        "consent | approval | agreement | permission | authorization | approve* | agreed | consented | written assent | assent | sign off | say so",
    ),
    (
        "notice",
        "notice | notif* | inform* | tell | tells | told | advise* | announce* | communicat* | warn* | alert* | report* | let customer know",
    ),
    // Time.
    (
        "period",
        "day | days | month | months | week | weeks | year | years | hour | hours | fortnight | quarter | quarters",
    ),
    (
        "begins",
        "effective | takes effect | take effect | taking effect | comes into force | come into force | enters into force | enter into force | coming into force | comes into effect | come into effect | entry into force | into effect | into force | commence* | commencing | start date | starts | start | starting | begin | begins | beginning | with effect | in force from | in force as of | operative from | operative on | valid from | applies from | binding from | binding as of | runs from | run from | go live date | inception",
    ),
    (
        "ends",
        "until | till | through | expir* | ends | end | ended | ending | end date | terminat* | lapse* | runs to | run to | up to and including | ceases | cease | final day | last day | remain in force until | comes to end | finish* | no later than | not later than",
    ),
    (
        "renewing",
        "renew* | roll over | rolls over | rolled over | roll* forward | rollover | extend* | extension* | prolong* | tacit* | evergreen | prorogat* | auto renew* | continue for further | continue for successive | continues for further | continues for successive | continue for additional | continues for additional | continue for another | continues for another | continues thereafter for | continue year | continues year | repeat* | carry on for | carries on for | goes on for | go on for",
    ),
    (
        "ending",
        "terminat* | end | ends | ended | cancel* | withdraw* from | exit | exits | rescind* | bring to end | brought to end | leave | walk away | discontinue this | cease this | give* notice of termination | serve notice of termination",
    ),
    (
        "atwill",
        "for convenience | for its convenience | for their convenience | for own convenience | for its own convenience | convenience | without cause | without any cause | for any reason | for no reason | for any or no reason | any reason or | no reason at all | without giving reason* | without giving any reason* | without stating reason* | without stating any reason* | without reason* | with or without cause | with or without reason | at will | at its discretion | at its sole discretion | in its sole discretion | in its discretion | at its option | whenever it | for whatever reason | without having to | without need to | without needing to | without justification | without fault | no cause | need not give | even if not in breach | in absence of breach | irrespective of breach | ordinary termination | without further reason | without specifying | without showing | whether or not for cause | no grounds | without grounds | without any grounds | whatever reason | regardless of reason | as it sees fit | at its pleasure | when it likes | when it wishes | whenever",
    ),
    // Money and liability.
    (
        "liable",
        "liab* | responsible for loss* | responsible for damage* | responsibility for damage* | responsibility for loss* | legal responsibility | answerable | exposure | answer for",
    ),
    (
        "damages",
        "liab* | damages | compensation | recover* | losses | loss | indemnit* | responsib* | exposure | claims",
    ),
    (
        "capped",
        "exceed* | limited to | limited in | limited at | is limited | be limited | capped | cap | no more than | not more than | more than | greater than | higher than | up to | restricted to | ceiling | maximum | in excess of | at most | confined to | upper limit | not surpass | bounded | limit of | shall be limited | not go beyond | no greater than | beyond",
    ),
    (
        "uncapped",
        "unlimited | uncapped | without ~2 (limit* | cap | ceiling | restriction) | not limited | not be limited | not capped | not be capped | not be subject to any | not subject to any | not be subject to | no limit* | no cap | no ceiling | no upper limit | no maximum | no financial limit | no monetary limit | in full and without | to any extent | for any amount | whatever amount | irrespective of amount | regardless of amount | in unlimited amount | without regard to any limit* | without regard to any cap | in full | not restricted | not be restricted | unrestricted | knows no limit | full extent of",
    ),
    (
        "nolimit",
        "limitation* | limit | limits | cap | caps | ceiling | ceilings | exclusion* | restriction of liability | maximum amount | maximum",
    ),
    (
        "owner",
        "own | owns | owned | owner | property | belong* | vest* | title | ownership | proprietor | proprietary",
    ),
    (
        "improve",
        "train* | improv* | develop* | enhanc* | machine learning | artificial intelligence | ai | algorithm* | model | models | analytic* | benchmark* | commercial* | moneti* | exploit* | product development | research | build new | create new | data products | own purposes | own business purposes | own benefit | any purpose | any purposes | other customers | other clients | resell* | market insight* | statistic*",
    ),
];
