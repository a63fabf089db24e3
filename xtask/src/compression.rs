//! `cargo xtask compression`: measures the quality of context compression, and writes the page that publishes it. It runs the test
//! that compares the page with the measurement, in write mode.

use std::path::Path;

use anyhow::Result;

use crate::step::{cargo, run_command};

/// Writes `docs/compression-quality.md`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let test = [
        "test",
        "--locked",
        "-p",
        "quorate-procedures",
        "--test",
        "it",
        "compression::quality::b5_the_published_shares_of_kept_facts_are_true",
    ];
    run_command(cargo(root, &test).env("QUORATE_WRITE_COMPRESSION", "1"))
}
