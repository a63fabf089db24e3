//! Mutation-based fuzzing of every parser of untrusted bytes: invalid input must never cause a panic.
//!
//! A fuzz target takes bytes and panics if a property is violated. It runs on mutations of a corpus of valid input: a
//! fixed number of cases in the test suite, or for `QUORATE_FUZZ_SECONDS` (`cargo xtask sim --fuzz SECONDS`).

use std::time::{Duration, Instant};

use crate::seed::{self, Rng};

/// Dictionary of fragments that are likely to break parsers.
const DICTIONARY: &[&[u8]] = &[
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"\"\"",
    b"-1",
    b"0",
    b"1e999",
    b"18446744073709551616",
    b"9223372036854775807",
    b"0.1",
    b"\\u0000",
    b"\\ud800",
    b"\xff\xfe",
    b"\xf0\x9f\x92\xa9",
    b"\xe2\x80\xae",
    b"\x00",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"*",
    b">",
    b"..",
    b"topic:",
    b"can:",
    b"role:",
    b"msg_0-1-0",
    b"dlv_0-1",
    b"%00",
    b"%2F",
    b"?",
    b"&",
    b"=",
    b"\r\n",
    b"- &a [*a, *a]",
    b"!!binary ",
    b"9999-12-31T23:59:60Z",
];

/// Returns the seed of this run. The test suite uses a fixed seed, so that a new failure is caused by a change; timed
/// runs use a new seed each time.
#[must_use]
pub fn fuzz_seed() -> u64 {
    match (seed::env_number("QUORATE_SEED"), seed::env_number("QUORATE_FUZZ_SECONDS")) {
        (Some(seed), _) => seed,
        (None, Some(_)) => seed::run_seed(),
        (None, None) => 1,
    }
}

/// Limit of one run: a number of cases or a duration.
#[derive(Clone, Copy, Debug)]
pub struct FuzzLimit {
    cases: u64,
    deadline: Option<Instant>,
}

impl FuzzLimit {
    /// Returns a limit of `cases`, or of `QUORATE_FUZZ_SECONDS` if that variable is set.
    #[must_use]
    pub fn from_env(cases: u64) -> Self {
        let seconds = seed::env_number("QUORATE_FUZZ_SECONDS").map(Duration::from_secs);
        Self { cases, deadline: seconds.map(|seconds| Instant::now() + seconds) }
    }

    fn has_more(&self, done: u64) -> bool {
        self.deadline.map_or(done < self.cases, |deadline| Instant::now() < deadline)
    }
}

/// Generator of mutated input.
#[derive(Clone, Debug)]
pub struct Mutator {
    rng: Rng,
    corpus: Vec<Vec<u8>>,
    done: u64,
    limit: FuzzLimit,
}

impl Mutator {
    /// Creates a mutator over a corpus of valid input.
    ///
    /// # Panics
    /// If the corpus is empty.
    #[must_use]
    pub fn new(target: &str, seed: u64, limit: FuzzLimit, corpus: Vec<Vec<u8>>) -> Self {
        assert!(!corpus.is_empty(), "the corpus is empty");
        Self { rng: Rng::seeded(seed, target), corpus, done: 0, limit }
    }

    /// Returns the next case with the index of its corpus entry; `None` when the limit is reached.
    pub fn next_case(&mut self) -> Option<(usize, Vec<u8>)> {
        if !self.limit.has_more(self.done) {
            return None;
        }
        self.done += 1;
        let from = self.rng.below(self.corpus.len() as u64) as usize;
        let mut bytes = self.corpus[from].clone();
        // Few mutations per case: heavily damaged input is rejected at the first byte.
        for _ in 0..=self.rng.below(4) {
            self.mutate(&mut bytes);
        }
        Some((from, bytes))
    }

    /// Returns the number of cases generated so far.
    #[must_use]
    pub fn cases_generated(&self) -> u64 {
        self.done
    }

    fn offset(&self, bytes: &[u8]) -> usize {
        self.rng.below(bytes.len() as u64 + 1) as usize
    }

    fn range(&self, bytes: &[u8]) -> std::ops::Range<usize> {
        let from = self.offset(bytes);
        let length = self.rng.below(1 + (bytes.len() - from).min(16) as u64) as usize;
        from..from + length
    }

    fn mutate(&self, bytes: &mut Vec<u8>) {
        match self.rng.below(9) {
            0 if !bytes.is_empty() => {
                let at = self.rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.rng.below(8);
            }
            1 if !bytes.is_empty() => {
                let at = self.rng.below(bytes.len() as u64) as usize;
                bytes[at] = self.rng.below(256) as u8;
            }
            2 => drop(bytes.drain(self.range(bytes))),
            3 => {
                let part = bytes[self.range(bytes)].to_vec();
                let at = self.offset(bytes);
                bytes.splice(at..at, part);
            }
            4 => bytes.truncate(self.offset(bytes)),
            5 => {
                let other = self.rng.pick(&self.corpus);
                let tail = other[self.offset(other)..].to_vec();
                bytes.truncate(self.offset(bytes));
                bytes.extend(tail);
            }
            6 => self.replace_value(bytes),
            7 => {
                let at = self.offset(bytes);
                let count = 1 << self.rng.below(9);
                let fragment = self.rng.pick(DICTIONARY).repeat(count);
                bytes.splice(at..at, fragment);
            }
            _ => {
                let at = self.offset(bytes);
                bytes.splice(at..at, self.rng.pick(DICTIONARY).iter().copied());
            }
        }
        bytes.truncate(64 * 1024);
    }

    /// Replaces a JSON value with a fragment from the dictionary.
    fn replace_value(&self, bytes: &mut Vec<u8>) {
        let colons: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b':').collect();
        if colons.is_empty() {
            return;
        }
        let from = *self.rng.pick(&colons) + 1;
        let end = bytes[from..].iter().position(|byte| matches!(byte, b',' | b'}' | b']'));
        let end = end.map_or(bytes.len(), |end| from + end);
        bytes.splice(from..end, self.rng.pick(DICTIONARY).iter().copied());
    }
}
