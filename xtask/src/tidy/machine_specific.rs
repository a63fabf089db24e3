//! Rejects machine-specific content: absolute paths of a machine, and hosts of package registries.
//!
//! The rule applies to every tracked text file, including comments and strings. The search strings are written in halves
//! so that this file does not violate its own rule.

use super::{File, Violation};

const PATHS: [&str; 4] =
    [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];

const HOSTS: [&str; 6] = [
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("registry.", "npmjs.org"),
    concat!("pypi", ".org/simple"),
    concat!("files.", "pythonhosted.org"),
    concat!("artif", "actory"),
];

/// Only source that is allowed in the lock file.
const CRATES_IO: &str = concat!("registry+https://github.com/rust-lang/crates.io", "-index");

/// Checks a file.
pub(crate) fn check(file: &File) -> Vec<Violation> {
    if file.path.ends_with("Cargo.lock") {
        return lock(file);
    }
    let is_cargo = file.path.ends_with(".toml") && !file.path.ends_with("deny.toml");
    let mut violations = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let violation =
            |problem: String, help| Violation::new("machine-specific", &file.path, index + 1, problem, help);
        if let Some(path) = PATHS.iter().find(|path| has_path(line, path)) {
            let help = "use a path relative to the repository root, a temporary directory or an argument";
            violations.push(violation(format!("machine-specific absolute path `{path}`"), help));
        }
        if let Some(host) = HOSTS.iter().find(|host| line.contains(**host)) {
            let help = "configure the host on the machine, not in the repository";
            violations.push(violation(format!("host of a package registry: `{host}`"), help));
        }
        if is_cargo && names_a_registry(line) {
            let help = "configure registries and mirrors on the machine, not in the repository";
            violations.push(violation("machine-specific registry".to_owned(), help));
        }
    }
    violations
}

/// Whether the line contains the path, but not in the middle of a longer one such as `docs/work/`.
fn has_path(line: &str, path: &str) -> bool {
    let bytes = line.as_bytes();
    let starts_path = |offset: usize| {
        offset == 0 || !(bytes[offset - 1].is_ascii_alphanumeric() || b"_.~-".contains(&bytes[offset - 1]))
    };
    line.match_indices(path).any(|(offset, _)| starts_path(offset))
}

fn names_a_registry(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("[source")
        || line.starts_with("[registr")
        || ["registry =", "registry-index =", "replace-with ="].iter().any(|key| line.contains(key))
}

fn lock(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with("source = ") && !line.contains(CRATES_IO) {
            let help = "use the crate from crates.io, and update the lock file without a configured mirror";
            let problem = "crate from a source other than crates.io";
            violations.push(Violation::new("machine-specific", &file.path, index + 1, problem, help));
        }
    }
    violations
}
