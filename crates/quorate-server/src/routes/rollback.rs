//! Operations on the whole shared memory: snapshots, rollback and consistency checks.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::page::ListQuery;
use quorate_api::result::ChangeReceipt;
use quorate_api::rollback::{
    ConsistencyCheckQuery, ConsistencyReport, CreatedSnapshot, NewSnapshot, Rollback, RollbackResult,
    Snapshot,
};
use quorate_core::{Code, MakeSnapshot, Op, OpResult, Refused, Snapshot as CoreSnapshot, SnapshotName};

use crate::api::{Route, delete, get, post, schema};
use crate::body;
use crate::call::{ApiResult, Call, json_response, ok_response};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post(
            "/v1/context:rollback",
            "context.rollback",
            "Roll back entries to an earlier state, as new versions.",
        )
        .request_body::<Rollback>()
        .returns::<RollbackResult>(200, "The changes, and the entries that depend on them.")
        .handled_by(rollback),
        post(
            "/v1/context:snapshot",
            "snapshots.make",
            "Create a snapshot: a name for the current position in the history.",
        )
        .request_body::<NewSnapshot>()
        .returns::<CreatedSnapshot>(201, "The snapshot was created.")
        .handled_by(snapshot),
        get("/v1/context:snapshot", "snapshots.list", "List snapshots, newest first.")
            .query_parameters::<ListQuery>()
            .returns_page::<Snapshot>("snapshots")
            .handled_in_bulk_by(snapshots),
        get("/v1/context:snapshot/{name}", "snapshots.get", "Get a snapshot.")
            .path_parameter::<schema::Id>("name", "Name of the snapshot.")
            .returns::<Snapshot>(200, "The snapshot.")
            .handled_by(show_snapshot),
        delete(
            "/v1/context:snapshot/{name}",
            "snapshots.drop",
            "Delete a snapshot. The history is retained.",
        )
        .path_parameter::<schema::Id>("name", "Name of the snapshot.")
        .returns::<ChangeReceipt>(200, "The snapshot is deleted.")
        .handled_by(drop_snapshot),
        get(
            "/v1/context:check",
            "context.check",
            "Check the consistency of entries and tasks, or get the result of the last check.",
        )
        .query_parameters::<ConsistencyCheckQuery>()
        .returns::<ConsistencyReport>(200, "The result of the check.")
        .handled_in_bulk_by(check),
    ]
}

pub(crate) async fn rollback(call: Call) -> ApiResult {
    let request = body::parse::<Rollback>(&call.body)?.into_core()?;
    let result = call.space.rollback(&call.principal, call.epoch, call.key.clone(), request).await?;
    ok_response(&result)
}

pub(crate) async fn snapshot(call: Call) -> ApiResult {
    let make: MakeSnapshot = body::parse::<NewSnapshot>(&call.body)?.into();
    let name = make.name.clone();
    let receipt = call.commit(vec![Op::MakeSnapshot(make)]).await?;
    let seq = receipt.results.iter().find_map(|result| match result {
        OpResult::SnapshotMade { seq } => Some(*seq),
        _ => None,
    });
    json_response(StatusCode::CREATED, &CreatedSnapshot { name, seq })
}

pub(crate) async fn show_snapshot(Path(name): Path<String>, call: Call) -> ApiResult {
    ok_response(&Snapshot::from(&call.space.item::<CoreSnapshot>(&SnapshotName::new(name)?).await?))
}

pub(crate) async fn drop_snapshot(Path(name): Path<String>, call: Call) -> ApiResult {
    let receipt = call.commit(vec![Op::DropSnapshot { name: SnapshotName::new(name)? }]).await?;
    ok_response(&ChangeReceipt::from(&receipt))
}

pub(crate) async fn snapshots(call: Call) -> ApiResult {
    super::list(
        &call,
        "snapshots",
        call.query()?,
        |_| true,
        |snapshot: &CoreSnapshot| Snapshot::from(snapshot),
    )
    .await
}

/// Checks the consistency of entries and tasks.
pub(crate) async fn check(call: Call) -> ApiResult {
    let ConsistencyCheckQuery { last } = call.query()?;
    let report = match last.unwrap_or(false) {
        false => call.space.check().await?,
        true => call.space.last_check().ok_or_else(|| {
            Refused::new(Code::NotFound, "no consistency check has run since the hub started")
                .hint("omit `last` to run one now")
        })?,
    };
    ok_response(&*report)
}
