//! Whether the hub is well, and what it is.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use futures_util::FutureExt as _;
use quorate_api::stats::{QueueDepth, Stats, task_counts};
use quorate_core::{Code, Deed, Refused, limits};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Route, about_the_hub, get, words};
use crate::app::App;
use crate::body::{BODY_BYTES_MAX, DEPTH_MAX};
use crate::call::{Answer, Call, ok};
use crate::wire::time;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/healthz", "hub.health", "Whether the hub is alive.")
            .open()
            .answers_with(200, "It is.", "text/plain; charset=utf-8")
            .to(alive),
        get("/readyz", "hub.ready", "Whether the hub takes calls.")
            .open()
            .answers_with(200, "It does.", "text/plain; charset=utf-8")
            .answers_with(503, "It is stopping, or its storage has failed.", "application/problem+json")
            .to(ready),
        get("/v1/openapi.json", "hub.openapi", "This description.")
            .open()
            .answers::<serde_json::Map<String, serde_json::Value>>(200, "OpenAPI 3.1.")
            .to(about_the_hub),
        get("/v1/info", "hub.info", "What this hub is, its limits, and who asks.")
            .answers::<InfoOut>(200, "The hub.")
            .to(info),
        get("/v1/admin/stats", "hub.stats", "How much there is of everything.")
            .is(Deed::Run)
            .answers::<Stats>(200, "The figures of the space.")
            .to(stats),
    ]
}

/// It answers, so it lives.
pub(crate) async fn alive(State(_): State<App>) -> Answer {
    Ok((StatusCode::OK, "ok\n").into_response())
}

/// Whether more may be sent here. A hub listens only after it has recovered; it is not ready when it is about to end,
/// or when its storage has failed.
pub(crate) async fn ready(State(app): State<App>) -> Answer {
    let why = match (app.ends(), app.engine().failure().now_or_never()) {
        (true, _) => "the hub is stopping",
        (_, Some(_)) => "the storage has failed",
        _ => return Ok((StatusCode::OK, "ready\n").into_response()),
    };
    Err(Refused::new(Code::Unavailable, why).hint("ask another hub, or wait until this one is back").into())
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Info")]
struct InfoOut {
    name: &'static str,
    version: &'static str,
    you: YouOut,
    limits: LimitsOut,
    /// The newest record of the space.
    seq: u64,
    /// What time the hub has.
    #[schemars(with = "words::Time")]
    time: String,
    /// How far the space's log was found to be what was written, since the hub's start.
    audit: Option<AuditedOut>,
}

/// How far a log was looked at.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditProgress")]
struct AuditedOut {
    /// Up to this record, from the first one on.
    verified_to: u64,
    #[schemars(with = "words::Time")]
    verified_at: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Caller")]
struct YouOut {
    /// As it stands in the log.
    principal: String,
    role: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Limits")]
struct LimitsOut {
    request_bytes: usize,
    json_depth: usize,
    /// Of one message or entry.
    payload_bytes: usize,
    /// Of one commit.
    operations: usize,
    /// That one commit makes.
    deliveries: usize,
    /// That one agent holds.
    in_flight: usize,
    /// That wait for one agent.
    inbox: usize,
    /// How many messages may lead to one another.
    hops: u16,
}

/// What this hub is, and its limits.
pub(crate) async fn info(call: Call) -> Answer {
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
        .audited(call.space.number())
        .map(|audited| AuditedOut { verified_to: audited.seq.0, verified_at: time::shown(audited.at) });
    ok(&InfoOut {
        name: "quorate",
        version: env!("CARGO_PKG_VERSION"),
        you,
        limits,
        seq: call.space.published().head.seq.0,
        time: time::shown(call.app.engine().clock().now().wall),
        audit,
    })
}

/// How much there is of everything.
pub(crate) async fn stats(call: Call) -> Answer {
    let published = call.space.published();
    let known = || published.agents.iter().filter(|(_, agent)| !agent.removed);
    let [low, normal, high, urgent] = published.ready_by_level;
    ok(&Stats {
        seq: published.head.seq,
        at: published.head.at,
        agents: known().count(),
        active_agents: known().filter(|(_, agent)| agent.presence.available).count(),
        queue_depth: QueueDepth { low, normal, high, urgent },
        deliveries: (&published.counts).into(),
        tasks: task_counts(&published.tasks),
    })
}
