//! Tests of the rule for integration tests: one target per package.

use super::{assert_none, assert_one, violations, violations_in};

const MAIN: (&str, &str) = ("xtask/tests/it/main.rs", "//! All tests.\nmod a;\npub(crate) mod b;\n");

#[test]
fn another_test_target_needs_a_reason_in_its_opening_comment() {
    for path in ["tests/a.rs", "tests/a/main.rs"] {
        assert_one(&violations_in(path, ""), "separate integration-test target");
        assert_one(&violations_in(path, "//! Own target:\n"), "separate integration-test target");
        assert_one(
            &violations_in(path, "use a::b;\n// Own target: too late.\n"),
            "separate integration-test target",
        );
        assert_none(&violations_in(path, "//! Own target: it sets the umask of the process.\n"));
    }
    assert_none(&violations_in("tests/it/main.rs", ""));
    assert_none(&violations_in("tests/a/stage.rs", ""));
    assert_none(&violations_in("src/a/tests/b.rs", ""));
    assert_one(
        &violations(&[("xtask/tests/a.rs", "//! A file.\n")]),
        "xtask/tests/a.rs:1: separate integration-test target",
    );
}

#[test]
fn a_test_target_in_the_manifest_needs_a_reason_above_it() {
    let manifest = |rest: &str| format!("[package]\nname = \"xtask\"\n{rest}[[test]]\nname = \"a\"\n");
    let check = |rest: &str| violations(&[("xtask/Cargo.toml", &manifest(rest))]);
    assert_one(&check(""), "xtask/Cargo.toml:3: integration-test target");
    assert_none(&check("# Own target: it has no harness.\n"));
}

#[test]
fn a_test_file_that_no_module_declares_is_a_violation() {
    let file = "//! A file.\n";
    let nested = "//! A file.\nmod c;\n";
    assert_none(&violations(&[
        MAIN,
        ("xtask/tests/it/a.rs", nested),
        ("xtask/tests/it/a/c.rs", file),
        ("xtask/tests/it/b/mod.rs", nested),
        ("xtask/tests/it/b/c.rs", file),
    ]));
    for path in ["xtask/tests/it/c.rs", "xtask/tests/it/c/mod.rs"] {
        assert_one(&violations(&[MAIN, (path, file)]), "no module declares `c`");
    }
    assert_one(
        &violations(&[MAIN, ("xtask/tests/it/a.rs", file), ("xtask/tests/it/a/c.rs", file)]),
        "a/c.rs:1: no module declares `c`",
    );
    let commented = ("xtask/tests/it/main.rs", "//! All tests.\n// mod a;\n");
    assert_one(&violations(&[commented, ("xtask/tests/it/a.rs", file)]), "no module declares `a`");
}
