//! Damage to the log: edited, deleted, reordered, truncated and forked records.

use quorate_core::{Record, Seq};
use rusqlite::Connection;

use super::*;

/// Record in the middle of the log that has a payload.
const MIDDLE: u64 = 10;

fn last() -> u64 {
    let dir = populated_directory();
    report(dir.path()).spaces[0].head_seq.0
}

#[test]
fn any_edited_column_of_a_record_is_detected() {
    let edits = [
        "body = CAST(substr(body, 1, length(body) - 1) || x'ff' AS BLOB)",
        "body = x''",
        "at = at + 1",
        "at = -5",
        "principal = 'agent:mallory'",
        "principal = CAST(x'ff' AS TEXT)",
        "principal = CAST(zeroblob(70000) AS TEXT)",
        "kind = 3",
        "kind = 300",
        "format = 2",
        "hash = zeroblob(32)",
        "hash = x'00'",
        "payload = zeroblob(length(payload))",
        "payload = CAST(payload || x'00' AS BLOB)",
        "payload = x''",
        "salts = CAST(x'01' || substr(salts, 2) AS BLOB)",
        "salts = x''",
        // Zeroed like by an erasure, but without the record of one.
        "salts = zeroblob(length(salts)), payload = zeroblob(length(payload))",
    ];
    for edit in edits {
        let dir = damaged_by_sql(&format!("UPDATE log SET {edit} WHERE id = {}", row(MIDDLE)));
        assert_defect(dir.path(), None, MIDDLE, Damage::Edited);
    }
}

#[test]
fn an_edit_is_reported_with_both_hashes_and_the_state_of_later_records() {
    let dir = damaged_by_sql(&format!("UPDATE log SET at = at + 1 WHERE id = {}", row(MIDDLE)));
    let defect = assert_defect(dir.path(), None, MIDDLE, Damage::Edited);
    assert!(
        defect.detail.contains("stored hash ") && defect.detail.contains("computed "),
        "{}",
        defect.detail
    );
    assert!(defect.detail.contains("only the content of this one was changed"), "{}", defect.detail);
    assert!(defect.detail.contains("records after it are intact"), "{}", defect.detail);
    let dir = damaged_by_sql(&format!("UPDATE log SET hash = zeroblob(32) WHERE id = {}", row(MIDDLE)));
    let defect = assert_defect(dir.path(), None, MIDDLE, Damage::Edited);
    assert!(defect.detail.contains("only the stored hash was changed"), "{}", defect.detail);
}

#[test]
fn edits_of_the_first_and_last_record_are_detected() {
    for seq in [1, last()] {
        let dir = damaged_by_sql(&format!("UPDATE log SET at = at + 1 WHERE id = {}", row(seq)));
        assert_defect(dir.path(), None, seq, Damage::Edited);
    }
}

#[test]
fn a_missing_record_is_deleted() {
    for seq in [1, MIDDLE, last() - 1] {
        let dir = damaged_by_sql(&format!("DELETE FROM log WHERE id = {}", row(seq)));
        let defect = assert_defect(dir.path(), None, seq, Damage::Deleted);
        assert!(defect.detail.contains("this record is missing"), "{}", defect.detail);
    }
    let (first, to) = (row(MIDDLE), row(MIDDLE + 2));
    let dir = damaged_by_sql(&format!("DELETE FROM log WHERE id BETWEEN {first} AND {to}"));
    let defect = assert_defect(dir.path(), None, MIDDLE, Damage::Deleted);
    assert!(defect.detail.contains("3 records are missing"), "{}", defect.detail);
}

fn delete_and_renumber(connection: &Connection, seq: u64) {
    connection.execute("DELETE FROM log WHERE id = ?1", [row(seq)]).unwrap();
    for later in seq + 1..=head(connection) {
        connection.execute("UPDATE log SET id = id - 1 WHERE id = ?1", [row(later)]).unwrap();
    }
}

#[test]
fn a_deleted_record_is_detected_even_if_later_ones_are_renumbered() {
    let dir = damaged_copy(|connection| delete_and_renumber(connection, MIDDLE));
    assert_defect(dir.path(), None, MIDDLE, Damage::Deleted);
    let dir = damaged_copy(|connection| {
        delete_and_renumber(connection, MIDDLE);
        connection.execute("UPDATE spaces SET seq = seq - 1 WHERE number = 1", []).unwrap();
    });
    assert_defect(dir.path(), None, MIDDLE, Damage::Deleted);
    let before_last = last() - 1;
    let dir = damaged_copy(|connection| delete_and_renumber(connection, before_last));
    assert_defect(dir.path(), None, before_last, Damage::Deleted);
}

