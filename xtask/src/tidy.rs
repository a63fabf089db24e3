//! `cargo xtask tidy`: checks the project rules on all tracked files.
//!
//! Each rule has its own module and reports, for each violation, the location, the problem and a fix. Rules that rustfmt,
//! clippy or rustc can check are not duplicated here. Every rule has a test with a violation.

mod dependencies;
mod documentation;
mod duplicate_types;
mod exempt;
mod file_layout;
mod functions;
mod idioms;
mod machine_specific;
mod manifest;
mod names;
mod source;
mod test_targets;
mod words;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use source::Source;

/// Tracked text file: its path relative to the root, with `/`, and its content.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Violation of one rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Name of the rule, as used by exemptions.
    pub(crate) rule: &'static str,
    pub(crate) path: String,
    /// Line number, starting at 1.
    pub(crate) line: usize,
    /// Subject for exemptions: the path, or `path::function`.
    pub(crate) subject: String,
    pub(crate) problem: String,
    pub(crate) help: String,
}

impl Violation {
    fn new(rule: &'static str, path: &str, line: usize, problem: impl Into<String>, help: &str) -> Self {
        let (path, subject) = (path.to_owned(), path.to_owned());
        Self { rule, path, line, subject, problem: problem.into(), help: help.to_owned() }
    }

    fn for_item(self, item: &str) -> Self {
        Self { subject: format!("{}::{item}", self.path), ..self }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rule, path, line, problem, help, .. } = self;
        write!(f, "{path}:{line}: {problem} [{rule}]\n    help: {help}")
    }
}

/// Checks all tracked files and prints every violation.
pub(crate) fn run(root: &Path) -> Result<()> {
    let files = tracked(root)?;
    let violations = exempt::apply(check(&files), exempt::LIST);
    for violation in &violations {
        eprintln!("{violation}");
    }
    match violations.len() {
        0 => {
            eprintln!("   tidy: {} files, no violations", files.len());
            Ok(())
        }
        count => bail!("tidy found {count} violation{}", if count == 1 { "" } else { "s" }),
    }
}

/// Applies all rules to all files. Returns the violations sorted by path and line.
fn check(files: &[File]) -> Vec<Violation> {
    let sources: Vec<Source> = source::parse_all(files);
    let mut violations = Vec::new();
    for source in &sources {
        violations.extend(file_layout::check(source));
        violations.extend(functions::check(source));
        violations.extend(words::check(source));
        violations.extend(names::types(source));
        violations.extend(idioms::rust(source));
    }
    for file in files {
        violations.extend(names::path(&file.path));
        violations.extend(idioms::text(file));
        violations.extend(machine_specific::check(file));
    }
    violations.extend(dependencies::check(files));
    violations.extend(duplicate_types::check(&sources));
    violations.extend(documentation::errors(files));
    violations.extend(documentation::architecture(files));
    violations.extend(file_layout::empty_crates(&sources, files));
    violations.extend(test_targets::check(&sources, files));
    violations.sort_by(|a, b| (&a.path, a.line, a.rule).cmp(&(&b.path, b.line, b.rule)));
    violations
}

/// Returns the tracked text files. Files that are deleted in the work tree but not in the index are skipped, and so are
/// files that are not UTF-8.
fn tracked(root: &Path) -> Result<Vec<File>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z"])
        .output()
        .context("cannot start `git ls-files`")?;
    if !output.status.success() {
        bail!("`git ls-files`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let list = String::from_utf8(output.stdout).context("a tracked path is not UTF-8")?;
    let mut files = Vec::new();
    for path in list.split_terminator('\0') {
        match std::fs::read(root.join(path)) {
            Ok(bytes) => {
                if let Ok(text) = String::from_utf8(bytes) {
                    files.push(File { path: path.to_owned(), text });
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        }
    }
    Ok(files)
}

/// Returns the directories in `crates/`, sorted and without duplicates.
fn crates(files: &[File]) -> Vec<&str> {
    let mut directories: Vec<&str> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/")?.split_once('/').map(|(directory, _)| directory))
        .collect();
    directories.sort_unstable();
    directories.dedup();
    directories
}
