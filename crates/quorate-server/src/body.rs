//! Reads request bodies with a size limit and a timeout.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
pub(crate) use quorate_api::request_body::{DEPTH_MAX, RequestFields, parse, parse_one_or_list};
use quorate_core::{Code, Policy, Refused, limits};
use tokio::time::timeout;

use crate::large_requests::{LARGE_REQUESTS_PER_SPACE_MAX, LargeRequest};

/// Maximum size of a request body or a WebSocket frame in bytes, in a space with the default limit of a commit.
pub(crate) const BODY_BYTES_DEFAULT: usize = 2 * 1024 * 1024;
/// Maximum size of a request body or a WebSocket frame in bytes, in a space with the largest limit of a commit.
pub(crate) const BODY_BYTES_MAX: usize = 12 * 1024 * 1024;

/// Returns the maximum size of a request body or a WebSocket frame under this policy. Above the default it grows by 5/3 of
/// the limit of a commit: base64 needs 4/3, the rest is for the other fields.
pub(crate) fn bytes_max(policy: &Policy) -> usize {
    let above = (policy.commit_bytes_max as usize).saturating_sub(limits::COMMIT_BYTES_DEFAULT);
    BODY_BYTES_DEFAULT + above * 5 / 3
}

/// Reads the whole body of an authenticated request in a space with this policy. A body of more than the default size
/// needs a slot, which has to be kept until the request is done.
pub(crate) async fn read<F: Future<Output = LargeRequest>>(
    headers: &HeaderMap,
    body: Body,
    policy: &Policy,
    read_timeout: Duration,
    slot: impl FnOnce() -> F,
) -> Result<(Bytes, Option<LargeRequest>), Refused> {
    let bytes_max = bytes_max(policy);
    if bytes_max == BODY_BYTES_DEFAULT {
        return Ok((read_limited(headers, body, bytes_max, read_timeout).await?, None));
    }
    check_headers(headers, &body, bytes_max)?;
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut is_waiting = false;
    let collect = async {
        let (mut slot, mut large) = (Some(slot), None);
        let (mut body, mut chunks, mut length) = (body, Vec::new(), 0);
        loop {
            if declared.max(length) > BODY_BYTES_DEFAULT
                && let Some(slot) = slot.take()
            {
                is_waiting = true;
                large = Some(slot().await);
                is_waiting = false;
            }
            let Some(frame) = body.frame().await else { return Ok((chunks, large)) };
            let Ok(data) = frame.map_err(|_| ended_early())?.into_data() else { continue };
            length += data.len();
            if length > bytes_max {
                return Err(too_large(bytes_max));
            }
            chunks.push(data);
        }
    };
    let collected = timeout(read_timeout, collect).await;
    let (mut chunks, large) = match collected {
        Ok(collected) => collected?,
        Err(_) if is_waiting => return Err(no_slot()),
        Err(_) => return Err(timed_out(read_timeout)),
    };
    let body = match chunks.len() {
        1 => chunks.remove(0),
        _ => chunks.concat().into(),
    };
    Ok((body, large))
}

/// Reads the whole body, of at most this many bytes.
pub(crate) async fn read_limited(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    read_timeout: Duration,
) -> Result<Bytes, Refused> {
    check_headers(headers, &body, bytes_max)?;
    let Ok(collected) = timeout(read_timeout, Limited::new(body, bytes_max).collect()).await else {
        return Err(timed_out(read_timeout));
    };
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Err(_) => Err(ended_early()),
    }
}

/// Refuses compressed bodies, and those whose declared length is too large, before any of the body is read.
fn check_headers(headers: &HeaderMap, body: &Body, bytes_max: usize) -> Result<(), Refused> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Refused::new(Code::Invalid, "the request body is compressed")
            .hint("send it uncompressed; Content-Encoding is not supported"));
    }
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    Ok(())
}

