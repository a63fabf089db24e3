//! The shape of files and crates: length, the opening comment, no empty rooms.

use super::source::Source;
use super::{File, Violation, crates};

const FILE_LINES_MAX: usize = 800;

/// Length and opening comment of one file.
pub(crate) fn check(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let lines = source.raw.lines().count();
    if lines > FILE_LINES_MAX {
        let what = format!("the file has {lines} lines, more than {FILE_LINES_MAX}");
        let instead =
            "split it by verb, one idea per file: task.rs becomes task/claim.rs and task/complete.rs";
        found.push(Violation::new("file-length", &source.path, FILE_LINES_MAX + 1, what, instead));
    }
    if !source.raw.starts_with("//!") {
        let instead = "say in the first line what the file is for, and what it is not for";
        found.push(Violation::new("opening", &source.path, 1, "the file does not open with //!", instead));
    }
    found
}

/// A crate appears when its first real code does: one whose sources hold nothing but comments, attributes or an empty
/// main is refused.
pub(crate) fn empty_crates(rust: &[Source], files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for folder in crates(files) {
        let path = format!("crates/{folder}");
        let inside = format!("{path}/");
        if !rust.iter().any(|source| source.path.starts_with(&inside) && has_code(source)) {
            let instead = "add the crate together with its first real code";
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
