//! What every request goes through on its way in and out: it is counted, and the journal hears of it. Never with anything
//! that the caller wrote: the route is the pattern that matched, not the path; there is no query, no header, no body.

use std::sync::{Arc, OnceLock, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, Response};
use axum::middleware::Next;
use quorate_core::{Principal, SpaceNo};
use tracing::field::display;

use crate::app::App;
use crate::problem::Told;

/// Filled in by whoever finds out who asks.
#[derive(Clone, Default)]
pub(crate) struct Caller(Arc<OnceLock<(SpaceNo, Principal)>>);

impl Caller {
    pub(crate) fn is(&self, space: SpaceNo, principal: &Principal) {
        let _ = self.0.set((space, principal.clone()));
    }
}

/// Goes with a response that must leave no trace: it is about a conduct flag.
#[derive(Clone, Copy)]
pub(crate) struct Unobserved;

/// An answer that is about nothing but flags, if it is.
pub(crate) fn unobserved(
    mut response: Response<axum::body::Body>,
    is_private: bool,
) -> Response<axum::body::Body> {
    if is_private {
        response.extensions_mut().insert(Unobserved);
    }
    response
}

/// What must leave no trace at all: for everybody but moderators nothing may depend on flags.
fn private(path: &str) -> bool {
    path == "/v1/flags" || path.starts_with("/v1/flags/")
}

/// Looking changes nothing.
fn looks_only(path: &str) -> bool {
    matches!(path, "/metrics" | "/healthz" | "/readyz")
}

fn word_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

pub(crate) async fn watch(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Response<axum::body::Body> {
    let path = request.uri().path();
    if private(path) || looks_only(path) {
        return next.run(request).await;
    }
    let method = word_of(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let who = Caller::default();
    request.extensions_mut().insert(who.clone());
    let begun = app.engine().clock().now().mono;
    let response = next.run(request).await;
    if response.extensions().get::<Unobserved>().is_some() {
        return response;
    }
    let ms = app.engine().clock().now().mono.0.saturating_sub(begun.0);
    count(&app, method, &response, ms);
    let told = response.extensions().get::<Told>();
    let by = who.0.get();
    if let Some(told) = told {
        app.observed().refused(by.map(|(space, principal)| (*space, principal)), told.code);
    }
    report(method, route.as_ref(), response.status().as_u16(), ms, by.map(|(_, principal)| principal), told);
    response
}

/// A line for the operator: a warning for a refusal or a failure.
fn report(
    method: &'static str,
    route: Option<&MatchedPath>,
    status: u16,
    ms: u64,
    principal: Option<&Principal>,
    told: Option<&Told>,
) {
    let route = route.map_or("none", MatchedPath::as_str);
    let principal = || principal.map(|principal| display(principal.to_text()));
    match told {
        None => tracing::debug!(method, route, status, ms, principal = principal(), "request"),
        Some(Told { code, .. }) if status < 500 => {
            // Without the detail: it names what the caller wrote.
            tracing::warn!(
                method,
                route,
                status,
                ms,
                principal = principal(),
                code = code.as_str(),
                "request"
            );
        }
        Some(Told { code, detail }) => {
            let code = code.as_str();
            tracing::warn!(method, route, status, ms, principal = principal(), code, detail, "request");
        }
    }
}

fn count(app: &App, method: &'static str, response: &Response<axum::body::Body>, ms: u64) {
    let doors = &app.observed().doors;
    let mut requests = doors.requests.lock().unwrap_or_else(PoisonError::into_inner);
    *requests.entry((method, response.status().as_u16())).or_default() += 1;
    drop(requests);
    let mut request_ms = doors.request_ms.lock().unwrap_or_else(PoisonError::into_inner);
    request_ms.entry(method).or_default().observe(ms);
}
