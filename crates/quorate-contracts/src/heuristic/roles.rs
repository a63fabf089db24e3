//! Detects the terms that a contract uses for the vendor and for the customer.
//!
//! Introduced terms come first: `("Supplier")`, `hereinafter called the Client`. If two terms are introduced that do
//! not indicate a role, the verbs decide: who provides and who pays. If none are introduced, the most frequent role
//! words decide, and in plain-language contracts `we` is the vendor and `you` the customer.

use super::numbers;

/// Role words for the customer.
const CUSTOMERS: &[&str] = &[
    "customer",
    "client",
    "purchaser",
    "buyer",
    "licensee",
    "subscriber",
    "user",
    "recipient",
    "principal",
    "hirer",
    "lessee",
    "tenant",
    "franchisee",
    "distributor",
    "reseller",
    "employer",
    "owner",
    "borrower",
    "authority",
];
/// Role words for the vendor.
const VENDORS: &[&str] = &[
    "vendor",
    "supplier",
    "provider",
    "contractor",
    "consultant",
    "licensor",
    "seller",
    "manufacturer",
    "agency",
    "developer",
    "integrator",
    "processor",
    "host",
    "lessor",
    "franchisor",
    "freelancer",
    "outsourcer",
    "operator",
    "implementer",
    "publisher",
    "carrier",
];
/// Role words for either party, depending on the other.
const AMBIGUOUS: &[&str] =
    &["company", "corporation", "firm", "organization", "organisation", "partner", "agent", "bank"];
/// Terms that are introduced like parties but are not.
const NOT_PARTIES: &[&str] = &[
    "agreement",
    "party",
    "parties",
    "date",
    "services",
    "term",
    "contract",
    "affiliates",
    "affiliate",
    "effective",
    "schedule",
    "exhibit",
    "services agreement",
    "terms",
    "order",
    "platform",
    "software",
    "product",
    "fees",
    "deliverables",
    "data",
    "regulation",
    "gdpr",
    "documentation",
    "work",
    "territory",
];

/// Terms for the parties.
pub(crate) struct PartyRoles {
    /// Whether two parties are introduced.
    pub(crate) introduced: bool,
    /// Terms with their roles, longest first.
    terms: Vec<(String, &'static str)>,
}

fn has_word(term: &str, list: &[&str]) -> bool {
    term.split(' ').any(|part| list.contains(&part))
}

impl PartyRoles {
    /// Detects the roles from the opening or, if it is not conclusive, from the whole text; both normalised.
    pub(crate) fn detect(opening: &str, text: &str) -> Self {
        let introduced_terms = introduced(opening);
        let is_role = |term: &&String| {
            has_word(term, CUSTOMERS) || has_word(term, VENDORS) || has_word(term, AMBIGUOUS)
        };
        let role_terms: Vec<&String> = introduced_terms.iter().filter(is_role).collect();
        let other_terms: Vec<&String> = introduced_terms.iter().filter(|term| !is_role(term)).collect();
        let used = in_use(text, role_terms.first().copied());
        let introduced = role_terms.len() >= 2 || other_terms.len() >= 2;
        let (vendor, customer) = match (&role_terms[..], &other_terms[..]) {
            ([first, second, ..], _) => sides(first, second, text),
            // Role words used for both sides are more reliable than names.
            _ if !used.0.is_empty() && !used.1.is_empty() => used,
            (_, [first, second, ..]) => sides(first, second, text),
            _ => used,
        };
        let mut terms = Vec::new();
        terms.extend(vendor.into_iter().map(|term| (term, "vendor")));
        terms.extend(customer.into_iter().map(|term| (term, "customer")));
        if !introduced && is_plain_language(text) {
            terms.extend(["we", "us", "our", "ours"].map(|term| (term.to_owned(), "vendor")));
            terms.extend(["you", "your", "yours"].map(|term| (term.to_owned(), "customer")));
        }
        terms.sort_by_key(|(term, _)| std::cmp::Reverse(term.len()));
        Self { introduced, terms }
    }

