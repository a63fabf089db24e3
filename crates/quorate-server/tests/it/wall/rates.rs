//! How often each may call, and how often an address may fail.

use std::sync::Arc;
use std::time::Duration;

use quorate_server::{Limits, Rate, Settings};
use quorate_store::SetClock;
use serde_json::json;

use crate::support::Hub;
use crate::support::raw::{bearer, call, plain, request};
use crate::support::socket::Served;

const START_MS: u64 = 1_800_000_000_000;

async fn served(limits: Limits) -> (Arc<SetClock>, Served) {
    let clock = SetClock::at(START_MS);
    let hub = Hub::at(Arc::clone(&clock) as _, Settings { limits, ..Settings::default() }).await;
    (clock, Served::of(hub).await)
}

#[tokio::test]
async fn d13_i21_a_person_who_calls_too_often_is_told_when_to_come_back() {
    let limits = Limits { people: Rate { per_second: 2, burst: 4 }, ..Limits::default() };
    let (clock, served) = served(limits).await;
    let mut stream = plain(served.address()).await;
    let info = request("GET", "/v1/info", &bearer(&served.hub.admin), "");
    for _ in 0..4 {
        assert_eq!(call(&mut stream, &info).await.status, 200);
    }
    let answer = call(&mut stream, &info).await;
    let told = answer.refused(429, "LIMIT_EXCEEDED");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!((&told["retryable"], &told["applied"]), (&json!(true), &json!("no")));
    assert_eq!((&told["limit"], &told["retryAfterMs"]), (&json!(2), &json!(500)));
    assert!(told["detail"].as_str().is_some_and(|detail| detail.contains("admin:test")), "{told}");
    // What needs no token is not counted.
    assert_eq!(call(&mut stream, &request("GET", "/healthz", "host: localhost\r\n", "")).await.status, 200);
    clock.advance(Duration::from_millis(500));
    assert_eq!(call(&mut stream, &info).await.status, 200);
    assert_eq!(call(&mut stream, &info).await.status, 429);
}

#[tokio::test]
async fn d13_i21_an_agent_that_calls_too_often_does_no_harm_to_others() {
    let limits = Limits { agents: Rate { per_second: 1, burst: 3 }, ..Limits::default() };
    let (clock, served) = served(limits).await;
    let (alice, bob) = (served.hub.register("alice").await, served.hub.register("bob").await);
    // Hello is one, credit is two.
    let mut socket = served.open(&alice).await;
    let commit = |key: &str| json!({"ops": [{"op": "put", "key": "k", "content": 1}], "idempotencyKey": key});
    socket.ok("commit", commit("a")).await;
    let told = socket.refused("commit", commit("b"), "LIMIT_EXCEEDED").await;
    assert_eq!(
        (&told["status"], &told["retryAfterMs"], &told["retryable"]),
        (&json!(429), &json!(1_000), &json!(true))
    );
    // One bucket for all ways in.
    served.hub.get(&alice, "/v1/info").await.refused(429, "LIMIT_EXCEEDED");
    served.hub.get(&bob, "/v1/info").await.ok(200);
    clock.advance(Duration::from_secs(1));
    socket.ok("commit", commit("b")).await;
    assert_eq!(served.hub.get(&bob, "/v1/context/k").await.ok(200)["version"], 2, "nothing was done twice");
}

#[tokio::test]
async fn d13_i21_an_address_may_fail_so_often_and_good_tokens_are_let_in_all_the_time() {
    let limits = Limits { failures: Rate { per_second: 1, burst: 3 }, ..Limits::default() };
    let (clock, served) = served(limits).await;
    let mut stream = plain(served.address()).await;
    let bad = request("GET", "/v1/info", &bearer("qrt_nonsense"), "");
    let good = request("GET", "/v1/info", &bearer(&served.hub.admin), "");
    for _ in 0..3 {
        call(&mut stream, &bad).await.refused(401, "UNAUTHENTICATED");
    }
    let answer = call(&mut stream, &bad).await;
    assert_eq!(answer.refused(429, "LIMIT_EXCEEDED")["retryAfterMs"], 1_000);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(call(&mut stream, &good).await.status, 200, "somebody else behind the same proxy");
    // The same count on every way in.
    let mut socket = served.connect().await;
    socket.say(&json!({"hello": {"token": "qrt_nonsense"}})).await;
    assert_eq!(socket.end().await, ("LIMIT_EXCEEDED".to_owned(), 4429));
    // A sign-in with whatever code has to wait: codes are shorter than tokens.
    let code =
        served.hub.post(&served.hub.admin, "/v1/sign-in-codes", &json!({})).await.ok(201)["code"].clone();
    let sign_in = request("POST", "/v1/sign-in", "host: localhost\r\n", &json!({"code": code}).to_string());
    call(&mut stream, &sign_in).await.refused(429, "LIMIT_EXCEEDED");
    clock.advance(Duration::from_secs(1));
    assert_eq!(call(&mut stream, &sign_in).await.status, 201, "the code was not used up");
}

#[tokio::test]
async fn the_usual_limits_are_far_above_what_one_agent_does() {
    let limits = Limits::default();
    // The benches reach some 60,000 frames a second on one connection.
    assert!(limits.agents.per_second >= 100_000 && limits.people.per_second >= 10_000);
}
