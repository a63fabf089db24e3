//! `cargo xtask bench`: runs the workloads of `quorate bench`, built with the release profile `dist`.

use std::path::Path;

use anyhow::Result;

use crate::step::{cargo, run_command};

/// Runs `quorate bench` with these arguments.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let build = ["run", "--profile", "dist", "--locked", "-p", "quorate-cli", "--", "bench"];
    run_command(cargo(root, &build).args(args))
}
