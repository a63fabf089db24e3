//! Parsed contract: paragraphs with labels, titles and sentences, with the parties normalised to `vendor` and `customer`.

use super::grammar::{Lexicon, Sentence};
use super::roles::PartyRoles;
use super::tokenizer::{SENTENCE_WORDS_MAX, normalise, sentences, tokens};

/// Maximum number of bytes of a text that are parsed.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of words of a paragraph that are matched as a whole.
const WHOLE_WORDS_MAX: usize = 400;
/// Number of paragraphs in which the parties can be introduced.
const OPENING_MAX: usize = 12;

/// A parsed contract.
pub(crate) struct ParsedContract {
    /// Paragraphs without headings, in order.
    pub(crate) paragraphs: Vec<Paragraph>,
    /// Normalised headings.
    pub(crate) headings: Vec<String>,
    /// The first non-empty line.
    pub(crate) title: String,
    /// Whether two parties are introduced.
    pub(crate) has_parties: bool,
    /// Whether the text was truncated.
    pub(crate) truncated: bool,
    lexicon: Lexicon,
}

/// A paragraph of a contract.
pub(crate) struct Paragraph {
    /// Citation: `Section 4.2`, `Section 4(b)`, `Schedule A, 2`, `the section "Fees"`.
    pub(crate) label: String,
    /// Text of the contract, on one line.
    pub(crate) quote: String,
    /// Sentences of the text, without the paragraph number.
    pub(crate) sentence_texts: Vec<String>,
    /// The same sentences, normalised, with the parties as `vendor` and `customer`.
    pub(crate) normalised_sentences: Vec<String>,
    /// The paragraph in lower-case ASCII, with the parties as `vendor` and `customer`; a point between digits is `_`.
    pub(crate) normalised: String,
    /// Whether it is in a schedule, exhibit or annex.
    pub(crate) in_schedule: bool,
    /// Whether it precedes the first heading.
    pub(crate) in_opening: bool,
    /// Whether it is only a definition.
    pub(crate) is_definition: bool,
    /// Index of the paragraph.
    pub(crate) index: usize,
    title: Sentence,
    pairs: Vec<Sentence>,
    sentences: Vec<Sentence>,
    whole: Sentence,
}

impl ParsedContract {
    /// Parses a contract.
    pub(crate) fn parse(text: &str) -> Self {
        let truncated = text.len() > TEXT_BYTES_MAX;
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let pieces: Vec<String> = pieces(&text[..end]);
        let normalised_pieces: Vec<String> = pieces.iter().map(|piece| normalise(piece)).collect();
        let opening = normalised_pieces[..normalised_pieces.len().min(OPENING_MAX)].join("\n");
        let roles = PartyRoles::detect(&opening, &normalised_pieces.join("\n"));
        let mut contract = Self {
            paragraphs: Vec::new(),
            headings: Vec::new(),
            title: pieces.first().cloned().unwrap_or_default(),
            has_parties: roles.introduced,
            truncated,
            lexicon: Lexicon::default(),
        };
        let mut heading = Heading::default();
        for (index, (piece, normalised)) in pieces.iter().zip(&normalised_pieces).enumerate() {
            let is_section_start = is_heading(piece, normalised);
            if index == 0 && (is_section_start || piece.len() < 120 && !piece.ends_with('.')) {
                continue;
            }
            if is_section_start {
                contract.headings.push(normalised.clone());
                let is_last = !pieces[index + 1..]
                    .iter()
                    .zip(&normalised_pieces[index + 1..])
                    .any(|(piece, normalised)| is_heading(piece, normalised));
                heading.advance(piece, normalised, (contract.headings.len() == 1, is_last));
            } else {
                contract.read_paragraph(piece, &roles, &heading);
            }
        }
        contract
    }

