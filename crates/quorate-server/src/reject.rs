//! Rejects connections before reading a request: the connection limit is reached, or the client sends plain HTTP to a
//! TLS port. The rejection is a plain HTTP response where possible.

use std::time::Duration;

use quorate_core::{Code, Refused};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::problem::Problem;
use crate::settings::Timeouts;

/// Maximum number of connections that are rejected with a response at the same time.
pub(crate) const REJECTIONS_MAX: usize = 64;
/// Bytes read from a rejected client. Closing a socket with unread input would reset the connection and lose the
/// response.
const READ_BYTES_MAX: usize = 64 * 1024;
/// Timeout of a rejection.
const REJECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Rejects a connection over a limit. TLS clients are dropped: a handshake is too expensive.
pub(crate) async fn reject_over_limit(
    stream: TcpStream,
    is_tls: bool,
    refused: Refused,
    timeouts: Timeouts,
    _permit: OwnedSemaphorePermit,
) {
    if is_tls {
        return;
    }
    respond(stream, &refused.into(), timeouts).await;
}

/// The refusal of a connection because the hub has too many.
pub(crate) fn too_many_connections(max: usize) -> Refused {
    Refused::new(Code::Overloaded, "the hub has reached its connection limit")
        .limit(max as u64)
        .hint("reuse connections, and try again later")
}

/// The refusal of a connection because its address has too many that are not authenticated.
pub(crate) fn too_many_unauthenticated(max: usize) -> Refused {
    Refused::new(
        Code::Overloaded,
        "this address has too many connections without a request that has a valid token",
    )
    .limit(max as u64)
    .hint("reuse connections, and send the access token with the first request")
}

/// Whether the first byte belongs to a plain HTTP request. Waits for that byte.
pub(crate) async fn is_plain_http(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1)) && first[0].is_ascii_uppercase()
}

/// Rejects plain HTTP on a TLS port.
pub(crate) async fn reject_plain_http(stream: TcpStream, timeouts: Timeouts) {
    let refused = Refused::new(Code::Invalid, "plain HTTP request sent to a TLS port")
        .hint("use https:// instead of http://, and wss:// instead of ws://");
    respond(stream, &refused.into(), timeouts).await;
}

async fn respond(mut stream: TcpStream, problem: &Problem, timeouts: Timeouts) {
    let body = problem.to_text();
    let response = format!(
        "HTTP/1.1 {}\r\ncontent-type: application/problem+json\r\nx-content-type-options: nosniff\r\n\
         cache-control: no-store\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        problem.status(),
        body.len()
    );
    let exchange = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
        let mut unread = (&mut stream).take(READ_BYTES_MAX as u64);
        tokio::io::copy(&mut unread, &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(REJECT_TIMEOUT.min(timeouts.write), exchange).await;
}
