//! Idioms that readers cannot search for, each with the standard term to use instead.
//!
//! Looked for in comments and strings of Rust files, in the sentences of OpenAPI, and in whole Markdown, Python,
//! TypeScript and TOML files. Code itself is left to the other rules. The table is written in halves so that this file does not break its own
//! rule.

use super::source::{Source, is_word};
use super::{File, Violation};

struct Idiom {
    phrase: &'static str,
    instead: &'static str,
}

macro_rules! idioms {
    ($($first:literal $second:literal => $instead:literal,)*) => {
        &[$(Idiom { phrase: concat!($first, $second), instead: $instead }),*]
    };
}

/// Phrases in lower case, found at word boundaries in any case.
const IDIOMS: &[Idiom] = idioms! {
    "to" "ld" => "returned, rendered, reported, notified",
    "tel" "ls" => "returns, renders, reports, notifies",
    "who" "ever" => "the caller, the holder, any agent that …",
    "some" "body" => "an agent, a principal, a client",
    "any" "body" => "any agent, any principal, any client",
    "every" "body" => "all agents, all clients",
    "in wo" "rds" => "as text, human-readable",
    "many-" "th" => "attempt number, starting at 1",
    "nothing is " "said" => "by default, if omitted",
    "was s" "aid" => "was requested, was given, was specified",
    "sign of l" "ife" => "heartbeat, activity",
    "signs of l" "ife" => "heartbeats, activity",
    "heard " "at" => "last seen",
    "heard " "of" => "known, received",
    "given " "out" => "delivered, leased",
    "gives " "out" => "delivers, leases",
    "give " "out" => "deliver, lease",
    "let " "in" => "authenticated, admitted",
    "is good no " "more" => "has expired, is no longer valid",
    "no more " "than once" => "at most once",
    "by hea" "rt" => "in memory, cached",
    "at h" "and" => "available, current",
    "for e" "ver" => "permanently, forever",
    "the how " "many" => "the number of, the index of",
    "is none " "of" => "does not belong to",
    "go not " "together" => "cannot be combined",
    "the outer " "wall" => "security, admission",
    "going " "back" => "rollback",
    "circ" "le" => "cycle",
};

/// Doc comments that only repeat a name.
const EMPTY_DOCS: [&str; 8] = ["When.", "Which one.", "Which.", "Who.", "Whose.", "Why.", "How.", "What."];

/// Files whose strings are data: texts of contracts and of secrets, not sentences of ours.
const DATA: [&str; 4] = [
    "crates/quorate-contracts/",
    "crates/quorate-engine/src/secrets/",
    "crates/quorate-procedures/src/plain/",
    "crates/quorate-sim/tests/it/fuzz/",
];

/// All idioms in one Rust file.
pub(crate) fn rust(source: &Source) -> Vec<Violation> {
    let is_data = DATA.iter().any(|folder| source.path.starts_with(folder));
    let mut found = Vec::new();
    for (index, (raw, code)) in source.raw.lines().zip(source.code.lines()).enumerate() {
        let prose = prose(raw, code, is_data);
        found.extend(phrases(&source.path, index + 1, &prose));
        let doc = raw.trim_start();
        let empty = doc.strip_prefix("/// ").filter(|text| EMPTY_DOCS.contains(text));
        found.extend(empty.map(|text| {
            let what = format!("the comment `{text}` repeats the name");
            Violation::new("idiom", &source.path, index + 1, what, "state the meaning, or delete it")
        }));
    }
    found
}

/// All idioms in one file of another kind.
pub(crate) fn text(file: &File) -> Vec<Violation> {
    const KINDS: [&str; 6] = [".md", ".py", ".ts", ".toml", "openapi/quorate.json", "examples.json"];
    if !KINDS.iter().any(|kind| file.path.ends_with(kind)) {
        return Vec::new();
    }
    // In OpenAPI, only sentences: values are part of the wire.
    let is_sentence = |line: &str| {
        !file.path.ends_with("quorate.json")
            || line.contains("\"description\":")
            || line.contains("\"summary\":")
    };
    let lines = file.text.lines().enumerate().filter(|(_, line)| is_sentence(line));
    lines.flat_map(|(index, line)| phrases(&file.path, index + 1, &line.to_lowercase())).collect()
}

/// The comments and, unless they are data, the strings of a line, in lower case.
fn prose(raw: &str, code: &str, is_data: bool) -> String {
    if raw.len() != code.len() {
        return raw.to_lowercase();
    }
    let from = if is_data { comment_start(raw, code) } else { Some(0) };
    let Some(from) = from else { return String::new() };
    let keep = |(at, byte): (usize, u8)| match at >= from && code.as_bytes()[at] == b' ' {
        true => byte.to_ascii_lowercase(),
        false => b' ',
    };
    String::from_utf8_lossy(&raw.bytes().enumerate().map(keep).collect::<Vec<u8>>()).into_owned()
}

fn comment_start(raw: &str, code: &str) -> Option<usize> {
    raw.match_indices("//").map(|(at, _)| at).find(|at| code[*at..].trim().is_empty())
}

fn phrases(path: &str, line: usize, prose: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for Idiom { phrase, instead } in IDIOMS {
        let stands_alone = |at: usize| {
            let bytes = prose.as_bytes();
            let end = at + phrase.len();
            (at == 0 || !is_word(bytes[at - 1])) && (end == bytes.len() || !is_word(bytes[end]))
        };
        if prose.match_indices(phrase).any(|(at, _)| stands_alone(at)) {
            let what = format!("`{phrase}` is not a term of the field");
            found.push(Violation::new("idiom", path, line, what, instead));
        }
    }
    found
}
