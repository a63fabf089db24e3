//! Rate limits by principal, and limits on failed authentication by address.

use std::sync::Arc;
use std::time::Duration;

use quorate_server::{Limits, Rate, Settings};
use quorate_store::ManualClock;
use serde_json::json;

use crate::support::TestHub;
use crate::support::raw_http::{bearer_header, call, connect_plain, format_request};
use crate::support::socket::TestServer;

const START_MS: u64 = 1_800_000_000_000;

async fn server(limits: Limits) -> (Arc<ManualClock>, TestServer) {
    let clock = ManualClock::at(START_MS);
    let hub = TestHub::with_clock(Arc::clone(&clock) as _, Settings { limits, ..Settings::default() }).await;
    (clock, TestServer::start(hub).await)
}

#[tokio::test]
async fn d13_i21_a_rate_limited_caller_gets_a_retry_delay() {
    let limits = Limits { other_principals: Rate { per_second: 2, burst: 4 }, ..Limits::default() };
    let (clock, server) = server(limits).await;
    let mut stream = connect_plain(server.address()).await;
    let info = format_request("GET", "/v1/info", &bearer_header(&server.hub.admin), "");
    for _ in 0..4 {
        assert_eq!(call(&mut stream, &info).await.status, 200);
    }
    let answer = call(&mut stream, &info).await;
    let response = answer.refused(429, "LIMIT_EXCEEDED");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!((&response["retryable"], &response["applied"]), (&json!(true), &json!("no")));
    assert_eq!((&response["limit"], &response["retryAfterMs"]), (&json!(2), &json!(500)));
    assert!(response["detail"].as_str().is_some_and(|detail| detail.contains("admin:test")), "{response}");
    // Public endpoints are not counted.
    assert_eq!(
        call(&mut stream, &format_request("GET", "/healthz", "host: localhost\r\n", "")).await.status,
        200
    );
    clock.advance(Duration::from_millis(500));
    assert_eq!(call(&mut stream, &info).await.status, 200);
    assert_eq!(call(&mut stream, &info).await.status, 429);
}

#[tokio::test]
async fn d13_i21_a_rate_limited_agent_does_no_harm_to_others() {
    let limits = Limits { agents: Rate { per_second: 1, burst: 3 }, ..Limits::default() };
    let (clock, server) = server(limits).await;
    let (alice, bob) = (server.hub.register("alice").await, server.hub.register("bob").await);
    // Hello is the first frame, credit the second.
    let mut socket = server.connect_agent(&alice).await;
    let commit = |key: &str| json!({"ops": [{"op": "put", "key": "k", "content": 1}], "idempotencyKey": key});
    socket.ok("commit", commit("a")).await;
    let response = socket.refused("commit", commit("b"), "LIMIT_EXCEEDED").await;
    assert_eq!(
        (&response["status"], &response["retryAfterMs"], &response["retryable"]),
        (&json!(429), &json!(1_000), &json!(true))
    );
    // One token bucket for all transports.
    server.hub.get(&alice, "/v1/info").await.refused(429, "LIMIT_EXCEEDED");
    server.hub.get(&bob, "/v1/info").await.ok(200);
    clock.advance(Duration::from_secs(1));
    socket.ok("commit", commit("b")).await;
    assert_eq!(server.hub.get(&bob, "/v1/context/k").await.ok(200)["version"], 2, "nothing was done twice");
}

#[tokio::test]
async fn d13_i21_failed_attempts_are_limited_but_valid_tokens_accepted() {
    let limits = Limits { failures: Rate { per_second: 1, burst: 3 }, ..Limits::default() };
    let (clock, server) = server(limits).await;
    let mut stream = connect_plain(server.address()).await;
    let invalid = format_request("GET", "/v1/info", &bearer_header("qrt_nonsense"), "");
    let valid = format_request("GET", "/v1/info", &bearer_header(&server.hub.admin), "");
    for _ in 0..3 {
        call(&mut stream, &invalid).await.refused(401, "UNAUTHENTICATED");
    }
    let answer = call(&mut stream, &invalid).await;
    assert_eq!(answer.refused(429, "LIMIT_EXCEEDED")["retryAfterMs"], 1_000);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(call(&mut stream, &valid).await.status, 200, "another caller behind the same proxy");
    // The same counter for all transports.
    let mut socket = server.connect().await;
    socket.send_frame(&json!({"hello": {"token": "qrt_nonsense"}})).await;
    assert_eq!(socket.ending_problem().await, ("LIMIT_EXCEEDED".to_owned(), 4429));
    // Sign-in is limited for any code: codes are shorter than tokens.
    let code =
        server.hub.post(&server.hub.admin, "/v1/sign-in-codes", &json!({})).await.ok(201)["code"].clone();
    let sign_in =
        format_request("POST", "/v1/sign-in", "host: localhost\r\n", &json!({"code": code}).to_string());
    call(&mut stream, &sign_in).await.refused(429, "LIMIT_EXCEEDED");
    clock.advance(Duration::from_secs(1));
    assert_eq!(call(&mut stream, &sign_in).await.status, 201, "the code was not used up");
}

#[tokio::test]
async fn default_limits_exceed_the_load_of_one_agent() {
    let limits = Limits::default();
    // Benchmarks reach about 60,000 frames a second on one connection.
    assert!(limits.agents.per_second >= 100_000 && limits.other_principals.per_second >= 10_000);
}
