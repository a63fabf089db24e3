//! Torn writes and unsynced names, with files that exist only in the model.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;

use rusqlite::ffi::{self, SQLITE_OK};

use super::super::faults::{Faults, FileId, UnsyncedData};
use crate::FileKind;

const NAME: &CStr = c"/data/test.db";
const SECTOR: usize = 512;

fn open_file(faults: &Faults, name: &CStr, content: &[u8]) -> FileId {
    let (code, id) = faults.open(Some(name), || SQLITE_OK, || content.to_vec());
    assert_eq!(code, SQLITE_OK);
    id
}

fn write(faults: &Faults, file: FileId, bytes: &[u8], offset: u64) {
    let code = faults.write(file, FileKind::Database, bytes, offset, || 0, || SQLITE_OK);
    assert_eq!(code, SQLITE_OK);
}

fn sync(faults: &Faults, file: FileId, kind: FileKind) {
    assert_eq!(faults.sync(file, kind, || SQLITE_OK), SQLITE_OK);
}

/// Returns the content of a file in the image, if it exists.
fn image(faults: &Faults, seed: u64, unsynced: UnsyncedData, name: &str) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    faults.image(seed, dir.path(), unsynced).unwrap();
    fs::read(dir.path().join(name)).ok()
}

#[test]
fn a_write_is_torn_at_sectors_and_leaves_adjacent_bytes_intact() {
    let faults = Faults::default();
    faults.track();
    let file = open_file(&faults, NAME, &[1; 8192]);
    write(&faults, file, &[2; 4096], 100);
    let mut prefixes = 0;
    let mut scattered = 0;
    for seed in 0..200 {
        let content = image(&faults, seed, UnsyncedData::Random, "test.db").unwrap();
        assert_eq!(content.len(), 8192);
        assert!(content[..100].iter().chain(&content[4196..]).all(|byte| *byte == 1));
        let new: Vec<bool> = content[..4608]
            .chunks(SECTOR)
            .map(|sector| {
                let new = sector.contains(&2);
                let untouched = sector.iter().filter(|byte| **byte == 1).count();
                assert!(!new || untouched <= 412, "half a sector was kept");
                new
            })
            .collect();
        let kept = new.iter().filter(|new| **new).count();
        if kept > 0 && kept < new.len() {
            let in_order = new.is_sorted_by(|before, after| before >= after);
            if in_order { prefixes += 1 } else { scattered += 1 }
        }
    }
    assert!(prefixes > 5 && scattered > 5, "{prefixes} prefixes, {scattered} scattered");
}

#[test]
fn a_sync_covers_only_writes_before_it_started() {
    let faults = Faults::default();
    faults.track();
    let file = open_file(&faults, NAME, b"");
    write(&faults, file, b"aa", 0);
    let code = faults.sync(file, FileKind::Database, || {
        write(&faults, file, b"bb", 2);
        SQLITE_OK
    });
    assert_eq!(code, SQLITE_OK);
    assert_eq!(image(&faults, 0, UnsyncedData::LoseAll, "test.db").unwrap(), b"aa");
    assert_eq!(image(&faults, 0, UnsyncedData::KeepAll, "test.db").unwrap(), b"aabb");
}

#[test]
fn a_sync_that_returns_after_the_power_cut_fails() {
    let faults = Faults::default();
    faults.track();
    let file = open_file(&faults, NAME, b"old");
    write(&faults, file, b"new", 0);
    let code = faults.sync(file, FileKind::Database, || {
        faults.cut_power();
        SQLITE_OK
    });
    assert_ne!(code, SQLITE_OK);
    assert_eq!(image(&faults, 0, UnsyncedData::LoseAll, "test.db").unwrap(), b"old");
}

