//! Development tasks of the workspace: `cargo xtask <command>`.
//!
//! This file parses the command line; each command has its own module. Nothing here is part of the product or a
//! dependency of it.

// A command-line tool prints to the terminal.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod compression;
mod dist;
mod generators;
mod openapi;
mod peers;
mod prerequisites;
mod schemathesis;
mod sim;
mod step;
mod suite;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
Development tasks of Quorate.

Usage: cargo xtask <command>

  test [--fast]   Run everything that CI runs: formatting, tidy, lints, tests, doc tests, API checks.
                  --fast: fewer crash cycles, power cuts and random cases
  tidy            Check the project rules on all tracked files.
  bench [ARGS]    Run `quorate bench ARGS`, built with the release profile `dist`.
  dist            Build the release binary with checksums and licenses into target/artifacts.
  peers           Compare request/reply throughput with NATS on the same machine.
  sim [--cycles N] [--cuts N] [--fuzz SECONDS] [--seed S] [-- ARGS]
                  Run the crash, power-loss and fuzz tests for longer. ARGS are passed to the test binaries.
  compression     Measure the quality of context compression and write docs/compression-quality.md.
  openapi         Regenerate openapi/quorate.json and the table of limits from the code.
  generators      Generate Python and TypeScript clients from openapi/quorate.json and type-check them.
  schemathesis    Test a running hub against openapi/quorate.json.
  help            Print this help.
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
        "compression" if rest.is_empty() => compression::run(&root),
        "sim" => sim::run(&root, &sim::SimArgs::parse(rest)?),
        "openapi" if rest.is_empty() => openapi::run(&root),
        "generators" if rest.is_empty() => generators::run(&root),
        "schemathesis" if rest.is_empty() => schemathesis::run(&root, schemathesis::Binary::NeedsBuild),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        _ => bail!("unknown command or argument: {}\n\n{HELP}", args.join(" ")),
    }
}

/// Returns the workspace root. `CARGO_MANIFEST_DIR` is read at run time: the value from compile time would be wrong if
/// several checkouts share one target directory.
fn root() -> Result<PathBuf> {
    let Some(package) = std::env::var_os("CARGO_MANIFEST_DIR") else {
        bail!("CARGO_MANIFEST_DIR is not set; run this program with `cargo xtask`");
    };
    match Path::new(&package).parent() {
        Some(root) => Ok(root.to_path_buf()),
        None => bail!("{} has no parent directory", package.display()),
    }
}
