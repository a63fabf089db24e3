//! Runs the conformance suite of the store against SQLite, and verifies the data after each case.

use std::cell::RefCell;
use std::path::Path;

use quorate_core::Timestamp;
use quorate_sqlite::{Options, SqliteStore, backup, restore, verify};
use quorate_store::conformance::{OpenFrom, OpenStore};
use tempfile::TempDir;

/// Creates a data directory, in memory if the system supports it: the suite does not test durability.
fn data_directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a directory")
}

/// Data directory that is verified when the case is over and its store is closed. A restore replaces it.
struct Verified(RefCell<TempDir>);

impl Drop for Verified {
    fn drop(&mut self) {
        // A failed case is reported already.
        if !std::thread::panicking() {
            let report = verify(self.0.borrow().path(), None).expect("the data can be read");
            assert!(report.ok, "{:?}", report.first_defect);
        }
    }
}

impl Verified {
    /// Backs up the data, restores it to a new directory and switches to that.
    fn restore(&self, now: Timestamp) {
        let (copy, new) = (data_directory(), data_directory());
        backup(self.0.borrow().path(), copy.path()).expect("a backup can be made");
        restore(copy.path(), new.path(), now).expect("it can be restored");
        self.0.replace(new);
    }
}

fn store(flush_rows: usize) -> OpenStore {
    let directory = Verified(RefCell::new(data_directory()));
    Box::new(move |context, from| {
        if from == OpenFrom::Backup {
            directory.restore(context.clock.now().wall);
        }
        let options = Options { flush_rows, ..Options::default() };
        SqliteStore::open(directory.0.borrow().path(), options, context).expect("the store opens")
    })
}

/// The memtable is flushed before each batch.
fn flush_every_batch() -> OpenStore {
    store(1)
}

/// The memtable is flushed every few rows: reads merge it with the tables.
fn flush_sometimes() -> OpenStore {
    store(3)
}

/// The memtable is never flushed: every start replays the whole log.
fn flush_never() -> OpenStore {
    store(usize::MAX)
}

mod flushing_every_batch {
    quorate_store::conformance_tests!(crate::conformance::flush_every_batch);
}

mod flushing_sometimes {
    quorate_store::conformance_tests!(@lists crate::conformance::flush_sometimes);
}

mod flushing_never {
    quorate_store::conformance_tests!(crate::conformance::flush_never, limits);
}
