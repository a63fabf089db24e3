//! Damages a real store with plain SQL, and checks that verification reports the right record and kind of damage.

mod corrupt_file;
mod damaged_log;
mod damaged_tables;
pub(crate) mod fixture;
mod forged_history;
mod invalid_directories;
mod unchanged;

use std::fs;
use std::path::Path;

use quorate_core::hash_chain::{RecordHeader, record_hash};
use quorate_core::{Seq, SpaceId, Timestamp};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::{Damage, Defect, LogCheckpoint, VerifyReport, verify};
use crate::directory::database_path;
use crate::disk::Disk;
use crate::witness::{self, WITNESS};

/// Opens the database of a directory like a hub, so that a change has valid page checksums.
pub(crate) fn open_database(dir: &Path) -> Connection {
    Disk::new().open(&database_path(dir), OpenFlags::default()).unwrap()
}

/// Rewrites the witness, like a forger who can write to the directory.
fn forge_witness(dir: &Path) {
    fs::remove_file(dir.join(WITNESS)).unwrap();
    witness::write_for_copy(dir).unwrap();
}

/// Creates a closed data directory that contains the results of all kinds of operations.
pub(crate) fn populated_directory() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    fs::write(database_path(copy.path()), fixture::database()).unwrap();
    fs::write(copy.path().join(WITNESS), fixture::witness()).unwrap();
    copy
}

/// Creates a populated directory and applies `damage` to its database.
fn damaged_copy(damage: impl FnOnce(&Connection)) -> TempDir {
    let copy = populated_directory();
    let connection = open_database(copy.path());
    damage(&connection);
    connection.close().unwrap();
    copy
}

fn damaged_by_sql(sql: &str) -> TempDir {
    damaged_copy(|connection| {
        connection.execute_batch(sql).unwrap();
        assert_ne!(connection.changes(), 0, "no row was changed by {sql}");
    })
}

fn report(dir: &Path) -> VerifyReport {
    verify(dir, None).unwrap()
}

/// Asserts the record and the kind of the first defect, and returns it.
#[track_caller]
fn assert_defect(dir: &Path, checkpoints: Option<&[LogCheckpoint]>, seq: u64, damage: Damage) -> Defect {
    let report = verify(dir, checkpoints).unwrap();
    let defect = report.first_defect.clone().unwrap_or_else(|| panic!("no defect found: {report:?}"));
    assert_eq!((defect.seq, defect.damage), (Seq(seq), damage), "{defect:?}");
    assert!(!report.ok);
    assert_eq!(defect.space, "default");
    defect
}

/// Returns a row id of the first space.
fn row(number: u64) -> i64 {
    quorate_core::row_id(quorate_core::SpaceNo(1), number)
}

fn head(connection: &Connection) -> u64 {
    connection.query_row("SELECT seq FROM spaces WHERE number = 1", [], |row| row.get(0)).unwrap()
}

/// Recomputes all hashes from a record on, and the head, like a forger would.
fn rechain(connection: &Connection, from: u64) {
    let id: [u8; 16] =
        connection.query_row("SELECT id FROM spaces WHERE number = 1", [], |row| row.get(0)).unwrap();
    let mut previous = quorate_core::hash_chain::genesis_hash(SpaceId(id));
    let mut last = (0, 0);
    for seq in 1..=head(connection) {
        let found = connection.query_row(
            "SELECT at, format, kind, principal, hash, body FROM log WHERE id = ?1",
            [row(seq)],
            |row| {
                let header: (u64, u8, u8, String) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
                Ok((header, row.get::<_, [u8; 32]>(4)?, row.get::<_, Vec<u8>>(5)?))
            },
        );
        let ((at, format, kind, principal), stored, body) = found.unwrap();
        previous = if seq < from {
            stored
        } else {
            let header =
                RecordHeader { seq: Seq(seq), at: Timestamp(at), format, kind, principal: &principal };
            record_hash(&previous, &header, &body)
        };
        connection.execute("UPDATE log SET hash = ?2 WHERE id = ?1", (row(seq), previous)).unwrap();
        last = (seq, at);
    }
    connection
        .execute(
            "UPDATE spaces SET seq = ?1, hash = ?2, at = ?3 WHERE number = 1",
            (last.0, previous, last.1),
        )
        .unwrap();
    forge_witness(Path::new(connection.path().unwrap()).parent().unwrap());
}

#[test]
fn an_undamaged_store_verifies() {
    let dir = populated_directory();
    let report = report(dir.path());
    assert_eq!(report.first_defect, None);
    assert!(report.ok);
    let names: Vec<_> = report.spaces.iter().map(|space| space.name.as_str()).collect();
    assert_eq!(names, ["default", "second"]);
    for space in &report.spaces {
        assert_eq!(Seq(space.records), space.head_seq);
    }
    assert_eq!(report.spaces[0].erased, 2);
}

#[test]
fn a_store_matches_its_own_checkpoints() {
    let dir = populated_directory();
    let checkpoints = crate::checkpoints(dir.path()).unwrap();
    let report = verify(dir.path(), Some(&checkpoints)).unwrap();
    assert!(report.ok, "{report:?}");
    assert!(report.spaces.iter().all(|space| space.checkpoints == 1));
}

#[test]
fn a_restored_backup_verifies_and_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let [live, backup, restored] = ["live", "backup", "restored"].map(|name| dir.path().join(name));
    let hub = fixture::Hub::open(&live);
    hub.run_all_operations();
    hub.back_up(&backup);
    hub.close();
    assert!(report(&backup).ok);
    let checkpoints = crate::checkpoints(&backup).unwrap();
    crate::restore(&backup, &restored, Timestamp(fixture::START + 1_000_000)).unwrap();
    let hub = fixture::Hub::open(&restored);
    hub.send("bob", "after the restore");
    hub.memory();
    hub.close();
    let report = verify(&restored, Some(&checkpoints)).unwrap();
    assert!(report.ok, "{report:?}");
    assert_eq!(report.spaces[0].checkpoints, 1);
}
