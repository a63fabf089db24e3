//! Shared memory as a whole: snapshots, going back, and whether it fits together.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_core::{
    Code, Key, MakeSnapshot, Op, OpResult, Refused, Rollback, RollbackTo, RollbackWhat, Seq, Snapshot,
    SnapshotName, Version,
};
use quorate_engine::Finding;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Page, checked_limit};
use crate::api::{Route, delete, get, post, words};
use crate::body;
use crate::call::{Answer, Call, answer, ok, page};
use crate::wire::entry::FenceIn;
use crate::wire::result::Changed;
use crate::wire::time;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post(
            "/v1/context:rollback",
            "context.rollback",
            "Brings back what was there before, as new versions.",
        )
        .body::<RollbackIn>()
        .answers::<RolledBackOut>(200, "What it changed, and what was built on that.")
        .to(rollback),
        post("/v1/context:snapshot", "snapshots.make", "Gives the position in the history a name.")
            .body::<SnapshotIn>()
            .answers::<SnapshotMadeOut>(201, "It has the name.")
            .to(snapshot),
        get("/v1/context:snapshot", "snapshots.list", "The snapshots, by name.")
            .query::<Page>()
            .lists::<SnapshotOut>("snapshots")
            .bulk(snapshots),
        get("/v1/context:snapshot/{name}", "snapshots.get", "One snapshot.")
            .path::<words::Id>("name")
            .answers::<SnapshotOut>(200, "The snapshot.")
            .to(show_snapshot),
        delete("/v1/context:snapshot/{name}", "snapshots.drop", "Forgets the name. History stays.")
            .path::<words::Id>("name")
            .answers::<Changed>(200, "The name is free.")
            .to(drop_snapshot),
        get("/v1/context:check", "context.check", "Whether the entries and tasks fit together.")
            .answers::<CheckOut>(200, "What was found.")
            .bulk(check),
    ]
}

/// What goes back (one of `key` and `prefix`), and to where (one of `toVersion`, `toSeq`, `toTime` and `toSnapshot`).
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Rollback")]
pub(crate) struct RollbackIn {
    #[schemars(with = "Option<words::LongId>")]
    key: Option<String>,
    #[schemars(length(max = 512))]
    prefix: Option<String>,
    to_version: Option<u64>,
    /// The last record that is to count.
    to_seq: Option<u64>,
    #[schemars(with = "Option<words::Time>")]
    to_time: Option<String>,
    #[schemars(with = "Option<words::Id>")]
    to_snapshot: Option<String>,
    /// The version that the key must have now.
    expect: Option<u64>,
    fence: Option<FenceIn>,
}

impl RollbackIn {
    pub(crate) fn read(self) -> Result<Rollback, Refused> {
        let expect = self.expect.map(Version);
        let what = match (self.key, self.prefix) {
            (Some(key), None) => RollbackWhat::Key { key: Key::new(key)?, expect },
            (None, Some(prefix)) => RollbackWhat::Prefix(prefix),
            _ => return Err(Refused::new(Code::Invalid, "say what goes back: one of key and prefix")),
        };
        let to = match (self.to_version, self.to_seq, self.to_time, self.to_snapshot) {
            (Some(version), None, None, None) => RollbackTo::Version(Version(version)),
            (None, Some(seq), None, None) => RollbackTo::Seq(Seq(seq)),
            (None, None, Some(text), None) => RollbackTo::Time(time::read("toTime", &text)?),
            (None, None, None, Some(name)) => RollbackTo::Snapshot(SnapshotName::new(name)?),
            _ => {
                let detail = "say to where: one of toVersion, toSeq, toTime and toSnapshot";
                return Err(Refused::new(Code::Invalid, detail));
            }
        };
        Ok(Rollback { what, to, fence: self.fence.map(FenceIn::read).transpose()? })
    }
}

pub(crate) async fn rollback(call: Call) -> Answer {
    let asked = body::parse::<RollbackIn>(&call.body)?.read()?;
    let done = call.space.rollback(&call.principal, call.epoch, call.key.clone(), asked).await?;
    let changed = done.changed.iter().map(|one| RestoredOut {
        key: one.key.to_string(),
        version: one.version.0,
        restored: one.restored.map(|version| version.0),
    });
    let built_on = done.built_on.iter().map(|one| BuiltOnOut {
        key: one.key.to_string(),
        version: one.version.0,
        on: one.on.to_string(),
        on_version: one.on_version.0,
    });
    ok(&RolledBackOut {
        seq: done.seq.map(|seq| seq.0),
        to: done.to.0,
        changed: changed.collect(),
        built_on: built_on.collect(),
        built_on_count: done.built_on_count,
        complete: done.complete,
    })
}

