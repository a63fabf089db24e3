//! Length and opening comment of files; no crates without code.

use super::source::Source;
use super::{File, Violation, crates};

const FILE_LINES_MAX: usize = 800;

/// Checks the length and the opening comment of a file.
pub(crate) fn check(source: &Source) -> Vec<Violation> {
    let mut violations = Vec::new();
    let lines = source.raw.lines().count();
    if lines > FILE_LINES_MAX {
        let problem = format!("the file has {lines} lines, more than {FILE_LINES_MAX}");
        let help = "split it, with one topic per file: task.rs becomes task/claim.rs and task/complete.rs";
        violations.push(Violation::new("file-length", &source.path, FILE_LINES_MAX + 1, problem, help));
    }
    if !source.raw.starts_with("//!") {
        let help = "describe the purpose of the file in its first line";
        violations.push(Violation::new("opening", &source.path, 1, "the file does not start with //!", help));
    }
    violations
}

/// Reports crates without code: their sources contain only comments, attributes or an empty `main`.
pub(crate) fn empty_crates(sources: &[Source], files: &[File]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for directory in crates(files) {
        let path = format!("crates/{directory}");
        let prefix = format!("{path}/");
        if !sources.iter().any(|source| source.path.starts_with(&prefix) && has_code(source)) {
            let help = "add the crate together with its first code";
            violations.push(Violation::new("empty-crate", &path, 1, "the crate has no code", help));
        }
    }
    violations
}

fn has_code(source: &Source) -> bool {
    let code = source.code.lines().filter(|line| !line.starts_with("#!["));
    let dense: String = code.flat_map(str::chars).filter(|char| !char.is_whitespace()).collect();
    !dense.is_empty() && dense != "fnmain(){}"
}
