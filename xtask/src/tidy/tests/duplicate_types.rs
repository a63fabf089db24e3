//! Tests of the rule for public type names with two meanings.

use super::violations;

/// Checks files that are given as `crate/path` and code, and returns the violations of this rule.
fn duplicates(files: &[(&str, &str)]) -> Vec<String> {
    let texts: Vec<(String, String)> = files
        .iter()
        .map(|(path, code)| (format!("crates/{path}"), format!("//! A file.\n{code}\n")))
        .collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    violations(&files).into_iter().filter(|violation| violation.contains("is also declared at")).collect()
}

#[test]
fn a_public_type_name_is_declared_in_one_crate() {
    let both = duplicates(&[
        ("quorate-server/src/settings.rs", "pub struct Limits;"),
        ("quorate-http/src/lib.rs", "use a::B;\npub enum Limits {}"),
    ]);
    let expected = "crates/quorate-server/src/settings.rs:2: the public type `Limits` is also declared at \
                    crates/quorate-http/src/lib.rs:3";
    assert_eq!(both, [expected], "the lower crate keeps the name");
    for code in ["pub trait Limits {}", "pub type Limits = u8;", "pub struct Limits<'a>(&'a str);"] {
        let files = [("quorate-http/src/lib.rs", "pub struct Limits;"), ("quorate-cli/src/main.rs", code)];
        assert_eq!(duplicates(&files).len(), 1, "{code}");
    }
}

#[test]
fn a_public_type_name_is_declared_once_in_a_crate() {
    let files =
        [("quorate-api/src/a.rs", "pub struct Delivery;"), ("quorate-api/src/b.rs", "pub struct Delivery;")];
    assert_eq!(duplicates(&files).len(), 1);
    let file = [("quorate-http/src/lib.rs", "pub struct Error;\nmod a {\n    pub struct Error;\n}")];
    assert_eq!(duplicates(&file).len(), 1, "a conventional name, too");
}

#[test]
fn private_types_and_tests_may_repeat_a_name() {
    for (path, code) in [
        ("quorate-server/src/a.rs", "struct Limits;\npub(crate) struct Limits;\npub struct OtherLimits;"),
        ("quorate-server/src/a.rs", "#[cfg(test)]\nmod tests {\n    pub struct Limits;\n}"),
        ("quorate-server/src/a.rs", "// pub struct Limits;\nconst A: &str = \"pub struct Limits;\";"),
        ("quorate-server/tests/it/main.rs", "pub struct Limits;"),
        ("quorate-sim/src/lib.rs", "pub struct Limits;"),
    ] {
        let violations = duplicates(&[("quorate-http/src/lib.rs", "pub struct Limits;"), (path, code)]);
        assert!(violations.is_empty(), "{path}: {violations:?}");
    }
}

#[test]
fn the_stored_type_the_json_type_and_the_handle_of_a_noun_share_its_name() {
    let twins = [
        ("quorate-core/src/task.rs", "pub struct Task;"),
        ("quorate-api/src/task.rs", "pub struct Task;"),
        ("quorate/src/task.rs", "pub struct Task;"),
    ];
    assert_eq!(duplicates(&twins), [""; 0]);
    for other in ["quorate-engine", "quorate-store", "quorate-agents", "quorate-client"] {
        let path = format!("{other}/src/task.rs");
        let [core, api, library] = twins;
        let violations = duplicates(&[core, api, library, (&path, "pub struct Task;")]);
        assert!(!violations.is_empty(), "{other}");
    }
}

#[test]
fn a_type_of_the_engine_that_the_library_exports_is_a_handle() {
    let engine = ("quorate-engine/src/space.rs", "pub struct Space;");
    let json = ("quorate-api/src/token.rs", "pub struct Space;");
    assert_eq!(duplicates(&[engine, json]).len(), 1);
    let export = ("quorate/src/lib.rs", "pub use quorate_engine::{SecretHandling, Space};");
    assert_eq!(duplicates(&[engine, json, export]), [""; 0]);
    let store = ("quorate-store/src/lib.rs", "pub struct Space;");
    assert!(!duplicates(&[engine, store, export]).is_empty(), "only beside the stored and the JSON type");
}

#[test]
fn every_crate_may_declare_its_error_and_its_options() {
    let files = [
        ("quorate-api/src/error.rs", "pub enum Error {}\npub struct Options;\npub struct Settings;"),
        ("quorate-http/src/lib.rs", "pub enum Error {}\npub struct Options;\npub struct Settings;"),
    ];
    assert_eq!(duplicates(&files), [""; 0]);
}
