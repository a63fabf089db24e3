//! `cargo xtask test`: runs the steps of CI in the same order, up to the first failure.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::step::{self, cargo, output, run_command};
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
    let linted = linted_build(root)?;
    let test = test_command(root);
    step::run("build and lint", || run_command(cargo(root, &test).arg("--no-run").envs(linted.clone())))?;
    let variables = scope.variables().into_iter().chain(memory_directory());
    step::run("tests", || run_command(cargo(root, &test).envs(linted.clone()).envs(variables)))?;
    step::run("doc tests", || run_command(cargo(root, &split_args(DOC_TESTS)).envs(linted.clone())))?;
    step::run("release features", || run_command(cargo(root, &split_args(BINARY)).envs(linted.clone())))?;
    step::run("schemathesis", || schemathesis::run(root, schemathesis::Binary::AlreadyBuilt))?;
    step::run("generators", || generators::run(root))?;
    check_licenses(root)?;
    if scope == Scope::Fast {
        eprintln!("fast: randomized tests ran with fewer repetitions; CI runs `cargo xtask test`");
    }
    Ok(())
}

/// Free space that the data directories of concurrent tests need at most, in kilobytes.
const TEST_DATA_KB_MAX: u64 = 2 * 1024 * 1024;

/// Returns the variable that moves the data directories of tests into memory, if there is enough of it: an eighth of the
/// time of the tests would be waits for fsync. Tests of durability simulate the disk, so they do not depend on it.
fn memory_directory() -> Option<(&'static str, &'static str)> {
    const DIRECTORY: &str = "/dev/shm";
    if std::env::var_os("TMPDIR").is_some() {
        return None;
    }
    let report = output(Command::new("df").args(["-Pk", DIRECTORY])).ok()?;
    let available: u64 = report.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    (available >= TEST_DATA_KB_MAX).then_some(("TMPDIR", DIRECTORY))
}

// All features: the fault and sabotage tests need the test-only features of quorate-sqlite.
const NEXTEST: &str = "nextest run --locked --workspace --all-features";
const CARGO_TEST: &str = "test --locked --workspace --all-features --all-targets";

// Neither nextest nor --all-targets runs doc tests. The same features as in the previous step, to reuse its build.
const DOC_TESTS: &str = "test --doc --locked --workspace --all-features";

// The tests enable the test-only features. This builds the binary with the released features, which finds code that only
// compiles with a test feature.
const BINARY: &str = "build --locked -p quorate-cli";

/// Returns the variables of a build that also runs clippy and denies warnings. `cargo clippy` would check the workspace
/// and all its dependencies once more, in a build of its own.
fn linted_build(root: &Path) -> Result<Vec<(&'static str, OsString)>> {
    let sysroot = output(Command::new("rustc").current_dir(root).args(["--print", "sysroot"]))?;
    let clippy = Path::new(sysroot.trim()).join("bin").join("clippy-driver");
    ensure!(clippy.exists(), "{} does not exist: install the component `clippy`", clippy.display());
    Ok(vec![("RUSTC_WORKSPACE_WRAPPER", clippy.into()), ("RUSTFLAGS", "-D warnings".into())])
}

fn test_command(root: &Path) -> Vec<&'static str> {
    if step::succeeds(&mut cargo(root, &["nextest", "--version"])) {
        return split_args(NEXTEST);
    }
    eprintln!("   cargo-nextest is not installed: using cargo test instead");
    split_args(CARGO_TEST)
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
