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

fn store(tail_rows: usize) -> Open {
    let directory = Verified(data_directory());
    Box::new(move |wiring| {
        let options = Options { tail_rows, ..Options::default() };
        SqliteStore::open(directory.0.path(), options, wiring).expect("the store opens")
    })
}

/// The rows of each commit are written before the next one is decided.
fn at_once() -> Open {
    store(1)
}

/// The tables know nothing: every start folds the whole log.
fn never() -> Open {
    store(usize::MAX)
}

mod tables_at_once {
    quorate_store::contract_tests!(crate::at_once);
}

mod tables_never {
    quorate_store::contract_tests!(crate::never, limits);
}
