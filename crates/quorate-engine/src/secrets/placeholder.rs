//! Placeholders for secrets: templates, typical words, sequences of characters, and samples from public
//! documentation.

use super::prefilter::{Prefilter, ScanControl};
use super::rules::MatchMode;

/// Words in placeholders.
const WORDS: &[&str] = &[
    "example",
    "sample",
    "dummy",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "replace",
    "insert",
    "redacted",
    "notreal",
    "your",
    "fake",
    "xxxx",
    "hidden",
    "masked",
    "goes_here",
    "goes-here",
    "...",
    "***",
];

/// Additional words in placeholders for secrets that are recognized by the name of their field. They do not apply to
/// text in the exact format of a vendor's token: people use tokens such as `ghp_0123456789abcdef…`, and a token can
/// contain `test` by chance.
const WORDS_FOR_NAMED_FIELDS: &[&str] = &[
    "demo",
    "test",
    "todo",
    "secret",
    "password",
    "passw0rd",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "privatekey",
    "foobar",
    "string",
    "1234567",
    "abcdef",
    "deadbeef",
    "env.",
    "process.",
    "config.",
    "settings.",
];

/// Shorter words only count near the start: a long random text contains any of them eventually.
const LONG_WORD: usize = 6;
const SHORT_WORDS_WITHIN: usize = 64;

/// Prefixes of templates: `${NAME}`, `{{ name }}`, `<name>`, `%(name)s`, `#{name}`.
const TEMPLATES: &[&str] = &["${", "$(", "{", "<", "%(", "%{", "#{", "[", "@{"];

/// Recognizes placeholders.
pub(super) struct Placeholders {
    words: Prefilter,
    named_field_words: Prefilter,
    samples: Vec<&'static str>,
}

impl Placeholders {
    /// Creates a matcher with prefixes of public samples.
    pub(super) fn new(samples: Vec<&'static str>) -> Self {
        let named_field_words = Prefilter::new(WORDS_FOR_NAMED_FIELDS);
        Self { words: Prefilter::new(WORDS), named_field_words, samples }
    }

    /// Whether the text is a placeholder.
    pub(super) fn matches(&self, text: &[u8], mode: MatchMode) -> bool {
        let is_placeholder = is_template(text)
            || has_few_characters(text)
            || self.samples.iter().any(|sample| text.starts_with(sample.as_bytes()))
            || contains_word(&self.words, text);
        let is_named_placeholder = || is_sequential(text) || contains_word(&self.named_field_words, text);
        is_placeholder || mode != MatchMode::Token && is_named_placeholder()
    }
}

fn contains_word(words: &Prefilter, text: &[u8]) -> bool {
    let mut found = false;
    words.for_each_match(text, |word| {
        found = word.length >= LONG_WORD || word.at < SHORT_WORDS_WITHIN;
        if found { ScanControl::Stop } else { ScanControl::Continue }
    });
    found
}

/// Whether the text is a template or the name of a variable: `$NAME`.
fn is_template(text: &[u8]) -> bool {
    let is_name_byte = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let is_variable = text.strip_prefix(b"$").is_some_and(|name| name.iter().all(is_name_byte));
    is_variable || TEMPLATES.iter().any(|prefix| text.starts_with(prefix.as_bytes()))
}

/// Whether the text has few distinct characters: `aaaa`, `xyxyxy`.
fn has_few_characters(text: &[u8]) -> bool {
    let mut seen = [false; 256];
    text.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    seen.iter().filter(|seen| **seen).count() < 4
}

/// Whether the text is mostly sequential: `1234`, `abcd`. More than half of the characters are adjacent to their
/// predecessor.
fn is_sequential(text: &[u8]) -> bool {
    let steps = text.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 1).count();
    steps * 2 > text.len()
}
