//! Every rule has tests with violations and with valid code.

mod code;
mod dependencies;
mod duplicate_types;
mod test_targets;
mod text;

use super::{File, Violation, check};

/// Checks the given files together with an ARCHITECTURE.md that mentions their crates. Returns `path:line: problem` for
/// each violation.
fn violations(files: &[(&str, &str)]) -> Vec<String> {
    let mut files: Vec<File> = files
        .iter()
        .map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() })
        .collect();
    if !files.iter().any(|file| file.path == "ARCHITECTURE.md") {
        let text = super::crates(&files).join(" ");
        files.push(File { path: "ARCHITECTURE.md".to_owned(), text });
    }
    let describe =
        |violation: &Violation| format!("{}:{}: {}", violation.path, violation.line, violation.problem);
    check(&files).iter().map(describe).collect()
}

/// Checks one Rust file of an otherwise valid crate; `path` is relative to `crates/quorate-engine/`.
fn violations_in(path: &str, code: &str) -> Vec<String> {
    let path = format!("crates/quorate-engine/{path}");
    let text = format!("//! A file.\n{code}");
    let manifest = "[package]\nname = \"quorate-engine\"\n";
    let files = [
        ("crates/quorate-engine/Cargo.toml", manifest),
        ("crates/quorate-engine/src/lib.rs", "//! A crate.\nmod something;\n"),
        (path.as_str(), text.as_str()),
    ];
    violations(&files)
}

/// Asserts that there is one violation, which contains this text.
#[track_caller]
fn assert_one(violations: &[String], text: &str) {
    assert_eq!(violations.len(), 1, "one violation expected: {violations:#?}");
    assert!(violations[0].contains(text), "`{text}` expected: {}", violations[0]);
}

#[track_caller]
fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "no violation expected: {violations:#?}");
}

#[test]
fn a_violation_is_printed_with_location_problem_and_help() {
    let violation = Violation::new("word", "a/b.rs", 7, "`x` is a banned word here", "use y");
    assert_eq!(violation.to_string(), "a/b.rs:7: `x` is a banned word here [word]\n    help: use y");
}

#[test]
fn a_crate_without_code_is_a_violation() {
    let manifest = ("crates/quorate-store/Cargo.toml", "[package]\nname = \"quorate-store\"\n");
    let lib = "crates/quorate-store/src/lib.rs";
    assert_one(&violations(&[manifest]), "no code");
    assert_one(
        &violations(&[manifest, (lib, "//! Later.\n#![warn(missing_docs)]\n// Nothing.\n")]),
        "no code",
    );
    assert_one(&violations(&[manifest, (lib, "//! Later.\nfn main() {}\n")]), "no code");
    assert_none(&violations(&[manifest, (lib, "//! Now.\npub struct Head;\n")]));
}

mod exemptions {
    use crate::tidy::Violation;
    use crate::tidy::exempt::{Exempt, apply};

    const LONG: Exempt = Exempt { rule: "function-length", subject: "a.rs::decide", reason: "one table" };

    fn long(name: &str) -> Violation {
        Violation::new("function-length", "a.rs", 3, "too long", "split it").for_item(name)
    }

    #[test]
    fn an_exemption_removes_only_its_subject() {
        assert_eq!(apply(vec![long("decide"), long("apply")], &[LONG]), [long("apply")]);
    }

    #[test]
    fn an_exemption_that_is_not_needed_is_a_violation() {
        let remaining = apply(vec![], &[LONG]);
        assert_eq!(remaining.len(), 1);
        assert_eq!(remaining[0].rule, "exemption");
    }
}
