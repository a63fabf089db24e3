//! Health, readiness, version and statistics of the hub.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use futures_util::FutureExt as _;
use quorate_api::stats::{QueueDepth, Stats, task_counts};
use quorate_core::{Code, Permission, Refused, limits};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Route, get, schema, serve_openapi};
use crate::app::App;
use crate::body::{BODY_BYTES_MAX, DEPTH_MAX};
use crate::call::{ApiResult, Call, ok_response};
use crate::wire::time;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/healthz", "hub.health", "Check that the hub is alive.")
            .public()
            .returns_media(200, "The hub is alive.", "text/plain; charset=utf-8")
            .handled_by(alive),
        get("/readyz", "hub.ready", "Check that the hub is ready to accept calls.")
            .public()
            .returns_media(200, "The hub is ready.", "text/plain; charset=utf-8")
            .returns_media(
                503,
                "The hub is shutting down, or its storage has failed.",
                "application/problem+json",
            )
            .handled_by(ready),
        get("/v1/openapi.json", "hub.openapi", "Get this OpenAPI document.")
            .public()
            .returns::<serde_json::Map<String, serde_json::Value>>(200, "The OpenAPI 3.1 document.")
            .handled_by(serve_openapi),
        get("/v1/info", "hub.info", "Get the version and limits of the hub, and the identity of the caller.")
            .returns::<InfoOut>(200, "The hub.")
            .handled_by(info),
        get("/v1/admin/stats", "hub.stats", "Get statistics of the space.")
            .requires(Permission::Operate)
            .returns::<Stats>(200, "The statistics.")
            .handled_by(stats),
    ]
}

/// Liveness: responding is enough.
pub(crate) async fn alive(State(_): State<App>) -> ApiResult {
    Ok((StatusCode::OK, "ok\n").into_response())
}

/// Readiness. The hub starts to listen only after recovery. It is not ready while it shuts down or after its storage
/// has failed.
pub(crate) async fn ready(State(app): State<App>) -> ApiResult {
    let why = match (app.is_shutting_down(), app.engine().failure().now_or_never()) {
        (true, _) => "the hub is shutting down",
        (_, Some(_)) => "the storage has failed",
        _ => return Ok((StatusCode::OK, "ready\n").into_response()),
    };
    Err(Refused::new(Code::Unavailable, why).hint("retry later, or use another hub").into())
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Info")]
struct InfoOut {
    name: &'static str,
    version: &'static str,
    you: YouOut,
    limits: LimitsOut,
    /// Sequence number of the newest record of the space.
    seq: u64,
    /// Current time of the hub.
    #[schemars(with = "schema::Time")]
    time: String,
    /// Progress of the background verification of the log since the hub was started.
    audit: Option<AuditedOut>,
}

/// Progress of the background verification.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditProgress")]
struct AuditedOut {
    /// Sequence number of the last verified record; all earlier ones are verified as well.
    verified_to: u64,
    #[schemars(with = "schema::Time")]
    verified_at: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Caller")]
struct YouOut {
    /// Principal as recorded in the log.
    principal: String,
    role: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Limits")]
struct LimitsOut {
    request_bytes: usize,
    json_depth: usize,
    /// Per message or entry.
    payload_bytes: usize,
    /// Per commit.
    operations: usize,
    /// Created by one commit.
    deliveries: usize,
    /// Leased by one agent.
    in_flight: usize,
    /// Open deliveries of one agent.
    inbox: usize,
    /// Maximum hop count of a message.
    hops: u16,
}

/// Returns the version and limits of the hub.
pub(crate) async fn info(call: Call) -> ApiResult {
    let you = YouOut { principal: call.principal.to_text(), role: call.bearer.role() };
    let limits = LimitsOut {
        request_bytes: BODY_BYTES_MAX,
        json_depth: DEPTH_MAX,
        payload_bytes: limits::PAYLOAD_BYTES_MAX,
        operations: limits::OPS_MAX,
        deliveries: limits::DELIVERIES_PER_COMMIT_MAX,
        in_flight: limits::IN_FLIGHT_MAX,
        inbox: limits::INBOX_MAX,
        hops: limits::HOPS_MAX,
    };
    let audit = call
        .app
        .engine()
        .audit_progress(call.space.number())
        .map(|audited| AuditedOut { verified_to: audited.seq.0, verified_at: time::format(audited.at) });
    ok_response(&InfoOut {
        name: "quorate",
        version: env!("CARGO_PKG_VERSION"),
        you,
        limits,
        seq: call.space.published().head.seq.0,
        time: time::format(call.app.engine().clock().now().wall),
        audit,
    })
}

/// Returns statistics of the space.
pub(crate) async fn stats(call: Call) -> ApiResult {
    let published = call.space.published();
    let registered = || published.agents.iter().filter(|(_, agent)| !agent.removed);
    let [low, normal, high, urgent] = published.ready_by_priority;
    ok_response(&Stats {
        seq: published.head.seq,
        at: published.head.at,
        agents: registered().count(),
        active_agents: registered().filter(|(_, agent)| agent.presence.available).count(),
        queue_depth: QueueDepth { low, normal, high, urgent },
        deliveries: (&published.counts).into(),
        tasks: task_counts(&published.tasks),
    })
}
