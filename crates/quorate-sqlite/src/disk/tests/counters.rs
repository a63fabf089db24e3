//! The counters are correct, and the VFS changes nothing else.

use std::ptr;

use rusqlite::ffi;

use super::{Disk, Synchronous, TABLE, batches, checkpoint, insert, open};

#[test]
fn each_full_commit_is_one_sync_of_the_wal() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let mut connection = open(&disk, dir.path(), Synchronous::Full).unwrap();
    connection.execute(TABLE, []).unwrap();
    let before = disk.counters();
    for batch in 1..=10 {
        insert(&mut connection, batch).unwrap();
    }
    let after = disk.counters();
    assert_eq!(after.wal.syncs - before.wal.syncs, 10);
    assert_eq!(after.database, before.database);
    assert!(after.wal.written_bytes - before.wal.written_bytes > 10 * 3 * 1500);
    assert!(after.wal.sync_ns_total > before.wal.sync_ns_total);
    assert!(after.wal.sync_ns_max <= after.wal.sync_ns_total);
}

#[test]
fn normal_commits_do_not_sync_until_the_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let mut connection = open(&disk, dir.path(), Synchronous::Normal).unwrap();
    connection.execute(TABLE, []).unwrap();
    let before = disk.counters();
    for batch in 1..=10 {
        insert(&mut connection, batch).unwrap();
    }
    assert_eq!(disk.counters().wal.syncs, before.wal.syncs);
    checkpoint(&connection, "PASSIVE").unwrap();
    let after = disk.counters();
    assert_eq!(after.wal.syncs - before.wal.syncs, 1);
    assert_eq!(after.database.syncs - before.database.syncs, 1);
    assert!(after.database.written_bytes > before.database.written_bytes);
}

#[test]
fn the_wal_is_preallocated() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let mut connection = open(&disk, dir.path(), Synchronous::Full).unwrap();
    connection.execute(TABLE, []).unwrap();
    insert(&mut connection, 1).unwrap();
    let size = std::fs::metadata(dir.path().join("test.db-wal")).unwrap().len();
    let wal = disk.counters().wal;
    // Preallocation starts after the header of the first frame; the rest of the frame overwrites it.
    let first_frame = 32 + 24;
    assert_eq!(wal.preallocated_bytes + first_frame, size);
    assert!(wal.written_bytes < size, "{wal:?}");
}

#[test]
fn disks_have_separate_counters() {
    let dir = tempfile::tempdir().unwrap();
    let (busy, idle) = (Disk::new(), Disk::new());
    assert_ne!(busy.vfs_name(), idle.vfs_name());
    let connection = open(&busy, dir.path(), Synchronous::Full).unwrap();
    connection.execute(TABLE, []).unwrap();
    assert_eq!(idle.counters(), super::super::Counters::default());
}

#[test]
fn connections_outlive_their_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let mut connection = open(&disk, dir.path(), Synchronous::Full).unwrap();
    drop(disk);
    connection.execute(TABLE, []).unwrap();
    insert(&mut connection, 1).unwrap();
    assert_eq!(batches(&connection).unwrap(), 1);
}

#[test]
fn temporary_files_and_rollback_journals_work_and_mapped_reads_are_not_offered() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let mut connection = open(&disk, dir.path(), Synchronous::Full).unwrap();
    let mapped: i64 = connection.query_row("PRAGMA mmap_size = 1048576", [], |row| row.get(0)).unwrap();
    // A mapped page could not be verified.
    assert_eq!(mapped, 0);
    connection.execute(TABLE, []).unwrap();
    for batch in 1..=30 {
        insert(&mut connection, batch).unwrap();
    }
    checkpoint(&connection, "TRUNCATE").unwrap();
    assert_eq!(batches(&connection).unwrap(), 30);
    connection.execute_batch("VACUUM").unwrap();
    let before = disk.counters().other;
    connection.pragma_update(None, "journal_mode", "delete").unwrap();
    insert(&mut connection, 31).unwrap();
    assert!(disk.counters().other.syncs > before.syncs);
    assert_eq!(batches(&connection).unwrap(), 31);
}

#[test]
fn device_characteristics_are_forwarded() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let on_disk = open(&disk, dir.path(), Synchronous::Full).unwrap();
    let plain = rusqlite::Connection::open(dir.path().join("test.db")).unwrap();
    // Version 3 of the methods has mapped reads.
    let (_, sector_size, characteristics) = device(&plain);
    assert_eq!(device(&on_disk), (2, sector_size, characteristics));
}

/// Returns the version of the method table, the sector size and the device characteristics.
fn device(connection: &rusqlite::Connection) -> (i32, i32, i32) {
    let mut file: *mut ffi::sqlite3_file = ptr::null_mut();
    // SAFETY: the connection is open; SQLite writes the pointer of its main file, which stays open with it.
    unsafe {
        let code = ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_FILE_POINTER,
            (&raw mut file).cast(),
        );
        assert_eq!(code, ffi::SQLITE_OK);
        let methods = &*(*file).pMethods;
        (methods.iVersion, methods.xSectorSize.unwrap()(file), methods.xDeviceCharacteristics.unwrap()(file))
    }
}
