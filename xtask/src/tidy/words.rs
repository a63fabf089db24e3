//! Banned words in Rust code, each with a replacement.
//!
//! Only code is checked, not comments and strings.

use super::Violation;
use super::source::{Source, is_word};

struct Word {
    word: &'static str,
    place: Place,
    instead: &'static str,
}

/// Scope of a ban.
#[derive(Clone, Copy)]
enum Place {
    Everywhere,
    /// Everywhere except in the sources of time and randomness, tests, benches and xtask.
    Product,
    /// In tests, and everywhere in core.
    TestsAndCore,
}

const TIME: &str = "take `now` as an argument; only clock.rs asks for the time";
const CHANCE: &str = "take the random bytes as an argument; only entropy.rs generates them";
const SLEEP: &str = "set the clock forward, or wait for the event itself on a channel with a limit";

const WORDS: &[Word] = &[
    Word { word: "SystemTime::now", place: Place::Product, instead: TIME },
    Word { word: "Instant::now", place: Place::Product, instead: TIME },
    Word { word: "Timestamp::now", place: Place::Product, instead: TIME },
    Word { word: "Uuid::new_v4", place: Place::Product, instead: CHANCE },
    Word { word: "Uuid::now_v7", place: Place::Product, instead: CHANCE },
    Word { word: "rand::random", place: Place::Product, instead: CHANCE },
    Word { word: "getrandom::", place: Place::Product, instead: CHANCE },
    Word { word: "thread::sleep", place: Place::TestsAndCore, instead: SLEEP },
    Word { word: "time::sleep", place: Place::TestsAndCore, instead: SLEEP },
    Word { word: "todo!(", place: Place::Everywhere, instead: "write it, or leave the function out" },
    Word {
        word: "unimplemented!(",
        place: Place::Everywhere,
        instead: "write it, or leave the function out",
    },
    Word { word: "dbg!(", place: Place::Everywhere, instead: "delete it, or write a tracing event" },
    Word { word: "#[ignore", place: Place::Everywhere, instead: "fix the test or delete it" },
];

/// Reports all banned words in the code of a file.
pub(crate) fn check(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for Word { word, place, instead } in WORDS {
        for (at, _) in source.code.match_indices(word) {
            if begins_a_word(&source.code, at) && place.holds(source, at) {
                let what = format!("`{word}` is a banned word here");
                found.push(Violation::new("word", &source.path, source.line_at(at), what, instead));
            }
        }
    }
    found
}

fn begins_a_word(code: &str, at: usize) -> bool {
    at == 0 || !is_word(code.as_bytes()[at - 1])
}

impl Place {
    fn holds(self, source: &Source, at: usize) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Product => !source.is_test_at(at) && !is_door_or_bench(&source.path),
            Self::TestsAndCore => source.is_test_at(at) || source.path.starts_with("crates/quorate-core/"),
        }
    }
}

/// Whether a file may read the clock or generate random bytes: their source files, benches and xtask.
fn is_door_or_bench(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').collect();
    let file = parts.pop().unwrap_or_default();
    matches!(file, "clock.rs" | "entropy.rs" | "bench.rs")
        || parts.contains(&"benches")
        || path.starts_with("crates/quorate-bench/")
        || path.starts_with("xtask/")
}
