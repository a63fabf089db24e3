//! Full disk and I/O errors.

use rusqlite::{Error, ffi};

use super::recovery::recover;
use super::{Disk, Synchronous, TABLE, batches, checkpoint, insert, open};
use crate::{FileKind, Repeat, UnsyncedData};

fn code(error: &Error) -> i32 {
    error.sqlite_error().unwrap().extended_code
}

#[test]
fn a_full_disk_rejects_writes_until_space_is_freed() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let mut connection = open(&disk, dir.path(), Synchronous::Full).unwrap();
    connection.execute(TABLE, []).unwrap();
    insert(&mut connection, 1).unwrap();
    disk.faults().limit_free_space(30_000);
    let mut last = 1;
    let error = loop {
        match insert(&mut connection, last + 1) {
            Ok(()) => last += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(code(&error), ffi::SQLITE_FULL);
    assert!(last > 1, "some commits fit");
    assert_eq!(batches(&connection).unwrap(), last, "reads still work");
    assert!(insert(&mut connection, last + 1).is_err(), "the disk is still full");
    disk.faults().lift_space_limit();
    insert(&mut connection, last + 1).unwrap();
    assert_eq!(batches(&connection).unwrap(), last + 1);
}

#[test]
fn a_full_disk_can_be_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let mut connection = open(&disk, dir.path(), Synchronous::Full).unwrap();
    connection.execute(TABLE, []).unwrap();
    for batch in 1..=4 {
        insert(&mut connection, batch).unwrap();
    }
    checkpoint(&connection, "RESTART").unwrap();
    disk.faults().limit_free_space(0);
    // The log restarts from its beginning, where it is already allocated.
    insert(&mut connection, 5).unwrap();
    assert_eq!(batches(&connection).unwrap(), 5);
}

#[test]
fn a_write_error_is_returned_once_or_forever() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let mut connection = open(&disk, dir.path(), Synchronous::Full).unwrap();
    connection.execute(TABLE, []).unwrap();
    disk.faults().fail_write(None, 2, Repeat::Once);
    assert_eq!(code(&insert(&mut connection, 1).unwrap_err()), ffi::SQLITE_IOERR_WRITE);
    insert(&mut connection, 1).unwrap();
    disk.faults().fail_write(Some(FileKind::Wal), 1, Repeat::Forever);
    for _ in 0..3 {
        assert_eq!(code(&insert(&mut connection, 2).unwrap_err()), ffi::SQLITE_IOERR_WRITE);
    }
    // The database is another file, and the log can still be read.
    checkpoint(&connection, "PASSIVE").unwrap();
    disk.faults().clear_errors();
    insert(&mut connection, 2).unwrap();
    assert_eq!(batches(&connection).unwrap(), 2);
}

#[test]
fn a_failed_wal_sync_fails_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().track();
    let mut connection = open(&disk, dir.path(), Synchronous::Full).unwrap();
    connection.execute(TABLE, []).unwrap();
    insert(&mut connection, 1).unwrap();
    let syncs = disk.counters().wal.syncs;
    disk.faults().fail_sync(Some(FileKind::Wal), 1, Repeat::Once);
    assert_eq!(code(&insert(&mut connection, 2).unwrap_err()), ffi::SQLITE_IOERR_FSYNC);
    assert_eq!(disk.counters().wal.syncs, syncs);
    let (lost, kept) = (dir.path().join("lost"), dir.path().join("kept"));
    disk.faults().image(0, &lost, UnsyncedData::LoseAll).unwrap();
    assert_eq!(recover(&lost), 1);
    // The result of a failed sync is uncertain: the commit may even be durable.
    disk.faults().image(0, &kept, UnsyncedData::KeepAll).unwrap();
    assert_eq!(recover(&kept), 2);
    insert(&mut connection, 2).unwrap();
    assert_eq!(batches(&connection).unwrap(), 2);
}

#[test]
fn a_later_sync_does_not_recover_a_failed_one() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().track();
    let mut connection = open(&disk, dir.path(), Synchronous::Normal).unwrap();
    connection.execute(TABLE, []).unwrap();
    checkpoint(&connection, "TRUNCATE").unwrap();
    insert(&mut connection, 1).unwrap();
    disk.faults().fail_sync(Some(FileKind::Wal), 1, Repeat::Once);
    assert_eq!(code(&checkpoint(&connection, "PASSIVE").unwrap_err()), ffi::SQLITE_IOERR_FSYNC);
    connection.pragma_update(None, "synchronous", "full").unwrap();
    insert(&mut connection, 2).unwrap();
    // SQLite sees both commits, but the disk has a hole where the first one was. This is why the store must stop
    // after a failed sync.
    assert_eq!(batches(&connection).unwrap(), 2);
    let image = dir.path().join("image");
    disk.faults().image(0, &image, UnsyncedData::KeepAll).unwrap();
    assert_eq!(recover(&image), 0);
}

#[test]
fn a_failed_database_sync_only_fails_the_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().track();
    let mut connection = open(&disk, dir.path(), Synchronous::Full).unwrap();
    connection.execute(TABLE, []).unwrap();
    insert(&mut connection, 1).unwrap();
    disk.faults().fail_sync(Some(FileKind::Database), 1, Repeat::Forever);
    insert(&mut connection, 2).unwrap();
    assert_eq!(code(&checkpoint(&connection, "PASSIVE").unwrap_err()), ffi::SQLITE_IOERR_FSYNC);
    for (index, unsynced) in
        [UnsyncedData::LoseAll, UnsyncedData::KeepAll, UnsyncedData::Random].into_iter().enumerate()
    {
        let image = dir.path().join(format!("image-{index}"));
        disk.faults().image(9, &image, unsynced).unwrap();
        assert_eq!(recover(&image), 2, "{unsynced:?}");
    }
}
