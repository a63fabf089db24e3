//! Failures of the storage. They are part of the public error, so they are declared without the store.

use std::sync::Arc;

use crate::ids::Seq;

/// The storage failed, not the domain.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Too much waits already. Nothing was changed.
    #[error("the write queue is full")]
    Busy,
    /// The disk is full. Nothing was changed; reads go on, and writes once there is room.
    #[error("the disk is full")]
    Full,
    /// A write or a sync failed. Whether it was applied is unknown; nothing more is accepted until a restart.
    #[error("the storage failed and accepts nothing more until the hub is started again: {0}")]
    Failed(Arc<str>),
    /// The store was closed. Nothing was changed.
    #[error("the store is closed")]
    Closed,
    /// The data is not what this release wrote.
    #[error("the data is damaged: {0}")]
    Damaged(Arc<str>),
    /// There is no such space. Nothing was changed.
    #[error("there is no such space")]
    NoSpace,
    /// A read failed.
    #[error("a read failed: {0}")]
    Read(Arc<str>),
}

impl StoreError {
    /// A payload of this record is not what was written: nobody may take it for what was sent.
    #[must_use]
    pub fn damaged_payload(seq: Seq) -> Self {
        Self::Damaged(format!("a payload of record {seq} is not what was written").into())
    }

    /// Whether it is certain that nothing was changed.
    #[must_use]
    pub fn nothing_applied(&self) -> bool {
        match self {
            Self::Busy | Self::Full | Self::Closed | Self::NoSpace | Self::Read(_) => true,
            Self::Failed(_) | Self::Damaged(_) => false,
        }
    }
}
