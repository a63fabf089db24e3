//! Requires one integration-test target per package, `tests/it/main.rs`, because every target links all dependencies.
//!
//! Another target needs a reason in its opening comment: `//! Own target: REASON`. For a target declared in the manifest,
//! the reason is in the line above: `# Own target: REASON`. A file below `tests/it` that no module declares would never
//! be compiled, so it is a violation too.

use super::source::Source;
use super::{File, Violation};

const RULE: &str = "test-target";
const INSTEAD: &str =
    "make it a module of tests/it/main.rs, or state the reason in its opening comment: `//! Own target: …`";

/// Checks the test targets of all packages.
pub(crate) fn check(rust: &[Source], files: &[File]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in rust {
        let Some((package, inside)) = split(&source.path) else { continue };
        if inside.starts_with("it/") {
            found.extend(undeclared(source, package, inside, rust));
        } else if is_target(inside) && !source.raw.lines().take_while(is_opening).any(has_reason) {
            let what = "separate integration-test target without a reason";
            found.push(Violation::new(RULE, &source.path, 1, what, INSTEAD));
        }
    }
    for file in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        found.extend(declared_in_manifest(file));
    }
    found
}

/// Splits a path into the package and the path inside its directory `tests`. A directory `tests` below `src` contains unit
/// tests.
fn split(path: &str) -> Option<(&str, &str)> {
    let (package, inside) = path.split_once("/tests/")?;
    (!package.contains("/src")).then_some((package, inside))
}

/// Whether cargo treats the file as a target: a file in `tests`, or a `main.rs` in a subdirectory.
fn is_target(inside: &str) -> bool {
    match inside.split_once('/') {
        None => true,
        Some((_, file)) => file == "main.rs",
    }
}

fn is_opening(line: &&str) -> bool {
    line.starts_with("//!")
}

fn has_reason(line: &str) -> bool {
    let reason = line.trim_start_matches(['/', '!', '#', ' ']).strip_prefix("Own target:");
    reason.is_some_and(|reason| !reason.trim().is_empty())
}

/// Reports a file below `tests/it` that its parent module does not declare.
fn undeclared(source: &Source, package: &str, inside: &str, rust: &[Source]) -> Option<Violation> {
    let module = inside.strip_suffix("/mod.rs").or_else(|| inside.strip_suffix(".rs"))?;
    let (folder, name) = module.rsplit_once('/')?;
    if module == "it/main" {
        return None;
    }
    let parents = match folder {
        "it" => [format!("{package}/tests/it/main.rs"), String::new()],
        _ => [format!("{package}/tests/{folder}.rs"), format!("{package}/tests/{folder}/mod.rs")],
    };
    let declaration = format!("mod {name};");
    let is_declared = rust
        .iter()
        .filter(|parent| parents.contains(&parent.path))
        .any(|parent| parent.code.lines().any(|line| line.trim().ends_with(&declaration)));
    if is_declared {
        return None;
    }
    let what = format!("no module declares `{name}`: its tests are never compiled");
    let instead = "add `mod …;` to its parent module, or delete the file";
    Some(Violation::new(RULE, &source.path, 1, what, instead))
}

fn declared_in_manifest(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut before = "";
    for (index, line) in file.text.lines().enumerate() {
        if line.trim() == "[[test]]" && !(before.starts_with('#') && has_reason(before)) {
            let what = "integration-test target in the manifest without a reason";
            let instead = "let cargo discover tests/it/main.rs, or state the reason in the line above: `# Own target: …`";
            found.push(Violation::new(RULE, &file.path, index + 1, what, instead));
        }
        before = line;
    }
    found
}
