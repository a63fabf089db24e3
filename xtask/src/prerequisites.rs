//! Prerequisites of the tests besides a Rust toolchain. They are checked first; missing tools are installed if possible
//! (rustup components; apt packages as root on Debian), otherwise the error contains the command to install them.
//!
//! Tests are never skipped because of a missing tool.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step;

/// Checks that every tool is available. Fails with an installation hint if one is missing and cannot be installed.
pub(crate) fn check(root: &Path) -> Result<()> {
    component(root, "fmt", "rustfmt")?;
    component(root, "clippy", "clippy")?;
    if !step::succeeds(Command::new("git").arg("-C").arg(root).args(["rev-parse", "--git-dir"])) {
        bail!(
            "git does not work in {}: install git and use a clone of the repository (tidy lists files with git)",
            root.display()
        );
    }
    python()?;
    node()?;
    curl()
}

fn component(root: &Path, subcommand: &str, name: &str) -> Result<()> {
    if step::succeeds(&mut step::cargo(root, &[subcommand, "--version"])) {
        return Ok(());
    }
    if step::succeeds(Command::new("rustup").arg("--version")) {
        return step::run_command(Command::new("rustup").current_dir(root).args(["component", "add", name]));
    }
    bail!("`cargo {subcommand}` is missing: install the component `{name}` of your Rust toolchain")
}

/// Checks for Python: a test runs the script of docs/audit.md that verifies an export, and schemathesis is installed
/// with pip into a virtual environment.
fn python() -> Result<()> {
    if step::succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])) {
        return Ok(());
    }
    if can_install() {
        return install(&["python3", "python3-venv"])
            .context("python3 is missing and could not be installed; install it manually");
    }
    bail!(
        "python3 with venv and pip is missing: tests run the documented script that verifies an audit export, and \
         schemathesis checks the HTTP API.\n\
         Install it (Debian and Ubuntu: `sudo apt-get install python3 python3-venv`; others: python.org) and retry"
    )
}

/// Checks for Node.js: a TypeScript client is generated from the OpenAPI document and type-checked.
fn node() -> Result<()> {
    let works = |program: &str| step::succeeds(Command::new(program).arg("--version"));
    if works("node") && works("npm") {
        return Ok(());
    }
    if can_install() {
        return install(&["nodejs", "npm"])
            .context("node and npm are missing and could not be installed; install them manually");
    }
    bail!(
        "node or npm is missing: tests generate a TypeScript client from the OpenAPI document.\n\
         Install them (Debian and Ubuntu: `sudo apt-get install nodejs npm`; others: nodejs.org) and retry"
    )
}

/// Checks for curl: tests run the commands of the guides, which use curl.
fn curl() -> Result<()> {
    if step::succeeds(Command::new("curl").arg("--version")) {
        return Ok(());
    }
    if can_install() {
        return install(&["curl"]).context("curl is missing and could not be installed; install it manually");
    }
    bail!(
        "curl is missing: tests run the commands of the guides.\n\
         Install it (Debian and Ubuntu: `sudo apt-get install curl`) and retry"
    )
}

fn can_install() -> bool {
    Path::new("/etc/debian_version").exists() && is_root()
}

fn install(packages: &[&str]) -> Result<()> {
    step::run_command(Command::new("apt-get").arg("update"))?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    step::run_command(install.args(["install", "-y", "--no-install-recommends"]).args(packages))
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
