//! `cargo xtask openapi`: regenerates the OpenAPI document. It runs the test that compares the document with the code, in
//! write mode, so that there is only one way to generate it.

use std::path::Path;

use anyhow::Result;

use crate::step::{cargo, run_command};

/// Writes `openapi/quorate.json`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let test = [
        "test",
        "--locked",
        "-p",
        "quorate-server",
        "--test",
        "it",
        "openapi::the_checked_in_description_is_up_to_date",
    ];
    run_command(cargo(root, &test).env("QUORATE_WRITE_OPENAPI", "1"))
}
