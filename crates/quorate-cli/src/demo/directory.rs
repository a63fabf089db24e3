//! Data directory of a demo. A marker file identifies it, so that no other directory is ever deleted.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use quorate_env::replace_file;

use super::contract::ContractSource;
use crate::exit::{CONFLICT, CommandError, NOT_FOUND};
use crate::hub;

/// Default directory.
const DEFAULT_DIRECTORY: &str = "quorate-demo";
/// Name of the marker file.
const MARKER: &str = "demo.json";

/// Returns the directory for a new demo, after deleting a previous demo in the default directory.
pub(super) fn create(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let data = given.unwrap_or(Path::new(DEFAULT_DIRECTORY)).to_owned();
    if data.exists() {
        let is_demo = given.is_none() && data.join(MARKER).is_file();
        if !is_demo {
            let message = format!("{} already exists", data.display());
            return Err(CommandError::new(
                CONFLICT,
                message,
                "choose a new directory: quorate demo --data DIR",
            )
            .into());
        }
        if hub::running_hub_url(&data).is_some() {
            let message = format!("a demo is running in {}", data.display());
            return Err(CommandError::new(
                CONFLICT,
                message,
                "stop it first, or choose another directory: --data DIR",
            )
            .into());
        }
        fs::remove_dir_all(&data).with_context(|| format!("failed to delete {}", data.display()))?;
    }
    Ok(data)
}

/// Writes the marker file with the contract of the demo.
pub(super) fn write_marker(data: &Path, source: ContractSource) -> anyhow::Result<()> {
    let path = data.join(MARKER);
    replace_file(&path, &serde_json::to_vec(&source)?, None)
        .with_context(|| format!("failed to write {}", path.display()))
}

/// Returns the directory of an existing demo, and its contract.
pub(super) fn open_existing(given: Option<&Path>) -> anyhow::Result<(PathBuf, ContractSource)> {
    let data = given.unwrap_or(Path::new(DEFAULT_DIRECTORY)).to_owned();
    let marker = fs::read(data.join(MARKER)).map_err(|_| {
        let message = format!("there is no demo in {}", data.display());
        CommandError::new(NOT_FOUND, message, "start one: quorate demo")
    })?;
    Ok((data, serde_json::from_slice(&marker)?))
}
