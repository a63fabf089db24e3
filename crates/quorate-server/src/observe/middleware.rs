//! Observation of requests: counts every request and writes it to the journal. It records nothing that the caller wrote:
//! the matched route pattern instead of the path, and no query, header or body.

use std::sync::{Arc, OnceLock, PoisonError};

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, Response};
use quorate_core::{Code, Mono, Principal, SpaceNo};
use tracing::field::display;

use crate::app::App;
use crate::caller_activity::CallerActivity;
use crate::problem::ReportedError;

/// Caller of a request, set once it is authenticated.
#[derive(Clone, Default)]
pub(crate) struct CallerSlot(Arc<Caller>);

#[derive(Default)]
struct Caller {
    principal: OnceLock<(SpaceNo, Principal)>,
    activity: OnceLock<CallerActivity>,
}

impl CallerSlot {
    pub(crate) fn set(&self, space: SpaceNo, principal: &Principal) {
        let _ = self.0.principal.set((space, principal.clone()));
    }

    pub(crate) fn set_activity(&self, activity: &CallerActivity) {
        let _ = self.0.activity.set(activity.clone());
    }
}

/// Marks a response that must not be recorded, because it concerns a conduct flag.
#[derive(Clone, Copy)]
pub(crate) struct Unobserved;

/// Marks the response as [`Unobserved`] if it is private.
pub(crate) fn mark_unobserved(
    mut response: Response<axum::body::Body>,
    is_private: bool,
) -> Response<axum::body::Body> {
    if is_private {
        response.extensions_mut().insert(Unobserved);
    }
    response
}

/// Whether requests to this path are never recorded: nothing visible to non-moderators may depend on conduct flags.
fn is_private_path(path: &str) -> bool {
    path == "/v1/flags" || path.starts_with("/v1/flags/")
}

/// Monitoring endpoints are not counted: scraping must not change the metrics.
fn is_monitoring(path: &str) -> bool {
    matches!(path, "/metrics" | "/healthz" | "/readyz")
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// A request that is being handled.
pub(crate) struct ObservedRequest {
    method: &'static str,
    route: Option<MatchedPath>,
    caller: CallerSlot,
    start: Mono,
}

impl ObservedRequest {
    /// Starts the observation of a request; `None` if it must not be recorded.
    pub(crate) fn start(app: &App, request: &mut Request) -> Option<Self> {
        let path = request.uri().path();
        if is_private_path(path) || is_monitoring(path) {
            return None;
        }
        let method = method_name(request.method());
        let route = request.extensions().get::<MatchedPath>().cloned();
        let caller = CallerSlot::default();
        request.extensions_mut().insert(caller.clone());
        Some(Self { method, route, caller, start: app.engine().clock().now().mono })
    }

    /// Counts and logs the request. It is a heartbeat of the calling agent, also if it was refused: the agent is alive.
    pub(crate) fn finish(self, app: &App, response: &Response<axum::body::Body>) {
        if response.extensions().get::<Unobserved>().is_some() {
            return;
        }
        let ms = app.engine().clock().now().mono.0.saturating_sub(self.start.0);
        count(app, self.method, response, ms);
        let error = response.extensions().get::<ReportedError>();
        let caller = self.caller.0.principal.get();
        if error.is_none_or(|error| error.code != Code::StaleEpoch)
            && let Some(activity) = self.caller.0.activity.get()
        {
            activity.note();
        }
        if let Some(error) = error {
            app.telemetry().count_error(caller.map(|(space, principal)| (*space, principal)), error.code);
        }
        let principal = caller.map(|(_, principal)| principal);
        report(self.method, self.route.as_ref(), response.status().as_u16(), ms, principal, error);
    }
}

/// Logs a request: refusals and failures as warnings.
fn report(
    method: &'static str,
    route: Option<&MatchedPath>,
    status: u16,
    ms: u64,
    principal: Option<&Principal>,
    error: Option<&ReportedError>,
) {
    let route = route.map_or("none", MatchedPath::as_str);
    let principal = || principal.map(|principal| display(principal.to_text()));
    match error {
        None => tracing::debug!(method, route, status, ms, principal = principal(), "request"),
        Some(ReportedError { code, .. }) if status < 500 => {
            // The detail is omitted: it may quote the caller's input.
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
        Some(ReportedError { code, detail }) => {
            let code = code.as_str();
            tracing::warn!(method, route, status, ms, principal = principal(), code, detail, "request");
        }
    }
}

fn count(app: &App, method: &'static str, response: &Response<axum::body::Body>, ms: u64) {
    let stats = &app.telemetry().http;
    let mut requests = stats.requests.lock().unwrap_or_else(PoisonError::into_inner);
    *requests.entry((method, response.status().as_u16())).or_default() += 1;
    drop(requests);
    let mut request_ms = stats.request_ms.lock().unwrap_or_else(PoisonError::into_inner);
    request_ms.entry(method).or_default().observe(ms);
}
