//! Idioms that readers cannot search for, each with the standard term to use instead.
//!
//! Checks comments and strings of Rust files, comments of YAML, the sentences of OpenAPI, and all text of Markdown, Python,
//! TypeScript and TOML files. Code itself is left to the other rules. The phrases are written in halves so that this file does not
//! violate its own rule.

use super::source::{Source, is_word};
use super::{File, Violation};

struct Idiom {
    phrase: &'static str,
    replacement: &'static str,
}

macro_rules! idioms {
    ($($first:literal $second:literal => $replacement:literal,)*) => {
        &[$(Idiom { phrase: concat!($first, $second), replacement: $replacement }),*]
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
const DATA: [&str; 3] =
    ["crates/quorate-contracts/", "crates/quorate-engine/src/secrets/", "crates/quorate-sim/tests/it/fuzz/"];

/// All idioms in one Rust file.
pub(crate) fn rust(source: &Source) -> Vec<Violation> {
    let is_data = DATA.iter().any(|directory| source.path.starts_with(directory));
    let mut violations = Vec::new();
    for (index, (raw, code)) in source.raw.lines().zip(source.code.lines()).enumerate() {
        let prose = prose(raw, code, is_data);
        violations.extend(phrases(&source.path, index + 1, &prose));
        let doc = raw.trim_start();
        let empty = doc.strip_prefix("/// ").filter(|text| EMPTY_DOCS.contains(text));
        violations.extend(empty.map(|text| {
            let problem = format!("the comment `{text}` repeats the name");
            Violation::new("idiom", &source.path, index + 1, problem, "state the meaning, or delete it")
        }));
    }
    violations
}

/// All idioms in one file of another kind.
pub(crate) fn text(file: &File) -> Vec<Violation> {
    const KINDS: [&str; 7] = [".md", ".py", ".ts", ".toml", ".yaml", "openapi/quorate.json", "examples.json"];
    if !KINDS.iter().any(|kind| file.path.ends_with(kind)) {
        return Vec::new();
    }
    // In OpenAPI, only sentences: values are part of the wire. In YAML, only comments: values are data.
    let is_sentence = |line: &str| match &file.path {
        path if path.ends_with("quorate.json") => {
            line.contains("\"description\":") || line.contains("\"summary\":")
        }
        path if path.ends_with(".yaml") => line.trim_start().starts_with('#'),
        _ => true,
    };
    let lines = file.text.lines().enumerate().filter(|(_, line)| is_sentence(line));
    lines.flat_map(|(index, line)| phrases(&file.path, index + 1, &line.to_lowercase())).collect()
}

/// The comments and, unless they are data, the strings of a line, in lower case.
fn prose(raw: &str, code: &str, is_data: bool) -> String {
    if raw.len() != code.len() {
        return raw.to_lowercase();
    }
    let start = if is_data { comment_start(raw, code) } else { Some(0) };
    let Some(start) = start else { return String::new() };
    let keep = |(offset, byte): (usize, u8)| match offset >= start && code.as_bytes()[offset] == b' ' {
        true => byte.to_ascii_lowercase(),
        false => b' ',
    };
    String::from_utf8_lossy(&raw.bytes().enumerate().map(keep).collect::<Vec<u8>>()).into_owned()
}

fn comment_start(raw: &str, code: &str) -> Option<usize> {
    raw.match_indices("//").map(|(offset, _)| offset).find(|offset| code[*offset..].trim().is_empty())
}

fn phrases(path: &str, line: usize, prose: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for Idiom { phrase, replacement } in IDIOMS {
        let is_whole_phrase = |offset: usize| {
            let bytes = prose.as_bytes();
            let end = offset + phrase.len();
            (offset == 0 || !is_word(bytes[offset - 1])) && (end == bytes.len() || !is_word(bytes[end]))
        };
        if prose.match_indices(phrase).any(|(offset, _)| is_whole_phrase(offset)) {
            let problem = format!("`{phrase}` is not a term of the field");
            violations.push(Violation::new("idiom", path, line, problem, replacement));
        }
    }
    violations
}
