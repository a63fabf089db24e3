//! Migration of data directories with an older schema.

use rusqlite::Connection;
use tempfile::TempDir;

use super::{APPLICATION_ID, VERSION, VERSION_1};
use crate::directory::database_path;
use crate::verify;
use crate::verify::tests::fixture::Hub;
use crate::verify::tests::populated_directory;
use crate::witness::WITNESS;

/// Creates a populated data directory with schema version 1.
fn schema_1_directory() -> TempDir {
    let (newer, old) = (populated_directory(), tempfile::tempdir().unwrap());
    let connection = Connection::open(database_path(old.path())).unwrap();
    connection.execute_batch(VERSION_1).unwrap();
    let header =
        format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1; DELETE FROM key_turn");
    connection.execute_batch(&header).unwrap();
    connection.execute("ATTACH ?1 AS newer", [database_path(newer.path()).to_str()]).unwrap();
    let mut tables = connection.prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table'").unwrap();
    let names: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for name in names {
        let columns = match name.as_str() {
            "items" => "space, kind, id, state",
            "spaces" => SPACE_COLUMNS,
            _ => "*",
        };
        let copy = format!("INSERT INTO main.{name} SELECT {columns} FROM newer.{name}");
        connection.execute_batch(&copy).unwrap();
    }
    old
}

const SPACE_COLUMNS: &str =
    "number, name, id, seq, hash, at, generation, tables_at, next_delivery, last_token,
                             acked, dead, expired, purged";

fn read<T: rusqlite::types::FromSql>(dir: &TempDir, sql: &str) -> T {
    let connection = Connection::open(database_path(dir.path())).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

const COLUMNS: &str = "SELECT group_concat(name) FROM pragma_table_info('items')";
const DUMP: &str = "SELECT group_concat(space || ' ' || kind || ' ' || id || ' ' || created, ';')
                    FROM (SELECT * FROM items ORDER BY space, kind, id)";

#[test]
fn opening_an_older_directory_fills_the_positions_of_creation() {
    let (old, newer) = (schema_1_directory(), populated_directory());
    assert_eq!(read::<String>(&old, COLUMNS), "space,kind,id,state");
    Hub::open(old.path()).close();
    assert_eq!(read::<i32>(&old, "PRAGMA user_version"), VERSION);
    assert_eq!(read::<String>(&old, DUMP), read::<String>(&newer, DUMP));
    let report = verify(old.path(), None).unwrap();
    assert!(report.ok, "{report:?}");
}

// Fails under: a migration that adds no checksums, or that leaves the database without a witness.
#[test]
fn i22_an_older_directory_gets_a_witness_and_checksums() {
    let old = schema_1_directory();
    let reserved = || std::fs::read(database_path(old.path())).unwrap()[20];
    assert_eq!(reserved(), 0);
    Hub::open(old.path()).close();
    assert_eq!(reserved(), 8);
    let report = verify(old.path(), None).unwrap();
    assert!(report.ok, "{report:?}");
    std::fs::remove_file(old.path().join(WITNESS)).unwrap();
    assert!(!verify(old.path(), None).unwrap().ok);
}

// Fails under: a witness that is created after the migration; a rewritten database that replaces the old one before it is
// complete; a write-ahead log of the old database that is left for the new one.
#[cfg(feature = "faults")]
#[test]
fn i24_a_migration_that_is_killed_at_any_disk_operation_is_continued() {
    use quorate_store::{Entropy, ManualClock, StoreContext};

    use crate::{Disk, Options, SqliteStore};

    let old = schema_1_directory();
    let head = verify(old.path(), None).unwrap().spaces[0].head_hash;
    let bytes = std::fs::read(database_path(old.path())).unwrap();
    for op in (1..).step_by(8) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(database_path(directory.path()), &bytes).unwrap();
        let disk = Disk::new();
        disk.faults().cut_power_at(op);
        let context = StoreContext {
            clock: ManualClock::at(1_800_000_000_000),
            entropy: Entropy::seeded(1),
            sink: std::sync::Arc::new(drop),
        };
        let options = Options { disk: Some(std::sync::Arc::clone(&disk)), ..Options::default() };
        let is_done = SqliteStore::open(directory.path(), options, context).is_ok();
        Hub::open(directory.path()).close();
        let report = verify(directory.path(), None).unwrap();
        assert!(report.ok && report.spaces[0].head_hash == head, "operation {op}: {report:?}");
        if is_done {
            assert!(op > 30, "only {op} operations");
            return;
        }
    }
}

#[test]
fn verifying_an_older_directory_does_not_migrate_it() {
    let old = schema_1_directory();
    let report = verify(old.path(), None).unwrap();
    assert!(report.ok, "{report:?}");
    assert_eq!(read::<i32>(&old, "PRAGMA user_version"), 1);
    assert_eq!(read::<String>(&old, COLUMNS), "space,kind,id,state");
}

#[test]
fn a_failed_migration_changes_nothing() {
    let old = schema_1_directory();
    let connection = Connection::open(database_path(old.path())).unwrap();
    connection.execute_batch("UPDATE log SET body = x'ff' WHERE id = (SELECT min(id) + 3 FROM log)").unwrap();
    super::migrate(&connection).unwrap_err();
    drop(connection);
    assert_eq!(read::<i32>(&old, "PRAGMA user_version"), 1);
    assert_eq!(read::<String>(&old, COLUMNS), "space,kind,id,state");
}
