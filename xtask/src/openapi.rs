//! `cargo xtask openapi`: regenerates the OpenAPI document, and the table of limits in the security guide. It runs the tests
//! that compare them with the code, in write mode, so that there is only one way to generate them.

use std::path::Path;

use anyhow::Result;

use crate::step::{cargo, run_command};

/// Writes `openapi/quorate.json` and the table in `docs/guides/security.md`.
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
    run_command(cargo(root, &test).env("QUORATE_WRITE_OPENAPI", "1"))?;
    let test = [
        "test",
        "--locked",
        "-p",
        "quorate-server",
        "--lib",
        "settings::tests::i21_the_guide_lists_every_limit",
    ];
    run_command(cargo(root, &test).env("QUORATE_WRITE_LIMITS", "1"))
}
