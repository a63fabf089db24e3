//! Revoked tokens and shutdown while calls are waiting.

use std::time::Duration;

use quorate_server::{Settings, Timeouts};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::TestHub;
use crate::support::raw_http::{TIMEOUT, bearer_header, connect_plain, format_request, read_response};
use crate::support::socket::TestServer;

/// Calls that wait for another agent. Each is made by bob.
fn waiting() -> Vec<(&'static str, Value)> {
    vec![
        ("/v1/agents/bob/inbox/claim", json!({"waitMs": 60_000})),
        ("/v1/tasks/claim", json!({"types": ["sum"], "waitMs": 60_000})),
        ("/v1/locks/plan/acquire", json!({"waitMs": 60_000})),
        ("/v1/request", json!({"to": "alice", "action": "ask", "type": "query", "timeoutMs": 60_000})),
    ]
}

/// A hub on which all these calls wait: alice holds the lock and does not answer.
async fn hub(timeouts: Timeouts) -> (TestServer, String) {
    let server =
        TestServer::start(TestHub::with_settings(Settings { timeouts, ..Settings::default() }).await).await;
    let alice = server.hub.register("alice").await;
    let bob = server.hub.register_with_capabilities("bob", &["sum"]).await;
    server.hub.post(&alice, "/v1/locks/plan/acquire", &json!({"ttlMs": 600_000})).await.ok(200);
    (server, bob)
}

#[tokio::test]
async fn i19_a_revoked_token_ends_waiting_calls_within_5_s() {
    let (server, bob) = hub(Timeouts::default()).await;
    let mut streams = Vec::new();
    for (path, body) in waiting() {
        let mut stream = connect_plain(server.address()).await;
        let request = format_request("POST", path, &bearer_header(&bob), &body.to_string());
        stream.write_all(request.as_bytes()).await.expect("it is sent");
        streams.push((path, stream));
    }
    // The calls are waiting: the hub counts the claim of bob, and alice has received the request.
    while server.hub.get(&server.hub.admin, "/v1/agents/bob").await.ok(200)["load"]["listening"] != 1 {
        tokio::task::yield_now().await;
    }
    server.hub.revoke("agent", "bob").await;
    let all = async {
        for (path, stream) in &mut streams {
            let response = read_response(stream).await.unwrap_or_else(|| panic!("{path}: no answer"));
            response.refused(401, "UNAUTHENTICATED");
        }
    };
    tokio::time::timeout(Duration::from_secs(5), all).await.expect("within 5 s");
}

#[tokio::test]
async fn i27_a_stopping_hub_ends_waiting_calls() {
    let timeouts = Timeouts { drain: Duration::from_secs(2), ..Timeouts::default() };
    let (server, bob) = hub(timeouts).await;
    let mut streams = Vec::new();
    for (path, body) in waiting() {
        let mut stream = connect_plain(server.address()).await;
        let request = format_request("POST", path, &bearer_header(&bob), &body.to_string());
        stream.write_all(request.as_bytes()).await.expect("it is sent");
        streams.push((path, stream));
    }
    let mut events = connect_plain(server.address()).await;
    let request = format_request("GET", "/v1/events", &bearer_header(&server.hub.admin), "");
    events.write_all(request.as_bytes()).await.expect("it is sent");
    let mut first = [0; 12];
    events.read_exact(&mut first).await.expect("an answer");
    let (mut socket, _) = server.hello(json!({"token": server.hub.admin})).await;
    while server.hub.get(&server.hub.admin, "/v1/agents/bob").await.ok(200)["load"]["listening"] != 1 {
        tokio::task::yield_now().await;
    }
    let TestServer { hub, listening } = server;
    let address = listening.address();
    let response = async {
        for (path, stream) in &mut streams {
            let response = read_response(stream).await.unwrap_or_else(|| panic!("{path}: no answer"));
            let response = response.refused(503, "UNAVAILABLE");
            // The request remains, whatever happens to the wait for its answer.
            let applied = if *path == "/v1/request" { "yes" } else { "no" };
            assert_eq!(
                (&response["retryable"], &response["applied"]),
                (&json!(true), &json!(applied)),
                "{path}"
            );
            assert_eq!(response["asked"].is_string(), applied == "yes", "{path}");
        }
        let mut rest = Vec::new();
        tokio::time::timeout(TIMEOUT, events.read_to_end(&mut rest)).await.expect("in time").expect("an end");
        assert!(rest.ends_with(b"0\r\n\r\n"), "the events end in peace");
        socket.close_code().await
    };
    let start = tokio::time::Instant::now();
    let (code, ()) = tokio::join!(response, listening.drain());
    assert_eq!(code, 1001);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    drop(hub);
}
