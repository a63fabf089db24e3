//! Where a demo is kept: a directory that says of itself that it is a demo's, so that nothing else is ever cleared away.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::contract::Which;
use crate::exit::{CONFLICT, Ended, NOT_FOUND};
use crate::hub;

/// Where, if nothing is said.
const USUAL: &str = "quorate-demo";
/// What makes a directory a demo's.
const MARK: &str = "demo.json";

/// A directory for a new demo, that is not there yet.
pub(super) fn fresh(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let data = given.unwrap_or(Path::new(USUAL)).to_owned();
    if data.exists() {
        let is_ours = given.is_none() && data.join(MARK).is_file();
        if !is_ours {
            let message = format!("{} is there already", data.display());
            return Err(Ended::new(CONFLICT, message, "give a new directory: quorate demo --data DIR").into());
        }
        if hub::runs(&data).is_some() {
            let message = format!("a demo runs in {}", data.display());
            return Err(
                Ended::new(CONFLICT, message, "end it there first, or give another: --data DIR").into()
            );
        }
        fs::remove_dir_all(&data).with_context(|| format!("failed to clear {}", data.display()))?;
    }
    Ok(data)
}

/// Says of a directory that it is a demo's, of this contract.
pub(super) fn mark(data: &Path, which: Which) -> anyhow::Result<()> {
    let path = data.join(MARK);
    fs::write(&path, serde_json::to_vec(&which)?)
        .with_context(|| format!("failed to write {}", path.display()))
}

/// The directory of a demo that was begun, and its contract.
pub(super) fn begun(given: Option<&Path>) -> anyhow::Result<(PathBuf, Which)> {
    let data = given.unwrap_or(Path::new(USUAL)).to_owned();
    let mark = fs::read(data.join(MARK)).map_err(|_| {
        let message = format!("there is no demo in {}", data.display());
        Ended::new(NOT_FOUND, message, "begin one: quorate demo")
    })?;
    Ok((data, serde_json::from_slice(&mark)?))
}
