//! `cargo xtask openapi`: writes the description of the interface anew. The test that compares it does the writing, so that
//! there is one way in which it is made.

use std::path::Path;

use anyhow::Result;

use crate::step::{call, cargo};

/// Writes `openapi/quorate.json`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let test = [
        "test",
        "--locked",
        "-p",
        "quorate-server",
        "--test",
        "it",
        "openapi::the_description_is_checked_in",
    ];
    call(cargo(root, &test).env("QUORATE_WRITE_OPENAPI", "1"))
}
