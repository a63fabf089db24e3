//! Recovers the database from an image after a power loss.

use std::path::Path;

use rusqlite::Connection;

use super::PARTS;

/// Opens the image like the next process would, without our VFS, and returns the number of batches in it. There must
/// be no damage, no gap and no partial batch. Returns 0 if the table does not exist.
pub(super) fn recover(image: &Path) -> i64 {
    let connection = Connection::open(image.join("test.db")).unwrap();
    // The image itself does not need to be durable.
    connection.pragma_update(None, "synchronous", "off").unwrap();
    let result: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(result, "ok");
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'row'", [], |row| row.get(0))
        .unwrap();
    if tables == 0 {
        return 0;
    }
    let (batches, last, parts): (i64, i64, i64) = connection
        .query_row("SELECT count(DISTINCT batch), ifnull(max(batch), 0), count(*) FROM row", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!(batches, last, "a batch is missing before the last one");
    assert_eq!(parts, batches * PARTS, "a partial batch was recovered");
    batches
}
