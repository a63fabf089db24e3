//! The store on SQLite keeps the contract, and whatever a case did to it, its data verifies afterwards.

use std::cell::RefCell;
use std::path::Path;

use quorate_core::Timestamp;
use quorate_sqlite::{Options, SqliteStore, backup, restore, verify};
use quorate_store::contract::{From, Open};
use tempfile::TempDir;

/// A data directory in memory where the system has one: the contract is about behaviour, not about disks.
fn data_directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a directory")
}

/// A data directory that is looked at again when the case is over and its store is closed. A restore makes another one.
struct Verified(RefCell<TempDir>);

impl Drop for Verified {
    fn drop(&mut self) {
        // A case that failed has said enough.
        if !std::thread::panicking() {
            let report = verify(self.0.borrow().path(), None).expect("the data can be read");
            assert!(report.ok, "{:?}", report.first_bad);
        }
    }
}

impl Verified {
    /// Brings a backup of the data back, and goes on with that.
    fn restore(&self, now: Timestamp) {
        let (copy, new) = (data_directory(), data_directory());
        backup(self.0.borrow().path(), copy.path()).expect("a backup can be made");
        restore(copy.path(), new.path(), now).expect("it can be restored");
        self.0.replace(new);
    }
}

fn store(tail_rows: usize) -> Open {
    let directory = Verified(RefCell::new(data_directory()));
    Box::new(move |wiring, from| {
        if from == From::Backup {
            directory.restore(wiring.clock.now().wall);
        }
        let options = Options { tail_rows, ..Options::default() };
        SqliteStore::open(directory.0.borrow().path(), options, wiring).expect("the store opens")
    })
}

/// The rows of each commit are written before the next one is decided.
fn at_once() -> Open {
    store(1)
}

/// The tables lag behind by a few rows: what is read comes from both.
fn now_and_then() -> Open {
    store(3)
}

/// The tables know nothing: every start folds the whole log.
fn never() -> Open {
    store(usize::MAX)
}

mod tables_at_once {
    quorate_store::contract_tests!(crate::contract::at_once);
}

mod tables_now_and_then {
    quorate_store::contract_tests!(@lists crate::contract::now_and_then);
}

mod tables_never {
    quorate_store::contract_tests!(crate::contract::never, limits);
}
