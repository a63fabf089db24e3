//! Reads request bodies with a size limit and a timeout.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
pub(crate) use quorate_api::request_body::{DEPTH_MAX, RequestFields, parse, parse_one_or_list};
use quorate_core::{Code, Refused};
use tokio::time::timeout;

/// Maximum size of a request body in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Reads the whole body of an authenticated request within the given timeout.
pub(crate) async fn read(headers: &HeaderMap, body: Body, read_timeout: Duration) -> Result<Bytes, Refused> {
    read_limited(headers, body, BODY_BYTES_MAX, read_timeout).await
}

/// Reads the whole body, of at most this many bytes.
pub(crate) async fn read_limited(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    read_timeout: Duration,
) -> Result<Bytes, Refused> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Refused::new(Code::Invalid, "the request body is compressed")
            .hint("send it uncompressed; Content-Encoding is not supported"));
    }
    // Refuse on the declared length, before any of the body is read.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let Ok(collected) = timeout(read_timeout, Limited::new(body, bytes_max).collect()).await else {
        return Err(Refused::new(Code::Timeout, "timed out while reading the request body")
            .limit(read_timeout.as_millis() as u64)
            .hint("nothing was changed; retry the request"));
    };
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Err(_) => Err(Refused::new(Code::Invalid, "the request body ended early")
            .hint("send exactly as many bytes as Content-Length states")),
    }
}

fn too_large(bytes_max: usize) -> Refused {
    Refused::new(Code::TooLarge, "the request body is too large")
        .limit(bytes_max as u64)
        .hint(format!("send at most {bytes_max} bytes per request"))
}
