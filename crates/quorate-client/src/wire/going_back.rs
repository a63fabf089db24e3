//! Going back in the shared memory: snapshots, rollbacks, and whether everything fits together.

use quorate::{
    BuiltOn, Check, Error, Finding, RollbackTo, RolledBack, Seq, Snapshot, TaskStatus, Turned, Version,
};
use quorate_core::{Key, Rollback, RollbackWhat, SnapshotName, SnapshotState, TaskId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::entry::FenceOut;
use super::{At, Text, all, named, time_out};

#[derive(Deserialize)]
pub(crate) struct SnapshotsIn {
    pub(crate) snapshots: Vec<SnapshotIn>,
    pub(crate) cursor: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct SnapshotIn {
    name: Text<SnapshotName>,
    prefix: String,
    seq: u64,
    at: At,
    by: String,
}

impl SnapshotIn {
    pub(crate) fn read(self) -> Snapshot {
        Snapshot {
            name: self.name.0,
            prefix: self.prefix,
            seq: Seq(self.seq),
            at: self.at.0,
            by: self.by,
            // Others are not shown.
            state: SnapshotState::Kept,
        }
    }
}

/// A rollback on its way out.
pub(crate) fn rollback_out(rollback: &Rollback) -> Value {
    let mut said = json!({});
    match &rollback.what {
        RollbackWhat::Key { key, expect } => {
            said["key"] = key.to_string().into();
            if let Some(version) = expect {
                said["expect"] = version.0.into();
            }
        }
        RollbackWhat::Prefix(prefix) => said["prefix"] = prefix.as_str().into(),
    }
    match &rollback.to {
        RollbackTo::Version(version) => said["toVersion"] = version.0.into(),
        RollbackTo::Seq(seq) => said["toSeq"] = seq.0.into(),
        RollbackTo::Time(time) => said["toTime"] = time_out(*time).into(),
        RollbackTo::Snapshot(name) => said["toSnapshot"] = name.to_string().into(),
    }
    if let Some(fence) = &rollback.fence {
        said["fence"] = json!(FenceOut::new(fence));
    }
    said
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RolledBackIn {
    seq: Option<u64>,
    to: u64,
    changed: Vec<TurnedIn>,
    built_on: Vec<BuiltOnIn>,
    built_on_count: u64,
    complete: bool,
}

#[derive(Deserialize)]
struct TurnedIn {
    key: Text<Key>,
    version: u64,
    restored: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BuiltOnIn {
    key: Text<Key>,
    version: u64,
    on: Text<Key>,
    on_version: u64,
}

impl RolledBackIn {
    pub(crate) fn read(self) -> RolledBack {
        let changed = self.changed.into_iter().map(|one| Turned {
            key: one.key.0,
            version: Version(one.version),
            restored: one.restored.map(Version),
        });
        let built_on = self.built_on.into_iter().map(|one| BuiltOn {
            key: one.key.0,
            version: Version(one.version),
            on: one.on.0,
            on_version: Version(one.on_version),
        });
        RolledBack {
            seq: self.seq.map(Seq),
            to: Seq(self.to),
            changed: changed.collect(),
            built_on: built_on.collect(),
            built_on_count: self.built_on_count,
            complete: self.complete,
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct CheckIn {
    at: At,
    seq: u64,
    complete: bool,
    counts: CountsIn,
    findings: Vec<FindingIn>,
}

#[derive(Deserialize)]
struct CountsIn {
    entries: u64,
    tasks: u64,
    dangling: u64,
    stale: u64,
    cyclic: u64,
    resultless: u64,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
enum FindingIn {
    Cycle { keys: Vec<Text<Key>> },
    Dangling { key: Text<Key>, version: u64, on: Text<Key>, on_version: u64 },
    Stale { key: Text<Key>, version: u64, on: Text<Key>, on_version: u64, current_version: u64 },
    Resultless { task: Text<TaskId>, status: String },
}

impl CheckIn {
    pub(crate) fn read(self) -> Result<Check, Error> {
        let CountsIn { entries, tasks, dangling, stale, cyclic, resultless } = self.counts;
        let findings = self.findings.into_iter().map(FindingIn::read).collect::<Result<_, _>>()?;
        Ok(Check {
            at: self.at.0,
            seq: Seq(self.seq),
            entries,
            tasks,
            complete: self.complete,
            dangling,
            stale,
            cyclic,
            resultless,
            findings,
        })
    }
}

impl FindingIn {
    fn read(self) -> Result<Finding, Error> {
        Ok(match self {
            Self::Cycle { keys } => Finding::Cycle { keys: all(keys) },
            Self::Dangling { key, version, on, on_version } => Finding::Dangling {
                key: key.0,
                version: Version(version),
                on: on.0,
                on_version: Version(on_version),
            },
            Self::Stale { key, version, on, on_version, current_version } => Finding::Stale {
                key: key.0,
                version: Version(version),
                on: on.0,
                on_version: Version(on_version),
                now: Version(current_version),
            },
            Self::Resultless { task, status } => Finding::Resultless {
                task: task.0,
                status: named(&TaskStatus::ALL, TaskStatus::as_str, &status)?,
            },
        })
    }
}
