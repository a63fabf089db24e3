//! The store on SQLite keeps the contract, and whatever a case did to it, its data verifies afterwards.

use std::path::Path;

use quorate_sqlite::{Options, SqliteStore, verify};
use quorate_store::contract::Open;
use tempfile::TempDir;

/// A data directory in memory where the system has one: the contract is about behaviour, not about disks.
fn data_directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a directory")
}

/// A data directory that is looked at again when the case is over and its store is closed.
struct Verified(TempDir);

impl Drop for Verified {
    fn drop(&mut self) {
        // A case that failed has said enough.
        if !std::thread::panicking() {
            let report = verify(self.0.path(), None).expect("the data can be read");
            assert!(report.ok, "{:?}", report.first_bad);
        }
    }
}

fn sqlite() -> Open {
    let directory = Verified(data_directory());
    Box::new(move |wiring| {
        SqliteStore::open(directory.0.path(), Options::default(), wiring).expect("the store opens")
    })
}

quorate_store::contract_tests!(crate::sqlite, limits);
