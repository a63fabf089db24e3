//! Requires one integration-test target per package, `tests/it/main.rs`, because every target links all dependencies.
//!
//! Another target needs a reason in its opening comment: `//! Own target: REASON`. For a target declared in the manifest,
//! the reason is in the line above: `# Own target: REASON`. A file below `tests/it` that no module declares would never
//! be compiled, so it is a violation too.

use super::source::Source;
use super::{File, Violation};

const RULE: &str = "test-target";
const HELP: &str =
    "make it a module of tests/it/main.rs, or state the reason in its opening comment: `//! Own target: …`";

/// Checks the test targets of all packages.
pub(crate) fn check(sources: &[Source], files: &[File]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for source in sources {
        let Some((package, test_path)) = split(&source.path) else { continue };
        if test_path.starts_with("it/") {
            violations.extend(undeclared(source, package, test_path, sources));
        } else if is_target(test_path) && !source.raw.lines().take_while(is_opening).any(has_reason) {
            let problem = "separate integration-test target without a reason";
            violations.push(Violation::new(RULE, &source.path, 1, problem, HELP));
        }
    }
    for file in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        violations.extend(declared_in_manifest(file));
    }
    violations
}

/// Splits a path into the package and the path inside its directory `tests`. A directory `tests` below `src` contains unit
/// tests.
fn split(path: &str) -> Option<(&str, &str)> {
    let (package, test_path) = path.split_once("/tests/")?;
    (!package.contains("/src")).then_some((package, test_path))
}

/// Whether cargo treats the file as a target: a file in `tests`, or a `main.rs` in a subdirectory.
fn is_target(test_path: &str) -> bool {
    match test_path.split_once('/') {
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
fn undeclared(source: &Source, package: &str, test_path: &str, sources: &[Source]) -> Option<Violation> {
    let module = test_path.strip_suffix("/mod.rs").or_else(|| test_path.strip_suffix(".rs"))?;
    let (directory, name) = module.rsplit_once('/')?;
    if module == "it/main" {
        return None;
    }
    let parents = match directory {
        "it" => [format!("{package}/tests/it/main.rs"), String::new()],
        _ => [format!("{package}/tests/{directory}.rs"), format!("{package}/tests/{directory}/mod.rs")],
    };
    let declaration = format!("mod {name};");
    let is_declared = sources
        .iter()
        .filter(|parent| parents.contains(&parent.path))
        .any(|parent| parent.code.lines().any(|line| line.trim().ends_with(&declaration)));
    if is_declared {
        return None;
    }
    let problem = format!("no module declares `{name}`: its tests are never compiled");
    let help = "add `mod …;` to its parent module, or delete the file";
    Some(Violation::new(RULE, &source.path, 1, problem, help))
}

fn declared_in_manifest(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut previous_line = "";
    for (index, line) in file.text.lines().enumerate() {
        if line.trim() == "[[test]]" && !(previous_line.starts_with('#') && has_reason(previous_line)) {
            let problem = "integration-test target in the manifest without a reason";
            let help = "let cargo discover tests/it/main.rs, or state the reason in the line above: `# Own target: …`";
            violations.push(Violation::new(RULE, &file.path, index + 1, problem, help));
        }
        previous_line = line;
    }
    violations
}
