//! Verifying leaves no trace in the directory.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::*;

type Snapshot = BTreeMap<String, (SystemTime, bool, Vec<u8>)>;

fn snapshot(dir: &Path) -> Snapshot {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let meta = entry.metadata().unwrap();
            let bytes = fs::read(entry.path()).unwrap();
            (
                entry.file_name().into_string().unwrap(),
                (meta.modified().unwrap(), meta.permissions().readonly(), bytes),
            )
        })
        .collect()
}

/// Does something with a directory and asserts that nothing in it changed, the directory itself included.
#[track_caller]
pub(super) fn untouched<T>(dir: &Path, work: impl FnOnce() -> T) -> T {
    let before = (fs::metadata(dir).unwrap().modified().unwrap(), snapshot(dir));
    let result = work();
    assert_eq!((fs::metadata(dir).unwrap().modified().unwrap(), snapshot(dir)), before);
    result
}

/// Copies the files of a store that is open: what a crash leaves behind.
fn crashed(records: usize) -> TempDir {
    let (live, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hub = work::Hub::open(live.path());
    hub.register();
    for number in 0..records {
        hub.send("bob", &format!("piece {number}"));
    }
    for entry in fs::read_dir(live.path()).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    hub.close();
    copy
}

#[test]
fn a_closed_directory_is_left_as_it_is() {
    let dir = worked();
    untouched(dir.path(), || {
        assert!(report(dir.path()).ok);
        crate::checkpoints(dir.path()).unwrap();
        crate::export(dir.path(), None, Seq(1), |_| Ok(())).unwrap();
    });
}

#[test]
fn a_directory_that_a_hub_closed_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    work::Hub::open(dir.path()).close();
    untouched(dir.path(), || assert!(report(dir.path()).ok));
}

#[test]
fn what_a_crash_left_behind_is_verified_and_left_as_it_is() {
    let dir = crashed(20);
    let wal = dir.path().join("quorate.db-wal");
    assert!(fs::metadata(&wal).unwrap().len() > 0);
    let records = untouched(dir.path(), || {
        let found = report(dir.path());
        assert!(found.ok, "{found:?}");
        found.spaces[0].records
    });
    assert_eq!(records, 1 + 3 + 20);
    // Without the file that SQLite can make again it is the same.
    fs::remove_file(dir.path().join("quorate.db-shm")).unwrap();
    untouched(dir.path(), || assert_eq!(report(dir.path()).spaces[0].records, records));
    // With half of the log of writes the log ends earlier, but is whole up to there.
    let whole = fs::read(&wal).unwrap();
    // Behind what was written there are zeros, taken ahead.
    let written = whole.iter().rposition(|byte| *byte != 0).unwrap();
    fs::write(&wal, &whole[..written / 2]).unwrap();
    let checkpoint = Checkpoint { space: "default".into(), seq: Seq(24), hash: [0; 32] };
    untouched(dir.path(), || {
        let found = verify(dir.path(), Some(&[checkpoint])).unwrap();
        assert_eq!(found.first_bad.unwrap().damage, Damage::Truncated);
    });
}

#[test]
fn files_that_may_not_be_written_are_no_obstacle() {
    for dir in [worked(), crashed(3)] {
        for entry in fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
            let mut permissions = entry.metadata().unwrap().permissions();
            permissions.set_readonly(true);
            fs::set_permissions(entry.path(), permissions).unwrap();
        }
        untouched(dir.path(), || assert!(report(dir.path()).ok));
    }
}

#[test]
fn damage_is_left_as_it_is() {
    let dir = after_sql(&format!("DELETE FROM log WHERE id = {}", row(9)));
    untouched(dir.path(), || assert!(!report(dir.path()).ok));
}

#[test]
fn a_directory_in_use_is_refused_and_free_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let hub = work::Hub::open(dir.path());
    let refused = untouched(dir.path(), || verify(dir.path(), None).unwrap_err());
    assert!(matches!(refused, crate::OpenError::InUse { .. }), "{refused:?}");
    assert!(!refused.is_damage());
    assert!(matches!(crate::checkpoints(dir.path()), Err(crate::OpenError::InUse { .. })));
    hub.close();
    assert!(report(dir.path()).ok);
    work::Hub::open(dir.path()).close();
}

// Fails under: a reader of the log that wants more of a payload than its digest.
#[test]
fn i17_what_no_door_lets_in_any_more_still_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let hub = work::Hub::open(dir.path());
    hub.register();
    // Below the door: as an older log may hold it.
    let seq = hub.send("bob", r#"{"half a letter":"\ud800"}"#);
    hub.close();
    assert!(report(dir.path()).ok);
    let mut lines = Vec::new();
    let export = crate::export(dir.path(), None, seq, |line| {
        lines.push(line.record.seq);
        Ok(())
    });
    export.unwrap();
    assert_eq!(lines[0], seq);
}

#[test]
fn a_strange_path_is_just_a_path() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("a b?c#d%20e&immutable=0 ü");
    fs::create_dir(&dir).unwrap();
    fs::copy(database_of(worked().path()), database_of(&dir)).unwrap();
    untouched(&dir, || assert!(report(&dir).ok));
}
