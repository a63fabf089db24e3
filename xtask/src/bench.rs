//! `cargo xtask bench`: the workloads of `quorate bench`, built with the profile of shipped binaries.

use std::path::Path;

use anyhow::Result;

use crate::step::{call, cargo};

/// Hands all arguments on to `quorate bench`.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let build = ["run", "--profile", "dist", "--locked", "-p", "quorate-cli", "--", "bench"];
    call(cargo(root, &build).args(args))
}
