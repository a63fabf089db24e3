//! Corrupts bytes of the database file.

use super::*;

/// Returns the content of all tables that verification covers, as text.
fn content(path: &Path) -> Option<Vec<String>> {
    let connection = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    let tables = [
        "spaces",
        "eras",
        "log",
        "agents",
        "deliveries",
        "ends",
        "dead",
        "entries",
        "versions",
        "client_ids",
        "items",
        "timeline",
        "erased",
    ];
    let mut lines = Vec::new();
    for table in tables {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).ok()?;
        let columns = statement.column_count();
        let mut rows = statement.query([]).ok()?;
        while let Some(row) = rows.next().ok()? {
            lines.push(format!("{table} {:?}", crate::verify::raw_rows::column_values(row, columns).ok()?));
        }
    }
    Some(lines)
}

#[test]
fn a_flipped_byte_is_detected_or_harmless() {
    let original = fixture::database();
    let dir = populated_directory();
    let path = database_path(dir.path());
    let before = content(&path).unwrap();
    let mut detected = 0;
    let flips = 400;
    // Pages are partly empty: only flip bytes that are not zero, which are mostly in use.
    let used: Vec<usize> = (0..original.len()).filter(|at| original[*at] != 0).collect();
    for flip in 0..flips {
        let mut bytes = original.to_vec();
        let at = used[(flip * 7919 + 13) % used.len()];
        bytes[at] ^= 0x41;
        fs::write(&path, &bytes).unwrap();
        match verify(dir.path(), None) {
            Ok(report) if report.ok => assert_eq!(content(&path).as_ref(), Some(&before), "byte {at}"),
            Ok(_) | Err(_) => detected += 1,
        }
    }
    // If hardly any flip is detected, the test proves nothing.
    assert!(detected > flips / 2, "{detected} of {flips}");
}

#[test]
fn a_page_that_sqlite_cannot_read_is_reported() {
    let dir = populated_directory();
    let path = database_path(dir.path());
    let root: usize = Connection::open(&path)
        .unwrap()
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'log'", [], |row| row.get(0))
        .unwrap();
    let mut bytes = fixture::database().to_vec();
    bytes[(root - 1) * 4096..root * 4096].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let defect = assert_defect(dir.path(), None, 1, Damage::Edited);
    assert!(defect.detail.contains("does not match its checksum"), "{}", defect.detail);
}
