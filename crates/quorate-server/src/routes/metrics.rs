//! `GET /metrics`: metrics of a space, and of the hub for principals of the default space.

use axum::http::header;
use axum::response::IntoResponse as _;
use quorate_core::{Permission, SpaceName};

use crate::api::{Route, get};
use crate::app::DEFAULT_SPACE;
use crate::call::{ApiResult, Call};
use crate::observe;

/// Content type of the Prometheus text format.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get(
            "/metrics",
            "hub.metrics",
            "Get metrics of the space. Principals of the default space also get those of the hub.",
        )
        .requires(Permission::Operate)
        .returns_media(200, "The metrics in the Prometheus text format.", PROMETHEUS_TEXT)
        .handled_by(metrics),
    ]
}

pub(crate) async fn metrics(call: Call) -> ApiResult {
    let default_space = SpaceName::new(DEFAULT_SPACE).ok().and_then(|name| call.app.space(&name));
    let include_hub = default_space.is_some_and(|default_space| default_space.number() == call.token_space);
    let text = observe::render_metrics(&call, include_hub).await?;
    Ok(([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], text).into_response())
}
