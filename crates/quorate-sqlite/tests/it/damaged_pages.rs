//! A damaged page of the database: it is found when it is read, and stops the store.

use std::fs;
use std::path::Path;

use quorate_core::{Seq, SpaceName};
use quorate_sqlite::{Options, verify};
use quorate_store::{Store as _, StoreError};

use crate::support::{open, put_entries};

/// Flips one bit in the middle of a database.
fn flip_bit(directory: &Path) {
    let file = directory.join("quorate.db");
    let mut bytes = fs::read(&file).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("written");
}

// Fails under: a read of a part of a page, which is not verified; damage that only fails the read that finds it.
#[tokio::test]
async fn i22_a_damaged_page_stops_the_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), Options::default()).expect("it opens");
    put_entries(&store, 30).await;
    store.close().await;
    drop(store);
    flip_bit(directory.path());
    let defect = verify(directory.path(), None).expect("readable").first_defect.expect("a defect");
    assert!(defect.detail.contains("does not match its checksum"), "{defect:?}");
    // The page is not read by the start.
    let store = open(directory.path(), Options::default()).expect("it opens");
    let space = store.space(SpaceName::new("default").expect("a valid name")).await.expect("a space");
    assert!(store.log(space, Seq(1), 100).await.is_err());
    let failure = store.failure().await;
    assert!(matches!(&failure, StoreError::Corrupt(text) if text.contains("of quorate.db")), "{failure}");
    let refused = store.transact(space, Vec::new()).await;
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    let backup = directory.path().join("backup");
    store.close().await;
    assert!(quorate_sqlite::backup(directory.path(), &backup).is_err());
    assert!(!backup.join("quorate.db").exists());
}
