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

use decode::{Decoded, Escapes};
use pass::{Hit, Pass};
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
    escapes: Escapes,
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
        Self { keywords: Prefilter::new(&words), escapes: Escapes::new(), rules_at, rules, placeholders }
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

    /// Looks at the bytes without the escapes that hide a shape, if there are any, and then as they are.
    fn look(&self, bytes: &[u8], most: usize) -> Vec<Hit> {
        let mut hits = Vec::new();
        if bytes.len() < SHORTEST {
            return hits;
        }
        if self.escapes.stand_in(bytes) {
            let decoded = Decoded::of(bytes);
            Pass::new(self, &decoded.bytes, most, &mut hits).run();
            for hit in &mut hits {
                *hit = Hit { start: decoded.place(hit.start), end: decoded.place(hit.end), ..*hit };
            }
        }
        if hits.len() < most {
            Pass::new(self, bytes, most, &mut hits).run();
        }
        hits
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
