//! Invalid or incomplete data directories: each is rejected with a clear error, and nothing is changed.

use super::untouched::untouched;
use super::*;
use crate::OpenError;

fn refused(dir: &Path) -> OpenError {
    let refused = untouched(dir, || verify(dir, None).unwrap_err());
    let export = untouched(dir, || crate::export(dir, None, Seq(1), |_| Ok(())).unwrap_err());
    assert!(matches!(export, crate::ExportError::Open(_)));
    refused
}

#[test]
fn a_missing_directory() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("nothing");
    assert!(matches!(verify(&dir, None), Err(OpenError::Missing { .. })));
    assert!(!dir.exists());
}

#[test]
fn an_empty_directory() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(refused(dir.path()), OpenError::Missing { .. }));
}

#[test]
fn a_file_instead_of_a_directory() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(verify(file.path(), None), Err(OpenError::Foreign { .. })));
}

#[test]
fn a_directory_of_another_program() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("report.txt"), "figures").unwrap();
    assert!(matches!(refused(dir.path()), OpenError::Foreign { .. }));
    fs::write(database_of(dir.path()), "x".repeat(5000)).unwrap();
    assert!(matches!(refused(dir.path()), OpenError::Foreign { .. }));
    fs::remove_file(database_of(dir.path())).unwrap();
    let other = Connection::open(database_of(dir.path())).unwrap();
    other.execute_batch("CREATE TABLE log (x)").unwrap();
    other.close().unwrap();
    assert!(matches!(refused(dir.path()), OpenError::Foreign { .. }));
}

#[test]
fn a_newer_version() {
    let newer = crate::schema::VERSION + 1;
    let dir = after(|connection| connection.pragma_update(None, "user_version", newer).unwrap());
    let refused = refused(dir.path());
    assert!(matches!(refused, OpenError::Newer { found, .. } if found == newer), "{refused:?}");
}

#[test]
fn no_version_at_all() {
    let dir = after(|connection| connection.pragma_update(None, "user_version", 0).unwrap());
    assert!(matches!(refused(dir.path()), OpenError::Damaged { .. }));
}

#[test]
fn an_incomplete_copy() {
    let dir = worked();
    let path = database_of(dir.path());
    for length in [0, 50, 99, 100, 5000, work::database().len() - 1] {
        fs::write(&path, &work::database()[..length]).unwrap();
        let refused = refused(dir.path());
        assert!(matches!(refused, OpenError::Damaged { .. }), "{length} bytes: {refused:?}");
        assert!(refused.is_damage());
    }
}

#[test]
fn a_write_ahead_log_without_its_database() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("quorate.db-wal"), [1; 5000]).unwrap();
    assert!(matches!(refused(dir.path()), OpenError::Damaged { .. }));
}

#[test]
fn an_incomplete_database_with_a_write_ahead_log() {
    let dir = worked();
    fs::write(dir.path().join("quorate.db-wal"), [1; 5000]).unwrap();
    fs::write(database_of(dir.path()), &work::database()[..9000]).unwrap();
    // Whether the write-ahead log contains the missing pages is only known after reading it: the result must be an error
    // or a defect, never success.
    untouched(dir.path(), || match verify(dir.path(), None) {
        Ok(report) => assert!(!report.ok),
        Err(refused) => assert!(refused.is_damage(), "{refused:?}"),
    });
}

#[test]
fn tables_that_are_missing() {
    let dir = after(|connection| connection.execute_batch("DROP TABLE log").unwrap());
    assert!(matches!(refused(dir.path()), OpenError::Sqlite { .. }));
}
