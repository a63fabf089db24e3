//! Documentation that must match the code: a page per error code, and every crate in ARCHITECTURE.md.

use super::functions;
use super::source::Source;
use super::{File, Violation, crates};

const CODES: &str = "crates/quorate-core/src/refused.rs";

/// Checks that each error code has a page, and each page a code. Passes if core has no file with codes.
pub(crate) fn errors(files: &[File]) -> Vec<Violation> {
    let Some(file) = files.iter().find(|file| file.path == CODES) else { return Vec::new() };
    let codes = codes(&Source::new(CODES, &file.text));
    if codes.is_empty() {
        let instead = "keep one `fn as_str` with lines like `Self::Invalid => \"INVALID\",`";
        return vec![Violation::new("error-page", CODES, 1, "no error codes found", instead)];
    }
    let mut found = Vec::new();
    for (code, line) in &codes {
        let page = format!("docs/errors/{code}.md");
        if !files.iter().any(|file| file.path == page) {
            let what = format!("the error code {code} has no page");
            let instead = format!("write {page}: the cause, how to fix it, and whether to retry");
            found.push(Violation::new("error-page", CODES, *line, what, &instead));
        }
    }
    for file in files {
        let Some(code) = file.path.strip_prefix("docs/errors/").and_then(|name| name.strip_suffix(".md"))
        else {
            continue;
        };
        if !codes.iter().any(|(known, _)| known == code) {
            let what = format!("there is no error code {code}");
            found.push(Violation::new("error-page", &file.path, 1, what, "delete the page, or add the code"));
        }
    }
    found
}

/// Returns the codes in `fn as_str`, with their line numbers.
fn codes(source: &Source) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for function in functions::find_functions(source).into_iter().filter(|function| function.name == "as_str")
    {
        let body = &source.raw[function.open..function.close];
        for (at, mark) in body.match_indices("=> \"") {
            let code: String = body[at + mark.len()..].chars().take_while(|char| *char != '"').collect();
            if code.chars().all(|char| char == '_' || char.is_ascii_uppercase() || char.is_ascii_digit()) {
                found.push((code, source.line_at(function.open + at)));
            }
        }
    }
    found
}

/// Checks that ARCHITECTURE.md exists and mentions every crate.
pub(crate) fn architecture(files: &[File]) -> Vec<Violation> {
    const PAGE: &str = "ARCHITECTURE.md";
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        let instead = "write it: overview, path of a message, code map, invariants, glossary";
        return vec![Violation::new("architecture", PAGE, 1, "the page is missing", instead)];
    };
    let mut found = Vec::new();
    for folder in crates(files) {
        if !names_crate(&page.text, folder) {
            let what = format!("the page does not mention the crate `{folder}`");
            found.push(Violation::new("architecture", PAGE, 1, what, "add it to the code map"));
        }
    }
    found
}

/// Whether the text contains the name as a separate word: `quorate-core` does not count for `quorate`.
fn names_crate(text: &str, name: &str) -> bool {
    let part_of_name = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_');
    text.split(|char| !part_of_name(char)).any(|word| word == name)
}
