//! The secret scan: what looks like a credential is found before anything is written.
//!
//! One pass looks for the keywords of all rules at once; a rule's pattern is tried only where one of its keywords stands.
//! Most payloads have none and cost that one pass, without an allocation. The rules are data, in `secrets/rules.txt`.
//! Unknown shapes are not found: the scan keeps accidents out of the log, not somebody who wants to hide a secret in it.

mod decode;
mod judge;
mod pass;
mod placeholder;
mod prefilter;
mod rewrite;
mod sieve;
mod table;
mod texts;

use std::convert::Infallible;
use std::ops::Range;

use decode::{Codes, Decoded};
use pass::{Hit, Pass, add};
use placeholder::Placeholders;
use prefilter::Prefilter;
use quorate_core::Commit;
pub use sieve::Secrets;
pub(crate) use sieve::Sieve;
use table::Rule;

/// Texts shorter than this have no room for a name and a secret.
const SHORTEST: usize = 12;

/// Finds secrets. Building one takes about a millisecond; share it.
pub struct Scanner {
    keywords: Prefilter,
    /// For each keyword, the rules that look there.
    rules_at: Vec<Vec<usize>>,
    rules: Vec<Rule>,
    placeholders: Placeholders,
}

/// Where a secret was found. It does not hold the secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The name of the rule.
    pub rule: &'static str,
    /// Its first byte.
    pub offset: usize,
    /// How many bytes it has.
    pub length: usize,
}

/// How many bytes of text a commit has to be looked at.
pub(crate) fn text_bytes(commit: &Commit) -> usize {
    let mut bytes = 0;
    let Ok(()) = texts::each(commit, |_, _, text| {
        bytes += text.len();
        Ok::<(), Infallible>(())
    });
    bytes
}

impl Scanner {
    /// Reads the rules.
    #[must_use]
    pub fn new() -> Self {
        let (rules, samples) = table::read();
        let mut words: Vec<&str> = Vec::new();
        let mut rules_at: Vec<Vec<usize>> = Vec::new();
        for (number, rule) in rules.iter().enumerate() {
            for keyword in &rule.keywords {
                match words.iter().position(|word| word.eq_ignore_ascii_case(keyword)) {
                    Some(known) => rules_at[known].push(number),
                    None => {
                        words.push(keyword);
                        rules_at.push(vec![number]);
                    }
                }
            }
        }
        let placeholders = Placeholders::new(samples);
        Self { keywords: Prefilter::new(&words), rules_at, rules, placeholders }
    }

    /// The first secret, if there is one.
    #[must_use]
    pub fn scan(&self, bytes: &[u8]) -> Option<Found> {
        self.look(bytes, 1).first().map(|hit| self.found(hit))
    }

    /// All secrets, in order; they do not overlap.
    #[must_use]
    pub fn scan_all(&self, bytes: &[u8]) -> Vec<Found> {
        self.look(bytes, usize::MAX).iter().map(|hit| self.found(hit)).collect()
    }

    /// The text with `[redacted:RULE]` in the place of each secret; `None` if there is none.
    #[must_use]
    pub fn redact(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let hits = self.look(bytes, usize::MAX);
        let mut text = Vec::with_capacity(bytes.len());
        let mut kept = 0;
        for hit in &hits {
            text.extend_from_slice(&bytes[kept..hit.start]);
            text.extend_from_slice(format!("[redacted:{}]", self.rules[hit.rule].name).as_bytes());
            kept = hit.end;
        }
        text.extend_from_slice(&bytes[kept..]);
        (!hits.is_empty()).then_some(text)
    }

    fn found(&self, hit: &Hit) -> Found {
        Found { rule: self.rules[hit.rule].name, offset: hit.start, length: hit.end - hit.start }
    }

    /// Scans the text as a reader sees it: decoded where escapes or terminal control sequences may hide a shape.
    fn look(&self, bytes: &[u8], most: usize) -> Vec<Hit> {
        let mut hits = Vec::new();
        if bytes.len() < SHORTEST {
            return hits;
        }
        if !decode::is_needed(bytes) {
            Pass::new(self, bytes, most, &mut hits).run();
            return hits;
        }
        let text = Decoded::escapes(bytes);
        if !text.has_codes() {
            self.look_decoded(&text.bytes, most, &mut hits, |hit| text.original(hit));
            return hits;
        }
        for codes in [Codes::Separate, Codes::Join] {
            let shown = Decoded::codes(&text.bytes, codes);
            self.look_decoded(&shown.bytes, most, &mut hits, |hit| text.original(shown.original(hit)));
            if hits.len() >= most {
                break;
            }
        }
        hits
    }

    /// Scans a decoded text, and adds what is found at its place in the original.
    fn look_decoded(
        &self,
        bytes: &[u8],
        most: usize,
        hits: &mut Vec<Hit>,
        original: impl Fn(Range<usize>) -> Range<usize>,
    ) {
        let mut found = Vec::new();
        Pass::new(self, bytes, most, &mut found).run();
        for hit in found {
            let Range { start, end } = original(hit.start..hit.end);
            add(hits, Hit { start, end, ..hit });
        }
    }
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scanner({} rules)", self.rules.len())
    }
}

#[cfg(test)]
mod tests;
