//! Tests of the rules for Rust code: length, opening comment, banned words and names.

use super::{assert_none, assert_one, violations, violations_in};
use crate::tidy::source::blank;

fn lines(count: usize, line: &str) -> String {
    format!("{line}\n").repeat(count)
}

#[test]
fn a_file_of_more_than_800_lines_is_too_long() {
    assert_none(&violations_in("src/a.rs", &lines(799, "const A: u8 = 1;")));
    assert_one(
        &violations_in("src/a.rs", &lines(800, "const A: u8 = 1;")),
        "a.rs:801: the file has 801 lines",
    );
}

#[test]
fn a_file_starts_with_an_inner_doc_comment() {
    assert_one(&violations(&[("xtask/src/a.rs", "const A: u8 = 1;\n")]), "a.rs:1: the file does not start");
    assert_one(
        &violations(&[("xtask/tests/a/b.rs", "/// Not the file.\n")]),
        "b.rs:1: the file does not start",
    );
}

#[test]
fn a_function_of_more_than_70_lines_is_too_long() {
    let long = |count| {
        format!("impl A {{\n    pub async fn go<T>(x: [u8; 3]) {{\n{}    }}\n}}\n", lines(count, "a();"))
    };
    assert_none(&violations_in("src/a.rs", &long(68)));
    assert_one(&violations_in("src/a.rs", &long(69)), "a.rs:3: function `go` has 71 lines");
}

#[test]
fn braces_in_text_do_not_end_a_function() {
    let body = lines(69, "a(\"}\", '}', r#\"}\"#); // }");
    assert_one(&violations_in("src/a.rs", &format!("fn go<'a>(x: &'a str) {{\n{body}}}\n")), "71 lines");
}

#[test]
fn a_declaration_without_a_body_is_ignored() {
    let code =
        format!("trait A {{\n    fn go(&self);\n}}\nconst B: [fn(); 1] = [\n{}];\n", lines(80, "    b,"));
    assert_none(&violations_in("src/a.rs", &code));
}

#[test]
fn a_flat_match_may_be_longer() {
    let code = |arm: &str| format!("fn go(op: Op) {{\n    match op {{\n{arm}    }}\n}}\n");
    let flat = lines(90, "        Op::A => a(),");
    assert_none(&violations_in("src/a.rs", &code(&flat)));
    let deep = format!("        Op::A => {{\n{}        }}\n", lines(90, "            a();"));
    assert_one(&violations_in("src/a.rs", &code(&deep)), "function `go`");
    let little = format!(
        "fn go(op: Op) {{\n{}    match op {{\n        Op::A => a(),\n    }}\n}}\n",
        lines(80, "a();")
    );
    assert_one(&violations_in("src/a.rs", &little), "function `go`");
}

#[test]
fn time_and_randomness_are_passed_as_arguments() {
    for word in ["SystemTime::now()", "Instant::now()", "Timestamp::now()"] {
        let code = format!("fn a() {{\n    std::time::{word};\n}}\n");
        assert_one(&violations_in("src/a.rs", &code), "a.rs:3:");
        assert_none(&violations_in("src/clock.rs", &code));
    }
    for word in ["Uuid::new_v4()", "Uuid::now_v7()", "rand::random()", "getrandom::fill(b)"] {
        let code = format!("fn a() {{\n    {word};\n}}\n");
        assert_one(&violations_in("src/a.rs", &code), "a.rs:3:");
        assert_none(&violations_in("src/entropy.rs", &code));
    }
}

#[test]
fn tests_and_benches_may_read_the_clock() {
    let code = "fn a() {\n    Instant::now();\n}\n";
    for path in ["tests/a/b.rs", "src/a/tests.rs", "benches/a.rs", "examples/a/bench.rs"] {
        assert_none(&violations_in(path, code));
    }
    for path in ["xtask/src/a.rs", "crates/quorate-bench/src/a.rs"] {
        let file = format!("//! A file.\n{code}");
        assert!(
            !violations(&[(path, &file)]).iter().any(|violation| violation.contains("banned word")),
            "{path}"
        );
    }
    let inline = format!("#[cfg(test)]\nmod tests {{\n    {code}}}\nfn b() {{\n    Instant::now();\n}}\n");
    assert_one(&violations_in("src/a.rs", &inline), "a.rs:9:");
}

#[test]
fn a_module_declared_for_tests_is_test_code() {
    let parent = "//! A file.\n#[cfg(test)]\nmod random;\nmod real;\n";
    let child = "//! A file.\nfn a() {\n    Instant::now();\n}\n";
    let violations = violations(&[
        ("xtask.rs", "//! A file.\n"),
        ("src/a.rs", parent),
        ("src/a/random.rs", child),
        ("src/a/real.rs", child),
    ]);
    assert_one(&violations, "src/a/real.rs:3:");
}

#[test]
fn sleeping_is_banned_in_tests_and_core() {
    for word in ["std::thread::sleep(d)", "tokio::time::sleep(d).await"] {
        let code = format!("fn a() {{\n    {word};\n}}\n");
        assert_one(&violations_in("tests/a/b.rs", &code), "sleep");
        assert_none(&violations_in("src/a.rs", &code));
        let core = format!("//! A file.\n{code}");
        let manifest = ("crates/quorate-core/Cargo.toml", "[package]\nname = \"quorate-core\"\n");
        assert_one(&violations(&[manifest, ("crates/quorate-core/src/a.rs", &core)]), "sleep");
    }
}

#[test]
fn unfinished_code_is_banned_everywhere() {
    for word in ["todo!()", "unimplemented!()", "dbg!(x)"] {
        let code = format!("fn a() {{\n    {word};\n}}\n");
        assert_one(&violations_in("src/a.rs", &code), "a.rs:3:");
        assert_one(&violations_in("tests/a/b.rs", &code), "b.rs:3:");
    }
    assert_one(
        &violations_in("tests/a/b.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n"),
        "b.rs:3: `#[ignore`",
    );
}

#[test]
fn words_in_comments_and_strings_are_allowed() {
    let code = "// Instant::now() /* todo!()\nconst A: &str = \"dbg!(x) \\\" todo!()\";\n/* todo!() /* */ dbg!() */\n";
    assert_none(&violations_in("src/a.rs", code));
    assert_none(&violations_in("src/a.rs", "macro_rules! my_todo { () => {} }\nmy_todo!();\n"));
}

#[test]
fn blanking_preserves_positions() {
    let raw = "a('\"'); b(\"x\\\"y\"); c::<'a>(br#\"q\"#, 'é', '\\''); // end é\nd";
    let code = blank(raw);
    assert_eq!(code.len(), raw.len());
    assert_eq!(code, "a(' '); b(\"    \"); c::<'a>(       , '  ', '  ');          \nd");
}

#[test]
fn meaningless_names_are_rejected() {
    for path in ["src/util.rs", "src/task_utils.rs", "src/helpers/claim.rs", "src/common.rs"] {
        assert_one(&violations_in(path, ""), "empty name");
    }
    for item in ["pub struct TaskManager;", "enum LeaseHelper {}", "trait Misc {}", "type Util = u8;"] {
        assert_one(&violations_in("src/a.rs", &format!("{item}\n")), "a.rs:2: the type");
    }
    assert_none(&violations_in("src/uncommon.rs", "pub struct Commons;\nstruct Managed;\n"));
}
