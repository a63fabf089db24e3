//! Cooperative yielding for long computations in asynchronous code.

use quorate_core::Record;

/// Bytes of records to process before yielding: about a millisecond.
const SLICE_BYTES: usize = 64 * 1024;
/// Overhead of a record in addition to its body.
const RECORD_BYTES: usize = 64;

/// Counts processed bytes and yields to the runtime after each slice.
#[derive(Debug, Default)]
pub struct Yielder {
    bytes: usize,
}

impl Yielder {
    /// Accounts for a decoded record and yields if the slice is used up.
    pub async fn after_record(&mut self, record: &Record) {
        self.bytes += record.body.len() + RECORD_BYTES;
        if self.bytes >= SLICE_BYTES {
            self.bytes = 0;
            tokio::task::yield_now().await;
        }
    }
}
