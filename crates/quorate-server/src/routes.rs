//! Route table. Each resource has a module of its own, which documents its operations next to their handlers.

pub(crate) mod admin;
mod agents;
pub(crate) mod approvals;
mod async_requests;
mod commit;
mod context;
mod dead_letters;
mod health;
mod inbox;
pub(crate) mod locks;
mod messages;
mod requests;
pub(crate) mod rollback;
pub(crate) mod sessions;
pub(crate) mod subscriptions;
mod tasks;

mod events;
mod flags;
mod state;

mod sign_in;
pub(crate) mod webhooks;

mod context_entries;
mod dialects;
mod session_document;
mod shared_state;

mod audit;
mod metrics;
mod status;
mod traces;

pub(crate) mod budgets;
mod guidance;
pub(crate) mod policy;
pub(crate) mod procedures;

pub(crate) use inbox::check_wait;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use quorate_api::page::{ListQuery, PageQuery, encode_cursor, invalid_cursor};
use quorate_core::{Code, ItemRange, Refused};
use quorate_engine::{ItemPage, StoredItem};
use serde::Serialize;

use crate::api::Route;
use crate::app::App;
use crate::call::{ApiResult, Call, page_response};
use crate::problem::Problem;

/// Default page size of lists.
const LIMIT_DEFAULT: usize = 100;
/// Maximum `limit` of a page of a list.
const LIMIT_MAX: usize = 1_000;

/// Refusal of a wait for historical state.
pub(crate) fn at_with_wait() -> Refused {
    Refused::new(Code::Invalid, "at and waitMs cannot be combined: historical state does not change")
        .hint("omit one of them")
}

/// Checks the limit of a list and applies the defaults.
fn page_query(list_query: ListQuery) -> Result<PageQuery, Refused> {
    let limit = check_limit(list_query.limit)?;
    Ok(PageQuery { order: list_query.order.unwrap_or_default(), cursor: list_query.cursor, limit })
}

/// Returns a page of a list that is ordered by creation: the items that match.
async fn list<T: StoredItem, S: Serialize>(
    call: &Call,
    name: &'static str,
    list_query: ListQuery,
    matches: impl Fn(&T) -> bool,
    render: impl Fn(&T) -> S,
) -> ApiResult {
    let query = page_query(list_query)?;
    let page = call.space.list(query.range(T::KIND)?, query.limit, matches).await?;
    item_page(name, &page, render)
}

/// Returns a page of items under the name of their list.
fn item_page<T: StoredItem, S: Serialize>(
    name: &'static str,
    page: &ItemPage<T>,
    render: impl Fn(&T) -> S,
) -> ApiResult {
    let cursor = |rest: &ItemRange| encode_cursor(T::KIND, rest);
    let items = page.items.iter().map(|(rest, item)| (cursor(rest).unwrap_or_default(), render(item)));
    page_response(name, items, page.rest.as_ref().and_then(cursor))
}

fn check_limit(limit: Option<usize>) -> Result<usize, Refused> {
    match limit.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        0 => Err(Refused::new(Code::Invalid, "limit must be at least 1")
            .hint(format!("use a limit from 1 to {LIMIT_MAX}, and the cursor for further pages"))),
        limit => Err(Refused::new(Code::LimitExceeded, format!("limit={limit} exceeds the maximum"))
            .limit(LIMIT_MAX as u64)
            .hint(format!("use a limit from 1 to {LIMIT_MAX}, and the cursor for further pages"))),
    }
}

/// Parses a numeric cursor, as issued by this hub.
fn numeric_cursor(cursor: Option<&str>) -> Result<u64, Refused> {
    let Some(cursor) = cursor else { return Ok(0) };
    let number = cursor.parse().ok().filter(|number: &u64| number.to_string() == cursor);
    number.ok_or_else(invalid_cursor)
}

/// Returns all operations. Add new modules to this list.
pub(crate) fn route_table() -> Vec<Route> {
    [
        health::routes(),
        commit::routes(),
        agents::routes(),
        inbox::routes(),
        messages::routes(),
        requests::routes(),
        async_requests::routes(),
        subscriptions::routes(),
        dead_letters::routes(),
        context::routes(),
        rollback::routes(),
        tasks::routes(),
        locks::routes(),
        sessions::routes(),
        admin::routes(),
        events::routes(),
        state::routes(),
        status::routes(),
        sign_in::routes(),
        dialects::routes(),
        context_entries::routes(),
        session_document::routes(),
        shared_state::routes(),
        metrics::routes(),
        traces::routes(),
        audit::routes(),
        policy::routes(),
        budgets::routes(),
        guidance::routes(),
        procedures::routes(),
        approvals::routes(),
        flags::routes(),
        webhooks::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Builds the router from the route table.
pub(crate) fn router() -> Router<App> {
    let mut router = Router::new();
    for route in route_table() {
        router = router.route(route.router_path, route.handler);
    }
    router.fallback(not_found).method_not_allowed_fallback(method_not_allowed)
}

async fn not_found(uri: axum::http::Uri) -> Response {
    let refused = Refused::new(Code::NotFound, format!("unknown path {}", uri.path()))
        .hint("GET /v1/openapi.json lists all paths");
    Problem::from(refused).into_response()
}

/// Refuses a method that the path does not support. The router sets `Allow` itself, except for paths with a wildcard.
pub(crate) async fn method_not_allowed(method: axum::http::Method, uri: axum::http::Uri) -> Response {
    let refused = Refused::new(Code::Invalid, format!("{method} is not supported for {}", uri.path()))
        .hint("GET /v1/openapi.json lists the methods of every path");
    let refused = Problem::from(refused).with_status(axum::http::StatusCode::METHOD_NOT_ALLOWED);
    let mut response = refused.into_response();
    if context::is_history(&uri) {
        let allowed = axum::http::HeaderValue::from_static("GET,HEAD");
        response.headers_mut().insert(axum::http::header::ALLOW, allowed);
    }
    response
}
