//! What is slow, too large, too deep or too many, and what becomes of it.

use std::time::Duration;

use quorate_server::{CONNECTIONS_MAX, HEADER_BYTES_MAX, Limits, Patience, Settings};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::support::Hub;
use crate::support::raw::{NEVER, bearer, call, is_closed, plain, reply, request};
use crate::support::socket::Served;

fn brief(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test]
async fn i21_headers_that_drip_are_cut() {
    let patience = Patience { headers: brief(400), ..Patience::default() };
    let served = Served::with(patience).await;
    let mut slow = plain(served.address()).await;
    let begun = tokio::time::Instant::now();
    // A header line now and then keeps nobody waiting for longer than all of them may take.
    let drips = async {
        slow.write_all(b"GET /v1/info HTTP/1.1\r\n").await?;
        let mut ticks = tokio::time::interval(brief(50));
        loop {
            ticks.tick().await;
            slow.write_all(b"x-a: b\r\n").await?;
        }
    };
    let cut: std::io::Result<()> = tokio::time::timeout(NEVER, drips).await.expect("it is cut");
    assert!(cut.is_err() && begun.elapsed() >= brief(350), "{cut:?} after {:?}", begun.elapsed());
    let mut quick = plain(served.address()).await;
    assert_eq!(call(&mut quick, &request("GET", "/healthz", "host: localhost\r\n", "")).await.status, 200);
}

