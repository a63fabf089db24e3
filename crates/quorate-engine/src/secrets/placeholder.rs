//! What only stands for a secret: templates, words that say so, characters in a row, and samples that documentation
//! prints for everybody.

use super::prefilter::{Go, Prefilter};
use super::table::Reach;

/// Words that stand where a secret will stand.
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

/// Words that say so only of what is a secret by the name beside it. What has the very shape of a vendor's token is one, however
/// its letters read: people type `ghp_0123456789abcdef…` in earnest, and a token may hold `test` by chance.
const WORDS_BESIDE_A_NAME: &[&str] = &[
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

/// Shorter words count near the beginning only: in a long random text any of them turns up in the end.
const LONG_WORD: usize = 6;
const SHORT_WORDS_WITHIN: usize = 64;

/// Signs with which templates begin: `${NAME}`, `{{ name }}`, `<name>`, `%(name)s`, `#{name}`.
const TEMPLATES: &[&str] = &["${", "$(", "{", "<", "%(", "%{", "#{", "[", "@{"];

/// Knows placeholders.
pub(super) struct Placeholders {
    words: Prefilter,
    words_beside_a_name: Prefilter,
    samples: Vec<&'static str>,
}

impl Placeholders {
    /// With these beginnings of samples.
    pub(super) fn new(samples: Vec<&'static str>) -> Self {
        let words_beside_a_name = Prefilter::new(WORDS_BESIDE_A_NAME);
        Self { words: Prefilter::new(WORDS), words_beside_a_name, samples }
    }

    /// Whether the text only stands for a secret.
    pub(super) fn include(&self, text: &[u8], reach: Reach) -> bool {
        let stands_for_one = is_template(text)
            || of_few_letters(text)
            || self.samples.iter().any(|sample| text.starts_with(sample.as_bytes()))
            || say_so(&self.words, text);
        let beside_a_name = || in_a_row(text) || say_so(&self.words_beside_a_name, text);
        stands_for_one || reach != Reach::Token && beside_a_name()
    }
}

fn say_so(words: &Prefilter, text: &[u8]) -> bool {
    let mut says = false;
    words.each(text, |word| {
        says = word.length >= LONG_WORD || word.at < SHORT_WORDS_WITHIN;
        if says { Go::Enough } else { Go::On }
    });
    says
}

/// A template, or the name of a variable: `$NAME`.
fn is_template(text: &[u8]) -> bool {
    let of_variable = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let is_variable = text.strip_prefix(b"$").is_some_and(|name| name.iter().all(of_variable));
    is_variable || TEMPLATES.iter().any(|sign| text.starts_with(sign.as_bytes()))
}

/// `aaaa`, `xyxyxy`.
fn of_few_letters(text: &[u8]) -> bool {
    let mut seen = [false; 256];
    text.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    seen.iter().filter(|seen| **seen).count() < 4
}

/// `1234`, `abcd`: every other character is the neighbour of the one before.
fn in_a_row(text: &[u8]) -> bool {
    let steps = text.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 1).count();
    steps * 2 > text.len()
}
