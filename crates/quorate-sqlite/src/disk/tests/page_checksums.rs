//! Checksums of database pages.

use std::fs;

use super::*;
use crate::disk::{has_checksums, reserve_checksums};

const PAGE: usize = 4096;

/// Creates a database with checksums, in WAL mode and with a few pages.
fn database(disk: &Disk, dir: &Path) -> Connection {
    disk.add_checksums_to_new_files();
    let connection = disk.open(&dir.join("test.db"), OpenFlags::default()).unwrap();
    reserve_checksums(&connection).unwrap();
    drop(connection.execute_batch(TABLE));
    drop(connection);
    let mut connection = open(disk, dir, Synchronous::Full).unwrap();
    assert!(has_checksums(&connection).unwrap());
    (0..5).for_each(|batch| insert(&mut connection, batch).unwrap());
    connection
}

fn count(disk: &Disk, dir: &Path) -> Result<i64> {
    let connection = disk.open(&dir.join("test.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.query_row("SELECT sum(length(hex(body))) FROM row", [], |row| row.get(0))
}

// Fails under: pages that are written without a checksum by a checkpoint, or read without a check; a checksum without the
// position of the page.
#[test]
fn i22_a_flipped_bit_of_any_page_is_detected() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let connection = database(&disk, dir.path());
    checkpoint(&connection, "TRUNCATE").unwrap();
    drop(connection);
    let file = dir.path().join("test.db");
    let intact = fs::read(&file).unwrap();
    let expected = count(&disk, dir.path()).unwrap();
    assert!(intact.len() > 8 * PAGE && disk.damaged_page().is_none());
    for page in 0..intact.len() / PAGE {
        let disk = Disk::new();
        let mut bytes = intact.clone();
        // Not in the header, which SQLite reads on its own.
        bytes[page * PAGE + 200 + page * 37 % 3000] ^= 4;
        fs::write(&file, &bytes).unwrap();
        let error = count(&disk, dir.path()).unwrap_err();
        assert_eq!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::DatabaseCorrupt),
            "page {}",
            page + 1
        );
        let found = disk.damaged_page().unwrap();
        assert_eq!((found.page, found.file.as_str()), (page as u64 + 1, "test.db"));
    }
    // A page at the position of another one.
    let mut bytes = intact.clone();
    bytes.copy_within(4 * PAGE..5 * PAGE, 5 * PAGE);
    fs::write(&file, &bytes).unwrap();
    assert!(count(&Disk::new(), dir.path()).is_err());
    fs::write(&file, &intact).unwrap();
    assert_eq!(count(&Disk::new(), dir.path()).unwrap(), expected);
}

// Fails under: a checksum that is added to a page of the write-ahead log after the frame has its own.
#[test]
fn the_write_ahead_log_is_recovered_with_checksums() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let mut connection = database(&disk, dir.path());
    // One frame of 512 is at an offset where a page of a database could be.
    (5..200).for_each(|batch| insert(&mut connection, batch).unwrap());
    let copy = tempfile::tempdir().unwrap();
    for name in ["test.db", "test.db-wal"] {
        fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    assert_eq!(batches(&open(&Disk::new(), copy.path(), Synchronous::Full).unwrap()).unwrap(), 200);
    drop(connection);
}

// Fails under: checksums for every database; a database without them that becomes unreadable.
#[test]
fn a_database_that_reserves_no_bytes_has_no_checksums() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let mut connection = open(&disk, dir.path(), Synchronous::Full).unwrap();
    connection.execute_batch(TABLE).unwrap();
    insert(&mut connection, 1).unwrap();
    assert!(!has_checksums(&connection).unwrap());
    checkpoint(&connection, "TRUNCATE").unwrap();
    drop(connection);
    disk.add_checksums_to_new_files();
    assert_eq!(batches(&open(&disk, dir.path(), Synchronous::Full).unwrap()).unwrap(), 1);
}
