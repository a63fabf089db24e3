//! One pass over a text: keywords first, and the patterns of their rules where they stand.
//!
//! Whatever the text, the work is bounded: a pattern sees a small window, and a long stretch that a rule has rejected is
//! not looked at by that rule again.

use std::ops::Range;

use super::Scanner;
use super::judge::Check;
use super::prefilter::{Go, Stands};
use super::table::{Reach, Rule};

/// How far a pattern may look that begins at its keyword. Longer secrets are known by their beginning.
const WINDOW: usize = 1024;
/// The same for a pattern that begins before its keyword: it is looked for at every place.
const WINDOW_AROUND: usize = 128;
/// How far the end of a private key is looked for: more than the longest one.
const KEY_BYTES_MAX: usize = 16 * 1024;
/// A rejected stretch of more bytes than this is remembered.
const LONG: usize = 128;

/// A find, with the number of its rule: the lower one knows better.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub(super) rule: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// One pass over a text.
pub(super) struct Pass<'a> {
    scanner: &'a Scanner,
    bytes: &'a [u8],
    /// How many finds are enough.
    most: usize,
    /// In order, and apart from each other.
    hits: &'a mut Vec<Hit>,
    /// Up to where a rule has rejected a long stretch.
    rejected: Vec<(usize, usize)>,
}

/// Where a pattern matched: all that is the secret, and the part of it that is judged.
struct Match {
    secret: Range<usize>,
    judged: Range<usize>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(scanner: &'a Scanner, bytes: &'a [u8], most: usize, hits: &'a mut Vec<Hit>) -> Self {
        Self { scanner, bytes, most, hits, rejected: Vec::new() }
    }

    pub(super) fn run(mut self) {
        let scanner = self.scanner;
        scanner.keywords.each(self.bytes, |stands| {
            let around = self.hits.partition_point(|hit| hit.end <= stands.at);
            let around = self.hits.get(around).filter(|hit| hit.start <= stands.at).map(|hit| hit.rule);
            if self.hits.len() >= self.most && around.is_none() {
                return Go::Enough;
            }
            // Within a find, only a rule that knows better is worth trying.
            let rules = scanner.rules_at[stands.keyword].iter();
            for number in rules.filter(|number| around.is_none_or(|known| **number < known)) {
                self.try_rule(*number, &scanner.rules[*number], stands);
            }
            Go::On
        });
    }

    fn try_rule(&mut self, number: usize, rule: &Rule, stands: Stands) {
        if self.rejected.iter().any(|(rule, until)| *rule == number && stands.at < *until) {
            return;
        }
        let Some(Match { secret, judged }) = self.find(rule, stands) else { return };
        let judged = &self.bytes[judged];
        if rule.check.passes(judged) && !self.scanner.placeholders.include(judged, rule.reach) {
            let end = self.end_of(rule, stands, &secret);
            add(self.hits, Hit { rule: number, start: secret.start, end });
        } else if secret.len() > LONG {
            self.rejected.retain(|(rule, _)| *rule != number);
            self.rejected.push((number, secret.end));
        }
    }

    fn find(&self, rule: &Rule, Stands { at, length, .. }: Stands) -> Option<Match> {
        let until = |window: usize| self.bytes.len().min(at + window);
        match rule.reach {
            Reach::Token if goes_on_before(&self.bytes[..at]) => None,
            Reach::Token => {
                let found = rule.regex()?.find(&self.bytes[at..until(WINDOW)])?;
                Some(Match { secret: at..at + found.end(), judged: at + length..at + found.end() })
            }
            Reach::From => {
                let found = rule.regex()?.captures(&self.bytes[at..until(WINDOW)])?.get(1)?;
                let secret = at + found.start()..at + found.end();
                Some(Match { judged: secret.clone(), secret })
            }
            Reach::Back(most) => {
                let text = &self.bytes[..until(WINDOW_AROUND)];
                let secret = rule.regex()?.captures_at(text, at.saturating_sub(most))?.get(1)?.range();
                Some(Match { judged: secret.clone(), secret })
            }
        }
    }

    /// Where a secret ends that the window may have cut off.
    fn end_of(&self, rule: &Rule, stands: Stands, secret: &Range<usize>) -> usize {
        if rule.check == Check::Pem {
            let until = self.bytes.len().min(secret.end + KEY_BYTES_MAX);
            return end_of_key(&self.bytes[..until], secret.end);
        }
        if secret.end < stands.at + WINDOW {
            return secret.end;
        }
        let goes_on = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-+/=.~%".contains(*byte);
        secret.end + self.bytes[secret.end..].iter().take_while(goes_on).count()
    }
}

/// Adds a find where it belongs. Of finds that overlap one remains: all that they cover, under the name that knows better.
pub(super) fn add(hits: &mut Vec<Hit>, hit: Hit) {
    let first = hits.partition_point(|known| known.end <= hit.start);
    let last = first + hits[first..].partition_point(|known| known.start < hit.end);
    let joined = hits[first..last].iter().fold(hit, |hit, known| Hit {
        rule: hit.rule.min(known.rule),
        start: hit.start.min(known.start),
        end: hit.end.max(known.end),
    });
    hits.splice(first..last, [joined]);
}

/// Whether a word goes on in front of here. The letter of an escape such as `\n` or `%3D` is not part of a word; a hyphen
/// behind a letter is.
fn goes_on_before(before: &[u8]) -> bool {
    let of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match before {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => false,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => false,
        [.., letter, b'-'] => of_word(letter),
        [.., last] => of_word(last),
        [] => false,
    }
}

/// Where a private key ends: behind the line that says so, or as far as it can be followed.
fn end_of_key(bytes: &[u8], from: usize) -> usize {
    let find = |from: usize, what: &[u8]| {
        memchr::memmem::find(&bytes[from..], what).map(|at| from + at + what.len())
    };
    if let Some(end) = find(from, b"-----END ").and_then(|end| find(end, b"-----")) {
        return end;
    }
    let mut end = from;
    while let Some(byte) = bytes.get(end) {
        end += match byte {
            b'\\' => {
                // `\n`, however often it was escaped.
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
