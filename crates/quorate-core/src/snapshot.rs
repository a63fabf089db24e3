//! Snapshots and rollbacks of the shared memory. All versions are retained anyway, so a snapshot is just a named sequence
//! number, and a rollback writes old contents as new versions.

use crate::ids::{Key, Seq, SnapshotName, Version};
use crate::limits::KEY_BYTES_MAX;
use crate::lock::FenceRef;
use crate::refused::{Code, Refused};
use crate::time::Timestamp;

/// A named position in the history of the shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Name of the snapshot.
    pub name: SnapshotName,
    /// Prefix of the keys that it covers.
    pub prefix: String,
    /// The last record that it includes.
    pub seq: Seq,
    /// Time of creation.
    pub at: Timestamp,
    /// The principal that created it.
    pub by: String,
    /// Whether it still exists.
    pub state: SnapshotState,
}

/// Lifecycle state of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotState {
    /// Exists.
    Active,
    /// Dropped; its name can be reused.
    Dropped,
}

/// Creates a snapshot of the state before the commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MakeSnapshot {
    /// Name of the snapshot.
    pub name: SnapshotName,
    /// Prefix of the keys to cover; empty means all.
    pub prefix: String,
}

/// The entries that a rollback restores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RollbackScope {
    /// A single entry.
    Key {
        /// Key of the entry.
        key: Key,
        /// Expected current version (compare-and-set); 0: it must not exist; `None`: any.
        expect: Option<Version>,
    },
    /// All entries with this key prefix.
    Prefix(String),
}

impl RollbackScope {
    /// The version that a single entry must have, if the caller stated it.
    #[must_use]
    pub fn expected(&self) -> Option<Version> {
        match self {
            Self::Key { expect, .. } => *expect,
            Self::Prefix(_) => None,
        }
    }
}

/// The point in history that a rollback restores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RollbackTarget {
    /// This version; for a single entry only.
    Version(Version),
    /// As of this record.
    Seq(Seq),
    /// As of this time.
    Time(Timestamp),
    /// As of this snapshot.
    Snapshot(SnapshotName),
}

/// Restores earlier contents as new versions. Entries that did not exist at that point are deleted; entries deleted since
/// are restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rollback {
    /// Entries to restore.
    pub scope: RollbackScope,
    /// Point in history to restore.
    pub target: RollbackTarget,
    /// Fencing token of a lock that protects the entries; refused if it is outdated.
    pub fence: Option<FenceRef>,
}

impl MakeSnapshot {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_prefix(&self.prefix)
    }
}

impl Rollback {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        match (&self.scope, &self.target) {
            (RollbackScope::Prefix(_), RollbackTarget::Version(_)) => {
                Err(Refused::new(Code::Invalid, "cannot roll back a prefix to a version")
                    .hint("roll back to a record, a time or a snapshot, or name a single key"))
            }
            (RollbackScope::Prefix(prefix), _) => check_prefix(prefix),
            (RollbackScope::Key { .. }, _) => Ok(()),
        }
    }
}

fn check_prefix(prefix: &str) -> Result<(), Refused> {
    if prefix.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(Refused::new(Code::Invalid, format!("the prefix is too long: {} bytes", prefix.len()))
        .limit(KEY_BYTES_MAX as u64)
        .hint(format!("use at most {KEY_BYTES_MAX} bytes, the maximum length of a key")))
}

impl RollbackScope {
    /// Whether it covers a prefix.
    #[must_use]
    pub fn is_prefix(&self) -> bool {
        matches!(self, Self::Prefix(_))
    }

    /// Whether it is contained in a prefix.
    pub(crate) fn is_within(&self, prefix: &str) -> bool {
        match self {
            Self::Key { key, .. } => key.as_str().starts_with(prefix),
            Self::Prefix(own) => own.starts_with(prefix),
        }
    }
}
