//! Shared memory as a whole: snapshots, going back, and whether it fits together.

use axum::http::StatusCode;
use quorate_core::{
    Code, Key, MakeSnapshot, Op, Refused, Rollback, RollbackTo, RollbackWhat, SnapshotName, Version,
};
use quorate_engine::Finding;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Page, checked_limit};
use crate::body;
use crate::call::{Answer, Call, answer, ok};
use crate::wire::entry::FenceIn;
use crate::wire::time;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RollbackIn {
    key: Option<String>,
    prefix: Option<String>,
    to_version: Option<u64>,
    to_time: Option<String>,
    to_snapshot: Option<String>,
    expect: Option<u64>,
    fence: Option<FenceIn>,
}

impl RollbackIn {
    fn read(self) -> Result<Rollback, Refused> {
        let expect = self.expect.map(Version);
        let what = match (self.key, self.prefix) {
            (Some(key), None) => RollbackWhat::Key { key: Key::new(key)?, expect },
            (None, Some(prefix)) => RollbackWhat::Prefix(prefix),
            _ => return Err(Refused::new(Code::Invalid, "say what goes back: one of key and prefix")),
        };
        let to = match (self.to_version, self.to_time, self.to_snapshot) {
            (Some(version), None, None) => RollbackTo::Version(Version(version)),
            (None, Some(text), None) => RollbackTo::Time(time::read("toTime", &text)?),
            (None, None, Some(name)) => RollbackTo::Snapshot(SnapshotName::new(name)?),
            _ => {
                let detail = "say to where: one of toVersion, toTime and toSnapshot";
                return Err(Refused::new(Code::Invalid, detail));
            }
        };
        Ok(Rollback { what, to, fence: self.fence.map(FenceIn::read).transpose()? })
    }
}

pub(crate) async fn rollback(call: Call) -> Answer {
    let asked = body::parse::<RollbackIn>(&call.body)?.read()?;
    let done = call.space.rollback(&call.principal, call.epoch, call.key.clone(), asked).await?;
    let changed = done.changed.iter().map(|one| {
        json!({"key": one.key.to_string(), "version": one.version.0, "restored": one.restored.map(|v| v.0)})
    });
    let built_on = done.built_on.iter().map(|one| {
        json!({
            "key": one.key.to_string(), "version": one.version.0,
            "on": one.on.to_string(), "onVersion": one.on_version.0,
        })
    });
    ok(&json!({
        "seq": done.seq.map(|seq| seq.0),
        "to": done.to.0,
        "changed": changed.collect::<Vec<_>>(),
        "builtOn": built_on.collect::<Vec<_>>(),
        "builtOnCount": done.built_on_count,
        "complete": done.complete,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotIn {
    name: String,
    #[serde(default)]
    prefix: String,
}

pub(crate) async fn snapshot(call: Call) -> Answer {
    let SnapshotIn { name, prefix } = body::parse(&call.body)?;
    let name = SnapshotName::new(name)?;
    let receipt = call.commit(vec![Op::MakeSnapshot(MakeSnapshot { name: name.clone(), prefix })]).await?;
    let seq = call.results(&receipt).first().map(|result| result["seq"].clone());
    answer(StatusCode::CREATED, &json!({"name": name.to_string(), "seq": seq}))
}

pub(crate) async fn snapshots(call: Call) -> Answer {
    let page: Page = call.query()?;
    let limit = checked_limit(page.limit)?;
    let after = page.cursor.map(SnapshotName::new).transpose()?;
    let found = call.space.snapshots(after.as_ref(), limit).await?;
    let cursor = found.last().filter(|_| found.len() == limit).map(|last| last.name.to_string());
    let shown = found.iter().map(|one| {
        json!({
            "name": one.name.to_string(), "prefix": one.prefix, "seq": one.seq.0,
            "at": time::shown(one.at), "by": one.by,
        })
    });
    ok(&json!({"snapshots": shown.collect::<Vec<_>>(), "cursor": cursor}))
}

/// Whether the entries and tasks fit together.
pub(crate) async fn check(call: Call) -> Answer {
    let check = call.space.check().await?;
    let findings: Vec<Value> = check.findings.iter().map(finding_shown).collect();
    ok(&json!({
        "clean": check.is_clean(),
        "at": time::shown(check.at),
        "seq": check.seq.0,
        "complete": check.complete,
        "counts": {
            "entries": check.entries, "tasks": check.tasks, "dangling": check.dangling,
            "stale": check.stale, "cyclic": check.cyclic, "resultless": check.resultless,
        },
        "findings": findings,
    }))
}

fn finding_shown(finding: &Finding) -> Value {
    match finding {
        Finding::Cycle { keys } => {
            json!({"kind": "cycle", "keys": keys.iter().map(ToString::to_string).collect::<Vec<_>>()})
        }
        Finding::Dangling { key, version, on, on_version } => json!({
            "kind": "dangling", "key": key.to_string(), "version": version.0,
            "on": on.to_string(), "onVersion": on_version.0,
        }),
        Finding::Stale { key, version, on, on_version, now } => json!({
            "kind": "stale", "key": key.to_string(), "version": version.0,
            "on": on.to_string(), "onVersion": on_version.0, "currentVersion": now.0,
        }),
        Finding::Resultless { task, status, .. } => {
            json!({"kind": "resultless", "task": task.to_string(), "status": status.as_str()})
        }
    }
}
