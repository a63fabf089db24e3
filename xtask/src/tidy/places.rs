//! Nothing in the tree may depend on one machine: no absolute paths of a machine, no package hosts.
//!
//! This rule reads every tracked text file, comments and strings included. The needles are written in halves so that
//! this file does not break its own rule.

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

/// The one source that the lock file may name.
const CRATES_IO: &str = concat!("registry+https://github.com/rust-lang/crates.io", "-index");

/// Checks one file.
pub(crate) fn check(file: &File) -> Vec<Violation> {
    if file.path.ends_with("Cargo.lock") {
        return lock(file);
    }
    let is_cargo = file.path.ends_with(".toml") && !file.path.ends_with("deny.toml");
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let at = |what: String, instead| Violation::new("place", &file.path, index + 1, what, instead);
        if let Some(path) = PATHS.iter().find(|path| has_path(line, path)) {
            let instead = "use a path from the root of the repository, a temporary folder or an argument";
            found.push(at(format!("an absolute path of one machine: `{path}`"), instead));
        }
        if let Some(host) = HOSTS.iter().find(|host| line.contains(**host)) {
            let instead = "leave the host to the configuration of the machine";
            found.push(at(format!("the host of a package registry: `{host}`"), instead));
        }
        if is_cargo && names_a_registry(line) {
            let instead = "leave registries and mirrors to the configuration of the machine";
            found.push(at("a registry of one machine".to_owned(), instead));
        }
    }
    found
}

/// The path begins here, not in the middle of a longer one such as `docs/work/`.
fn has_path(line: &str, path: &str) -> bool {
    let bytes = line.as_bytes();
    let begins =
        |at: usize| at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || b"_.~-".contains(&bytes[at - 1]));
    line.match_indices(path).any(|(at, _)| begins(at))
}

fn names_a_registry(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("[source")
        || line.starts_with("[registr")
        || ["registry =", "registry-index =", "replace-with ="].iter().any(|key| line.contains(key))
}

fn lock(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with("source = ") && !line.contains(CRATES_IO) {
            let instead = "take the crate from crates.io, and lock without a mirror configured";
            let what = "a crate from somewhere else than crates.io";
            found.push(Violation::new("place", &file.path, index + 1, what, instead));
        }
    }
    found
}
