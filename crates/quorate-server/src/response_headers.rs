//! Headers of every response. A response may contain data of a principal, so nothing between the hub and the caller
//! stores it; and a browser must not guess a type that it would execute.

use axum::http::{HeaderValue, header};
use axum::response::Response;

/// Adds the headers to a response.
pub(crate) fn add(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
