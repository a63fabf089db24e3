//! Tests of the rules for text files: machine-specific paths, package hosts, error pages and ARCHITECTURE.md.

use super::{assert_none, assert_one, violations};

#[test]
fn machine_specific_paths_are_rejected_in_every_file() {
    for path in
        [concat!("/ho", "me/ann"), concat!("/ro", "ot/x"), concat!("/wo", "rk/x"), concat!("/Us", "ers/x")]
    {
        assert_one(
            &violations(&[("docs/a.md", &format!("One.\nSee `{path}`.\n"))]),
            "docs/a.md:2: machine-specific absolute path",
        );
        assert_one(&violations(&[("xtask/a.rs", &format!("//! A file.\n// {path}\n"))]), "xtask/a.rs:2:");
    }
    assert_none(&violations(&[(
        "docs/a.md",
        concat!("The folder docs/wo", "rk/ and ~/wo", "rk/ are fine.\n"),
    )]));
}

#[test]
fn package_hosts_and_mirrors_are_rejected() {
    assert_one(
        &violations(&[("docs/a.md", concat!("From index.", "crates.io.\n"))]),
        "host of a package registry",
    );
    assert_one(&violations(&[(".cargo/config.toml", "[source.mirror]\n")]), "machine-specific registry");
    assert_one(&violations(&[(".cargo/config.toml", "[a]\nreplace-with = \"mirror\"\n")]), "config.toml:2:");
    let line = "source = \"registry+https://mirror.example/index\"\n";
    assert_one(&violations(&[("Cargo.lock", line)]), "other than crates.io");
    let line = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
    assert_none(&violations(&[("Cargo.lock", line)]));
}

const REFUSED: &str = "crates/quorate-core/src/refused.rs";

fn violations_with_codes(refused: &str, pages: &[&str]) -> Vec<String> {
    let manifest = ("crates/quorate-core/Cargo.toml", "[package]\nname = \"quorate-core\"\n");
    let mut files = vec![manifest, (REFUSED, refused)];
    files.extend(pages.iter().map(|page| (*page, "A page.\n")));
    violations(&files)
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let code = "//! Codes.\nimpl Code {\n    pub fn as_str(self) -> &'static str {\n        match self {\n            \
                Self::Invalid => \"INVALID\",\n            Self::NotFound => \"NOT_FOUND\",\n        }\n    }\n}\n\
                fn hint() -> &'static str {\n    match self {\n        Self::Invalid => \"HINT\",\n    }\n}\n";
    let both = ["docs/errors/INVALID.md", "docs/errors/NOT_FOUND.md"];
    assert_none(&violations_with_codes(code, &both));
    assert_one(
        &violations_with_codes(code, &both[..1]),
        "refused.rs:6: the error code NOT_FOUND has no page",
    );
    let more = [both[0], both[1], "docs/errors/GONE.md"];
    assert_one(&violations_with_codes(code, &more), "docs/errors/GONE.md:1: there is no error code GONE");
}

#[test]
fn a_codes_file_without_codes_is_a_violation() {
    assert_one(&violations_with_codes("//! Codes.\npub struct Refused;\n", &[]), "no error codes found");
    assert_none(&violations(&[("docs/errors/INVALID.md", "The codes come later.\n")]));
}

#[test]
fn the_architecture_mentions_every_crate() {
    let manifest = ("crates/quorate/Cargo.toml", "[package]\nname = \"quorate\"\n");
    let lib = ("crates/quorate/src/lib.rs", "//! A crate.\npub struct Hub;\n");
    let page = |text| ("ARCHITECTURE.md", text);
    assert_one(
        &violations(&[manifest, lib, page("Only quorate-core and Quorate.\n")]),
        "does not mention the crate `quorate`",
    );
    assert_none(&violations(&[manifest, lib, page("The crate `quorate` is the library.\n")]));
    assert_one(
        &super::super::documentation::architecture(&[]).iter().map(ToString::to_string).collect::<Vec<_>>(),
        "missing",
    );
}

#[test]
fn idioms_are_refused_in_comments_strings_and_documents_but_not_in_code() {
    let idiom = concat!("who", "ever");
    assert_one(&violations(&[("docs/a.md", &format!("One.\nFor {idiom} asks.\n"))]), "docs/a.md:2: `");
    assert_one(
        &violations(&[("xtask/a.rs", &format!("//! A file.\n// For {idiom} asks.\n"))]),
        "xtask/a.rs:2:",
    );
    assert_one(
        &violations(&[("xtask/a.rs", &format!("//! A file.\nconst A: &str = \"{idiom}\";\n"))]),
        "xtask/a.rs:2:",
    );
    assert_none(&violations(&[("xtask/a.rs", &format!("//! A file.\nfn {idiom}() {{}}\n"))]));
    assert_none(&violations(&[("docs/a.md", &format!("The word {idiom}s is another one.\n"))]));
}

#[test]
fn idioms_in_yaml_are_refused_in_comments_and_allowed_as_values() {
    let idiom = concat!("given ", "out");
    assert_one(&violations(&[("playbooks/a.yaml", &format!("a: 1\n  # Is {idiom}.\n"))]), "a.yaml:2: `");
    assert_none(&violations(&[("playbooks/a.yaml", &format!("a: \"It was {idiom}\"\n"))]));
}

#[test]
fn idioms_in_openapi_are_refused_in_sentences_and_allowed_as_values() {
    let idiom = concat!("given ", "out");
    let sentence = format!("{{\n  \"description\": \"It is {idiom}.\"\n}}\n");
    assert_one(&violations(&[("openapi/quorate.json", &sentence)]), "openapi/quorate.json:2:");
    assert_none(&violations(&[("openapi/quorate.json", &format!("{{\n  \"const\": \"{idiom}\"\n}}\n"))]));
}

#[test]
fn a_doc_comment_that_repeats_a_name_is_refused() {
    let field = |doc: &str| format!("//! A file.\nstruct A {{\n    /// {doc}\n    at: u64,\n}}\n");
    assert_one(&violations(&[("xtask/a.rs", &field("When."))]), "xtask/a.rs:3: the comment `When.`");
    assert_none(&violations(&[("xtask/a.rs", &field("Time of the last change."))]));
}