    fn read_paragraph(&mut self, piece: &str, roles: &PartyRoles, heading: &Heading) {
        let number = number_of(piece);
        let body = piece[number.map_or(0, str::len)..].trim_start();
        let normalised = roles.replace_terms(&normalise(body));
        if is_placeholder(&normalised) {
            return;
        }
        let sentence_texts: Vec<String> = sentences(body).into_iter().map(str::to_owned).collect();
        let normalised_sentences: Vec<String> =
            sentence_texts.iter().map(|sentence| roles.replace_terms(&normalise(sentence))).collect();
        let (mut sentences, mut whole) = (Vec::new(), Vec::new());
        for sentence in &normalised_sentences {
            let words = tokens(sentence);
            for chunk in words.chunks(SENTENCE_WORDS_MAX) {
                sentences.push(self.lexicon.sentence(chunk));
            }
            if whole.len() < WHOLE_WORDS_MAX {
                whole.extend(words);
            }
        }
        whole.truncate(WHOLE_WORDS_MAX);
        // A sentence may be completed by the next one.
        let pairs: Vec<Sentence> = sentences.windows(2).map(|pair| pair[0].concat(&pair[1])).collect();
        let whole = self.lexicon.sentence(&whole);
        let title =
            self.lexicon.sentence(&tokens(&roles.replace_terms(&normalise(title_of(&sentence_texts)))));
        self.paragraphs.push(Paragraph {
            label: heading.cite(number),
            quote: piece.to_owned(),
            sentence_texts,
            normalised_sentences,
            is_definition: defines(&normalised),
            normalised,
            in_schedule: heading.in_schedule,
            in_opening: heading.words.is_empty(),
            index: self.paragraphs.len(),
            title,
            pairs,
            sentences,
            whole,
        });
    }

    /// Index of the sentence that a rule matches.
    pub(crate) fn match_rule(&self, paragraph: &Paragraph, rule: &str) -> Option<usize> {
        self.lexicon.match_rule(
            rule,
            (&paragraph.title, &paragraph.whole),
            &paragraph.sentences,
            &paragraph.pairs,
        )
    }

    /// Whether a rule matches a paragraph.
    pub(crate) fn matches(&self, paragraph: &Paragraph, rule: &str) -> bool {
        self.match_rule(paragraph, rule).is_some()
    }

    /// Whether a rule matches any paragraph.
    pub(crate) fn matches_anywhere(&self, rule: &str) -> bool {
        self.paragraphs.iter().any(|paragraph| self.matches(paragraph, rule))
    }

    /// Whether a heading contains one of these stems.
    pub(crate) fn has_heading(&self, stems: &[&str]) -> bool {
        self.headings.iter().any(|heading| stems.iter().any(|stem| heading.contains(stem)))
    }
}

impl Paragraph {
    /// Returns a normalised sentence.
    pub(crate) fn normalised_sentence(&self, index: usize) -> &str {
        self.normalised_sentences
            .get(index)
            .or(self.normalised_sentences.last())
            .map_or(self.normalised.as_str(), String::as_str)
    }

    /// Returns a sentence of the text; for a sentence that was split into chunks, the last one available.
    pub(crate) fn sentence(&self, index: usize) -> &str {
        self.sentence_texts
            .get(index)
            .or(self.sentence_texts.last())
            .map_or(self.quote.as_str(), String::as_str)
    }
}

/// Title in front of a paragraph: `Insurance. The Supplier …`, `Insurance: The Supplier …`.
fn title_of(sentences: &[String]) -> &str {
    let first = sentences.first().map_or("", String::as_str);
    let title = match first.split_once(": ") {
        Some((title, _)) => title,
        None if sentences.len() > 1 => first.trim_end_matches('.'),
        None => "",
    };
    let modal = [" shall ", " will ", " may ", " must ", " is ", " are ", " has "]
        .iter()
        .any(|modal| title.contains(modal));
    if title.split(' ').count() <= 8 && !modal { title } else { "" }
}

