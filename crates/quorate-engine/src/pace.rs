//! Long computations in asynchronous code, in bounded slices.

use quorate_core::Record;

/// Bytes of records that are decoded or rendered before others have their turn: about a millisecond.
const SLICE_BYTES: usize = 64 * 1024;
/// What a record costs beside its body.
const RECORD_BYTES: usize = 64;

/// Counts what a computation does, and yields after each slice.
#[derive(Debug, Default)]
pub struct Pace {
    bytes: usize,
}

impl Pace {
    /// To be called after each record that was decoded.
    pub async fn after(&mut self, record: &Record) {
        self.bytes += record.body.len() + RECORD_BYTES;
        if self.bytes >= SLICE_BYTES {
            self.bytes = 0;
            tokio::task::yield_now().await;
        }
    }
}
