//! Tests of the rules for text files: machine-specific paths, package hosts, error pages and ARCHITECTURE.md.

use super::{assert_none, assert_one, found};

#[test]
fn machine_specific_paths_are_rejected_in_every_file() {
    for path in
        [concat!("/ho", "me/ann"), concat!("/ro", "ot/x"), concat!("/wo", "rk/x"), concat!("/Us", "ers/x")]
    {
        assert_one(
            &found(&[("docs/a.md", &format!("One.\nSee `{path}`.\n"))]),
            "docs/a.md:2: machine-specific absolute path",
        );
        assert_one(&found(&[("xtask/a.rs", &format!("//! A file.\n// {path}\n"))]), "xtask/a.rs:2:");
    }
    assert_none(&found(&[("docs/a.md", concat!("The folder docs/wo", "rk/ and ~/wo", "rk/ are fine.\n"))]));
}

#[test]
fn package_hosts_and_mirrors_are_rejected() {
    assert_one(
        &found(&[("docs/a.md", concat!("From index.", "crates.io.\n"))]),
        "host of a package registry",
    );
    assert_one(&found(&[(".cargo/config.toml", "[source.mirror]\n")]), "machine-specific registry");
    assert_one(&found(&[(".cargo/config.toml", "[a]\nreplace-with = \"mirror\"\n")]), "config.toml:2:");
    let line = "source = \"registry+https://mirror.example/index\"\n";
    assert_one(&found(&[("Cargo.lock", line)]), "other than crates.io");
    let line = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
    assert_none(&found(&[("Cargo.lock", line)]));
}

const REFUSED: &str = "crates/quorate-core/src/refused.rs";

fn found_with_codes(refused: &str, pages: &[&str]) -> Vec<String> {
    let manifest = ("crates/quorate-core/Cargo.toml", "[package]\nname = \"quorate-core\"\n");
    let mut files = vec![manifest, (REFUSED, refused)];
    files.extend(pages.iter().map(|page| (*page, "A page.\n")));
    found(&files)
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let code = "//! Codes.\nimpl Code {\n    pub fn as_str(self) -> &'static str {\n        match self {\n            \
                Self::Invalid => \"INVALID\",\n            Self::NotFound => \"NOT_FOUND\",\n        }\n    }\n}\n\
                fn hint() -> &'static str {\n    match self {\n        Self::Invalid => \"HINT\",\n    }\n}\n";
    let both = ["docs/errors/INVALID.md", "docs/errors/NOT_FOUND.md"];
    assert_none(&found_with_codes(code, &both));
    assert_one(&found_with_codes(code, &both[..1]), "refused.rs:6: the error code NOT_FOUND has no page");
    let more = [both[0], both[1], "docs/errors/GONE.md"];
    assert_one(&found_with_codes(code, &more), "docs/errors/GONE.md:1: there is no error code GONE");
}

#[test]
fn a_codes_file_without_codes_is_a_violation() {
    assert_one(&found_with_codes("//! Codes.\npub struct Refused;\n", &[]), "no error codes found");
    assert_none(&found(&[("docs/errors/INVALID.md", "The codes come later.\n")]));
}

#[test]
fn the_architecture_mentions_every_crate() {
    let manifest = ("crates/quorate/Cargo.toml", "[package]\nname = \"quorate\"\n");
    let lib = ("crates/quorate/src/lib.rs", "//! A crate.\npub struct Hub;\n");
    let page = |text| ("ARCHITECTURE.md", text);
    assert_one(
        &found(&[manifest, lib, page("Only quorate-core and Quorate.\n")]),
        "does not mention the crate `quorate`",
    );
    assert_none(&found(&[manifest, lib, page("The crate `quorate` is the library.\n")]));
    assert_one(
        &super::super::documentation::architecture(&[]).iter().map(ToString::to_string).collect::<Vec<_>>(),
        "missing",
    );
}
