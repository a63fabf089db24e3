//! Middleware of all requests, in one layer: each layer of the router allocates and clones the services below it, which
//! would cost more than the work itself.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::drain_body::UnreadBody;
use crate::host_origin::check_host_and_origin;
use crate::observe::ObservedRequest;
use crate::problem::Problem;
use crate::response_headers;

/// Checks, observes and answers a request.
pub(crate) async fn handle(State(app): State<App>, request: Request, next: Next) -> Response {
    let (mut request, unread) = UnreadBody::of(request);
    let observed = ObservedRequest::start(&app, &mut request);
    let mut response = match check_host_and_origin(&app, &request) {
        Ok(()) => next.run(request).await,
        Err(refused) => Problem::from(refused).into_response(),
    };
    if let Some(observed) = observed {
        observed.finish(&app, &response);
    }
    unread.drain(&mut response).await;
    response_headers::add(&mut response);
    response
}