    /// Replaces the terms for the parties by `vendor` and `customer`.
    pub(crate) fn replace_terms(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut offset = 0;
        while offset < text.len() {
            let rest = &text[offset..];
            let at_word_start = !text[..offset].ends_with(|c: char| c.is_ascii_alphanumeric());
            let term = self.terms.iter().find(|(term, _)| at_word_start && starts_with_term(rest, term));
            let (replacement, consumed) = match term {
                Some((term, role)) => (*role, term.len()),
                None => {
                    let consumed = rest.chars().next().map_or(1, char::len_utf8);
                    (&rest[..consumed], consumed)
                }
            };
            out.push_str(replacement);
            offset += consumed;
        }
        out
    }
}

fn starts_with_term(text: &str, term: &str) -> bool {
    text.strip_prefix(term).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Terms introduced for parties, in order.
fn introduced(opening: &str) -> Vec<String> {
    let mut terms: Vec<String> = Vec::new();
    let mut add = |term: &str| {
        let term = term.trim().trim_start_matches("the ").trim();
        let is_valid = (3..=30).contains(&term.len())
            && term.chars().all(|c| c.is_ascii_alphanumeric() || " -&".contains(c));
        if is_valid && !has_word(term, NOT_PARTIES) && !terms.iter().any(|existing| existing == term) {
            terms.push(term.to_owned());
        }
    };
    for (offset, _) in opening.match_indices(['"', '\'', '(']) {
        let rest = &opening[offset + 1..];
        let before = opening[..offset].trim_end();
        let mark = &opening[offset..=offset];
        let Some(end) = rest.find(if mark == "(" { ")" } else { mark }) else { continue };
        let inner = &rest[..end];
        let cue =
            ["(", "the", "as", "called", "named", "either", "hereinafter", "hereafter", "or", "collectively"];
        let is_cue = cue.iter().any(|cue| before.ends_with(cue))
            || before.ends_with(':')
            || rest[end..].starts_with("\" means");
        match mark {
            // (Supplier), (the Supplier), (hereinafter the Supplier)
            "(" => {
                let bare = ["hereinafter", "hereafter", "referred to as", "called", "the", ","]
                    .iter()
                    .fold(inner.trim().to_owned(), |text, cue| {
                        text.trim().trim_start_matches(cue).trim().to_owned()
                    });
                let is_role_word =
                    has_word(&bare, CUSTOMERS) || has_word(&bare, VENDORS) || has_word(&bare, AMBIGUOUS);
                if is_role_word && bare.split(' ').count() <= 3 {
                    add(&bare);
                }
            }
            _ if is_cue => add(inner),
            _ => {}
        }
    }
    for cue in [
        "hereinafter referred to as ",
        "hereinafter called ",
        "hereinafter ",
        "hereafter ",
        "referred to as ",
        "known as ",
    ] {
        for (offset, _) in opening.match_indices(cue) {
            let rest =
                opening[offset + cue.len()..].trim_start_matches(['"', '\'']).trim_start_matches("the ");
            let term = rest.split(['"', '\'', ',', ')', ';', '.', '\n']).next().unwrap_or_default();
            if has_word(term, CUSTOMERS) || has_word(term, VENDORS) || has_word(term, AMBIGUOUS) {
                add(term);
            }
        }
    }
    if terms.len() < 2 {
        for word in by_role(opening) {
            if !terms.iter().any(|existing| existing.split(' ').any(|part| part == word)) {
                terms.push(word.to_owned());
            }
        }
    }
    terms
}

/// Role words next to a name, in order: `Supplier: Acme Ltd`, `Acme Ltd - Supplier`, `Acme Ltd, as the Client`.
fn by_role(opening: &str) -> Vec<&'static str> {
    let mut found: Vec<(usize, &'static str)> = Vec::new();
    for word in VENDORS.iter().chain(CUSTOMERS) {
        let cues = ["{}: ", "as {}", "as the {}", "the {} is ", "- {}"];
        let positions = cues.iter().filter_map(|cue| opening.find(&cue.replace("{}", word)));
        found.extend(positions.min().map(|offset| (offset, *word)));
    }
    found.sort_unstable();
    found.into_iter().map(|(_, word)| word).collect()
}

/// Assigns two terms to vendor and customer.
fn sides(first: &str, second: &str, text: &str) -> (Vec<String>, Vec<String>) {
    let (first_terms, second_terms) = (vec![first.to_owned()], vec![second.to_owned()]);
    let pays = |term: &str| has_word(term, CUSTOMERS) && !has_word(term, VENDORS);
    let delivers = |term: &str| has_word(term, VENDORS);
    if delivers(first) && !delivers(second) || pays(second) && !pays(first) {
        return (first_terms, second_terms);
    }
    if delivers(second) && !delivers(first) || pays(first) && !pays(second) {
        return (second_terms, first_terms);
    }
    if vendor_score(first, text) >= vendor_score(second, text) {
        (first_terms, second_terms)
    } else {
        (second_terms, first_terms)
    }
}

/// Score of a term as the vendor: verbs of providing minus verbs of paying.
fn vendor_score(term: &str, text: &str) -> i64 {
    let count = |verbs: &[&str]| {
        let modals = ["shall", "will", "must", "agrees to"];
        let phrases =
            modals.iter().flat_map(|modal| verbs.iter().map(move |verb| format!("{term} {modal} {verb}")));
        phrases.map(|phrase| text.matches(&phrase).count() as i64).sum::<i64>()
    };
    count(&[
        "provide",
        "perform",
        "deliver",
        "supply",
        "license",
        "host",
        "invoice",
        "maintain",
        "make available",
        "support",
    ]) - count(&["pay", "reimburse", "purchase", "order", "accept"])
}

/// The most frequent role words, used if at most one party is introduced.
fn in_use(text: &str, known: Option<&String>) -> (Vec<String>, Vec<String>) {
    let count = |word: &&str| numbers::count_word(text, word);
    let most_frequent = |list: &[&'static str]| {
        let used: Vec<&'static str> = list.iter().copied().filter(|word| count(word) > 0).collect();
        used.into_iter().rev().max_by_key(count).map(str::to_owned)
    };
    let (mut vendor, mut customer) = (most_frequent(VENDORS), most_frequent(CUSTOMERS));
    let ambiguous = most_frequent(AMBIGUOUS);
    match (&vendor, &customer) {
        (None, Some(_)) => vendor = ambiguous,
        (Some(_), None) => customer = ambiguous,
        _ => {}
    }
    if let Some(known) = known.filter(|term| has_word(term, VENDORS) || has_word(term, CUSTOMERS)) {
        let side = if has_word(known, VENDORS) { &mut vendor } else { &mut customer };
        *side = Some(known.clone());
    }
    (vendor.into_iter().collect(), customer.into_iter().collect())
}

fn is_plain_language(text: &str) -> bool {
    let has_any = |words: &[&str]| words.iter().any(|word| numbers::count_word(text, word) > 0);
    has_any(&["we", "us", "our", "ours"]) && has_any(&["you", "your", "yours"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(opening: &str, text: &str) -> String {
        let whole = format!("{opening} {text}");
        PartyRoles::detect(opening, &whole).replace_terms(text)
    }

    #[test]
    fn roles_are_detected_for_every_form_of_introduction() {
        let openings = [
            "between a ltd (the \"buyer\") and b ltd (\"service provider\").",
            "a ltd, hereinafter referred to as the buyer, and b ltd, hereinafter called \"service provider\"",
            "(1) a ltd (hereinafter \"buyer\"); and (2) b ltd (hereinafter: the \"service provider\")",
            "a ltd (buyer) and b ltd (the service provider)",
        ];
        for opening in openings {
            let named = named(opening, "the service provider's liability to the buyer");
            assert_eq!(named, "the vendor's liability to the customer", "{opening}");
        }
    }

    #[test]
    fn roles_of_neutral_names_follow_from_the_verbs() {
        let opening = "between harrow ltd (\"harrow\") and calder inc (\"calder\").";
        let text = "calder shall provide the services. harrow shall pay the fees.";
        assert_eq!(named(opening, text), "vendor shall provide the services. customer shall pay the fees.");
    }

    #[test]
    fn in_plain_language_we_is_the_vendor_and_you_the_customer() {
        let text = named("terms of service", "we may change our prices, and you must pay us");
        assert_eq!(text, "vendor may change vendor prices, and customer must pay vendor");
    }

    #[test]
    fn without_an_introduction_the_most_frequent_role_words_decide() {
        let text =
            named("services agreement", "the consultant shall indemnify the company. the company pays.");
        assert_eq!(text, "the vendor shall indemnify the customer. the customer pays.");
    }
}
