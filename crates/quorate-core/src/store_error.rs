//! Storage errors. Part of the public error type, so they are defined here and not in the store crate.

use std::sync::Arc;

use crate::ids::Seq;

/// A storage error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The write queue is full (backpressure). Nothing was changed.
    #[error("the write queue is full")]
    Busy,
    /// The disk is full. Nothing was changed; reads continue, and writes resume once space is available.
    #[error("the disk is full")]
    DiskFull,
    /// A write or fsync failed. Whether it was applied is unknown; all further writes are refused until a restart.
    #[error("storage failed; no writes are accepted until the hub is restarted: {0}")]
    Failed(Arc<str>),
    /// The store was closed. Nothing was changed.
    #[error("the store is closed")]
    Closed,
    /// Stored data is corrupt.
    #[error("corrupt data: {0}")]
    Corrupt(Arc<str>),
    /// The space does not exist. Nothing was changed.
    #[error("the space does not exist")]
    UnknownSpace,
    /// A read failed.
    #[error("read failed: {0}")]
    Read(Arc<str>),
}

impl StoreError {
    /// Creates the error for a payload that does not match the digest in its record.
    #[must_use]
    pub fn corrupt_payload(seq: Seq) -> Self {
        Self::Corrupt(format!("a payload of record {seq} does not match its digest").into())
    }

    /// Whether the write is guaranteed not to have been applied.
    #[must_use]
    pub fn is_not_applied(&self) -> bool {
        match self {
            Self::Busy | Self::DiskFull | Self::Closed | Self::UnknownSpace | Self::Read(_) => true,
            Self::Failed(_) | Self::Corrupt(_) => false,
        }
    }
}
