//! A contract as a reader sees it: paragraphs with their labels, in plain words, with the parties called vendor and customer.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

/// How much of a text is read.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

/// A contract, read.
pub(crate) struct Contract {
    /// Its paragraphs without headings, in order.
    pub(crate) paragraphs: Vec<Paragraph>,
    /// The first line that says anything.
    pub(crate) title: String,
    /// Whether two parties name themselves.
    pub(crate) has_parties: bool,
    /// The text was longer than is read.
    pub(crate) cut: bool,
}

/// A paragraph.
pub(crate) struct Paragraph {
    /// `Section 4.02`, or the heading above it where nothing is numbered.
    pub(crate) label: String,
    /// As it stands in the contract, on one line.
    pub(crate) quote: String,
    /// In lower case, ASCII, the parties as `vendor` and `customer`; a point between digits is `_`, so that points end sentences.
    pub(crate) plain: String,
    /// It stands in a schedule, exhibit or annex.
    pub(crate) in_schedule: bool,
    /// Its place among the paragraphs.
    pub(crate) place: usize,
}

/// Words for the one who pays.
const CUSTOMERS: &[&str] =
    &["customer", "client", "purchaser", "buyer", "licensee", "subscriber", "recipient", "company"];
/// Words for the one who delivers, for contracts that do not introduce their parties.
const VENDORS: &[&str] =
    &["vendor", "supplier", "provider", "contractor", "consultant", "licensor", "seller"];

/// One of several patterns.
pub(crate) fn any_of(patterns: &[&str]) -> Regex {
    regex(&format!("(?:{})", patterns.join(")|(?:")))
}

/// A pattern over plain words.
pub(crate) fn regex(pattern: &str) -> Regex {
    // `~` is a short way within a sentence.
    let pattern = pattern.replace('~', "[^.]*?");
    RegexBuilder::new(&pattern)
        .unicode(false)
        .build()
        .expect("the rules are constants, and tests compile each")
}

static LABEL: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:(?:section|article|clause|sec\.)\s+[0-9ivxlc]+[0-9_.]*\.?|[0-9]{1,3}(?:[_.][0-9]{1,3})*\.?|\([0-9a-z]{1,4}\)|sect ?[0-9]+)\s+",
    )
});
static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:article [ivxlc0-9]+|section [ivxlc0-9]+|[0-9]{1,2}\.|sect [0-9]+|schedule|exhibit|annex|appendix)\b",
    )
});
static SCHEDULE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:schedule|exhibit|annex|appendix|attachment|order form)\b"));
static ROLE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"\((?:hereinafter |hereafter |each |collectively |individually )*(?:referred to as |called |the )*(?:the )?"([a-z][a-z ]{2,30})"(?: or [^)]{0,60})?\)"#,
    )
});
/// A paragraph that is there in name only.
static VOID: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:[a-z ,;/&'-]{0,60}[:.] ?)?\[? ?(?:reserved|intentionally (?:left blank|omitted)|not applicable|n/a|none|deleted|omitted|this section)[a-z ]{0,60}\.? ?\]?\.?$",
    )
});

impl Contract {
    /// Reads a contract.
    pub(crate) fn read(text: &str) -> Self {
        let cut = text.len() > TEXT_BYTES_MAX;
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let pieces: Vec<String> = pieces(&text[..end]);
        let opening: String = pieces.iter().take(12).map(|piece| plain(piece)).collect::<Vec<_>>().join(" ");
        let roles = Roles::found_in(&opening);
        let title = pieces.first().cloned().unwrap_or_default();
        let (mut heading, mut in_schedule, mut paragraphs) = (String::new(), false, Vec::new());
        for piece in &pieces {
            let bare = plain(piece);
            if is_heading(piece, &bare) {
                in_schedule |= SCHEDULE.is_match(bare.as_bytes());
                heading.clone_from(piece);
                continue;
            }
            let label_end = LABEL.find(bare.as_bytes()).map_or(0, |found| found.end());
            let named = roles.name(&bare[label_end..]);
            if VOID.is_match(named.as_bytes()) {
                continue;
            }
            let number = bare[..label_end].trim().trim_end_matches('.').replace('_', ".");
            let label = match (number.is_empty(), heading.is_empty()) {
                (false, _) if number.starts_with(['(', 's']) && !heading.is_empty() => {
                    format!("{heading} {number}")
                }
                (false, _) => number,
                (true, false) => heading.clone(),
                (true, true) => "the opening".to_owned(),
            };
            let place = paragraphs.len();
            paragraphs.push(Paragraph { label, quote: piece.clone(), plain: named, in_schedule, place });
        }
        Self { paragraphs, title, has_parties: roles.introduced, cut }
    }

    /// The whole text in plain words, for what may stand anywhere.
    pub(crate) fn any(&self, pattern: &Regex) -> bool {
        self.paragraphs.iter().any(|paragraph| pattern.is_match(paragraph.plain.as_bytes()))
    }
}

