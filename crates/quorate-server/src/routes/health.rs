//! Health, readiness, version and statistics of the hub.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use futures_util::FutureExt as _;
use quorate_api::info::{Caller, HubLimits, Info, VerificationProgress};
use quorate_api::stats::{QueueDepth, Stats, task_counts};
use quorate_core::{Code, Permission, Refused, limits};

use crate::api::{Route, get};
use crate::app::App;
use crate::body::{self, DEPTH_MAX};
use crate::call::{ApiResult, Call, ok_response};

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
            .handled_by(openapi),
        get("/v1/info", "hub.info", "Get the version and limits of the hub, and the identity of the caller.")
            .returns::<Info>(200, "The hub.")
            .handled_by(info),
        get("/v1/admin/stats", "hub.stats", "Get statistics of the space.")
            .requires(Permission::Operate)
            .returns::<Stats>(200, "The statistics.")
            .handled_by(stats),
    ]
}

/// The OpenAPI document as checked in. A test compares it with the code.
const OPENAPI: &str = include_str!("../../../../openapi/quorate.json");

/// Returns the OpenAPI document. Public: it contains nothing that is not in the source.
pub(crate) async fn openapi(State(_): State<App>) -> ApiResult {
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response())
}

/// Liveness: responding is enough.
pub(crate) async fn alive(State(_): State<App>) -> ApiResult {
    Ok((StatusCode::OK, "ok\n").into_response())
}

/// Readiness. The hub starts to listen only after recovery. It is not ready while it shuts down or after its storage
/// has failed.
pub(crate) async fn ready(State(app): State<App>) -> ApiResult {
    let reason = match (app.is_shutting_down(), app.engine().failure().now_or_never()) {
        (true, _) => "the hub is shutting down",
        (_, Some(_)) => "the storage has failed",
        _ => return Ok((StatusCode::OK, "ready\n").into_response()),
    };
    Err(Refused::new(Code::Unavailable, reason).hint("retry later, or use another hub").into())
}

/// Returns the version and limits of the hub.
pub(crate) async fn info(call: Call) -> ApiResult {
    let you = Caller { principal: call.principal.to_text(), role: call.bearer.role().into() };
    let policy = &call.space.published().policy.policy;
    let limits = HubLimits {
        request_bytes: body::bytes_max(policy),
        json_depth: DEPTH_MAX,
        payload_bytes: policy.payload_bytes_max as usize,
        commit_bytes: policy.commit_bytes_max as usize,
        operations: limits::OPS_MAX,
        deliveries: limits::DELIVERIES_PER_COMMIT_MAX,
        in_flight: limits::IN_FLIGHT_MAX,
        inbox: limits::INBOX_MAX,
        hops: limits::HOPS_DEFAULT,
        max_hops: limits::HOPS_MAX,
    };
    let audit = call
        .app
        .engine()
        .audit_progress(call.space.number())
        .map(|progress| VerificationProgress { verified_to: progress.seq.0, verified_at: progress.at });
    ok_response(&Info {
        name: "quorate".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        you,
        limits,
        seq: call.space.published().head.seq.0,
        time: call.app.engine().clock().now().wall,
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
