//! Cross-crate tests and their fixtures. Not part of any release.
//!
//! [`model`] runs the same random plan on SQLite and on the reference model in lock step. [`script`] is a small
//! language for tests: a script lists statements, and the test compares the rendered output. In crash and power-cut
//! tests the clients record a [`history`] of calls and responses; after recovery, [`check`] compares it with the
//! store's contents, one invariant at a time.

pub mod check;
pub mod fault_store;
pub mod fuzz;
pub mod history;
pub mod load;
pub mod model;
pub mod power;
pub mod recovery;
pub mod script;
pub mod seed;

use std::path::Path;

use tempfile::TempDir;

/// Creates a temporary data directory, on a RAM disk if there is one: most tests check behaviour, not disks.
///
/// # Panics
/// If the directory cannot be created.
#[must_use]
pub fn data_directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
        .expect("temporary directory is created")
}
