//! `cargo xtask bench`: the workloads of `quorate bench`, in a release build.

use std::path::Path;

use anyhow::Result;

use crate::step::{call, cargo};

/// Hands all arguments on to `quorate bench`.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let build = ["run", "--release", "--locked", "-p", "quorate-cli", "--", "bench"];
    call(cargo(root, &build).args(args))
}
