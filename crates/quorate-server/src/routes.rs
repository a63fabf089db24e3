//! The routes: which call goes where. Each noun has a room of its own.

mod admin;
mod agents;
mod commit;
mod context;
mod dead_letters;
mod going_back;
mod health;
mod inbox;
mod locks;
mod messages;
mod requests;
mod sessions;
mod subscriptions;
mod tasks;

mod events;
mod state;

mod audit;
mod metrics;
mod traces;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post, put};
use quorate_core::{Code, Refused};
use serde::Deserialize;

use crate::app::App;
use crate::problem::Problem;

/// How many a list shows if nothing is said, and at most.
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1_000;

/// Which part of a list.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    limit: Option<usize>,
    cursor: Option<String>,
}

fn checked_limit(limit: Option<usize>) -> Result<usize, Refused> {
    match limit.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        limit => Err(Refused::new(Code::LimitExceeded, format!("limit={limit}"))
            .limit(LIMIT_MAX as u64)
            .hint(format!("ask for 1 to {LIMIT_MAX} at a time, and go on with the cursor"))),
    }
}

/// A cursor that is a number; it came from us.
fn number_in(cursor: Option<&str>) -> Result<u64, Refused> {
    let wrong = |_| Refused::new(Code::Invalid, "the cursor is none of this list");
    cursor.map_or(Ok(0), |cursor| cursor.parse().map_err(wrong))
}

/// All of them.
pub(crate) fn all() -> Router<App> {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/v1/info", get(health::info))
        .route("/v1/admin/stats", get(health::stats))
        .route("/v1/commit", post(commit::commit))
        .route("/v1/agents", get(agents::list))
        .route("/v1/agents/{id}", put(agents::register).get(agents::show).delete(agents::remove))
        .route("/v1/agents/{id}/heartbeat", post(agents::heartbeat))
        .route("/v1/agents/{id}/inbox", get(agents::inbox))
        .route("/v1/agents/{id}/outbox", get(agents::outbox))
        .route("/v1/agents/{id}/inbox/claim", post(inbox::claim))
        .route("/v1/agents/{id}/inbox/ack", post(inbox::ack))
        .route("/v1/agents/{id}/inbox/nack", post(inbox::nack))
        .route("/v1/agents/{id}/inbox/extend", post(inbox::extend))
        .route("/v1/messages", post(messages::send))
        .route("/v1/messages/{id}", get(messages::show))
        .route("/v1/messages/{id}/why", get(requests::why))
        .route("/v1/tasks/{id}/why", get(requests::why))
        .route("/v1/request", post(requests::request))
        .route("/v1/agents/{id}/subscriptions", get(subscriptions::list))
        .route(
            "/v1/agents/{id}/subscriptions/{topic}",
            put(subscriptions::subscribe).delete(subscriptions::unsubscribe),
        )
        .route("/v1/dead-letters", get(dead_letters::list))
        .route("/v1/dead-letters/{id}/redrive", post(dead_letters::redrive))
        .route("/v1/context", get(context::list))
        .route("/v1/context:rollback", post(going_back::rollback))
        .route("/v1/context:snapshot", post(going_back::snapshot).get(going_back::snapshots))
        .route("/v1/context:check", get(going_back::check))
        .route("/v1/context/{*key}", get(context::show).put(context::put).delete(context::delete))
        .route("/v1/tasks", post(tasks::create).get(tasks::list))
        .route("/v1/tasks/claim", post(tasks::claim))
        .route("/v1/tasks/{id}", get(tasks::show))
        .route("/v1/tasks/{id}/heartbeat", post(tasks::heartbeat))
        .route("/v1/tasks/{id}/complete", post(tasks::complete))
        .route("/v1/tasks/{id}/fail", post(tasks::fail))
        .route("/v1/tasks/{id}/release", post(tasks::release))
        .route("/v1/tasks/{id}/cancel", post(tasks::cancel))
        .route("/v1/locks", get(locks::list))
        .route("/v1/locks/{name}", get(locks::show))
        .route("/v1/locks/{name}/acquire", post(locks::acquire))
        .route("/v1/locks/{name}/renew", post(locks::renew))
        .route("/v1/locks/{name}/release", post(locks::release))
        .route("/v1/sessions", post(sessions::open).get(sessions::list))
        .route("/v1/sessions/{id}", get(sessions::show))
        .route("/v1/sessions/{id}/add", post(sessions::add))
        .route("/v1/sessions/{id}/timeline", get(sessions::timeline))
        .route("/v1/sessions/{id}/{verb}", post(sessions::change))
        .route("/v1/tokens", post(admin::create_token).get(admin::list_tokens))
        .route("/v1/tokens/{id}", delete(admin::revoke_token))
        .route("/v1/spaces", post(admin::create_space).get(admin::list_spaces))
        .route("/v1/violations", get(admin::violations))
        .route("/v1/ws", get(crate::ws::upgrade))
        .route("/v1/events", get(events::events))
        .route("/v1/state", get(state::state))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/traces/{id}", get(traces::show))
        .route("/v1/audit", get(audit::export))
        .route("/v1/audit/verify", get(audit::verify))
        .route("/v1/audit/checkpoint", get(audit::checkpoint))
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_like_this)
}

async fn nothing_here(uri: axum::http::Uri) -> Response {
    let refused = Refused::new(Code::NotFound, format!("there is nothing at {}", uri.path()))
        .hint("see GET /v1/openapi.json for what there is");
    Problem::from(refused).into_response()
}

async fn not_like_this(method: axum::http::Method, uri: axum::http::Uri) -> Response {
    let refused = Refused::new(Code::Invalid, format!("{method} does not work on {}", uri.path()))
        .hint("see GET /v1/openapi.json for what does");
    let mut response = Problem::from(refused).into_response();
    *response.status_mut() = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    response
}
