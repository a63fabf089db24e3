//! Migration of data directories with an older schema.

use rusqlite::Connection;
use tempfile::TempDir;

use super::{APPLICATION_ID, VERSION, VERSION_1};
use crate::directory::database_path;
use crate::verify;
use crate::verify::tests::fixture::Hub;
use crate::verify::tests::populated_directory;

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
        let columns = if name == "items" { "space, kind, id, state" } else { "*" };
        let copy = format!("INSERT INTO main.{name} SELECT {columns} FROM newer.{name}");
        connection.execute_batch(&copy).unwrap();
    }
    old
}

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
