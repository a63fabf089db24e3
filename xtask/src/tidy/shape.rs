//! Length and opening comment of files; no crates without code.

use super::source::Source;
use super::{File, Violation, crates};

const FILE_LINES_MAX: usize = 800;

/// Checks the length and the opening comment of a file.
pub(crate) fn check(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let lines = source.raw.lines().count();
    if lines > FILE_LINES_MAX {
        let what = format!("the file has {lines} lines, more than {FILE_LINES_MAX}");
        let instead = "split it, with one topic per file: task.rs becomes task/claim.rs and task/complete.rs";
        found.push(Violation::new("file-length", &source.path, FILE_LINES_MAX + 1, what, instead));
    }
    if !source.raw.starts_with("//!") {
        let instead = "describe the purpose of the file in its first line";
        found.push(Violation::new("opening", &source.path, 1, "the file does not start with //!", instead));
    }
    found
}

/// Reports crates without code: their sources contain only comments, attributes or an empty `main`.
pub(crate) fn empty_crates(rust: &[Source], files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for folder in crates(files) {
        let path = format!("crates/{folder}");
        let inside = format!("{path}/");
        if !rust.iter().any(|source| source.path.starts_with(&inside) && has_code(source)) {
            let instead = "add the crate together with its first code";
            found.push(Violation::new("empty-crate", &path, 1, "the crate has no code", instead));
        }
    }
    found
}

fn has_code(source: &Source) -> bool {
    let code = source.code.lines().filter(|line| !line.starts_with("#!["));
    let dense: String = code.flat_map(str::chars).filter(|char| !char.is_whitespace()).collect();
    !dense.is_empty() && dense != "fnmain(){}"
}
