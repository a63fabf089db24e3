//! Meaningless names of files, directories and types.

use super::Violation;
use super::source::{Source, is_word};

const EMPTY_NAMES: [&str; 8] =
    ["manager", "managers", "helper", "helpers", "util", "utils", "common", "misc"];

const HELP: &str =
    "name the thing that it does: LeaseSweep, not TaskManager; task/claim.rs, not task_utils.rs";

/// Reports a path in which a directory or the file has a meaningless last word.
pub(crate) fn path(path: &str) -> Vec<Violation> {
    let stem_of = |part: &str| part.split('.').next().unwrap_or_default().to_lowercase();
    let last_word = |stem: String| stem.rsplit(['_', '-']).next().unwrap_or_default().to_owned();
    let word = path.split('/').map(|part| last_word(stem_of(part))).find(|word| is_empty_name(word));
    let problem = |word: String| format!("the path has the empty name `{word}`");
    word.map(|word| Violation::new("name", path, 1, problem(word), HELP)).into_iter().collect()
}

/// Reports types with a meaningless last word.
pub(crate) fn types(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    for keyword in ["struct ", "enum ", "trait ", "union ", "type "] {
        for (offset, _) in source.code.match_indices(keyword) {
            let bytes = source.code.as_bytes();
            let starts_word = offset == 0 || !is_word(bytes[offset - 1]);
            let rest = &bytes[offset + keyword.len()..];
            let length = rest.iter().take_while(|byte| is_word(**byte)).count();
            let name = String::from_utf8_lossy(&rest[..length]);
            if starts_word && is_empty_name(&last_camel_word(&name)) {
                let problem = format!("the type `{name}` ends in an empty name");
                violations.push(Violation::new("name", &source.path, source.line_at(offset), problem, HELP));
            }
        }
    }
    violations
}

fn is_empty_name(word: &str) -> bool {
    EMPTY_NAMES.contains(&word)
}

/// Returns the last word of a camel-case name: `manager` for `TaskManager`.
fn last_camel_word(name: &str) -> String {
    let start = name.rfind(|char: char| char.is_ascii_uppercase()).unwrap_or(0);
    name[start..].to_lowercase()
}
