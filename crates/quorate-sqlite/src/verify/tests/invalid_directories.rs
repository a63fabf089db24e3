//! Invalid or incomplete data directories: each is rejected with a clear error, and nothing is changed.

use super::fixture::Hub;
use super::unchanged::assert_unchanged;
use super::*;
use crate::OpenError;

fn rejected(dir: &Path) -> OpenError {
    let rejected = assert_unchanged(dir, || verify(dir, None).unwrap_err());
    let export = assert_unchanged(dir, || crate::export(dir, None, Seq(1), |_| Ok(())).unwrap_err());
    assert!(matches!(export, crate::ExportError::Open(_)));
    rejected
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
    assert!(matches!(rejected(dir.path()), OpenError::Missing { .. }));
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
    assert!(matches!(rejected(dir.path()), OpenError::Foreign { .. }));
    fs::write(database_path(dir.path()), "x".repeat(5000)).unwrap();
    assert!(matches!(rejected(dir.path()), OpenError::Foreign { .. }));
    fs::remove_file(database_path(dir.path())).unwrap();
    let other = Connection::open(database_path(dir.path())).unwrap();
    other.execute_batch("CREATE TABLE log (x)").unwrap();
    other.close().unwrap();
    assert!(matches!(rejected(dir.path()), OpenError::Foreign { .. }));
}

#[test]
fn a_newer_version() {
    let newer = crate::schema::VERSION + 1;
    let dir = damaged_copy(|connection| connection.pragma_update(None, "user_version", newer).unwrap());
    let rejected = rejected(dir.path());
    assert!(matches!(rejected, OpenError::Newer { found, .. } if found == newer), "{rejected:?}");
}

// Fails under: a database that counts as one without page checksums, and is rewritten, because one bit of its header says so.
#[test]
fn i22_a_flipped_bit_in_the_number_of_reserved_bytes() {
    let dir = populated_directory();
    let path = database_path(dir.path());
    for bit in 0..8 {
        let mut bytes = fixture::database().to_vec();
        bytes[20] ^= 1 << bit;
        fs::write(&path, &bytes).unwrap();
        let verified = rejected(dir.path());
        assert!(matches!(verified, OpenError::Damaged { .. }), "bit {bit}: {verified:?}");
        let opened = Hub::try_open(dir.path()).err().unwrap();
        assert!(matches!(opened, OpenError::Damaged { .. }), "bit {bit}: {opened:?}");
        assert!(fs::read(&path).unwrap() == bytes, "bit {bit}: the database was changed");
    }
}

#[test]
fn no_version_at_all() {
    let dir = damaged_copy(|connection| connection.pragma_update(None, "user_version", 0).unwrap());
    assert!(matches!(rejected(dir.path()), OpenError::Damaged { .. }));
}

#[test]
fn an_incomplete_copy() {
    let dir = populated_directory();
    let path = database_path(dir.path());
    for length in [0, 50, 99, 100, 5000, fixture::database().len() - 1] {
        fs::write(&path, &fixture::database()[..length]).unwrap();
        let rejected = rejected(dir.path());
        assert!(matches!(rejected, OpenError::Damaged { .. }), "{length} bytes: {rejected:?}");
        assert!(rejected.is_damage());
    }
}

#[test]
fn a_write_ahead_log_without_its_database() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("quorate.db-wal"), [1; 5000]).unwrap();
    assert!(matches!(rejected(dir.path()), OpenError::Damaged { .. }));
}

#[test]
fn an_incomplete_database_with_a_write_ahead_log() {
    let dir = populated_directory();
    fs::write(dir.path().join("quorate.db-wal"), [1; 5000]).unwrap();
    fs::write(database_path(dir.path()), &fixture::database()[..9000]).unwrap();
    // Whether the write-ahead log contains the missing pages is only known after reading it: the result must be an error
    // or a defect, never success.
    assert_unchanged(dir.path(), || match verify(dir.path(), None) {
        Ok(report) => assert!(!report.ok),
        Err(rejected) => assert!(rejected.is_damage(), "{rejected:?}"),
    });
}

#[test]
fn tables_that_are_missing() {
    let dir = damaged_copy(|connection| connection.execute_batch("DROP TABLE log").unwrap());
    assert!(matches!(rejected(dir.path()), OpenError::Sqlite { .. }));
}
