//! What the tests need beside a Rust toolchain: checked first, installed where that is plainly wanted, else named.
//!
//! A missing tool is never a reason to leave a test out.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step;

/// Checks for every tool; the run ends here, with a sentence to act on, if one is missing and cannot be installed.
pub(crate) fn check(root: &Path) -> Result<()> {
    component(root, "fmt", "rustfmt")?;
    component(root, "clippy", "clippy")?;
    if !step::works(Command::new("git").arg("-C").arg(root).args(["rev-parse", "--git-dir"])) {
        bail!("tidy reads the list of files from git: install git and work in a clone of the repository");
    }
    python()?;
    node()?;
    curl()
}

fn component(root: &Path, subcommand: &str, name: &str) -> Result<()> {
    if step::works(&mut step::cargo(root, &[subcommand, "--version"])) {
        return Ok(());
    }
    if step::works(Command::new("rustup").arg("--version")) {
        return step::call(Command::new("rustup").current_dir(root).args(["component", "add", name]));
    }
    bail!("`cargo {subcommand}` is missing: install the component {name} of your Rust toolchain")
}

/// One test runs the Python script of docs/audit.md, so that the recipe for verifying an export stays true; schemathesis
/// is a Python program, and is installed with pip into a folder of its own.
fn python() -> Result<()> {
    if step::works(Command::new("python3").args(["-c", "import ensurepip, venv"])) {
        return Ok(());
    }
    if can_install() {
        return install(&["python3", "python3-venv"])
            .context("python3 is missing and could not be installed: install it by hand");
    }
    bail!(
        "python3 with venv and pip is missing: a test runs the documented Python script that verifies an audit export, \
         and schemathesis checks the HTTP interface.\n\
         Install it (Debian and Ubuntu: `sudo apt-get install python3 python3-venv`; others: python.org) and run this again"
    )
}

/// A TypeScript client is generated from the description of the interface, and type-checked.
fn node() -> Result<()> {
    let works = |program: &str| step::works(Command::new(program).arg("--version"));
    if works("node") && works("npm") {
        return Ok(());
    }
    if can_install() {
        return install(&["nodejs", "npm"])
            .context("node and npm are missing and could not be installed: install them by hand");
    }
    bail!(
        "node or npm is missing: a TypeScript client is generated from the description of the interface.\n\
         Install them (Debian and Ubuntu: `sudo apt-get install nodejs npm`; others: nodejs.org) and run this again"
    )
}

/// The guides speak to the hub with curl, and tests run them as they are written.
fn curl() -> Result<()> {
    if step::works(Command::new("curl").arg("--version")) {
        return Ok(());
    }
    if can_install() {
        return install(&["curl"]).context("curl is missing and could not be installed: install it by hand");
    }
    bail!(
        "curl is missing: tests run the commands of the guides.\n\
         Install it (Debian and Ubuntu: `sudo apt-get install curl`) and run this again"
    )
}

fn can_install() -> bool {
    Path::new("/etc/debian_version").exists() && is_root()
}

fn install(packages: &[&str]) -> Result<()> {
    step::call(Command::new("apt-get").arg("update"))?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    step::call(install.args(["install", "-y", "--no-install-recommends"]).args(packages))
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
