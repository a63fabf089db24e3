//! Whether the hub is well, and what it is.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use quorate_core::{Counts, Deed, TaskCounts, TaskStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Route, about_the_hub, get};
use crate::app::App;
use crate::body::{BODY_BYTES_MAX, DEPTH_MAX};
use crate::call::{Answer, Call, ok};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/healthz", "hub.health", "Whether the hub is alive.")
            .open()
            .answers_with(200, "It is.", "text/plain; charset=utf-8")
            .to(alive),
        get("/readyz", "hub.ready", "Whether the hub takes calls.")
            .open()
            .answers_with(200, "It does.", "text/plain; charset=utf-8")
            .to(alive),
        get("/v1/openapi.json", "hub.openapi", "This description.")
            .open()
            .answers::<serde_json::Map<String, serde_json::Value>>(200, "OpenAPI 3.1.")
            .to(about_the_hub),
        get("/v1/info", "hub.info", "What this hub is, its limits, and who asks.")
            .answers::<InfoOut>(200, "The hub.")
            .to(info),
        get("/v1/admin/stats", "hub.stats", "How much there is of everything.")
            .is(Deed::Run)
            .answers::<StatsOut>(200, "The figures of the space.")
            .to(stats),
    ]
}

/// It answers, so it has recovered and is ready.
pub(crate) async fn alive(State(_): State<App>) -> Answer {
    Ok((StatusCode::OK, "ok\n").into_response())
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Info")]
struct InfoOut {
    name: &'static str,
    version: &'static str,
    you: YouOut,
    limits: LimitsOut,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "You")]
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
}

/// What this hub is, and its limits.
pub(crate) async fn info(call: Call) -> Answer {
    let you = YouOut { principal: call.principal.to_text(), role: call.bearer.role() };
    let limits = LimitsOut { request_bytes: BODY_BYTES_MAX, json_depth: DEPTH_MAX };
    ok(&InfoOut { name: "quorate", version: env!("CARGO_PKG_VERSION"), you, limits })
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stats")]
struct StatsOut {
    /// The newest record.
    seq: u64,
    agents: usize,
    deliveries: DeliveriesOut,
    /// How many tasks are in each state.
    tasks: BTreeMap<&'static str, u64>,
}

/// How many deliveries are in each state.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeliveryCounts")]
pub(crate) struct DeliveriesOut {
    ready: u64,
    scheduled: u64,
    leased: u64,
    acked: u64,
    dead: u64,
    expired: u64,
    purged: u64,
}

impl DeliveriesOut {
    pub(crate) fn new(counts: &Counts) -> Self {
        let Counts { ready, scheduled, leased, acked, dead, expired, purged, .. } = *counts;
        Self { ready, scheduled, leased, acked, dead, expired, purged }
    }
}

/// How many tasks are in each state.
pub(crate) fn task_counts(counts: &TaskCounts) -> BTreeMap<&'static str, u64> {
    TaskStatus::ALL.into_iter().map(|status| (status.as_str(), counts.of(status))).collect()
}

/// How much there is of everything.
pub(crate) async fn stats(call: Call) -> Answer {
    let published = call.space.published();
    ok(&StatsOut {
        seq: published.head.seq.0,
        agents: published.agents.iter().filter(|(_, agent)| !agent.removed).count(),
        deliveries: DeliveriesOut::new(&published.counts),
        tasks: task_counts(&published.tasks),
    })
}
