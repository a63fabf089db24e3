//! Several concurrent connections on one disk, and power loss while they are working.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc;
use std::thread;

use super::recovery::recover;
use super::{Disk, Synchronous, TABLE, batches, checkpoint, insert, open};
use crate::UnsyncedData;

const COMMITS: i64 = 200;

/// Runs a writer, a reader and a checkpointer concurrently. `at_commit` is called on this thread for each acknowledged
/// commit. Returns the number of acknowledged commits.
fn work_together(disk: &Disk, dir: &Path, mut at_commit: impl FnMut(i64)) -> i64 {
    let mut writer = open(disk, dir, Synchronous::Full).unwrap();
    writer.execute(TABLE, []).unwrap();
    let reader = open(disk, dir, Synchronous::Full).unwrap();
    let checkpointer = open(disk, dir, Synchronous::Full).unwrap();
    let acknowledged = AtomicI64::new(0);
    // The writer can be at most one commit ahead of `at_commit`.
    let (sender, commits) = mpsc::sync_channel(0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (acknowledged, done) = (&acknowledged, &done);
        // Each thread ends when the power is cut, or with the writer.
        scope.spawn(move || {
            for batch in 1..=COMMITS {
                if insert(&mut writer, batch).is_err() {
                    break;
                }
                acknowledged.store(batch, Ordering::SeqCst);
                sender.send(batch).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                let before = acknowledged.load(Ordering::SeqCst);
                let Ok(seen) = batches(&reader) else { break };
                assert!(seen >= before, "{before} acknowledged, {seen} seen");
            }
        });
        scope.spawn(
            move || while !done.load(Ordering::SeqCst) && checkpoint(&checkpointer, "PASSIVE").is_ok() {},
        );
        for batch in commits {
            at_commit(batch);
        }
    });
    acknowledged.into_inner()
}

#[test]
fn connections_share_a_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().track();
    assert_eq!(work_together(&disk, dir.path(), |_| {}), COMMITS);
    assert!(disk.counters().wal.syncs >= COMMITS as u64);
    assert!(disk.counters().database.syncs > 0);
    let image = dir.path().join("image");
    disk.faults().image(0, &image, UnsyncedData::LoseAll).unwrap();
    assert_eq!(recover(&image), COMMITS);
}

#[test]
fn a_power_cut_keeps_all_acknowledged_commits() {
    for (at, unsynced) in [
        (20, UnsyncedData::LoseAll),
        (30, UnsyncedData::Random),
        (40, UnsyncedData::Random),
        (50, UnsyncedData::KeepAll),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        disk.faults().track();
        let image = dir.path().join("image");
        let acknowledged = work_together(&disk, dir.path(), |batch| {
            if batch == at {
                disk.faults().cut_power_and_image(7, &image, unsynced).unwrap();
            }
        });
        assert!(acknowledged >= at);
        assert!(acknowledged < COMMITS, "the cut came too late to prove anything");
        let recovered = recover(&image);
        assert!(recovered >= acknowledged && recovered <= acknowledged + 1, "{recovered} of {acknowledged}");
    }
}

#[test]
fn images_can_be_taken_concurrently() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().track();
    let mut images = Vec::new();
    let acknowledged = work_together(&disk, dir.path(), |batch| {
        if batch % 25 == 0 {
            let image = dir.path().join(format!("image-{batch}"));
            disk.faults().image(batch as u64, &image, UnsyncedData::Random).unwrap();
            images.push((batch, image));
        }
    });
    assert_eq!(acknowledged, COMMITS);
    for (batch, image) in images {
        assert!(recover(&image) >= batch);
    }
}
