//! Refuses symbolic links among the files of a data directory: a hub would write through them. The directory itself may be
//! one.

use std::fs;
use std::path::Path;

use crate::directory::OpenError;

/// Refuses a data directory that contains a symbolic link with the name of one of its files.
pub(crate) fn reject_symlinks(path: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io { action: "read", path: path.to_owned(), source };
    for entry in fs::read_dir(path).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_own = name.starts_with("quorate.") || name.starts_with("admin-token");
        if is_own && entry.file_type().map_err(io)?.is_symlink() {
            let reason = format!("{name} is a symbolic link; remove it, or copy the file that it refers to");
            return Err(OpenError::Foreign { path: path.to_owned(), reason });
        }
    }
    Ok(())
}
