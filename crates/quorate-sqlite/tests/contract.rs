//! The store on SQLite keeps the contract.

use std::path::Path;

use quorate_sqlite::{Options, SqliteStore};
use quorate_store::contract::Open;

/// A data directory in memory where the system has one: the contract is about behaviour, not about disks.
fn data_directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a directory")
}

fn sqlite() -> Open {
    let directory = data_directory();
    Box::new(move |wiring| {
        SqliteStore::open(directory.path(), Options::default(), wiring).expect("the store opens")
    })
}

quorate_store::contract_tests!(crate::sqlite, limits);
