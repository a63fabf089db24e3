//! Rollbacks and snapshots of the shared memory, and its consistency check.

use quorate_core::{
    Code, Key, MakeSnapshot, Refused, Rollback as CoreRollback, RollbackScope, RollbackTarget, Seq,
    Snapshot as CoreSnapshot, SnapshotName, SnapshotState, TaskId, TaskStatus, Timestamp, Version,
};
use serde::{Deserialize, Serialize};

use crate::lock::LockFence;

/// Rollback of one entry (`key`) or of all entries with a key prefix, to exactly one of `toVersion`, `toSeq`,
/// `toTime` and `toSnapshot`.
#[derive(Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollback {
    /// Entry to roll back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Key prefix of the entries to roll back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 512)))]
    pub prefix: Option<String>,
    /// Version of the entry to restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_version: Option<Version>,
    /// Last record to keep: later changes are rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_seq: Option<Seq>,
    /// Time to roll back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_time: Option<Timestamp>,
    /// Snapshot to roll back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_snapshot: Option<SnapshotName>,
    /// Expected current version of the entry for a compare-and-set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Version>,
    /// Fencing token of a lock. The call is refused if its grant has ended and the lock was granted again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<LockFence>,
}

impl Rollback {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` unless the request has exactly one scope and one target.
    pub fn into_core(self) -> Result<CoreRollback, Refused> {
        let scope = match (self.key, self.prefix) {
            (Some(key), None) => RollbackScope::Key { key, expect: self.expect },
            (None, Some(prefix)) => RollbackScope::Prefix(prefix),
            _ => {
                return Err(Refused::new(Code::Invalid, "a rollback requires exactly one of key and prefix")
                    .hint("send key for one entry, or prefix for all entries whose keys start with it"));
            }
        };
        let target = match (self.to_version, self.to_seq, self.to_time, self.to_snapshot) {
            (Some(version), None, None, None) => RollbackTarget::Version(version),
            (None, Some(seq), None, None) => RollbackTarget::Seq(seq),
            (None, None, Some(time), None) => RollbackTarget::Time(time),
            (None, None, None, Some(name)) => RollbackTarget::Snapshot(name),
            _ => {
                let detail = "a rollback requires exactly one of toVersion, toSeq, toTime and toSnapshot";
                return Err(Refused::new(Code::Invalid, detail).hint("send exactly one of these fields"));
            }
        };
        Ok(CoreRollback { scope, target, fence: self.fence.map(Into::into) })
    }
}

impl From<&CoreRollback> for Rollback {
    fn from(rollback: &CoreRollback) -> Self {
        let mut api = Self { fence: rollback.fence.as_ref().map(Into::into), ..Self::default() };
        match &rollback.scope {
            RollbackScope::Key { key, expect } => {
                api.key = Some(key.clone());
                api.expect = *expect;
            }
            RollbackScope::Prefix(prefix) => api.prefix = Some(prefix.clone()),
        }
        match &rollback.target {
            RollbackTarget::Version(version) => api.to_version = Some(*version),
            RollbackTarget::Seq(seq) => api.to_seq = Some(*seq),
            RollbackTarget::Time(time) => api.to_time = Some(*time),
            RollbackTarget::Snapshot(name) => api.to_snapshot = Some(name.clone()),
        }
        api
    }
}

/// Result of a rollback.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RollbackResult {
    /// Sequence number of the record; `null` if nothing had to change.
    pub seq: Option<Seq>,
    /// Sequence number of the record that was rolled back to.
    pub to: Seq,
    /// Entries that were changed.
    pub changed: Vec<RestoredEntry>,
    /// Entries that were derived from versions that the rollback undid. They may be stale.
    pub built_on: Vec<DerivedEntry>,
    /// Total number of such entries.
    pub built_on_count: u64,
    /// Whether all entries were searched for derived ones.
    pub complete: bool,
}

/// Entry that a rollback changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestoredEntry {
    /// Entry key.
    pub key: Key,
    /// New version number.
    pub version: Version,
    /// Version that was restored; `null` if the entry did not exist then and was deleted.
    pub restored: Option<Version>,
}

/// Entry that was derived from a version of another entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DerivedEntry {
    /// Key of the derived entry.
    pub key: Key,
    /// Version of the derived entry.
    pub version: Version,
    /// Key of the source entry.
    pub on: Key,
    /// Version of the source entry.
    pub on_version: Version,
}

/// Snapshot to create: a named position in the history of all entries or of those with a key prefix.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    /// Snapshot name.
    pub name: SnapshotName,
    /// Key prefix of the covered entries; all entries by default.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 512)))]
    pub prefix: String,
}

impl From<NewSnapshot> for MakeSnapshot {
    fn from(snapshot: NewSnapshot) -> Self {
        Self { name: snapshot.name, prefix: snapshot.prefix }
    }
}

impl From<&MakeSnapshot> for NewSnapshot {
    fn from(make: &MakeSnapshot) -> Self {
        Self { name: make.name.clone(), prefix: make.prefix.clone() }
    }
}

/// Result of creating a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedSnapshot {
    /// Snapshot name.
    pub name: SnapshotName,
    /// Sequence number of the record that the snapshot refers to.
    pub seq: Option<Seq>,
}

/// Named position in the history of the shared memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    /// Snapshot name.
    pub name: SnapshotName,
    /// Key prefix of the covered entries.
    pub prefix: String,
    /// Sequence number of the record that the snapshot refers to.
    pub seq: Seq,
    /// Time at which the snapshot was created.
    pub at: Timestamp,
    /// Principal that created the snapshot.
    pub by: String,
}

impl From<&CoreSnapshot> for Snapshot {
    fn from(snapshot: &CoreSnapshot) -> Self {
        Self {
            name: snapshot.name.clone(),
            prefix: snapshot.prefix.clone(),
            seq: snapshot.seq,
            at: snapshot.at,
            by: snapshot.by.clone(),
        }
    }
}

impl From<Snapshot> for CoreSnapshot {
    fn from(snapshot: Snapshot) -> Self {
        let Snapshot { name, prefix, seq, at, by } = snapshot;
        // Dropped snapshots are never returned.
        Self { name, prefix, seq, at, by, state: SnapshotState::Active }
    }
}

/// Query of the consistency check.
#[derive(Clone, Copy, Default, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ConsistencyCheckQuery {
    /// `true`: return the result of the last check, periodic or requested, instead of running one.
    pub last: Option<bool>,
}

/// Result of the consistency check of entries and tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConsistencyReport {
    /// Whether no inconsistency was found.
    pub clean: bool,
    /// Time at which the check ran.
    pub at: Timestamp,
    /// Sequence number of the last record that was taken into account.
    pub seq: Seq,
    /// Whether everything was checked.
    pub complete: bool,
    /// Number of checked items and inconsistencies.
    pub counts: ConsistencyCounts,
    /// First inconsistencies.
    pub findings: Vec<Inconsistency>,
}

/// Number of checked items and inconsistencies.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConsistencyCounts {
    /// Checked entries.
    pub entries: u64,
    /// Checked tasks.
    pub tasks: u64,
    /// Entries derived from a deleted entry.
    pub dangling: u64,
    /// Entries derived from an outdated version.
    pub stale: u64,
    /// Entries in a dependency cycle.
    pub cyclic: u64,
    /// Tasks that are done without a result.
    pub resultless: u64,
}

/// An inconsistency.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Inconsistency {
    /// Dependency cycle between entries.
    Cycle {
        /// Keys of the entries.
        keys: Vec<Key>,
    },
    /// Entry derived from a deleted entry.
    Dangling {
        /// Key of the derived entry.
        key: Key,
        /// Version of the derived entry.
        version: Version,
        /// Key of the source entry.
        on: Key,
        /// Version of the source entry that was used.
        on_version: Version,
    },
    /// Entry derived from an outdated version.
    Stale {
        /// Key of the derived entry.
        key: Key,
        /// Version of the derived entry.
        version: Version,
        /// Key of the source entry.
        on: Key,
        /// Version of the source entry that was used.
        on_version: Version,
        /// Current version of the source entry.
        current_version: Version,
    },
    /// Task that is done without a result.
    Resultless {
        /// Task ID.
        task: TaskId,
        /// Task status.
        status: TaskStatus,
    },
}
