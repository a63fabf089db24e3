//! Tests that need more than one crate, and what they are made of. Nothing here is shipped.
//!
//! [`model`] drives a real store and the naive reference with the same random plan, in lock step. [`script`] is a small
//! language in which a test says what happens and reads what came of it. For crashes and power cuts, what a client sees
//! is written down as a [`history`]; afterwards it is compared with what the store holds, promise by promise.

pub mod aftermath;
pub mod check;
pub mod fuzz;
pub mod gate;
pub mod history;
pub mod load;
pub mod model;
pub mod power;
pub mod script;
pub mod seed;

use std::path::Path;

use tempfile::TempDir;

/// A data directory for a test: in memory where the system has such a place, because behaviour is tested here and not
/// disks.
///
/// # Panics
/// When none can be made.
#[must_use]
pub fn data_directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a directory")
}
