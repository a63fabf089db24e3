//! Backups and restores that are killed between two steps.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tempfile::TempDir;

use super::*;
use crate::directory::DataDirectory;
use crate::directory_lock::DirectoryLock;
use crate::verify;
use crate::verify::tests::fixture::{Hub, START};

thread_local! {
    /// Number of steps that this thread still takes before it is killed.
    static STEPS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Takes a step, or ends the operation like a kill: nothing is cleaned up after it.
pub(super) fn step() {
    match STEPS_LEFT.get() {
        Some(0) => resume_unwind(Box::new("killed")),
        left => STEPS_LEFT.set(left.map(|left| left - 1)),
    }
}

/// Runs an operation that is killed after some steps. `None` if it was killed.
fn killed_after<T>(steps: u32, operation: impl FnOnce() -> T) -> Option<T> {
    STEPS_LEFT.set(Some(steps));
    let outcome = catch_unwind(AssertUnwindSafe(operation)).ok();
    STEPS_LEFT.set(None);
    outcome
}

/// Creates a closed data directory with a private store.
fn data() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let hub = Hub::open(directory.path());
    hub.register();
    hub.send("bob", "one");
    let private = Hub::open(&private_directory(directory.path()));
    private.register();
    private.close();
    hub.close();
    directory
}

/// Checks a copy that may have been killed: it does not exist, it is refused as incomplete, or it is complete.
#[track_caller]
fn assert_refused_or_complete(copy: &Path, is_done: bool) {
    if !copy.exists() {
        assert!(!is_done);
        return;
    }
    match verify(copy, None) {
        Ok(report) => {
            assert!(report.ok, "{report:?}");
            assert!(private_directory(copy).exists());
            Hub::open(copy).close();
        }
        Err(error) => {
            assert!(!is_done && error.is_damage(), "{error:?}");
            assert!(error.to_string().contains("interrupted"), "{error}");
            let opened =
                DirectoryLock::acquire(copy).and_then(|lock| DataDirectory::prepare(lock, &Disk::new()));
            assert!(opened.unwrap_err().is_damage());
            assert!(super::backup(copy, &copy.with_extension("again")).is_err());
        }
    }
}

/// Runs an operation that writes a copy, killed after each number of steps, until it completes.
fn kill_at_each_step<E: std::fmt::Debug>(copy: impl Fn(&Path) -> Result<Vec<BackupPosition>, E>) {
    let root = tempfile::tempdir().unwrap();
    for steps in 0.. {
        let target = root.path().join(format!("copy-{steps}"));
        let outcome = killed_after(steps, || copy(&target));
        let is_done = outcome.is_some_and(|outcome| !outcome.unwrap().is_empty());
        assert_refused_or_complete(&target, is_done);
        if is_done {
            assert!(steps >= 8, "only {steps} steps");
            return;
        }
    }
}

// Fails under: a marker that is written after the directory; a marker that is removed before the witness is written; a
// start or `verify` that ignores it.
#[test]
fn i24_a_restore_that_is_killed_at_any_step_is_refused_or_complete() {
    let (data, root) = (data(), tempfile::tempdir().unwrap());
    let backup = root.path().join("backup");
    super::backup(data.path(), &backup).unwrap();
    kill_at_each_step(|to| restore(&backup, to, Timestamp(START + 1_000_000)));
}

// Fails under: a backup without a marker.
#[test]
fn i24_a_backup_that_is_killed_at_any_step_is_refused_or_complete() {
    let data = data();
    kill_at_each_step(|to| super::backup(data.path(), to));
}

// Fails under: a backup whose witness names only the main store; a restore that does not compare the backup with it.
#[test]
fn i24_a_backup_without_its_private_store_is_not_restored() {
    let (data, root) = (data(), tempfile::tempdir().unwrap());
    let [backup, restored] = ["backup", "restored"].map(|name| root.path().join(name));
    super::backup(data.path(), &backup).unwrap();
    fs::remove_dir_all(private_directory(&backup)).unwrap();
    let report = verify(&backup, None).unwrap();
    assert!(report.first_defect.unwrap().detail.contains("quorate.private is missing"));
    let error = restore(&backup, &restored, Timestamp(START + 1_000_000)).unwrap_err();
    assert!(matches!(&error, RestoreError::Backup(open) if open.is_damage()), "{error:?}");
    assert!(restore_dry_run(&backup, &root.path().join("other")).is_err());
    assert!(!database_path(&restored).exists());
}
