//! The routes: which call goes where. Each noun has a room of its own, which describes its calls beside what answers them.

pub(crate) mod admin;
mod agents;
mod answers;
pub(crate) mod approvals;
mod commit;
mod context;
mod dead_letters;
pub(crate) mod going_back;
mod health;
mod inbox;
pub(crate) mod locks;
mod messages;
mod requests;
pub(crate) mod sessions;
pub(crate) mod subscriptions;
mod tasks;

mod events;
mod flags;
mod state;

mod sign_in;
pub(crate) mod webhooks;

mod dialect_memory;
mod dialects;
mod shared_state;

mod audit;
mod metrics;
mod traces;

pub(crate) mod budgets;
mod guidance;
pub(crate) mod policy;
pub(crate) mod procedures;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use quorate_api::page::{Order, PageQuery, cursor_of, invalid_cursor};
use quorate_core::{Code, ItemRange, Refused};
use quorate_engine::{ItemPage, Noun};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Route, words};
use crate::app::App;
use crate::call::{Answer, Call, page};
use crate::problem::Problem;
#[cfg(test)]
pub(crate) use sign_in::PAGES_PER_PERSON_MAX;

/// How many a list shows if nothing is said, and at most.
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1_000;

/// What was does not change.
pub(crate) fn waits_for_the_past() -> Refused {
    Refused::new(Code::Invalid, "what was does not change: at and waitMs go not together")
        .hint("leave one of them out")
}

/// As it is, or as it was.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Past {
    /// The record after which, by its number; or a time.
    at: Option<String>,
    /// The newest record at a time.
    #[schemars(with = "Option<words::Time>")]
    time: Option<String>,
}

/// Which part of a list.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    #[schemars(with = "Option<words::Limit>")]
    limit: Option<usize>,
    #[schemars(with = "Option<words::Cursor>")]
    cursor: Option<String>,
}

/// Which part of a list by creation.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    #[schemars(with = "Option<words::Order>")]
    order: Option<Order>,
    #[schemars(with = "Option<words::Limit>")]
    limit: Option<usize>,
    #[schemars(with = "Option<words::Cursor>")]
    cursor: Option<String>,
}

impl Listing {
    fn query(self) -> Result<PageQuery, Refused> {
        let limit = checked_limit(self.limit)?;
        Ok(PageQuery { order: self.order.unwrap_or_default(), cursor: self.cursor, limit })
    }
}

/// Answers with a page of a list by creation: the items that are wanted.
async fn list<T: Noun, S: Serialize>(
    call: &Call,
    name: &'static str,
    listing: Listing,
    wanted: impl Fn(&T) -> bool,
    show: impl Fn(&T) -> S,
) -> Answer {
    let query = listing.query()?;
    let found = call.space.list(query.range(T::KIND)?, query.limit, wanted).await?;
    page_of(name, &found, show)
}

/// A page of items under the name of their list.
fn page_of<T: Noun, S: Serialize>(name: &'static str, found: &ItemPage<T>, show: impl Fn(&T) -> S) -> Answer {
    let cursor = |rest: &ItemRange| cursor_of(T::KIND, rest);
    let items = found.items.iter().map(|(rest, item)| (cursor(rest).unwrap_or_default(), show(item)));
    page(name, items, found.rest.as_ref().and_then(cursor))
}

fn checked_limit(limit: Option<usize>) -> Result<usize, Refused> {
    match limit.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        0 => Err(Refused::new(Code::Invalid, "limit=0: a page of nothing")
            .hint(format!("ask for 1 to {LIMIT_MAX} at a time, and go on with the cursor"))),
        limit => Err(Refused::new(Code::LimitExceeded, format!("limit={limit}"))
            .limit(LIMIT_MAX as u64)
            .hint(format!("ask for 1 to {LIMIT_MAX} at a time, and go on with the cursor"))),
    }
}

/// A cursor that is a number; it came from us.
fn number_in(cursor: Option<&str>) -> Result<u64, Refused> {
    let Some(cursor) = cursor else { return Ok(0) };
    let number = cursor.parse().ok().filter(|number: &u64| number.to_string() == cursor);
    number.ok_or_else(invalid_cursor)
}

/// Every call there is, described. A room that is added belongs in this list.
pub(crate) fn rooms() -> Vec<Route> {
    [
        health::routes(),
        commit::routes(),
        agents::routes(),
        inbox::routes(),
        messages::routes(),
        requests::routes(),
        answers::routes(),
        subscriptions::routes(),
        dead_letters::routes(),
        context::routes(),
        going_back::routes(),
        tasks::routes(),
        locks::routes(),
        sessions::routes(),
        admin::routes(),
        events::routes(),
        state::routes(),
        sign_in::routes(),
        dialects::routes(),
        dialect_memory::routes(),
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

/// The router: what the rooms say, and nothing else.
pub(crate) fn all() -> Router<App> {
    let mut router = Router::new();
    for route in rooms() {
        router = router.route(route.served_at, route.handler);
    }
    router.fallback(nothing_here).method_not_allowed_fallback(not_like_this)
}

async fn nothing_here(uri: axum::http::Uri) -> Response {
    let refused = Refused::new(Code::NotFound, format!("there is nothing at {}", uri.path()))
        .hint("see GET /v1/openapi.json for what there is");
    Problem::from(refused).into_response()
}

/// What an address is not made for. Where the router says itself what it is made for, so does the answer.
pub(crate) async fn not_like_this(method: axum::http::Method, uri: axum::http::Uri) -> Response {
    let refused = Refused::new(Code::Invalid, format!("{method} does not work on {}", uri.path()))
        .hint("see GET /v1/openapi.json for what does");
    let refused = Problem::from(refused).under(axum::http::StatusCode::METHOD_NOT_ALLOWED);
    let mut response = refused.into_response();
    if context::is_history(&uri) {
        let only = axum::http::HeaderValue::from_static("GET,HEAD");
        response.headers_mut().insert(axum::http::header::ALLOW, only);
    }
    response
}
