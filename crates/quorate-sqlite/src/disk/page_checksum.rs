//! Checksums of database pages, in bytes that SQLite reserves at the end of each page.
//!
//! The write-ahead log is not covered: its frames have checksums of their own, and a page is copied from it to the
//! database through `xWrite`, which adds the checksum then. A page of an interrupted checkpoint may be torn, but it is
//! still in the log, so it is never read from the database.

use std::ffi::c_int;
use std::fmt;

use rusqlite::{Connection, ffi};

use crate::checksum::checksum;

/// Reserved bytes of a page: one checksum. A database has checksums if it reserves exactly this.
pub(crate) const CHECKSUM_BYTES: usize = 8;

/// Offset of the number of reserved bytes in the header of a database.
pub(crate) const RESERVED_AT: usize = 20;

/// Page that does not match its checksum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DamagedPage {
    /// Name of the file, without its directory.
    pub(super) file: String,
    /// Number of the page, starting at 1.
    pub(super) page: u64,
}

impl fmt::Display for DamagedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of {} does not match its checksum", self.page, self.file)
    }
}

/// Whether an access is to a whole page. Other accesses are to parts of the header.
pub(super) fn is_page(amount: usize, offset: u64) -> bool {
    amount >= 512 && amount.is_power_of_two() && offset.is_multiple_of(amount as u64)
}

/// Returns a copy of a page with its checksum.
pub(super) fn with_checksum(page: &[u8], offset: u64) -> Vec<u8> {
    let mut page = page.to_vec();
    let end = page.len() - CHECKSUM_BYTES;
    let (content, sum) = page.split_at_mut(end);
    sum.copy_from_slice(&checksum(content, offset).to_le_bytes());
    page
}

/// Whether a page matches its checksum. A page of zeros was never written: SQLite extends a file before it writes to it.
pub(super) fn matches(page: &[u8], offset: u64) -> bool {
    let (content, sum) = page.split_at(page.len() - CHECKSUM_BYTES);
    sum == checksum(content, offset).to_le_bytes() || page.iter().all(|byte| *byte == 0)
}

/// Reserves the bytes of the checksum in a database that is created, or written by `VACUUM INTO`, on this connection.
pub(crate) fn reserve_checksums(connection: &Connection) -> rusqlite::Result<()> {
    file_control_reserve(connection, CHECKSUM_BYTES as c_int).map(drop)
}

/// Whether the pages of a database have checksums.
pub(crate) fn has_checksums(connection: &Connection) -> rusqlite::Result<bool> {
    // The header is only read by the first statement.
    connection.pragma_query_value(None, "schema_version", |_| Ok(()))?;
    Ok(file_control_reserve(connection, -1)? == CHECKSUM_BYTES as c_int)
}

/// Sets the number of reserved bytes, unless `bytes` is negative. Returns the number before.
fn file_control_reserve(connection: &Connection, bytes: c_int) -> rusqlite::Result<c_int> {
    let mut bytes = bytes;
    // SAFETY: the connection is open, and the argument of this control is an `int`.
    let code = unsafe {
        let argument = (&raw mut bytes).cast();
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_RESERVE_BYTES,
            argument,
        )
    };
    match code {
        ffi::SQLITE_OK => Ok(bytes),
        _ => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)),
    }
}
