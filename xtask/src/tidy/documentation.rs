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
        let help = "keep one `fn as_str` with lines like `Self::Invalid => \"INVALID\",`";
        return vec![Violation::new("error-page", CODES, 1, "no error codes found", help)];
    }
    let mut violations = Vec::new();
    for (code, line) in &codes {
        let page = format!("docs/errors/{code}.md");
        if !files.iter().any(|file| file.path == page) {
            let problem = format!("the error code {code} has no page");
            let help = format!("write {page}: the cause, how to fix it, and whether to retry");
            violations.push(Violation::new("error-page", CODES, *line, problem, &help));
        }
    }
    for file in files {
        let Some(code) = file.path.strip_prefix("docs/errors/").and_then(|name| name.strip_suffix(".md"))
        else {
            continue;
        };
        if !codes.iter().any(|(existing, _)| existing == code) {
            let problem = format!("there is no error code {code}");
            violations.push(Violation::new(
                "error-page",
                &file.path,
                1,
                problem,
                "delete the page, or add the code",
            ));
        }
    }
    violations
}

/// Returns the codes in `fn as_str`, with their line numbers.
fn codes(source: &Source) -> Vec<(String, usize)> {
    let mut codes = Vec::new();
    for function in functions::find_functions(source).into_iter().filter(|function| function.name == "as_str")
    {
        let body = &source.raw[function.open..function.close];
        for (offset, arrow) in body.match_indices("=> \"") {
            let code: String = body[offset + arrow.len()..].chars().take_while(|char| *char != '"').collect();
            if code.chars().all(|char| char == '_' || char.is_ascii_uppercase() || char.is_ascii_digit()) {
                codes.push((code, source.line_at(function.open + offset)));
            }
        }
    }
    codes
}

/// Checks that ARCHITECTURE.md exists and mentions every crate.
pub(crate) fn architecture(files: &[File]) -> Vec<Violation> {
    const PAGE: &str = "ARCHITECTURE.md";
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        let help = "write it: overview, path of a message, code map, invariants, glossary";
        return vec![Violation::new("architecture", PAGE, 1, "the page is missing", help)];
    };
    let mut violations = Vec::new();
    for directory in crates(files) {
        if !names_crate(&page.text, directory) {
            let problem = format!("the page does not mention the crate `{directory}`");
            violations.push(Violation::new("architecture", PAGE, 1, problem, "add it to the code map"));
        }
    }
    violations
}

/// Whether the text contains the name as a separate word: `quorate-core` does not count for `quorate`.
fn names_crate(text: &str, name: &str) -> bool {
    let is_name_char = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_');
    text.split(|char| !is_name_char(char)).any(|word| word == name)
}