#[test]
fn swapped_records_are_reordered() {
    for (first, second) in [(MIDDLE, MIDDLE + 1), (MIDDLE, last()), (1, 7)] {
        let (first_row, second_row) = (row(first), row(second));
        let dir = damaged_by_sql(&format!(
            "UPDATE log SET id = -1 WHERE id = {first_row};
             UPDATE log SET id = {first_row} WHERE id = {second_row};
             UPDATE log SET id = {second_row} WHERE id = -1"
        ));
        let defect = assert_defect(dir.path(), None, first, Damage::Reordered);
        assert!(defect.detail.contains(&format!("stored as number {second}")), "{}", defect.detail);
    }
}

#[test]
fn a_record_moved_to_the_end_is_reordered() {
    let end = row(last() + 1);
    let dir = damaged_by_sql(&format!("UPDATE log SET id = {end} WHERE id = {}", row(MIDDLE)));
    assert_defect(dir.path(), None, MIDDLE, Damage::Reordered);
}

#[test]
fn a_log_without_its_end_is_truncated() {
    let first_deleted = last() - 2;
    let dir = damaged_by_sql(&format!(
        "DELETE FROM log WHERE id BETWEEN {} AND {}",
        row(first_deleted),
        row(last())
    ));
    assert_defect(dir.path(), None, first_deleted, Damage::Truncated);
    let dir = damaged_by_sql(&format!("DELETE FROM log WHERE id BETWEEN {} AND {}", row(1), row(last())));
    assert_defect(dir.path(), None, 1, Damage::Truncated);
}

/// Truncates the log and resets the head accordingly.
fn truncate_with_head(connection: &Connection, to: u64) {
    connection
        .execute("DELETE FROM log WHERE id BETWEEN ?1 AND ?2", (row(to + 1), row(head(connection))))
        .unwrap();
    connection
        .execute(
            "UPDATE spaces SET (seq, hash, at) = (SELECT ?1, hash, at FROM log WHERE id = ?2) WHERE number = 1",
            (to, row(to)),
        )
        .unwrap();
}

#[test]
fn a_log_truncated_with_its_head_is_detected_by_a_checkpoint() {
    let checkpoints = crate::checkpoints(populated_directory().path()).unwrap();
    let last_kept = last() - 3;
    let dir = damaged_copy(|connection| truncate_with_head(connection, last_kept));
    assert_defect(dir.path(), Some(&checkpoints), last_kept + 1, Damage::Truncated);
    // Without a checkpoint, the tables still reveal it.
    let defect = report(dir.path()).first_defect.unwrap();
    assert_eq!(defect.damage, Damage::Tables, "{defect:?}");
}

#[test]
fn an_older_copy_is_detected_by_the_witness_or_a_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let hub = fixture::Hub::open(dir.path());
    hub.register();
    hub.close_into_one_file(dir.path());
    let older = fs::read(database_path(dir.path())).unwrap();
    let hub = fixture::Hub::open(dir.path());
    let sent = hub.send("bob", "a later message");
    hub.close_into_one_file(dir.path());
    let checkpoints = crate::checkpoints(dir.path()).unwrap();
    assert!(verify(dir.path(), Some(&checkpoints)).unwrap().ok);
    fs::write(database_path(dir.path()), older).unwrap();
    assert_eq!(report(dir.path()).first_defect.unwrap().damage, Damage::Truncated);
    // A copy of the whole directory, with its witness.
    forge_witness(dir.path());
    assert!(report(dir.path()).ok);
    assert_defect(dir.path(), Some(&checkpoints), sent.0, Damage::Truncated);
}

#[test]
fn rewritten_history_is_forked_and_detected_only_by_a_checkpoint() {
    let original = populated_directory();
    let checkpoints = crate::checkpoints(original.path()).unwrap();
    let early =
        LogCheckpoint { seq: Seq(5), hash: record(original.path(), 5).hash, ..checkpoints[0].clone() };
    // The last record only ends deliveries, so no table contains its principal.
    let end = last();
    let dir = damaged_copy(|connection| {
        connection.execute("UPDATE log SET principal = 'agent:mallory' WHERE id = ?1", [row(end)]).unwrap();
        connection.execute("UPDATE log SET at = at + 1 WHERE id = ?1", [row(end)]).unwrap();
        rechain(connection, end);
    });
    assert!(report(dir.path()).ok, "{:?}", report(dir.path()));
    let checkpoints = [checkpoints[1].clone(), checkpoints[0].clone(), early];
    let defect = assert_defect(dir.path(), Some(&checkpoints), end, Damage::Forked);
    assert!(defect.detail.contains("after record 5"), "{}", defect.detail);
}

fn record(dir: &Path, seq: u64) -> Record {
    let connection = open_database(dir);
    crate::load::record(&connection, quorate_core::SpaceNo(1), Seq(seq)).unwrap().unwrap()
}

