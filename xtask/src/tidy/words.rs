//! Banned words in Rust code, each with a replacement.
//!
//! Only code is checked, not comments and strings.

use super::Violation;
use super::source::{Source, is_word};

struct Word {
    word: &'static str,
    scope: Scope,
    replacement: &'static str,
}

/// Scope of a ban.
#[derive(Clone, Copy)]
enum Scope {
    Everywhere,
    /// Everywhere except in the sources of time and randomness, tests, benches and xtask.
    Product,
    /// In tests, and everywhere in core.
    TestsAndCore,
}

const TIME: &str = "take `now` as an argument; only clock.rs asks for the time";
const RANDOMNESS: &str = "take the random bytes as an argument; only entropy.rs generates them";
const SLEEP: &str = "set the clock forward, or wait for the event itself on a channel with a limit";

const WORDS: &[Word] = &[
    Word { word: "SystemTime::now", scope: Scope::Product, replacement: TIME },
    Word { word: "Instant::now", scope: Scope::Product, replacement: TIME },
    Word { word: "Timestamp::now", scope: Scope::Product, replacement: TIME },
    Word { word: "Uuid::new_v4", scope: Scope::Product, replacement: RANDOMNESS },
    Word { word: "Uuid::now_v7", scope: Scope::Product, replacement: RANDOMNESS },
    Word { word: "rand::random", scope: Scope::Product, replacement: RANDOMNESS },
    Word { word: "getrandom::", scope: Scope::Product, replacement: RANDOMNESS },
    Word { word: "thread::sleep", scope: Scope::TestsAndCore, replacement: SLEEP },
    Word { word: "time::sleep", scope: Scope::TestsAndCore, replacement: SLEEP },
    Word { word: "todo!(", scope: Scope::Everywhere, replacement: "write it, or leave the function out" },
    Word {
        word: "unimplemented!(",
        scope: Scope::Everywhere,
        replacement: "write it, or leave the function out",
    },
    Word { word: "dbg!(", scope: Scope::Everywhere, replacement: "delete it, or write a tracing event" },
    Word { word: "#[ignore", scope: Scope::Everywhere, replacement: "fix the test or delete it" },
];

/// Reports all banned words in the code of a file.
pub(crate) fn check(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    for Word { word, scope, replacement } in WORDS {
        for (offset, _) in source.code.match_indices(word) {
            if begins_a_word(&source.code, offset) && scope.applies(source, offset) {
                let problem = format!("`{word}` is a banned word here");
                violations.push(Violation::new(
                    "word",
                    &source.path,
                    source.line_at(offset),
                    problem,
                    replacement,
                ));
            }
        }
    }
    violations
}

fn begins_a_word(code: &str, offset: usize) -> bool {
    offset == 0 || !is_word(code.as_bytes()[offset - 1])
}

impl Scope {
    fn applies(self, source: &Source, offset: usize) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Product => !source.is_test_at(offset) && !may_read_clock_or_entropy(&source.path),
            Self::TestsAndCore => {
                source.is_test_at(offset) || source.path.starts_with("crates/quorate-core/")
            }
        }
    }
}

/// Whether a file may read the clock or generate random bytes: their source files, benches and xtask.
fn may_read_clock_or_entropy(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').collect();
    let file = parts.pop().unwrap_or_default();
    matches!(file, "clock.rs" | "entropy.rs" | "bench.rs")
        || parts.contains(&"benches")
        || path.starts_with("crates/quorate-bench/")
        || path.starts_with("xtask/")
}
