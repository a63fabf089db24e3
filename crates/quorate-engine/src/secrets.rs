//! The secret scanner: detects credentials before anything is written.
//!
//! A single pass searches for the keywords of all rules; the pattern of a rule is tried only near one of its
//! keywords. Most payloads contain no keyword and cost only that pass, without an allocation. The rules are data, in
//! `secrets/rules.txt`. Unknown formats are not detected: the scanner prevents accidents, not deliberate attempts to
//! hide a secret in the log.

mod decode;
mod filter;
mod placeholder;
mod prefilter;
mod rewrite;
mod rules;
mod scan_pass;
mod texts;
mod validators;

use std::convert::Infallible;
use std::ops::Range;

use decode::{ControlCodes, Decoded};
pub(crate) use filter::SecretFilter;
pub use filter::SecretHandling;
use placeholder::Placeholders;
use prefilter::Prefilter;
use quorate_core::Commit;
use rules::Rule;
use scan_pass::{Hit, ScanPass, insert_hit};

/// Minimum length of a text that can contain a name and a secret.
const LENGTH_MIN: usize = 12;

/// Detects secrets. Creating one takes about a millisecond; share it.
pub struct Scanner {
    keywords: Prefilter,
    /// For each keyword, the rules that use it.
    rules_at: Vec<Vec<usize>>,
    rules: Vec<Rule>,
    placeholders: Placeholders,
}

/// Location of a secret. It does not contain the secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecretMatch {
    /// Name of the rule.
    pub rule: &'static str,
    /// Offset of the first byte.
    pub offset: usize,
    /// Length in bytes.
    pub length: usize,
}

/// Returns the number of text bytes of a commit that have to be scanned.
pub(crate) fn text_bytes(commit: &Commit) -> usize {
    let mut bytes = 0;
    let Ok(()) = texts::each(commit, |_, _, text| {
        bytes += text.len();
        Ok::<(), Infallible>(())
    });
    bytes
}

impl Scanner {
    /// Parses the rules.
    #[must_use]
    pub fn new() -> Self {
        let (rules, samples) = rules::parse_rules();
        let mut keywords: Vec<&str> = Vec::new();
        let mut rules_at: Vec<Vec<usize>> = Vec::new();
        for (number, rule) in rules.iter().enumerate() {
            for keyword in &rule.keywords {
                match keywords.iter().position(|known| known.eq_ignore_ascii_case(keyword)) {
                    Some(known) => rules_at[known].push(number),
                    None => {
                        keywords.push(keyword);
                        rules_at.push(vec![number]);
                    }
                }
            }
        }
        let placeholders = Placeholders::new(samples);
        Self { keywords: Prefilter::new(&keywords), rules_at, rules, placeholders }
    }

    /// Returns the first secret, if there is one.
    #[must_use]
    pub fn scan(&self, bytes: &[u8]) -> Option<SecretMatch> {
        self.find_hits(bytes, 1).first().map(|hit| self.to_match(hit))
    }

    /// Returns all secrets, in order and without overlap.
    #[must_use]
    pub fn scan_all(&self, bytes: &[u8]) -> Vec<SecretMatch> {
        self.find_hits(bytes, usize::MAX).iter().map(|hit| self.to_match(hit)).collect()
    }

    /// Replaces each secret with `[redacted:RULE]`; `None` if there is none.
    #[must_use]
    pub fn redact(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let hits = self.find_hits(bytes, usize::MAX);
        let mut text = Vec::with_capacity(bytes.len());
        let mut copied = 0;
        for hit in &hits {
            text.extend_from_slice(&bytes[copied..hit.start]);
            text.extend_from_slice(format!("[redacted:{}]", self.rules[hit.rule].name).as_bytes());
            copied = hit.end;
        }
        text.extend_from_slice(&bytes[copied..]);
        (!hits.is_empty()).then_some(text)
    }

    fn to_match(&self, hit: &Hit) -> SecretMatch {
        SecretMatch { rule: self.rules[hit.rule].name, offset: hit.start, length: hit.end - hit.start }
    }

    /// Scans the text as a human reader sees it: decoded where escapes or terminal control sequences may hide a
    /// secret.
    fn find_hits(&self, bytes: &[u8], limit: usize) -> Vec<Hit> {
        let mut hits = Vec::new();
        if bytes.len() < LENGTH_MIN {
            return hits;
        }
        if !decode::is_needed(bytes) {
            ScanPass::new(self, bytes, limit, &mut hits).run();
            return hits;
        }
        let text = Decoded::decode_escapes(bytes);
        if !text.has_control_codes() {
            self.find_hits_decoded(&text.bytes, limit, &mut hits, |hit| text.to_original(hit));
            return hits;
        }
        if !text.has_nul() {
            self.find_hits_visible(&text, limit, &mut hits, |hit| text.to_original(hit));
            return hits;
        }
        // A NUL separates words, or interrupts them.
        for view in [Decoded::remove_nul_after_escape(&text.bytes), Decoded::remove_nul(&text.bytes)] {
            self.find_hits_visible(&view, limit, &mut hits, |hit| text.to_original(view.to_original(hit)));
            if hits.len() >= limit {
                break;
            }
        }
        hits
    }

    /// Scans a text with control codes as words that they separate, and as words that they interrupt.
    fn find_hits_visible(
        &self,
        text: &Decoded,
        limit: usize,
        hits: &mut Vec<Hit>,
        original: impl Fn(Range<usize>) -> Range<usize>,
    ) {
        for codes in [ControlCodes::Separate, ControlCodes::Join, ControlCodes::Remove] {
            let visible = Decoded::replace_control_codes(&text.bytes, codes);
            self.find_hits_decoded(&visible.bytes, limit, hits, |hit| original(visible.to_original(hit)));
            if hits.len() >= limit {
                break;
            }
        }
    }

    /// Scans a decoded text and maps the matches to their positions in the original.
    fn find_hits_decoded(
        &self,
        bytes: &[u8],
        limit: usize,
        hits: &mut Vec<Hit>,
        original: impl Fn(Range<usize>) -> Range<usize>,
    ) {
        let mut found = Vec::new();
        ScanPass::new(self, bytes, limit, &mut found).run();
        for hit in found {
            let Range { start, end } = original(hit.start..hit.end);
            insert_hit(hits, Hit { start, end, ..hit });
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