/// What a rollback came to.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolledBack")]
struct RolledBackOut {
    seq: Option<u64>,
    /// The record it went back to.
    to: u64,
    changed: Vec<RestoredOut>,
    /// Entries that were built on what is gone now.
    built_on: Vec<BuiltOnOut>,
    built_on_count: u64,
    /// Whether all entries were looked at for that.
    complete: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RestoredEntry")]
struct RestoredOut {
    key: String,
    version: u64,
    /// The version that came back; `null`: it was not there.
    restored: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BuiltOn")]
struct BuiltOnOut {
    key: String,
    version: u64,
    on: String,
    on_version: u64,
}

/// A name for the position in the history, of all entries or of those under a prefix.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSnapshot")]
pub(crate) struct SnapshotIn {
    #[schemars(with = "words::Id")]
    name: String,
    #[serde(default)]
    #[schemars(length(max = 512))]
    prefix: String,
}

impl SnapshotIn {
    pub(crate) fn read(self) -> Result<MakeSnapshot, Refused> {
        Ok(MakeSnapshot { name: SnapshotName::new(self.name)?, prefix: self.prefix })
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SnapshotMade")]
struct SnapshotMadeOut {
    name: String,
    /// The record that it stands for.
    seq: Option<u64>,
}

/// A snapshot.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Snapshot")]
struct SnapshotOut {
    name: String,
    prefix: String,
    seq: u64,
    #[schemars(with = "words::Time")]
    at: String,
    by: String,
}

impl SnapshotOut {
    fn new(one: &Snapshot) -> Self {
        Self {
            name: one.name.to_string(),
            prefix: one.prefix.clone(),
            seq: one.seq.0,
            at: time::shown(one.at),
            by: one.by.clone(),
        }
    }
}

pub(crate) async fn snapshot(call: Call) -> Answer {
    let make = body::parse::<SnapshotIn>(&call.body)?.read()?;
    let name = make.name.to_string();
    let receipt = call.commit(vec![Op::MakeSnapshot(make)]).await?;
    let seq = receipt.results.iter().find_map(|result| match result {
        OpResult::SnapshotMade { seq } => Some(seq.0),
        _ => None,
    });
    answer(StatusCode::CREATED, &SnapshotMadeOut { name, seq })
}

pub(crate) async fn show_snapshot(Path(name): Path<String>, call: Call) -> Answer {
    ok(&SnapshotOut::new(&call.space.snapshot(&SnapshotName::new(name)?).await?))
}

pub(crate) async fn drop_snapshot(Path(name): Path<String>, call: Call) -> Answer {
    let receipt = call.commit(vec![Op::DropSnapshot { name: SnapshotName::new(name)? }]).await?;
    ok(&Changed::of(&receipt))
}

pub(crate) async fn snapshots(call: Call) -> Answer {
    let asked: Page = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let after = asked.cursor.map(SnapshotName::new).transpose()?;
    let found = call.space.snapshots(after.as_ref(), limit).await?;
    let cursor = found.last().filter(|_| found.len() == limit).map(|last| last.name.to_string());
    page("snapshots", found.iter().map(|one| (one.name.to_string(), SnapshotOut::new(one))), cursor)
}

/// Whether the entries and tasks fit together.
pub(crate) async fn check(call: Call) -> Answer {
    let check = call.space.check().await?;
    ok(&CheckOut {
        clean: check.is_clean(),
        at: time::shown(check.at),
        seq: check.seq.0,
        complete: check.complete,
        counts: CheckCounts {
            entries: check.entries,
            tasks: check.tasks,
            dangling: check.dangling,
            stale: check.stale,
            cyclic: check.cyclic,
            resultless: check.resultless,
        },
        findings: check.findings.iter().map(finding_shown).collect(),
    })
}

/// Whether the entries and tasks fit together.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Check")]
struct CheckOut {
    clean: bool,
    #[schemars(with = "words::Time")]
    at: String,
    seq: u64,
    /// Whether everything was looked at.
    complete: bool,
    counts: CheckCounts,
    findings: Vec<FindingOut>,
}

#[derive(Serialize, JsonSchema)]
struct CheckCounts {
    entries: u64,
    tasks: u64,
    dangling: u64,
    stale: u64,
    cyclic: u64,
    resultless: u64,
}

/// Something that does not fit.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[schemars(rename = "Finding")]
enum FindingOut {
    Cycle { keys: Vec<String> },
    Dangling { key: String, version: u64, on: String, on_version: u64 },
    Stale { key: String, version: u64, on: String, on_version: u64, current_version: u64 },
    Resultless { task: String, status: &'static str },
}

fn finding_shown(finding: &Finding) -> FindingOut {
    match finding {
        Finding::Cycle { keys } => FindingOut::Cycle { keys: keys.iter().map(ToString::to_string).collect() },
        Finding::Dangling { key, version, on, on_version } => FindingOut::Dangling {
            key: key.to_string(),
            version: version.0,
            on: on.to_string(),
            on_version: on_version.0,
        },
        Finding::Stale { key, version, on, on_version, now } => FindingOut::Stale {
            key: key.to_string(),
            version: version.0,
            on: on.to_string(),
            on_version: on_version.0,
            current_version: now.0,
        },
        Finding::Resultless { task, status } => {
            FindingOut::Resultless { task: task.to_string(), status: status.as_str() }
        }
    }
}
