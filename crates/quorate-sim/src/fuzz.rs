//! Broken input, made from good input: what a parser of outside bytes must take without falling over.
//!
//! A target is a function that is given bytes and panics when something is wrong. It is run on mutations of a corpus: so
//! many cases as a test has time for, or as long as `QUORATE_FUZZ_SECONDS` says (`cargo xtask sim --fuzz SECONDS`).

use std::time::{Duration, Instant};

use crate::seed::{self, Dice};

/// Fragments that parsers trip over.
const WORDS: &[&[u8]] = &[
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

/// The seed of this run. In a test it is the same every time, so that what is found was brought in by a change; a longer run
/// looks elsewhere each time.
#[must_use]
pub fn seed_of_run() -> u64 {
    match (seed::number("QUORATE_SEED"), seed::number("QUORATE_FUZZ_SECONDS")) {
        (Some(seed), _) => seed,
        (None, Some(_)) => seed::of_run(),
        (None, None) => 1,
    }
}

/// How far one run goes.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    cases: u64,
    until: Option<Instant>,
}

impl Extent {
    /// So many cases, unless the environment says for how long.
    #[must_use]
    pub fn of_run(cases: u64) -> Self {
        let seconds = seed::number("QUORATE_FUZZ_SECONDS").map(Duration::from_secs);
        Self { cases, until: seconds.map(|seconds| Instant::now() + seconds) }
    }

    fn goes_on(&self, done: u64) -> bool {
        self.until.map_or(done < self.cases, |until| Instant::now() < until)
    }
}

/// Makes broken input.
#[derive(Clone, Debug)]
pub struct Mutator {
    dice: Dice,
    corpus: Vec<Vec<u8>>,
    done: u64,
    extent: Extent,
}

impl Mutator {
    /// Over a corpus of good input.
    ///
    /// # Panics
    /// When the corpus is empty.
    #[must_use]
    pub fn new(target: &str, seed: u64, extent: Extent, corpus: Vec<Vec<u8>>) -> Self {
        assert!(!corpus.is_empty(), "nothing can be made of nothing");
        Self { dice: Dice::seeded(seed, target), corpus, done: 0, extent }
    }

    /// The next case, and which of the corpus it was made of; `None` when it is enough.
    pub fn next_case(&mut self) -> Option<(usize, Vec<u8>)> {
        if !self.extent.goes_on(self.done) {
            return None;
        }
        self.done += 1;
        let from = self.dice.below(self.corpus.len() as u64) as usize;
        let mut bytes = self.corpus[from].clone();
        // Mostly a small change: what is broken everywhere is refused at the first byte.
        for _ in 0..=self.dice.below(4) {
            self.mutate(&mut bytes);
        }
        Some((from, bytes))
    }

    /// How many cases there were.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done
    }

    fn place(&self, bytes: &[u8]) -> usize {
        self.dice.below(bytes.len() as u64 + 1) as usize
    }

    fn range(&self, bytes: &[u8]) -> std::ops::Range<usize> {
        let from = self.place(bytes);
        let length = self.dice.below(1 + (bytes.len() - from).min(16) as u64) as usize;
        from..from + length
    }

    fn mutate(&self, bytes: &mut Vec<u8>) {
        match self.dice.below(9) {
            0 if !bytes.is_empty() => {
                let at = self.dice.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.dice.below(8);
            }
            1 if !bytes.is_empty() => {
                let at = self.dice.below(bytes.len() as u64) as usize;
                bytes[at] = self.dice.below(256) as u8;
            }
            2 => drop(bytes.drain(self.range(bytes))),
            3 => {
                let part = bytes[self.range(bytes)].to_vec();
                let at = self.place(bytes);
                bytes.splice(at..at, part);
            }
            4 => bytes.truncate(self.place(bytes)),
            5 => {
                let other = self.dice.pick(&self.corpus);
                let tail = other[self.place(other)..].to_vec();
                bytes.truncate(self.place(bytes));
                bytes.extend(tail);
            }
            6 => self.replace_value(bytes),
            7 => {
                let at = self.place(bytes);
                let count = 1 << self.dice.below(9);
                let word = self.dice.pick(WORDS).repeat(count);
                bytes.splice(at..at, word);
            }
            _ => {
                let at = self.place(bytes);
                bytes.splice(at..at, self.dice.pick(WORDS).iter().copied());
            }
        }
        bytes.truncate(64 * 1024);
    }

    /// Something else stands where a value of JSON stood.
    fn replace_value(&self, bytes: &mut Vec<u8>) {
        let colons: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b':').collect();
        if colons.is_empty() {
            return;
        }
        let from = *self.dice.pick(&colons) + 1;
        let end = bytes[from..].iter().position(|byte| matches!(byte, b',' | b'}' | b']'));
        let end = end.map_or(bytes.len(), |end| from + end);
        bytes.splice(from..end, self.dice.pick(WORDS).iter().copied());
    }
}
