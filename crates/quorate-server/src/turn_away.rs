//! Callers who are sent away before anybody reads what they ask: there is no room, or they do not encrypt where that is
//! asked for. Each is told so in plain HTTP, as far as it can be.

use std::time::Duration;

use quorate_core::{Code, Refused};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::problem::Problem;
use crate::settings::Patience;

/// Callers that are told at the same time that there is no room for them; more are dropped.
pub(crate) const AT_THE_DOOR_MAX: usize = 64;
/// What is read of somebody who is sent away, so that the answer is not lost with what was not read.
const READ_BYTES_MAX: usize = 64 * 1024;
/// How long that may take.
const WITHIN: Duration = Duration::from_secs(1);

/// There is no room. Whoever would have to be told under TLS is dropped: a handshake is work.
pub(crate) async fn full(
    stream: TcpStream,
    is_tls: bool,
    connections: usize,
    patience: Patience,
    _at_the_door: OwnedSemaphorePermit,
) {
    if is_tls {
        return;
    }
    let refused = Refused::new(Code::Overloaded, "the hub has as many connections as it takes")
        .limit(connections as u64)
        .hint("use one connection for several calls, and try again later");
    tell(stream, &refused.into(), patience).await;
}

/// Whether the first byte is one of a request in plain HTTP. Waits for it.
pub(crate) async fn speaks_plainly(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1)) && first[0].is_ascii_uppercase()
}

/// This port speaks TLS.
pub(crate) async fn plain(stream: TcpStream, patience: Patience) {
    let refused = Refused::new(Code::Invalid, "this port speaks TLS, and the request was not encrypted")
        .hint("call https:// instead of http://, and wss:// instead of ws://");
    tell(stream, &refused.into(), patience).await;
}

async fn tell(mut stream: TcpStream, problem: &Problem, patience: Patience) {
    let body = problem.to_json().to_string();
    let answer = format!(
        "HTTP/1.1 {}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        problem.status(),
        body.len()
    );
    let told = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        let mut unread = (&mut stream).take(READ_BYTES_MAX as u64);
        tokio::io::copy(&mut unread, &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(WITHIN.min(patience.reader), told).await;
}
