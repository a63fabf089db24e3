//! The one door for all chores: `cargo xtask <command>`.
//!
//! This file reads the command line and nothing else; each command has a file of its own. No product code lives here,
//! and nothing here is a dependency of the product.

// A command-line tool talks to its user by printing.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod dist;
mod generators;
mod needs;
mod openapi;
mod peers;
mod schemathesis;
mod sim;
mod step;
mod suite;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
The chores of Quorate.

  cargo xtask test [--fast]   format, tidy, lints, tests, doc tests: exactly what CI runs
                              --fast: fewer crash cycles, power cuts and random cases
  cargo xtask tidy            the rules of the house over all tracked files
  cargo xtask bench [ARGS]    quorate bench ARGS, built with the profile of shipped binaries
  cargo xtask dist            the binary to ship, with checksums and licences, in target/artifacts
  cargo xtask peers           questions and answers over NATS, and over Quorate in the same minute
  cargo xtask sim [--cycles N] [--cuts N] [--fuzz SECONDS] [--seed S] [-- ARGS]
                              the crash, power-loss and broken-input tests, longer; ARGS go to the test binaries
  cargo xtask openapi         writes openapi/quorate.json anew, from the code
  cargo xtask generators      generates Python and TypeScript clients from that description, and type-checks them
  cargo xtask schemathesis    calls a real hub by nothing but that description, and checks every answer
  cargo xtask help            this text
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let root = root()?;
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", args),
    };
    match command {
        "test" => suite::run(&root, suite::Scope::parse(rest)?),
        "tidy" if rest.is_empty() => tidy::run(&root),
        "bench" => bench::run(&root, rest),
        "dist" if rest.is_empty() => dist::run(&root),
        "peers" if rest.is_empty() => peers::run(&root),
        "sim" => sim::run(&root, &sim::Plan::parse(rest)?),
        "openapi" if rest.is_empty() => openapi::run(&root),
        "generators" if rest.is_empty() => generators::run(&root),
        "schemathesis" if rest.is_empty() => schemathesis::run(&root, schemathesis::Binary::IsToBeMade),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        _ => bail!("unknown command or argument: {}\n\n{HELP}", args.join(" ")),
    }
}

/// The top folder of the workspace. Cargo says at run time where this package lies; the value from compile time would
/// be wrong when several checkouts share one target folder.
fn root() -> Result<PathBuf> {
    let Some(package) = std::env::var_os("CARGO_MANIFEST_DIR") else {
        bail!("start this program with `cargo xtask`");
    };
    match Path::new(&package).parent() {
        Some(root) => Ok(root.to_path_buf()),
        None => bail!("{} has no parent folder", package.display()),
    }
}
