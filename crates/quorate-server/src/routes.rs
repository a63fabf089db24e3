//! The routes: which call goes where. Each noun has a room of its own.

mod agents;
mod commit;
mod context;
mod dead_letters;
mod health;
mod inbox;
mod messages;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
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

impl Page {
    fn limit(&self) -> Result<usize, Refused> {
        checked_limit(self.limit)
    }
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
        .route("/readyz", get(health::alive))
        .route("/v1/info", get(health::info))
        .route("/v1/admin/stats", get(health::stats))
        .route("/v1/commit", post(commit::commit))
        .route("/v1/agents", get(agents::list))
        .route("/v1/agents/{id}", put(agents::register).get(agents::show).delete(agents::remove))
        .route("/v1/agents/{id}/heartbeat", post(agents::heartbeat))
        .route("/v1/agents/{id}/inbox/claim", post(inbox::claim))
        .route("/v1/agents/{id}/inbox/ack", post(inbox::ack))
        .route("/v1/agents/{id}/inbox/nack", post(inbox::nack))
        .route("/v1/agents/{id}/inbox/extend", post(inbox::extend))
        .route("/v1/messages", post(messages::send))
        .route("/v1/messages/{id}", get(messages::show))
        .route("/v1/dead-letters", get(dead_letters::list))
        .route("/v1/dead-letters/{id}/redrive", post(dead_letters::redrive))
        .route("/v1/context", get(context::list))
        .route("/v1/context/{*key}", get(context::show).put(context::put).delete(context::delete))
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
