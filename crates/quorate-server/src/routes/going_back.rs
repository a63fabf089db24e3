//! Operations on the whole shared memory: snapshots, rollback and consistency checks.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::result::Changed;
use quorate_api::rollback::{Check, NewSnapshot, Rollback, RolledBack, Snapshot, SnapshotCreated};
use quorate_core::{MakeSnapshot, Op, OpResult, Snapshot as CoreSnapshot, SnapshotName};

use quorate_engine::views;

use super::Listing;
use crate::api::{Route, delete, get, post, schema};
use crate::body;
use crate::call::{Answer, Call, answer, ok};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post(
            "/v1/context:rollback",
            "context.rollback",
            "Roll back entries to an earlier state, as new versions.",
        )
        .body::<Rollback>()
        .answers::<RolledBack>(200, "The changes, and the entries that depend on them.")
        .to(rollback),
        post(
            "/v1/context:snapshot",
            "snapshots.make",
            "Create a snapshot: a name for the current position in the history.",
        )
        .body::<NewSnapshot>()
        .answers::<SnapshotCreated>(201, "The snapshot was created.")
        .to(snapshot),
        get("/v1/context:snapshot", "snapshots.list", "List snapshots, newest first.")
            .query::<Listing>()
            .lists::<Snapshot>("snapshots")
            .bulk(snapshots),
        get("/v1/context:snapshot/{name}", "snapshots.get", "Get a snapshot.")
            .path::<schema::Id>("name")
            .answers::<Snapshot>(200, "The snapshot.")
            .to(show_snapshot),
        delete(
            "/v1/context:snapshot/{name}",
            "snapshots.drop",
            "Delete a snapshot. The history is retained.",
        )
        .path::<schema::Id>("name")
        .answers::<Changed>(200, "The snapshot is deleted.")
        .to(drop_snapshot),
        get("/v1/context:check", "context.check", "Check the consistency of entries and tasks.")
            .answers::<Check>(200, "The result of the check.")
            .bulk(check),
    ]
}

pub(crate) async fn rollback(call: Call) -> Answer {
    let request = body::parse::<Rollback>(&call.body)?.read()?;
    let done = call.space.rollback(&call.principal, call.epoch, call.key.clone(), request).await?;
    ok(&views::rolled_back(done))
}

pub(crate) async fn snapshot(call: Call) -> Answer {
    let make: MakeSnapshot = body::parse::<NewSnapshot>(&call.body)?.into();
    let name = make.name.clone();
    let receipt = call.commit(vec![Op::MakeSnapshot(make)]).await?;
    let seq = receipt.results.iter().find_map(|result| match result {
        OpResult::SnapshotMade { seq } => Some(*seq),
        _ => None,
    });
    answer(StatusCode::CREATED, &SnapshotCreated { name, seq })
}

pub(crate) async fn show_snapshot(Path(name): Path<String>, call: Call) -> Answer {
    ok(&Snapshot::from(&call.space.item::<CoreSnapshot>(&SnapshotName::new(name)?).await?))
}

pub(crate) async fn drop_snapshot(Path(name): Path<String>, call: Call) -> Answer {
    let receipt = call.commit(vec![Op::DropSnapshot { name: SnapshotName::new(name)? }]).await?;
    ok(&Changed::from(&receipt))
}

pub(crate) async fn snapshots(call: Call) -> Answer {
    super::list(&call, "snapshots", call.query()?, |_| true, |one: &CoreSnapshot| Snapshot::from(one)).await
}

/// Checks the consistency of entries and tasks.
pub(crate) async fn check(call: Call) -> Answer {
    ok(&views::check(&*call.space.check().await?))
}
