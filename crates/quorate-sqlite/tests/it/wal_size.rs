//! Size of the write-ahead log over crashes.

use std::fs;
use std::path::Path;

use quorate_sqlite::Options;
use quorate_store::Store as _;

use crate::support::{crashed_copy, open, put_entries};

/// Size of the log that triggers a checkpoint.
const CHECKPOINT_BYTES: u64 = 2 << 20;
/// The log is preallocated in steps of this size.
const PREALLOCATED_BYTES: u64 = 1 << 20;
const CRASHES: usize = 6;

fn wal_bytes(directory: &Path) -> u64 {
    fs::metadata(directory.join("quorate.db-wal")).map_or(0, |wal| wal.len())
}

// Fails under: a threshold that counts from the start of the process (`leftover` = 0 and no checkpoint at start).
#[tokio::test]
async fn i21_the_write_ahead_log_is_bounded_over_crashes() {
    let options = Options { checkpoint_bytes: CHECKPOINT_BYTES, ..Options::default() };
    let mut directory = tempfile::tempdir().expect("a directory");
    for crash in 0..CRASHES {
        let store = open(directory.path(), options.clone()).expect("it opens");
        let bytes = wal_bytes(directory.path());
        assert!(bytes < CHECKPOINT_BYTES + PREALLOCATED_BYTES, "start {crash}: the log has {bytes} bytes");
        // Each run writes less than the threshold.
        put_entries(&store, CHECKPOINT_BYTES as usize / 100_000).await;
        let copy = crashed_copy(directory.path());
        let bytes = wal_bytes(copy.path());
        assert!(
            bytes < 2 * CHECKPOINT_BYTES + PREALLOCATED_BYTES,
            "crash {crash}: the log has {bytes} bytes"
        );
        store.close().await;
        directory = copy;
    }
}