#[test]
fn without_power_everything_fails_and_nothing_changes() {
    let faults = Faults::default();
    faults.track();
    let file = open_file(&faults, NAME, b"old");
    faults.cut_power();
    assert!(faults.is_power_cut());
    let kind = FileKind::Database;
    assert_eq!(faults.open(Some(NAME), || SQLITE_OK, Vec::new).0, ffi::SQLITE_IOERR);
    assert_eq!(faults.read(|| SQLITE_OK), ffi::SQLITE_IOERR_READ);
    assert_eq!(faults.write(file, kind, b"new", 0, || 3, || SQLITE_OK), ffi::SQLITE_IOERR_WRITE);
    assert_eq!(faults.truncate(file, 0, || 0, || SQLITE_OK), ffi::SQLITE_IOERR_TRUNCATE);
    assert_eq!(faults.sync(file, kind, || SQLITE_OK), ffi::SQLITE_IOERR_FSYNC);
    assert_eq!(faults.delete(NAME, true, || SQLITE_OK), ffi::SQLITE_IOERR_DELETE);
    assert_eq!(image(&faults, 0, UnsyncedData::KeepAll, "test.db").unwrap(), b"old");
}

#[test]
fn the_operation_during_the_power_cut_may_reach_the_disk() {
    let faults = Faults::default();
    faults.track();
    let file = open_file(&faults, NAME, b"old");
    faults.cut_power_at(1);
    let code = faults.write(file, FileKind::Database, b"new", 0, || 3, || SQLITE_OK);
    assert_eq!(code, ffi::SQLITE_IOERR_WRITE);
    assert_eq!(image(&faults, 0, UnsyncedData::LoseAll, "test.db").unwrap(), b"old");
    assert_eq!(image(&faults, 0, UnsyncedData::KeepAll, "test.db").unwrap(), b"new");
}

#[test]
fn a_truncation_is_kept_or_lost() {
    let faults = Faults::default();
    faults.track();
    let file = open_file(&faults, NAME, b"content");
    assert_eq!(faults.truncate(file, 3, || 3, || SQLITE_OK), SQLITE_OK);
    let seen: BTreeSet<_> =
        (0..50).map(|seed| image(&faults, seed, UnsyncedData::Random, "test.db").unwrap()).collect();
    assert_eq!(seen, BTreeSet::from([b"con".to_vec(), b"content".to_vec()]));
    sync(&faults, file, FileKind::Database);
    assert_eq!(image(&faults, 0, UnsyncedData::LoseAll, "test.db").unwrap(), b"con");
}

#[test]
fn a_file_that_was_never_synced_may_be_absent_or_empty() {
    let faults = Faults::default();
    faults.track();
    let file = open_file(&faults, NAME, b"");
    write(&faults, file, b"x", 0);
    let seen: BTreeSet<_> =
        (0..50).map(|seed| image(&faults, seed, UnsyncedData::Random, "test.db")).collect();
    assert_eq!(seen, BTreeSet::from([None, Some(b"".to_vec()), Some(b"x".to_vec())]));
    assert_eq!(image(&faults, 0, UnsyncedData::LoseAll, "test.db"), None);
}

#[test]
fn a_deleted_file_may_come_back_until_its_directory_is_synced() {
    let faults = Faults::default();
    faults.track();
    let journal = c"/data/test.db-journal";
    open_file(&faults, journal, b"old");
    assert_eq!(faults.delete(journal, false, || SQLITE_OK), SQLITE_OK);
    assert_eq!(image(&faults, 0, UnsyncedData::LoseAll, "test.db-journal").unwrap(), b"old");
    assert_eq!(image(&faults, 0, UnsyncedData::KeepAll, "test.db-journal"), None);
    // The first sync of a new write-ahead log also syncs the directory; that of a new database does not.
    let database = open_file(&faults, NAME, b"");
    sync(&faults, database, FileKind::Database);
    assert!(image(&faults, 0, UnsyncedData::LoseAll, "test.db-journal").is_some());
    let wal = open_file(&faults, c"/data/test.db-wal", b"");
    sync(&faults, wal, FileKind::Wal);
    assert_eq!(image(&faults, 0, UnsyncedData::LoseAll, "test.db-journal"), None);
    assert_eq!(image(&faults, 0, UnsyncedData::LoseAll, "test.db-wal").unwrap(), b"");
}

#[test]
fn a_deletion_that_syncs_its_directory_is_durable() {
    let faults = Faults::default();
    faults.track();
    open_file(&faults, NAME, b"old");
    assert_eq!(faults.delete(NAME, true, || SQLITE_OK), SQLITE_OK);
    assert_eq!(image(&faults, 0, UnsyncedData::LoseAll, "test.db"), None);
}