/// Paragraphs: separated by empty lines, on one line each.
fn pieces(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n");
    let blocks = text.split("\n\n").flat_map(|block| {
        // A heading on two lines belongs together; a list of parties does not, but reads as well on one line.
        [block.split_whitespace().collect::<Vec<_>>().join(" ")]
    });
    blocks.filter(|block| !block.is_empty()).collect()
}

/// Lower case and ASCII.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let chars: Vec<char> = text.chars().collect();
    for (at, &c) in chars.iter().enumerate() {
        let between_digits = |c: char| {
            c == '.'
                && at > 0
                && chars[at - 1].is_ascii_digit()
                && chars.get(at + 1).is_some_and(char::is_ascii_digit)
        };
        match c {
            '\u{201c}' | '\u{201d}' => out.push('"'),
            '\u{2018}' | '\u{2019}' => out.push('\''),
            '\u{2013}' | '\u{2014}' => out.push('-'),
            '\u{a7}' => out.push_str("sect"),
            '\u{20ac}' => out.push_str("eur "),
            '\u{a3}' => out.push_str("gbp "),
            '$' => out.push_str("usd "),
            _ if between_digits(c) => out.push('_'),
            _ if c.is_ascii() => out.push(c.to_ascii_lowercase()),
            _ => out.push('?'),
        }
    }
    out
}

/// Short, without a full stop, and either numbered, or in capitals, or the name of a schedule.
fn is_heading(piece: &str, bare: &str) -> bool {
    let short =
        piece.len() <= 90 && !piece.ends_with(['.', ';', ':', ',']) && !piece.contains(['"', '\u{201c}']);
    let letters = piece.chars().filter(|c| c.is_alphabetic());
    let capitals = piece.chars().any(char::is_alphabetic) && letters.clone().all(|c| !c.is_lowercase());
    short && (capitals || HEADING.is_match(bare.as_bytes()) && !bare.contains(" shall "))
}

/// What the parties call themselves.
struct Roles {
    introduced: bool,
    vendor: Vec<String>,
    customer: Vec<String>,
}

impl Roles {
    fn found_in(opening: &str) -> Self {
        let mut terms: Vec<String> = Vec::new();
        for found in ROLE.captures_iter(opening.as_bytes()) {
            let term = String::from_utf8_lossy(&found[1]).trim().to_owned();
            let other =
                ["agreement", "party", "parties", "date", "services", "term", "contract", "affiliates"];
            if term.split(' ').all(|part| !other.contains(&part)) && !terms.contains(&term) && terms.len() < 2
            {
                terms.push(term);
            }
        }
        let is_customer = |term: &str| CUSTOMERS.iter().any(|word| term.split(' ').any(|part| part == *word));
        let is_vendor = |term: &str| VENDORS.iter().any(|word| term.split(' ').any(|part| part == *word));
        match &terms[..] {
            // The one who delivers comes first, unless the words say otherwise.
            [first, second] if is_customer(first) && !is_customer(second) || is_vendor(second) => {
                Self { introduced: true, vendor: vec![second.clone()], customer: vec![first.clone()] }
            }
            [first, second] => {
                Self { introduced: true, vendor: vec![first.clone()], customer: vec![second.clone()] }
            }
            _ => {
                let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
                Self { introduced: false, vendor: words(VENDORS), customer: words(CUSTOMERS) }
            }
        }
    }

    /// The text with the parties as vendor and customer, without articles.
    fn name(&self, text: &str) -> String {
        let mut text = format!(" {text} ");
        for (terms, role) in [(&self.vendor, "vendor"), (&self.customer, "customer")] {
            for term in terms {
                text = replace_word(&text, &format!("the {term}"), role);
                text = replace_word(&text, term, role);
            }
        }
        text.trim().to_owned()
    }
}

/// Replaces a term where it stands alone.
fn replace_word(text: &str, term: &str, with: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(term) {
        let end = at + term.len();
        let letter = |c: char| c.is_ascii_alphanumeric();
        let alone = !rest[..at].ends_with(letter) && !rest[end..].starts_with(letter);
        out.push_str(&rest[..at]);
        out.push_str(if alone { with } else { term });
        rest = &rest[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_are_told_apart_whatever_they_call_themselves() {
        let contract = Contract::read(
            "MASTER AGREEMENT\n\nThis Agreement is between A Ltd (the \u{201c}Buyer\u{201d}) and B Ltd (\"Service Provider\").\n\n\
             1. LIABILITY\n\n1.1 The Service Provider\u{2019}s liability to the Buyer shall not\nexceed $1.5 million.",
        );
        let last = contract.paragraphs.last().unwrap();
        assert_eq!(last.plain, "vendor's liability to customer shall not exceed usd 1_5 million.");
        assert_eq!((last.label.as_str(), contract.has_parties), ("1.1", true));
    }

    #[test]
    fn a_section_in_name_only_is_not_read() {
        let contract = Contract::read(
            "X\n\n4.1 Source Code Escrow: Not applicable.\n\n4.2 Escrow. [Reserved.]\n\n4.3 None.",
        );
        assert!(contract.paragraphs.iter().all(|paragraph| !paragraph.plain.contains("escrow")));
    }
}
