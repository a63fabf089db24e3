//! Reading what a caller sent: bounded, checked once, and refused with the path of what is wrong.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
pub(crate) use quorate_api::fields::{DEPTH_MAX, Fields, parse, parse_one_or_list};
use quorate_core::{Code, Refused};
use tokio::time::timeout;

/// Bytes of a request.
pub(crate) const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Reads the whole body, which must come within a time.
pub(crate) async fn read(headers: &HeaderMap, body: Body, within: Duration) -> Result<Bytes, Refused> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Refused::new(Code::Invalid, "the body is compressed")
            .hint("send it as it is; the hub takes no Content-Encoding"));
    }
    // Whoever says so has sent nothing of it yet, or need not send the rest: nobody waits for what is refused anyway.
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let Ok(collected) = timeout(within, Limited::new(body, BODY_BYTES_MAX).collect()).await else {
        return Err(Refused::new(Code::Timeout, "the body of the request did not come in time")
            .limit(within.as_millis() as u64)
            .hint("nothing was changed; send it again, faster"));
    };
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Refused::new(Code::Invalid, "the request ended before its body did")
            .hint("send as many bytes as content-length says")),
    }
}

fn too_large() -> Refused {
    Refused::new(Code::TooLarge, "the request is too large")
        .limit(BODY_BYTES_MAX as u64)
        .hint(format!("send at most {BODY_BYTES_MAX} bytes at a time"))
}