/// Splits a text into paragraphs of one line each, at empty lines or at numbers at line starts.
fn pieces(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut in_block = false;
    let mut after_title = false;
    for line in text.lines().map(|line| line.trim().trim_start_matches(['#', '*', '>']).trim()) {
        if line.is_empty() {
            in_block = false;
            continue;
        }
        let is_clause = number_of(line).is_some_and(|number| number.contains('.') && number.len() > 2);
        let is_title =
            |line: &str| line.chars().any(char::is_alphabetic) && !line.chars().any(char::is_lowercase);
        let starts_block = is_clause || after_title && !is_title(line);
        match blocks.last_mut().filter(|_| in_block && !starts_block) {
            Some(block) => {
                block.push(' ');
                block.push_str(line);
            }
            None => blocks.push(line.to_owned()),
        }
        in_block = true;
        let is_numbered = line.starts_with(|c: char| c.is_ascii_digit() || c == '\u{a7}');
        after_title = is_title(line)
            && line.len() < 60
            && is_numbered
            && blocks.last().is_some_and(|block| block == line);
    }
    blocks.into_iter().map(|block| block.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Number in front of a paragraph: `4.2`, `Section 4.02.`, `(b)`, `3.`.
fn number_of(piece: &str) -> Option<&str> {
    let word_len = |text: &str| text.find(char::is_whitespace).unwrap_or(text.len());
    let first = &piece[..word_len(piece)];
    let lower = first.to_lowercase();
    if matches!(lower.as_str(), "section" | "clause" | "article" | "sec." | "\u{a7}") {
        let rest = piece[first.len()..].trim_start();
        let second = &rest[..word_len(rest)];
        let end = piece.len() - rest.len() + second.len();
        let ends_number = second.ends_with('.') || second.ends_with(':') || second.contains('.');
        return (second.starts_with(|c: char| c.is_ascii_digit()) && ends_number).then(|| &piece[..end]);
    }
    let inner = first.trim_end_matches(['.', ')', ':']).trim_start_matches('(');
    let all_digits = !inner.is_empty() && inner.chars().all(|c| c.is_ascii_digit() || c == '.');
    let is_bracketed = first.starts_with('(') && first.ends_with(')') && inner.len() <= 4;
    let is_decimal = all_digits && (first.ends_with(['.', ')']) || inner.contains('.')) && inner.len() <= 8;
    let is_year = inner.len() == 4 && !inner.contains('.');
    ((is_bracketed && inner.chars().all(char::is_alphanumeric)) || is_decimal && !is_year).then_some(first)
}

/// Current heading.
#[derive(Default)]
struct Heading {
    words: String,
    number: String,
    in_schedule: bool,
}

const SCHEDULES: &[&str] = &[
    "schedule",
    "exhibit",
    "annex",
    "appendix",
    "attachment",
    "order form",
    "addendum",
    "order details",
    "commercial terms",
    "commercial summary",
    "commercial schedule",
    "commercial annex",
    "key terms",
    "key commercial",
    "pricing schedule",
    "particulars",
    "cover sheet",
    "term sheet",
    "contract data",
    "statement of work",
    "purchase order",
    "service order",
];

/// Number of entries at the start of [`SCHEDULES`] that denote a schedule in any position.
const UNAMBIGUOUS_SCHEDULES: usize = 5;

impl Heading {
    fn advance(&mut self, piece: &str, normalised: &str, (is_first, is_last): (bool, bool)) {
        let name = normalised.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        let is_schedule = SCHEDULES.iter().any(|word| name.starts_with(word));
        let is_unambiguous = SCHEDULES[..UNAMBIGUOUS_SCHEDULES].iter().any(|word| name.starts_with(word));
        // A section with commercial terms between other sections is not a schedule, and neither is a leading list of
        // key terms.
        self.in_schedule |= is_schedule && !is_first && (is_unambiguous || is_last);
        if self.in_schedule && is_schedule {
            self.words = name.split([':', '-', '(']).next().unwrap_or(name).trim().to_owned();
            self.number = String::new();
            return;
        }
        if self.in_schedule {
            return;
        }
        let number: String = normalised
            .trim_start_matches("article")
            .trim_start_matches("section")
            .trim_start_matches("sect")
            .trim()
            .chars()
            .take_while(|c| c.is_ascii_digit())
            .collect();
        self.words = piece.trim_start_matches(|c: char| !c.is_alphabetic()).to_owned();
        self.number = number;
    }

    /// Citation of a paragraph with this number under the heading.
    fn cite(&self, number: Option<&str>) -> String {
        let number = number.map(|number| number.trim_end_matches(['.', ':']));
        let capitalised = |text: &str| {
            let mut chars = text.chars();
            let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
            first + &chars.as_str().to_lowercase()
        };
        match number {
            Some(number) if self.in_schedule => format!("{}, {number}", schedule_name(&self.words)),
            None if self.in_schedule => schedule_name(&self.words),
            Some(number) if number.to_lowercase().starts_with(['s', 'c', 'a']) => capitalised(number),
            Some(number) if number.starts_with('(') && !self.number.is_empty() => {
                format!("Section {}{number}", self.number)
            }
            Some(number) if number.starts_with('(') && !self.words.is_empty() => {
                format!("the section \"{}\" {number}", capitalised(&self.words))
            }
            Some(number) if number.starts_with('(') => format!("recital {number}"),
            Some(number) => format!("Section {number}"),
            None if self.words.is_empty() => "the opening".to_owned(),
            None if !self.number.is_empty() => format!("Section {}", self.number),
            None => format!("the section \"{}\"", capitalised(&self.words)),
        }
    }
}

/// Capitalises the name of a schedule: `schedule a` becomes `Schedule A`.
fn schedule_name(words: &str) -> String {
    let capital = |word: &str| match word.len() {
        0..=3 => word.to_uppercase(),
        _ => word[..1].to_uppercase() + &word[1..],
    };
    words.split(' ').map(capital).collect::<Vec<_>>().join(" ")
}

/// Whether a block is a heading: short, without a full stop, and numbered, in capitals, the name of a schedule, or in
/// title case.
fn is_heading(piece: &str, normalised: &str) -> bool {
    let body = piece[number_of(piece).map_or(0, str::len)..].trim_start();
    if piece.len() > 90
        || body.contains(". ")
        || body.contains(['[', ']'])
        || piece.ends_with(['.', ';', ':', ','])
        || piece.contains(['"', '\u{201c}', ':']) && !is_schedule_name(normalised)
    {
        return false;
    }
    let letters = || piece.chars().filter(|c| c.is_alphabetic());
    let all_capitals = letters().next().is_some() && letters().all(|c| !c.is_lowercase());
    let words: Vec<&str> = piece.split(' ').filter(|word| word.chars().any(char::is_alphabetic)).collect();
    let minor_words =
        ["and", "of", "the", "for", "to", "in", "on", "or", "by", "with", "a", "from", "upon", "at"];
    let is_title_word =
        |word: &&str| word.starts_with(|c: char| !c.is_lowercase()) || minor_words.contains(word);
    let has_digits = body.contains(|c: char| c.is_ascii_digit());
    let is_title_case = (1..=8).contains(&words.len()) && words.iter().all(is_title_word) && !has_digits;
    let is_numbered = normalised.starts_with("article ")
        || normalised.starts_with("section ")
        || normalised.starts_with("sect")
        || number_of(piece).is_some_and(|number| !number.starts_with('('));
    let has_modal = [" shall ", " will ", " may ", " must ", " is ", " are "]
        .iter()
        .any(|modal| normalised.contains(modal));
    all_capitals
        || is_schedule_name(normalised) && !has_modal
        || (is_numbered || is_title_case) && !has_modal && words.len() <= 10
}

fn is_schedule_name(normalised: &str) -> bool {
    SCHEDULES.iter().any(|word| normalised.starts_with(word))
}

/// Whether a paragraph is a placeholder: `Escrow. [Reserved.]`, `Not applicable.`
fn is_placeholder(text: &str) -> bool {
    let trimmed = text.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    let body = sentences(trimmed).last().copied().unwrap_or_default();
    let body = body.rsplit(": ").next().unwrap_or(body);
    let body: String = body.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ' || *c == '/').collect();
    let body = body.trim().trim_start_matches("this section ").trim_start_matches("is ").trim();
    let markers = [
        "reserved",
        "intentionally",
        "not applicable",
        "not used",
        "n/a",
        "none",
        "deleted",
        "omitted",
        "left blank",
        "does not apply",
        "deliberately",
        "no longer applicable",
        "void",
    ];
    body.split(' ').count() <= 8 && markers.iter().any(|word| body.starts_with(word))
}

/// Whether a paragraph is a definition: `"Volume" means …`, `The term "Volume" refers to …`.
fn defines(text: &str) -> bool {
    let Some((before, rest)) = text.split_once('"') else { return false };
    let Some((_, after)) = rest.split_once('"') else { return false };
    let after = after.split_once(", ").filter(|_| after.starts_with(',')).map_or(after, |(_, after)| after);
    let verbs = [
        "means",
        "shall mean",
        "has the meaning",
        "have the meaning",
        "refers to",
        "is defined",
        "includes",
        "denotes",
        "is the",
        "are the",
        "shall have the meaning",
        "mean ",
    ];
    before.trim().len() <= 12
        && verbs.iter().any(|verb| {
            after.trim_start().starts_with(verb)
                || after.contains(&format!(" {verb}")) && after.find(verb).is_some_and(|at| at < 60)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_have_conventional_citations() {
        let text = "MASTER AGREEMENT\n\nThis Agreement is between A Ltd (the \u{201c}Buyer\u{201d}) and B Ltd (\"Service Provider\").\n\n\
                    1. LIABILITY\n\n1.1 The Service Provider\u{2019}s liability to the Buyer shall not\nexceed $1.5 million.\n\n\
                    \u{a7} 2 Term\n\n(1) It lasts.\n\nARTICLE III\nFEES\n\nSection 3.01. Fees are due.\n\nGENERAL TERMS\n\nNothing else holds.\n\n\
                    SCHEDULE A - PRICES\n\n2. EUR 5.";
        let contract = ParsedContract::parse(text);
        let labels: Vec<&str> =
            contract.paragraphs.iter().map(|paragraph| paragraph.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "the opening",
                "Section 1.1",
                "Section 2(1)",
                "Section 3.01",
                "the section \"General terms\"",
                "Schedule A, 2."
            ]
            .map(|label| label.trim_end_matches('.'))
        );
        assert_eq!(
            contract.paragraphs[1].normalised,
            "the vendor's liability to the customer shall not exceed usd 1_5 million."
        );
        assert!(contract.has_parties && contract.paragraphs[5].in_schedule);
    }

    #[test]
    fn placeholder_sections_are_skipped() {
        let text = "X\n\n4.1 Source Code Escrow: Not applicable.\n\n4.2 Escrow. [Reserved.]\n\n4.3 None.\n\n4.4 It is not applicable law that counts here, but custom.";
        let contract = ParsedContract::parse(text);
        assert_eq!(contract.paragraphs.len(), 1);
        assert!(contract.paragraphs[0].normalised.starts_with("it is not"));
    }

    #[test]
    fn numbers_at_line_starts_begin_paragraphs() {
        let contract = ParsedContract::parse(
            "AGREEMENT\n\n1. FEES\n1.1 Fees are due\n30 days after invoice.\n1.2 Interest is due.",
        );
        assert_eq!(contract.paragraphs.len(), 2);
    }
}