fn timed_out(read_timeout: Duration) -> Refused {
    Refused::new(Code::Timeout, "timed out while reading the request body")
        .limit(read_timeout.as_millis() as u64)
        .hint("nothing was changed; retry the request")
}

fn ended_early() -> Refused {
    Refused::new(Code::Invalid, "the request body ended early")
        .hint("send exactly as many bytes as Content-Length states")
}

fn no_slot() -> Refused {
    Refused::new(
        Code::Overloaded,
        format!("too many concurrent requests of more than {BODY_BYTES_DEFAULT} bytes in this space"),
    )
    .limit(LARGE_REQUESTS_PER_SPACE_MAX as u64)
    .hint("nothing was changed; retry later, or send smaller requests")
}

fn too_large(bytes_max: usize) -> Refused {
    Refused::new(Code::TooLarge, "the request body is too large")
        .limit(bytes_max as u64)
        .hint(format!("send at most {bytes_max} bytes per request"))
}

#[cfg(test)]
mod tests {
    use quorate_core::{Principal, SpaceNo};

    use super::*;
    use crate::large_requests::LargeRequests;

    const MB: usize = 1024 * 1024;

    fn policy(commit_bytes_max: usize) -> Policy {
        Policy { commit_bytes_max: commit_bytes_max as u32, ..Policy::default() }
    }

    /// A body of unknown length, in parts of 1 MB.
    fn chunked(bytes: usize) -> Body {
        let sizes = std::iter::repeat_n(MB, bytes / MB).chain([bytes % MB]);
        let parts: Vec<_> =
            sizes.map(|size| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; size]))).collect();
        Body::from_stream(futures_util::stream::iter(parts))
    }

    async fn read_body(body: Body, policy: &Policy) -> Result<(usize, bool), Code> {
        let requests = LargeRequests::default();
        let slot = || requests.acquire(SpaceNo(1), &Principal::System);
        let read = read(&HeaderMap::new(), body, policy, Duration::from_secs(9), slot).await;
        read.map(|(body, large)| (body.len(), large.is_some())).map_err(|refused| refused.code)
    }

    // Fails under: a limit that ignores the policy, or applies only to declared lengths; a slot for every request.
    #[tokio::test]
    async fn d12_a_body_is_limited_by_the_policy_and_needs_a_slot_above_the_default() {
        let largest = policy(limits::COMMIT_BYTES_MAX);
        assert_eq!(bytes_max(&largest), BODY_BYTES_MAX);
        for commit in [1, limits::COMMIT_BYTES_DEFAULT] {
            assert_eq!(bytes_max(&policy(commit)), BODY_BYTES_DEFAULT);
        }
        let whole: fn(usize) -> Body = |bytes| Body::from(vec![b'x'; bytes]);
        for body in [chunked as fn(usize) -> Body, whole] {
            let default = Policy::default();
            assert_eq!(read_body(body(2 * MB), &default).await, Ok((2 * MB, false)));
            assert_eq!(read_body(body(2 * MB + 1), &default).await, Err(Code::TooLarge));
            assert_eq!(read_body(body(2 * MB), &largest).await, Ok((2 * MB, false)));
            assert_eq!(read_body(body(2 * MB + 1), &largest).await, Ok((2 * MB + 1, true)));
            assert_eq!(read_body(body(12 * MB), &largest).await, Ok((12 * MB, true)));
            assert_eq!(read_body(body(12 * MB + 1), &largest).await, Err(Code::TooLarge));
        }
    }

    // Fails under: a call that waits longer than its timeout for a slot.
    #[tokio::test(start_paused = true)]
    async fn i21_a_large_body_without_a_slot_is_refused_after_the_timeout() {
        let slot = std::future::pending::<LargeRequest>;
        let largest = policy(limits::COMMIT_BYTES_MAX);
        let read = read(&HeaderMap::new(), chunked(3 * MB), &largest, Duration::from_secs(9), slot).await;
        assert_eq!(read.map(drop).expect_err("no slot").code, Code::Overloaded);
    }
}
