//! A store with large entries, and copies of its directory as a crash would leave it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{Commit, Key, Op, Payload, Principal, PutEntry, SpaceName};
use quorate_sqlite::{OpenError, Options, SqliteStore};
use quorate_store::{Entropy, ManualClock, Store as _, StoreContext};

pub(crate) fn open(directory: &Path, options: Options) -> Result<Arc<SqliteStore>, OpenError> {
    let context = StoreContext {
        clock: ManualClock::at(1_800_000_000_000),
        entropy: Entropy::seeded(1),
        sink: Arc::new(|_| {}),
    };
    SqliteStore::open(directory, options, context)
}

/// Writes entries of about 50 KB, one commit each.
pub(crate) async fn put_entries(store: &SqliteStore, count: usize) {
    let space = store.space(SpaceName::new("default").expect("a valid name")).await.expect("a space");
    for number in 0..count {
        let put = PutEntry {
            key: Key::new(format!("k{number}")).expect("a valid key"),
            entry_type: "note".into(),
            content: Payload::seal(Bytes::from(format!("\"{}\"", "x".repeat(50_000))), [7; 16]),
            content_type: None,
            expect: None,
            depends_on: Vec::new(),
            fence: None,
        };
        let commit = Commit::new(Principal::System, vec![Op::Put(put)]);
        store.transact(space, vec![commit]).await.expect("the storage works").remove(0).expect("accepted");
    }
}

/// Copies a directory as it is after a crash now. Shared memory does not survive a crash of the system.
pub(crate) fn crashed_copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("a directory");
    copy_files(from, to.path());
    to
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&target).expect("created");
            copy_files(&entry.path(), &target);
        } else if entry.file_name() != "quorate.db-shm" {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}
