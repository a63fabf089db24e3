//! Baseline of the benchmarks: the SQL statements of a durable send/ack cycle in a plain loop, without any decision
//! logic. These are two log records per cycle, and one row of the `ends` table per 256 cycles.

use std::path::Path;
use std::sync::Arc;

use quorate_store::{Clock as _, SystemClock};
use rusqlite::{Connection, OpenFlags};

use crate::checkpoint::{CHECKPOINT_BYTES, Checkpointer, WalMonitor};
use crate::directory::{DataDirectory, OpenError};
use crate::directory_lock::DirectoryLock;
use crate::disk::{Counters, Disk};
use crate::sqlite_store::{configure_writer, connect};

/// Measurements of a baseline run.
#[derive(Clone, Copy, Debug)]
pub struct Baseline {
    /// Cycles per second.
    pub per_second: f64,
    /// Number of transactions.
    pub transactions: u64,
    /// I/O counters of the disk.
    pub disk: Counters,
}

/// Runs send/ack cycles with payloads of 256 bytes. Each transaction contains `batch` sends and the acks of the previous
/// `batch`.
///
/// # Errors
/// Fails if the directory cannot be opened or written.
pub fn run_baseline(path: &Path, cycles: u64, batch: u64) -> Result<Baseline, OpenError> {
    let disk = Disk::new();
    let directory = DataDirectory::prepare(DirectoryLock::acquire(path)?, &disk)?;
    let sqlite_error =
        |source| OpenError::Sqlite { action: "run the baseline", path: path.to_owned(), source };
    let connection = connect(&directory.database(), &disk, OpenFlags::default()).map_err(sqlite_error)?;
    configure_writer(&connection).map_err(sqlite_error)?;
    let checkpointer = Checkpointer::start(&directory.database(), &disk).map_err(sqlite_error)?;
    let mut wal = WalMonitor::new(Arc::clone(&disk), checkpointer.signal(), CHECKPOINT_BYTES, 0);
    let clock = SystemClock::new();
    let transactions = run_cycles(&connection, &mut wal, cycles, batch).map_err(sqlite_error)?;
    let per_second = cycles as f64 * 1000.0 / clock.now().mono.0.max(1) as f64;
    checkpointer.stop();
    Ok(Baseline { per_second, transactions, disk: disk.counters() })
}

fn run_cycles(
    connection: &Connection,
    wal: &mut WalMonitor,
    cycles: u64,
    batch: u64,
) -> rusqlite::Result<u64> {
    let mut begin = connection.prepare("BEGIN IMMEDIATE")?;
    let mut commit = connection.prepare("COMMIT")?;
    let mut log = connection.prepare("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?;
    let mut ends = connection.prepare("INSERT OR REPLACE INTO ends VALUES (?1, ?2)")?;
    let ends_row = [7u8; 1536];
    let (hash, salt, payload, sent, acked) = ([7u8; 32], [7u8; 16], [b'x'; 256], [7u8; 72], [7u8; 8]);
    let at = 1_790_000_000_000_u64;
    let (mut seq, mut position, mut transactions) = (0u64, 0u64, 0u64);
    while position < cycles + batch {
        begin.execute([])?;
        for index in 0..batch {
            let number = position + index;
            if number < cycles {
                seq += 1;
                log.execute((seq, at, 1, 2, "agent:a17", hash, &sent[..], salt, &payload[..]))?;
            }
            if let Some(earlier) = number.checked_sub(batch) {
                seq += 1;
                log.execute((seq, at, 1, 2, "agent:a17", hash, &acked[..], &[][..], &[][..]))?;
                if earlier % 256 == 255 {
                    ends.execute((earlier / 256, &ends_row[..]))?;
                }
            }
        }
        commit.execute([])?;
        wal.after_batch(connection);
        transactions += 1;
        position += batch;
    }
    Ok(transactions)
}