#[tokio::test]
async fn i21_a_body_that_drips_is_refused() {
    let patience = Patience { body: brief(300), ..Patience::default() };
    let served = Served::with(patience).await;
    let mut slow = plain(served.address()).await;
    let head =
        format!("POST /v1/messages HTTP/1.1\r\n{}content-length: 100\r\n\r\n{{", bearer(&served.hub.admin));
    slow.write_all(head.as_bytes()).await.expect("it is sent");
    let (mut reads, mut writes) = slow.into_split();
    let drips = async {
        let mut ticks = tokio::time::interval(brief(50));
        loop {
            ticks.tick().await;
            if writes.write_all(b" ").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let (mut sink, answer) = (tokio::io::sink(), async {
        let mut wire = tokio::io::join(&mut reads, tokio::io::sink());
        reply(&mut wire).await.expect("an answer")
    });
    let answer = tokio::select! { answer = answer => answer, () = drips => unreachable!() };
    let told = answer.refused(408, "TIMEOUT");
    assert_eq!((&told["limit"], &told["applied"]), (&json!(300), &json!("no")));
    sink.shutdown().await.expect("nothing to do");
}

#[tokio::test]
async fn i21_what_is_too_large_or_too_deep_is_refused() {
    let served = Served::new().await;
    let known = bearer(&served.hub.admin);
    // Headers of more than 16 KB: the server itself says no, and ends it.
    let mut stream = plain(served.address()).await;
    let large = format!("{known}x-large: {}\r\n", "x".repeat(HEADER_BYTES_MAX));
    assert_eq!(call(&mut stream, &request("GET", "/v1/info", &large, "")).await.status, 431);
    assert!(is_closed(&mut stream).await);
    // A body of more than 2 MB, said or not.
    let body = format!("{{\"payload\":\"{}\"}}", "x".repeat(2 * 1024 * 1024));
    let mut stream = plain(served.address()).await;
    let (mut reads, mut writes) = stream.split();
    let sends = request("POST", "/v1/messages", &known, &body);
    let mut wire = tokio::io::join(&mut reads, tokio::io::sink());
    let (_, answer) = tokio::join!(writes.write_all(sends.as_bytes()), reply(&mut wire));
    let told = answer.expect("an answer").refused(413, "TOO_LARGE");
    assert_eq!(told["limit"], 2 * 1024 * 1024);
    // JSON of 65 levels.
    let deep = format!("{{\"payload\":{}{}}}", "[".repeat(64), "]".repeat(64));
    let mut stream = plain(served.address()).await;
    let told = call(&mut stream, &request("POST", "/v1/messages", &known, &deep)).await;
    assert_eq!(told.refused(429, "LIMIT_EXCEEDED")["limit"], 64);
    // The connection goes on.
    assert_eq!(call(&mut stream, &request("GET", "/v1/info", &known, "")).await.status, 200);
}

// Fails under: the body waited for before its length is looked at.
#[tokio::test]
async fn i21_a_length_over_the_limit_is_refused_before_anything_is_sent() {
    let served = Served::new().await;
    let known = bearer(&served.hub.admin);
    for more in ["", "expect: 100-continue\r\n"] {
        for length in [2 * 1024 * 1024 + 1, 99_999_999_999_u64] {
            let mut stream = plain(served.address()).await;
            let head = format!("POST /v1/messages HTTP/1.1\r\n{known}{more}content-length: {length}\r\n\r\n");
            let answer = call(&mut stream, &head).await;
            assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
            let told = answer.refused(413, "TOO_LARGE");
            assert_eq!((&told["limit"], &told["applied"]), (&json!(2 * 1024 * 1024), &json!("no")));
            assert!(is_closed(&mut stream).await);
        }
    }
    // What is not over it is asked for.
    let mut stream = plain(served.address()).await;
    let head =
        format!("PUT /v1/context/k HTTP/1.1\r\n{known}expect: 100-continue\r\ncontent-length: 13\r\n\r\n");
    assert_eq!(call(&mut stream, &head).await.status, 100);
    assert_eq!(call(&mut stream, "{\"content\":1}").await.status, 201);
}

// The guide says so: what is no request at all never reaches the hub, and hyper lets nobody answer in its place.
#[tokio::test]
async fn what_is_no_request_is_refused_with_a_status_alone() {
    let served = Served::new().await;
    let large = format!("GET /v1/info HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(HEADER_BYTES_MAX));
    let huge = "POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n".to_owned();
    for (request, status) in [("NONSENSE\r\n\r\n".to_owned(), 400), (large, 431), (huge, 400)] {
        let mut stream = plain(served.address()).await;
        let answer = call(&mut stream, &request).await;
        assert_eq!((answer.status, answer.body.as_str()), (status, ""), "{answer:?}");
        assert!(is_closed(&mut stream).await);
    }
}

#[tokio::test]
async fn i21_nothing_compressed_is_taken() {
    let served = Served::new().await;
    let mut stream = plain(served.address()).await;
    for encoding in ["gzip", "br", "deflate", "zstd", "gzip, identity", "GZIP"] {
        let more = format!("{}content-encoding: {encoding}\r\n", bearer(&served.hub.admin));
        let told = call(&mut stream, &request("POST", "/v1/messages", &more, "\u{1f}")).await;
        let told = told.refused(400, "INVALID");
        let said = (told["detail"].as_str().unwrap_or_default(), told["hint"].as_str().unwrap_or_default());
        assert!(said.0.contains("compressed") && said.1.contains("Content-Encoding"), "{encoding}: {told}");
    }
    let more = format!("{}content-encoding: identity\r\n", bearer(&served.hub.admin));
    let told = call(&mut stream, &request("POST", "/v1/messages", &more, "{}")).await;
    assert!(!told.body.contains("compressed"), "{told:?}");
}

#[tokio::test]
async fn i21_connections_have_a_limit_and_whoever_comes_next_is_told() {
    let limits = Limits { connections: 4, ..Limits::default() };
    let served = Served::of(Hub::with(Settings { limits, ..Settings::default() }).await).await;
    let health = request("GET", "/healthz", "host: localhost\r\n", "");
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut stream = plain(served.address()).await;
        assert_eq!(call(&mut stream, &health).await.status, 200);
        open.push(stream);
    }
    let mut fifth = plain(served.address()).await;
    let told = reply(&mut fifth).await.expect("an answer").refused(503, "OVERLOADED");
    assert_eq!((&told["limit"], &told["retryable"]), (&json!(4), &json!(true)));
    assert!(is_closed(&mut fifth).await);
    for stream in &mut open {
        assert_eq!(call(stream, &health).await.status, 200, "those that are in stay");
    }
    open.pop();
    // When the hub has seen that one has gone there is room again.
    loop {
        let mut next = plain(served.address()).await;
        if call(&mut next, &health).await.status == 200 {
            break;
        }
    }
}

/// How many files this process may have open.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    line.split_whitespace().nth(3).and_then(|soft| soft.parse().ok()).unwrap_or(1_024)
}

#[tokio::test]
async fn i21_idle_connections_up_to_the_limit_and_the_hub_answers() {
    // Both ends are in this process. Some descriptors are left for the hub, and for the tests that `cargo test` runs at
    // the same time in this process: one for each core.
    let tests = std::thread::available_parallelism().map_or(1, usize::from);
    let count = CONNECTIONS_MAX.min(descriptors().saturating_sub(300.max(32 * tests)) / 2);
    let patience = Patience { headers: NEVER * 4, ..Patience::default() };
    let limits = Limits { connections: count, ..Limits::default() };
    let served = Served::of(Hub::with(Settings { patience, limits, ..Settings::default() }).await).await;
    let health = request("GET", "/healthz", "host: localhost\r\n", "");
    let mut open = Vec::with_capacity(count);
    for index in 0..count {
        let mut stream = plain(served.address()).await;
        // Now and then one says something, so that the hub keeps up with us.
        if index % 100 == 0 || index + 1 == count {
            assert_eq!(call(&mut stream, &health).await.status, 200, "connection {index}");
        }
        open.push(stream);
    }
    for stream in open.iter_mut().step_by(997) {
        assert_eq!(call(stream, &health).await.status, 200, "an idle one is still served");
    }
    let mut over = plain(served.address()).await;
    let told = reply(&mut over).await.expect("an answer").refused(503, "OVERLOADED");
    assert_eq!(told["limit"], count);
}
