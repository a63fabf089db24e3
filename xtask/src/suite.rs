//! `cargo xtask test`: runs the steps of CI in the same order, up to the first failure.

use std::path::Path;

use anyhow::{Result, bail};

use crate::step::{self, cargo, run_command};
use crate::{generators, prerequisites, schemathesis, tidy};

/// Number of repetitions of randomized tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// As in CI.
    Full,
    /// The same steps and tests with fewer repetitions.
    Fast,
}

/// Environment variables that `--fast` sets, unless they are set already.
const FAST: [(&str, &str); 3] =
    [("QUORATE_CRASH_CYCLES", "5"), ("QUORATE_POWER_CUTS", "10"), ("PROPTEST_CASES", "64")];

impl Scope {
    pub(crate) fn parse(args: &[String]) -> Result<Self> {
        match args {
            [] => Ok(Self::Full),
            [flag] if flag == "--fast" => Ok(Self::Fast),
            _ => bail!("unexpected argument `{}`: `cargo xtask test` only accepts --fast", args.join(" ")),
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
    step::run("prerequisites", || prerequisites::check(root))?;
    step::run("fmt", || run_command(&mut cargo(root, &["fmt", "--all", "--check"])))?;
    step::run("tidy", || tidy::run(root))?;
    step::run("clippy", || run_command(&mut cargo(root, &split_args(CLIPPY))))?;
    step::run("clippy, release features", || run_command(&mut cargo(root, &split_args(CLIPPY_RELEASE))))?;
    step::run("tests", || run_command(cargo(root, &split_args(test_command(root))).envs(scope.variables())))?;
    step::run("doc tests", || run_command(&mut cargo(root, &split_args(DOC_TESTS))))?;
    step::run("schemathesis", || schemathesis::run(root, schemathesis::Binary::AlreadyBuilt))?;
    step::run("generators", || generators::run(root))?;
    check_licenses(root)?;
    if scope == Scope::Fast {
        eprintln!("fast: randomized tests ran with fewer repetitions; CI runs `cargo xtask test`");
    }
    Ok(())
}

const CLIPPY: &str = "clippy --workspace --all-targets --all-features --locked -- -D warnings";

// The previous step enables the test-only features of quorate-sqlite (faults, sabotage). This one checks the features of
// the released binary, to find code that only compiles with a test feature.
const CLIPPY_RELEASE: &str = "clippy --locked -p quorate-cli -- -D warnings";

// All features: the fault and sabotage tests need the test-only features of quorate-sqlite.
const NEXTEST: &str = "nextest run --locked --workspace --all-features";
const CARGO_TEST: &str = "test --locked --workspace --all-features --all-targets";

// Neither nextest nor --all-targets runs doc tests. The same features as in the previous step, to reuse its build.
const DOC_TESTS: &str = "test --doc --locked --workspace --all-features";

fn test_command(root: &Path) -> &'static str {
    if step::succeeds(&mut cargo(root, &["nextest", "--version"])) {
        return NEXTEST;
    }
    eprintln!("   cargo-nextest is not installed: using cargo test instead");
    CARGO_TEST
}

/// Checks licenses and sources of all dependencies with cargo-deny, if it is installed. It takes long to build, so it is
/// not installed automatically.
fn check_licenses(root: &Path) -> Result<()> {
    if !step::succeeds(&mut cargo(root, &["deny", "--version"])) {
        eprintln!("── licenses: SKIPPED, cargo-deny is not installed (run `cargo install cargo-deny`)");
        return Ok(());
    }
    let check = "deny --all-features --locked check licenses bans sources";
    step::run("licenses", || run_command(&mut cargo(root, &split_args(check))))
}

fn split_args(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[cfg(test)]
mod tests;
