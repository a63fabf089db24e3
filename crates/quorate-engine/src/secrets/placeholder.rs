//! What only stands for a secret: templates, words that say so, characters in a row, and samples that documentation
//! prints for everybody.

use super::prefilter::{Go, Prefilter};

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
    "demo",
    "test",
    "todo",
    "xxxx",
    "secret",
    "password",
    "passw0rd",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "privatekey",
    "foobar",
    "hidden",
    "masked",
    "goes_here",
    "goes-here",
    "string",
    "1234567",
    "abcdef",
    "deadbeef",
    "env.",
    "process.",
    "config.",
    "settings.",
    "...",
    "***",
];

/// Shorter words count near the beginning only: in a long random text any of them turns up in the end.
const LONG_WORD: usize = 6;
const SHORT_WORDS_WITHIN: usize = 64;

/// Signs with which templates begin: `${NAME}`, `{{ name }}`, `<name>`, `%(name)s`, `#{name}`.
const TEMPLATES: &[&str] = &["${", "$(", "{", "<", "%(", "%{", "#{", "[", "@{"];

/// Knows placeholders.
pub(super) struct Placeholders {
    words: Prefilter,
    samples: Vec<&'static str>,
}

impl Placeholders {
    /// With these beginnings of samples.
    pub(super) fn new(samples: Vec<&'static str>) -> Self {
        Self { words: Prefilter::new(WORDS), samples }
    }

    /// Whether the text only stands for a secret.
    pub(super) fn include(&self, text: &[u8]) -> bool {
        is_template(text)
            || in_a_row(text)
            || self.samples.iter().any(|sample| text.starts_with(sample.as_bytes()))
            || self.says_so(text)
    }

    fn says_so(&self, text: &[u8]) -> bool {
        let mut says = false;
        self.words.each(text, |word| {
            says = word.length >= LONG_WORD || word.at < SHORT_WORDS_WITHIN;
            if says { Go::Enough } else { Go::On }
        });
        says
    }
}

/// A template, or the name of a variable: `$NAME`.
fn is_template(text: &[u8]) -> bool {
    let of_variable = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let is_variable = text.strip_prefix(b"$").is_some_and(|name| name.iter().all(of_variable));
    is_variable || TEMPLATES.iter().any(|sign| text.starts_with(sign.as_bytes()))
}

/// `aaaa`, `1234`, `abcd`: every other character is the neighbour of the one before, or there are hardly any.
fn in_a_row(text: &[u8]) -> bool {
    let steps = text.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 1).count();
    let mut seen = [false; 256];
    text.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    let kinds = seen.iter().filter(|seen| **seen).count();
    kinds < 4 || steps * 2 > text.len()
}
