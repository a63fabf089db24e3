//! `cargo xtask test`: everything that CI runs, in the same order, up to the first failure.

use std::path::Path;

use anyhow::{Result, bail};

use crate::step::{self, call, cargo};
use crate::{generators, needs, schemathesis, tidy};

/// How long the repeating tests go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// What CI runs.
    Full,
    /// The same steps and the same tests, with fewer repetitions.
    Fast,
}

/// What `--fast` lowers. A variable that the caller has set already stays as it is.
const FAST: [(&str, &str); 3] =
    [("QUORATE_CRASH_CYCLES", "5"), ("QUORATE_POWER_CUTS", "10"), ("PROPTEST_CASES", "64")];

impl Scope {
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        match args {
            [] => Ok(Self::Full),
            [flag] if flag == "--fast" => Ok(Self::Fast),
            _ => bail!("`cargo xtask test` takes --fast and nothing else, not `{}`", args.join(" ")),
        }
    }

    fn variables(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Full => Vec::new(),
            Self::Fast => FAST.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()).collect(),
        }
    }
}

/// Runs all steps.
pub(crate) fn run(root: &Path, scope: Scope) -> Result<()> {
    step::run("needs", || needs::check(root))?;
    step::run("fmt", || call(&mut cargo(root, &["fmt", "--all", "--check"])))?;
    step::run("tidy", || tidy::run(root))?;
    step::run("clippy", || call(&mut cargo(root, &words(CLIPPY))))?;
    step::run("clippy, as shipped", || call(&mut cargo(root, &words(CLIPPY_SHIPPED))))?;
    step::run("tests", || call(cargo(root, &words(runner(root))).envs(scope.variables())))?;
    step::run("doc tests", || call(&mut cargo(root, &words(DOC_TESTS))))?;
    step::run("schemathesis", || schemathesis::run(root, schemathesis::Binary::IsThere))?;
    step::run("generators", || generators::run(root))?;
    licences(root)?;
    if scope == Scope::Fast {
        eprintln!("fast: the repeating tests were shortened; CI runs `cargo xtask test`");
    }
    Ok(())
}

const CLIPPY: &str = "clippy --workspace --all-targets --all-features --locked -- -D warnings";

// The test-only features of quorate-sqlite (faults, sabotage) are on in the step before. This one compiles what people
// get, so that code which only works with a test feature on is found.
const CLIPPY_SHIPPED: &str = "clippy --locked -p quorate-cli -- -D warnings";

// All features: the fault and sabotage tests need the test-only features of quorate-sqlite.
const NEXTEST: &str = "nextest run --locked --workspace --all-features";
const CARGO_TEST: &str = "test --locked --workspace --all-features --all-targets";

// nextest runs no doc tests, and neither does --all-targets. With the features of the step before: what it compiled is used.
const DOC_TESTS: &str = "test --doc --locked --workspace --all-features";

fn runner(root: &Path) -> &'static str {
    if step::works(&mut cargo(root, &["nextest", "--version"])) {
        return NEXTEST;
    }
    eprintln!("   cargo-nextest is not installed: the same tests run with cargo test");
    CARGO_TEST
}

/// Licences and sources of all dependencies. The tool is large, so it is used where it is and never built here.
fn licences(root: &Path) -> Result<()> {
    if !step::works(&mut cargo(root, &["deny", "--version"])) {
        eprintln!(
            "── licences: NOT CHECKED, cargo-deny is not installed (`cargo install cargo-deny` adds it)"
        );
        return Ok(());
    }
    let check = "deny --all-features --locked check licenses bans sources";
    step::run("licences", || call(&mut cargo(root, &words(check))))
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[cfg(test)]
mod tests;