#[test]
fn a_checkpoint_of_record_0_is_compared_with_the_space_id() {
    let dir = populated_directory();
    let other = LogCheckpoint { space: "default".into(), seq: Seq(0), hash: [7; 32] };
    assert_defect(dir.path(), Some(&[other]), 0, Damage::Forked);
}

#[test]
fn records_beyond_the_head_are_forked() {
    let end = last();
    let before = record(populated_directory().path(), end - 1).hash;
    let dir = damaged_copy(|connection| {
        let changed =
            connection.execute("UPDATE spaces SET seq = seq - 1, hash = ?1 WHERE number = 1", [before]);
        assert_eq!(changed.unwrap(), 1);
    });
    assert_defect(dir.path(), None, end, Damage::Forked);
}

#[test]
fn a_last_record_that_is_not_the_head_is_forked() {
    let end = last();
    let dir = damaged_copy(|connection| {
        let head: [u8; 32] =
            connection.query_row("SELECT hash FROM spaces WHERE number = 1", [], |row| row.get(0)).unwrap();
        connection.execute("UPDATE log SET at = at + 1 WHERE id = ?1", [row(end)]).unwrap();
        rechain(connection, end);
        connection.execute("UPDATE spaces SET hash = ?1 WHERE number = 1", [head]).unwrap();
    });
    assert_defect(dir.path(), None, end, Damage::Forked);
}

#[test]
fn a_deleted_space_is_detected() {
    let checkpoints = crate::checkpoints(populated_directory().path()).unwrap();
    let second = quorate_core::row_id(quorate_core::SpaceNo(2), 0);
    let everything = format!(
        "DELETE FROM spaces WHERE number = 2; DELETE FROM log WHERE id >= {second};
         DELETE FROM agents WHERE id >= {second}; DELETE FROM eras WHERE space = 2;"
    );
    let dir = damaged_by_sql(&everything);
    // The second space has the newest batch.
    assert_eq!(report(dir.path()).first_defect.unwrap().damage, Damage::Truncated);
    forge_witness(dir.path());
    assert!(report(dir.path()).ok);
    let defect = verify(dir.path(), Some(&checkpoints)).unwrap().first_defect.unwrap();
    assert_eq!((defect.space.as_str(), defect.seq, defect.damage), ("second", Seq(1), Damage::Truncated));
    let dir = damaged_by_sql("DELETE FROM spaces WHERE number = 2");
    forge_witness(dir.path());
    assert_eq!(report(dir.path()).first_defect.unwrap().damage, Damage::Tables);
    let dir = damaged_by_sql("DELETE FROM spaces WHERE number = 1");
    assert_eq!(report(dir.path()).first_defect.unwrap().damage, Damage::Deleted);
}

#[test]
fn damage_in_the_second_space_is_reported_for_that_space() {
    let second = quorate_core::row_id(quorate_core::SpaceNo(2), 2);
    let dir = damaged_by_sql(&format!("UPDATE log SET at = at + 1 WHERE id = {second}"));
    let report = report(dir.path());
    let defect = report.first_defect.clone().unwrap();
    assert_eq!((defect.space.as_str(), defect.seq, defect.damage), ("second", Seq(2), Damage::Edited));
    assert_eq!(report.spaces[0].defect, None);
    assert_eq!(report.spaces[1].defect, Some(defect));
    assert_eq!(report.spaces[1].records, 1);
}

#[test]
fn an_erased_part_with_restored_bytes_is_edited() {
    let before = populated_directory();
    let erased: u64 = open_database(before.path())
        .query_row("SELECT max(seq) FROM erased WHERE space = 1", [], |row| row.get(0))
        .unwrap();
    let dir = damaged_copy(|connection| {
        // The second of two parts. A forger with an old copy knows its salt and bytes.
        let entropy = quorate_store::Entropy::seeded(7);
        let salts: Vec<[u8; 16]> = (0..200).map(|_| entropy.bytes_16()).collect();
        let record = crate::load::record(connection, quorate_core::SpaceNo(1), Seq(erased)).unwrap().unwrap();
        let parts = quorate_core::codec::part_table(&record.body).unwrap();
        let digest = |salt: &[u8; 16]| quorate_core::hash_chain::part_digest(salt, b"secret");
        let salt = salts.iter().find(|salt| digest(salt) == parts[1].1).unwrap();
        let salts = [&record.salts[..16], salt].concat();
        let payload = [&record.payload[..record.payload.len() - 6], b"secret"].concat();
        connection
            .execute("UPDATE log SET salts = ?2, payload = ?3 WHERE id = ?1", (row(erased), salts, payload))
            .unwrap();
    });
    let defect = assert_defect(dir.path(), None, erased, Damage::Edited);
    assert!(defect.detail.contains("it is not blank"), "{}", defect.detail);
}
