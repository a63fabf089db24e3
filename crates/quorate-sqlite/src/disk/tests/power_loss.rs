//! Power loss: acknowledged commits survive, and unfinished ones do not.

use std::fs;
use std::path::Path;

use rusqlite::Result;

use super::recovery::recover;
use super::{Disk, Synchronous, TABLE, checkpoint, insert, open};
use crate::UnsyncedData;

const COMMITS: i64 = 20;

/// Runs until the end or the first error, and returns the number of acknowledged commits.
fn run(disk: &Disk, dir: &Path, synchronous: Synchronous) -> i64 {
    let mut acknowledged = 0;
    let mut work = || -> Result<()> {
        let mut connection = open(disk, dir, synchronous)?;
        connection.execute(TABLE, [])?;
        for batch in 1..=COMMITS {
            insert(&mut connection, batch)?;
            acknowledged = batch;
            match batch {
                // The log restarts from its beginning, over old frames.
                6 => checkpoint(&connection, "RESTART")?,
                // The log is truncated, and the database has grown.
                12 => checkpoint(&connection, "TRUNCATE")?,
                _ => {}
            }
        }
        // Closing the last connection checkpoints and deletes the log.
        Ok(())
    };
    let _ = work();
    acknowledged
}

/// Cuts the power during every operation of the run, one after the other. Returns for each cut and each mode how many
/// commits were acknowledged and how many were recovered.
fn cut_everywhere(synchronous: Synchronous, modes: &[(u64, UnsyncedData)]) -> Vec<(i64, i64)> {
    let ops = {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        assert_eq!(run(&disk, dir.path(), synchronous), COMMITS);
        disk.faults().ops()
    };
    assert!(ops > 100, "the run is too short to prove anything");
    let mut outcomes = Vec::new();
    for op in 1..=ops {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        disk.faults().track();
        disk.faults().cut_power_at(op);
        let acknowledged = run(&disk, dir.path(), synchronous);
        assert!(disk.faults().is_power_cut());
        for (index, (seed, unsynced)) in modes.iter().enumerate() {
            let image = dir.path().join(format!("image-{index}"));
            disk.faults().image(seed + op, &image, *unsynced).unwrap();
            let recovered = recover(&image);
            // Only the commit in progress may or may not be recovered.
            assert!(
                recovered <= acknowledged + 1,
                "op {op}, {unsynced:?}, seed {}: {recovered} of {acknowledged}",
                seed + op
            );
            outcomes.push((acknowledged, recovered));
        }
    }
    outcomes
}

#[test]
fn full_keeps_every_acknowledged_commit_wherever_the_power_is_cut() {
    let modes = [
        (0, UnsyncedData::LoseAll),
        (0, UnsyncedData::KeepAll),
        (1000, UnsyncedData::Random),
        (2000, UnsyncedData::Random),
        (3000, UnsyncedData::Random),
    ];
    let outcomes = cut_everywhere(Synchronous::Full, &modes);
    for (acknowledged, recovered) in &outcomes {
        assert!(recovered >= acknowledged, "{recovered} of {acknowledged} were recovered");
    }
    assert!(
        outcomes.iter().any(|(acknowledged, recovered)| recovered > acknowledged),
        "no cut happened during a commit"
    );
}

#[test]
fn normal_loses_acknowledged_commits_but_is_never_damaged() {
    for mode in [(0, UnsyncedData::LoseAll), (1000, UnsyncedData::Random)] {
        let outcomes = cut_everywhere(Synchronous::Normal, &[mode]);
        let lost = outcomes.iter().filter(|(acknowledged, recovered)| recovered < acknowledged).count();
        assert!(lost > 10, "{mode:?} lost only {lost} times: the simulated power loss has no effect");
    }
}

#[test]
fn the_same_seed_gives_the_same_image() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().track();
    disk.faults().cut_power_at(60);
    run(&disk, dir.path(), Synchronous::Normal);
    let wal = |seed, name: &str| {
        let image = dir.path().join(name);
        disk.faults().image(seed, &image, UnsyncedData::Random).unwrap();
        fs::read(image.join("test.db-wal")).ok()
    };
    assert_eq!(wal(7, "one"), wal(7, "two"));
    let others: Vec<_> = (8..16).map(|seed| wal(seed, &format!("other-{seed}"))).collect();
    assert!(others.iter().any(|other| *other != others[0]));
}

#[test]
fn an_image_that_keeps_all_changes_equals_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().track();
    let mut connection = open(&disk, dir.path(), Synchronous::Normal).unwrap();
    connection.execute(TABLE, []).unwrap();
    for batch in 1..=8 {
        insert(&mut connection, batch).unwrap();
        if batch == 4 {
            checkpoint(&connection, "TRUNCATE").unwrap();
        }
    }
    // A later connection must not be mistaken for a new file.
    let second = open(&disk, dir.path(), Synchronous::Normal).unwrap();
    let image = dir.path().join("image");
    disk.faults().image(0, &image, UnsyncedData::KeepAll).unwrap();
    for name in ["test.db", "test.db-wal"] {
        // This drops SQLite's locks on the file, which are no longer needed.
        let real = fs::read(dir.path().join(name)).unwrap();
        assert_eq!(fs::read(image.join(name)).unwrap(), real, "{name}");
    }
    assert!(!image.join("test.db-shm").exists());
    assert_eq!(fs::read_dir(&image).unwrap().count(), 2);
    drop(second);
}

#[test]
fn existing_content_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(&Disk::new(), dir.path(), Synchronous::Normal), COMMITS);
    let disk = Disk::new();
    disk.faults().track();
    let mut connection = open(&disk, dir.path(), Synchronous::Normal).unwrap();
    insert(&mut connection, COMMITS + 1).unwrap();
    let image = dir.path().join("image");
    disk.faults().image(0, &image, UnsyncedData::LoseAll).unwrap();
    assert_eq!(recover(&image), COMMITS);
    // Taking an image does not affect later operations.
    insert(&mut connection, COMMITS + 2).unwrap();
    checkpoint(&connection, "PASSIVE").unwrap();
    let later = dir.path().join("later");
    disk.faults().cut_power_and_image(0, &later, UnsyncedData::LoseAll).unwrap();
    assert_eq!(recover(&later), COMMITS + 2);
    assert!(insert(&mut connection, COMMITS + 3).is_err());
}

#[test]
fn an_untracked_disk_has_no_image() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Disk::new().faults().image(0, dir.path(), UnsyncedData::KeepAll).is_err());
}
