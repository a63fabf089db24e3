//! One scan of a text: keywords first, then the patterns of their rules near the keywords.
//!
//! The work is bounded for any text: a pattern sees only a small window, and a long range that a rule has rejected is
//! not scanned by that rule again.

use std::ops::Range;

use super::Scanner;
use super::prefilter::{KeywordMatch, ScanControl};
use super::rules::{MatchMode, Rule};
use super::validators::Validator;

/// Window of a pattern that starts at its keyword. Longer secrets are recognized by their start.
const WINDOW: usize = 1024;
/// Window of a pattern that starts before its keyword, which is tried at every position.
const WINDOW_AROUND: usize = 160;
/// Maximum distance to the end of a private key: more than the longest key.
const KEY_BYTES_MAX: usize = 16 * 1024;
/// Minimum length of a rejected range that is recorded.
const REJECTED_LENGTH_MIN: usize = 128;

/// A match with the index of its rule. Rules with a lower index are more specific.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub(super) rule: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// One scan of a text.
pub(super) struct ScanPass<'a> {
    scanner: &'a Scanner,
    bytes: &'a [u8],
    /// Number of matches after which to stop.
    limit: usize,
    /// In order, without overlap.
    hits: &'a mut Vec<Hit>,
    /// End of the last long range that each rule has rejected.
    rejected: Vec<(usize, usize)>,
}

/// Match of a pattern: the whole secret, and the part of it that is validated.
struct Match {
    secret: Range<usize>,
    validated: Range<usize>,
}

impl<'a> ScanPass<'a> {
    pub(super) fn new(scanner: &'a Scanner, bytes: &'a [u8], limit: usize, hits: &'a mut Vec<Hit>) -> Self {
        Self { scanner, bytes, limit, hits, rejected: Vec::new() }
    }

    pub(super) fn run(mut self) {
        let scanner = self.scanner;
        scanner.keywords.for_each_match(self.bytes, |keyword| {
            let index = self.hits.partition_point(|hit| hit.end <= keyword.at);
            let enclosing = self.hits.get(index).filter(|hit| hit.start <= keyword.at).map(|hit| hit.rule);
            if self.hits.len() >= self.limit && enclosing.is_none() {
                return ScanControl::Stop;
            }
            // Within a match, only try more specific rules.
            let rules = scanner.rules_at[keyword.keyword].iter();
            for number in rules.filter(|number| enclosing.is_none_or(|matched| **number < matched)) {
                self.try_rule(*number, &scanner.rules[*number], keyword);
            }
            ScanControl::Continue
        });
    }

    fn try_rule(&mut self, number: usize, rule: &Rule, keyword: KeywordMatch) {
        if self.rejected.iter().any(|(rule, until)| *rule == number && keyword.at < *until) {
            return;
        }
        let Some(Match { secret, validated }) = self.find(rule, keyword) else { return };
        let validated = &self.bytes[validated];
        if rule.validator.accepts(validated) && !self.scanner.placeholders.matches(validated, rule.mode) {
            let end = self.end_of(rule, keyword, &secret);
            insert_hit(self.hits, Hit { rule: number, start: secret.start, end });
        } else if secret.len() > REJECTED_LENGTH_MIN {
            self.rejected.retain(|(rule, _)| *rule != number);
            self.rejected.push((number, secret.end));
        }
    }

    fn find(&self, rule: &Rule, KeywordMatch { at, length, .. }: KeywordMatch) -> Option<Match> {
        let window_end = |window: usize| self.bytes.len().min(at + window);
        match rule.mode {
            MatchMode::Token if word_continues_before(&self.bytes[..at]) => None,
            MatchMode::Token => {
                let found = rule.regex()?.find(&self.bytes[at..window_end(WINDOW)])?;
                Some(Match { secret: at..at + found.end(), validated: at + length..at + found.end() })
            }
            MatchMode::From => {
                let found = rule.regex()?.captures(&self.bytes[at..window_end(WINDOW)])?.get(1)?;
                let secret = at + found.start()..at + found.end();
                Some(Match { validated: secret.clone(), secret })
            }
            MatchMode::Back(distance) => {
                let text = &self.bytes[..window_end(WINDOW_AROUND)];
                let secret = rule.regex()?.captures_at(text, at.saturating_sub(distance))?.get(1)?.range();
                Some(Match { validated: secret.clone(), secret })
            }
        }
    }

    /// Returns the end of a secret that the window may have cut off.
    fn end_of(&self, rule: &Rule, keyword: KeywordMatch, secret: &Range<usize>) -> usize {
        if rule.validator == Validator::Pem {
            let until = self.bytes.len().min(secret.end + KEY_BYTES_MAX);
            return end_of_key(&self.bytes[..until], secret.end);
        }
        if secret.end < keyword.at + WINDOW {
            return secret.end;
        }
        let continues = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-+/=.~%".contains(*byte);
        secret.end + self.bytes[secret.end..].iter().take_while(continues).count()
    }
}

/// Adds a match in order. Overlapping matches are merged under the most specific rule.
pub(super) fn insert_hit(hits: &mut Vec<Hit>, hit: Hit) {
    let first = hits.partition_point(|known| known.end <= hit.start);
    let last = first + hits[first..].partition_point(|known| known.start < hit.end);
    let joined = hits[first..last].iter().fold(hit, |hit, known| Hit {
        rule: hit.rule.min(known.rule),
        start: hit.start.min(known.start),
        end: hit.end.max(known.end),
    });
    hits.splice(first..last, [joined]);
}

/// Whether a word continues before this position. The letter of an escape such as `\n` or `%3D` is not part of a
/// word; a hyphen after a letter is.
fn word_continues_before(before: &[u8]) -> bool {
    let is_word_byte = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match before {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => false,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => false,
        [.., letter, b'-'] => is_word_byte(letter),
        [.., last] => is_word_byte(last),
        [] => false,
    }
}

/// Returns the end of a private key: after its end line, or as far as it can be followed.
fn end_of_key(bytes: &[u8], from: usize) -> usize {
    let find = |from: usize, needle: &[u8]| {
        memchr::memmem::find(&bytes[from..], needle).map(|at| from + at + needle.len())
    };
    if let Some(end) = find(from, b"-----END ").and_then(|end| find(end, b"-----")) {
        return end;
    }
    let mut end = from;
    while let Some(byte) = bytes.get(end) {
        end += match byte {
            b'\\' => {
                // `\n` at any level of escaping.
                let run = bytes[end..].iter().take_while(|byte| **byte == b'\\').count();
                match bytes.get(end + run) {
                    Some(b'n' | b'r' | b't') => run + 1,
                    _ => break,
                }
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'=' | b' ' | b'\r' | b'\n' => 1,
            _ => break,
        };
    }
    end
}
