//! Tests of the VFS with real connections.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "faults")]
mod concurrency;
mod counters;
#[cfg(feature = "faults")]
mod io_errors;
mod page_checksums;
#[cfg(feature = "faults")]
mod power_loss;
#[cfg(feature = "faults")]
mod recovery;
#[cfg(feature = "faults")]
mod torn_writes;

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Result};

use super::Disk;

/// `PRAGMA synchronous`: whether a commit waits for the fsync.
#[derive(Clone, Copy)]
enum Synchronous {
    Normal,
    Full,
}

/// Opens the database in `dir` on this disk, in WAL mode and without automatic checkpoints.
fn open(disk: &Disk, dir: &Path, synchronous: Synchronous) -> Result<Connection> {
    let path = dir.join("test.db");
    let connection = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), disk.vfs_name())?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    let synchronous = match synchronous {
        Synchronous::Normal => "normal",
        Synchronous::Full => "full",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS row (batch INTEGER, part INTEGER, body BLOB)";
const PARTS: i64 = 3;

/// Commits one batch: several rows on several pages, so that a partial batch would be detected.
fn insert(connection: &mut Connection, batch: i64) -> Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for part in 0..PARTS {
        transaction.execute(
            "INSERT INTO row (batch, part, body) VALUES (?1, ?2, randomblob(1500))",
            [batch, part],
        )?;
    }
    transaction.commit()
}

fn checkpoint(connection: &Connection, mode: &str) -> Result<()> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
}

fn batches(connection: &Connection) -> Result<i64> {
    connection.query_row("SELECT count(DISTINCT batch) FROM row", [], |row| row.get(0))
}
