//! Marker of a backup or a restore that is not finished. Without it, the part that a killed process leaves behind could
//! pass for a new, empty directory.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::directory::{create_private_file, restrict_directory, sync_directory};

/// Name of the marker.
pub(crate) const INCOMPLETE: &str = "quorate.incomplete";

/// Content, for the operator who finds the file.
const TEXT: &str = "A backup or a restore into this directory was interrupted. Delete the directory and repeat the command.\n";

/// Returns the path of the marker of a directory.
pub(crate) fn marker(directory: &Path) -> PathBuf {
    directory.join(INCOMPLETE)
}

/// Creates a directory that is marked as incomplete, or marks an existing empty one, before anything else is written to
/// it. A new directory gets its name together with the marker: a kill leaves nothing, or a marked directory.
pub(crate) fn begin(directory: &Path) -> io::Result<()> {
    if directory.exists() {
        restrict_directory(directory)?;
        return mark(directory);
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let unnamed = tempfile::Builder::new().prefix(".quorate-").tempdir_in(parent)?;
    restrict_directory(unnamed.path())?;
    mark(unnamed.path())?;
    fs::rename(unnamed.path(), directory)?;
    sync_directory(parent)
}

fn mark(directory: &Path) -> io::Result<()> {
    let mut file = create_private_file(&marker(directory))?;
    file.write_all(TEXT.as_bytes())?;
    file.sync_all()?;
    sync_directory(directory)
}

/// Removes the marker, after everything else is durable.
pub(crate) fn finish(directory: &Path) -> io::Result<()> {
    fs::remove_file(marker(directory))?;
    sync_directory(directory)
}
