//! Rollbacks and snapshots of the shared memory, and its consistency check.

use quorate_core::{
    Code, Key, MakeSnapshot, Refused, Rollback as CoreRollback, RollbackTo, RollbackWhat, Seq,
    Snapshot as CoreSnapshot, SnapshotName, SnapshotState, TaskId, TaskStatus, Timestamp, Version,
};
use serde::{Deserialize, Serialize};

use crate::lock::Fence;

/// A rollback of one entry (`key`) or of all under a prefix, to one of `toVersion`, `toSeq`, `toTime` and `toSnapshot`.
#[derive(Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollback {
    /// The entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// All entries whose keys start with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 512)))]
    pub prefix: Option<String>,
    /// A version of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_version: Option<Version>,
    /// The last record that is to count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_seq: Option<Seq>,
    /// A time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_time: Option<Timestamp>,
    /// A snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_snapshot: Option<SnapshotName>,
    /// Compare and set: the version that the entry must have now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Version>,
    /// Refused if the lock has been granted to someone else since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
}

impl Rollback {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` unless it names one subject and one target.
    pub fn read(self) -> Result<CoreRollback, Refused> {
        let what = match (self.key, self.prefix) {
            (Some(key), None) => RollbackWhat::Key { key, expect: self.expect },
            (None, Some(prefix)) => RollbackWhat::Prefix(prefix),
            _ => {
                return Err(Refused::new(Code::Invalid, "a rollback takes one of key and prefix")
                    .hint("give key for one entry, or prefix for all entries under it"));
            }
        };
        let to = match (self.to_version, self.to_seq, self.to_time, self.to_snapshot) {
            (Some(version), None, None, None) => RollbackTo::Version(version),
            (None, Some(seq), None, None) => RollbackTo::Seq(seq),
            (None, None, Some(time), None) => RollbackTo::Time(time),
            (None, None, None, Some(name)) => RollbackTo::Snapshot(name),
            _ => {
                let detail = "a rollback takes one of toVersion, toSeq, toTime and toSnapshot";
                return Err(Refused::new(Code::Invalid, detail).hint("give exactly one target"));
            }
        };
        Ok(CoreRollback { what, to, fence: self.fence.map(Into::into) })
    }
}

impl From<&CoreRollback> for Rollback {
    fn from(rollback: &CoreRollback) -> Self {
        let mut api = Self { fence: rollback.fence.as_ref().map(Into::into), ..Self::default() };
        match &rollback.what {
            RollbackWhat::Key { key, expect } => {
                api.key = Some(key.clone());
                api.expect = *expect;
            }
            RollbackWhat::Prefix(prefix) => api.prefix = Some(prefix.clone()),
        }
        match &rollback.to {
            RollbackTo::Version(version) => api.to_version = Some(*version),
            RollbackTo::Seq(seq) => api.to_seq = Some(*seq),
            RollbackTo::Time(time) => api.to_time = Some(*time),
            RollbackTo::Snapshot(name) => api.to_snapshot = Some(name.clone()),
        }
        api
    }
}

/// What a rollback changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RolledBack {
    /// The record; `null` if there was nothing to change.
    pub seq: Option<Seq>,
    /// The record that it went back to.
    pub to: Seq,
    /// The entries that it changed.
    pub changed: Vec<RestoredEntry>,
    /// Entries that were derived from versions that were undone.
    pub built_on: Vec<BuiltOn>,
    /// The number of those.
    pub built_on_count: u64,
    /// Whether all entries were searched for that.
    pub complete: bool,
}

/// An entry that a rollback changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestoredEntry {
    /// Its key.
    pub key: Key,
    /// Its new version.
    pub version: Version,
    /// The version that was restored; `null` if the entry did not exist then.
    pub restored: Option<Version>,
}

/// An entry that was derived from a version of another one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BuiltOn {
    /// Its key.
    pub key: Key,
    /// Its version.
    pub version: Version,
    /// The key that it was derived from.
    pub on: Key,
    /// The version that it was derived from.
    pub on_version: Version,
}

/// A named position in the history, of all entries or of those under a prefix.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    /// Its name.
    pub name: SnapshotName,
    /// All entries by default.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(max = 512)))]
    pub prefix: String,
}

impl From<NewSnapshot> for MakeSnapshot {
    fn from(new: NewSnapshot) -> Self {
        Self { name: new.name, prefix: new.prefix }
    }
}

impl From<&MakeSnapshot> for NewSnapshot {
    fn from(make: &MakeSnapshot) -> Self {
        Self { name: make.name.clone(), prefix: make.prefix.clone() }
    }
}

/// A snapshot that was created.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotCreated {
    /// Its name.
    pub name: SnapshotName,
    /// The record that it stands for.
    pub seq: Option<Seq>,
}

/// A snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    /// Its name.
    pub name: SnapshotName,
    /// All entries whose keys start with this.
    pub prefix: String,
    /// The record that it stands for.
    pub seq: Seq,
    /// When it was created.
    pub at: Timestamp,
    /// The principal that created it.
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
        // Others are not shown.
        Self { name, prefix, seq, at, by, state: SnapshotState::Kept }
    }
}

/// The result of the consistency check of entries and tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// Whether nothing was found.
    pub clean: bool,
    /// When it ran.
    pub at: Timestamp,
    /// The record up to which it looked.
    pub seq: Seq,
    /// Whether everything was checked.
    pub complete: bool,
    /// The numbers of what was checked and found.
    pub counts: CheckCounts,
    /// The first findings.
    pub findings: Vec<Finding>,
}

/// The numbers of a consistency check.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckCounts {
    /// Entries that were checked.
    pub entries: u64,
    /// Tasks that were checked.
    pub tasks: u64,
    /// Entries that were derived from a deleted one.
    pub dangling: u64,
    /// Entries that were derived from an older version.
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
pub enum Finding {
    /// Entries that depend on each other.
    Cycle {
        /// Their keys.
        keys: Vec<Key>,
    },
    /// An entry that was derived from a deleted one.
    Dangling {
        /// Its key.
        key: Key,
        /// Its version.
        version: Version,
        /// The key that it was derived from.
        on: Key,
        /// The version that it was derived from.
        on_version: Version,
    },
    /// An entry that was derived from an older version.
    Stale {
        /// Its key.
        key: Key,
        /// Its version.
        version: Version,
        /// The key that it was derived from.
        on: Key,
        /// The version that it was derived from.
        on_version: Version,
        /// The version of that key now.
        current_version: Version,
    },
    /// A task that is done without a result.
    Resultless {
        /// The task.
        task: TaskId,
        /// Its state.
        status: TaskStatus,
    },
}
