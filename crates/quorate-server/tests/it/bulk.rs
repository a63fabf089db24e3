//! Lists, exports and event streams: rendering follows reading, and each principal has a limit of open streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use quorate_server::{Limits, Settings};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::TestHub;
use crate::support::raw_http::{bearer_header, call, connect_plain, format_request};
use crate::support::socket::TestServer;

/// Commits of many operations, whose records take long to render.
const COMMITS: u64 = 24;
const OPS: u64 = 200;
/// Bytes that may be rendered ahead of reading: a chunk of 64 KiB, and the record that completes it.
const AHEAD_BYTES: usize = 128 * 1024;

async fn filled(limits: Limits) -> (TestHub, String) {
    let hub = TestHub::with_settings(Settings { limits, ..Settings::default() }).await;
    let filler = hub.register("filler").await;
    for commit in 0..COMMITS {
        let put =
            |n| json!({"op": "put", "key": format!("k/{commit:03}/{n:03}"), "content": "x".repeat(300)});
        let ops: Vec<Value> = (0..OPS).map(put).collect();
        hub.post(&filler, "/v1/commit", &json!({"ops": ops})).await.ok(200);
    }
    (hub, filler)
}

/// Starts a response without reading its body.
async fn unread_response(hub: &TestHub, token: &str, path: &str) -> (u16, Body) {
    let request = hub.request(token, "GET", path).body(Body::empty()).expect("a request");
    let response = hub.app.handle(request).await;
    (response.status().as_u16(), response.into_body())
}

async fn text(body: Body) -> String {
    let bytes = body.collect().await.expect("a body").to_bytes();
    String::from_utf8(bytes.to_vec()).expect("text")
}

const EVENTS: &str = "/v1/events?from=1&kind=entry.written";

/// Returns the events of all commits that filled the hub.
async fn events_of_commits(hub: &TestHub, token: &str) -> String {
    let (_, mut events) = unread_response(hub, token, EVENTS).await;
    let mut received = String::new();
    while received.matches("event: record").count() < COMMITS as usize || !received.ends_with("\n\n") {
        let frame = events.frame().await.expect("more").expect("a frame").into_data().expect("data");
        received.push_str(std::str::from_utf8(&frame).expect("text"));
    }
    received
}

fn processor_time(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().expect("a time since the start")
}

/// The runtime of the test has one thread, which serves all connections. It only forwards bytes; reading and
/// rendering happen on other threads.
#[tokio::test]
async fn i21_the_thread_that_serves_others_does_not_render() {
    let (hub, filler) = filled(Limits::default()).await;
    let viewer = hub.create_token("viewer", "auditor").await;
    for _ in 0..10 {
        let send = json!({"op": "send", "to": "filler", "type": "event", "payload": "x".repeat(300)});
        let ops = vec![send; OPS as usize];
        hub.post(&filler, "/v1/commit", &json!({"ops": ops})).await.ok(200);
    }
    // An event stream does not end: read up to the last event.
    let events = events_of_commits(&hub, &filler).await.len();
    let reads = [
        (&viewer, "/v1/audit", usize::MAX),
        (&filler, EVENTS, events),
        (&filler, "/v1/context?limit=1000", usize::MAX),
        (&filler, "/v1/messages?from=unknown", usize::MAX),
    ];
    for (token, path, bytes) in reads {
        let before = [ClockId::ThreadCPUTime, ClockId::ProcessCPUTime].map(processor_time);
        for _ in 0..5 {
            let (status, mut body) = unread_response(&hub, token, path).await;
            assert_eq!(status, 200, "{path}");
            let mut received = 0;
            while received < bytes
                && let Some(frame) = body.frame().await
            {
                received += frame.expect("a frame").into_data().expect("data").len();
            }
        }
        let after = [ClockId::ThreadCPUTime, ClockId::ProcessCPUTime].map(processor_time);
        let [own, total] = [0, 1].map(|clock| after[clock] - before[clock]);
        assert!(own * 3 < total, "{path}: {own:?} of {total:?} were spent on the thread that serves others");
    }
}

/// A revoked token ends a stream before its next chunk, so everything that still arrives was rendered ahead.
#[tokio::test]
async fn i21_an_unread_stream_is_rendered_one_chunk_ahead() {
    let (hub, _) = filled(Limits::default()).await;
    let reader = hub.register("reader").await;
    let viewer = hub.create_token("viewer", "auditor").await;
    let (_, events) = unread_response(&hub, &reader, "/v1/events?from=1").await;
    let (_, audit) = unread_response(&hub, &viewer, "/v1/audit").await;
    // Serving others gives both streams time to run ahead.
    for _ in 0..20 {
        hub.get(&hub.admin, "/v1/context?limit=100").await.ok(200);
    }
    hub.revoke("agent", "reader").await;
    hub.revoke("name", "auditor").await;
    let (events, audit) = (text(events).await, text(audit).await);
    let whole = hub.get(&hub.admin, "/v1/audit").await.text;
    assert!(whole.len() > 3 * AHEAD_BYTES, "{} bytes are too few for this test", whole.len());
    assert!(events.len() <= AHEAD_BYTES, "{} bytes of events were rendered", events.len());
    assert!(audit.len() <= AHEAD_BYTES && !audit.is_empty(), "{} bytes were rendered", audit.len());
    assert!(whole.starts_with(&audit), "the rendered part is a prefix of the whole");
}

// Fails under: one permit for the as-of reads, or the verifications, of all spaces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s6_as_of_reads_and_verifications_of_one_space_do_not_refuse_those_of_another() {
    const PATHS: [&str; 2] = ["/v1/state?at=20", "/v1/audit/verify"];
    let (hub, _) = filled(Limits::default()).await;
    let crowd = hub.create_token("viewer", "crowd").await;
    hub.post(&hub.admin, "/v1/spaces", &json!({"name": "other"})).await.ok(201);
    let other = json!({"role": "viewer", "name": "other", "space": "other"});
    let other = hub.post(&hub.admin, "/v1/tokens", &other).await.ok(201)["token"].clone();
    let other = other.as_str().expect("a token").to_owned();
    for agent in 0..30 {
        hub.register_in("other", &format!("a{agent}")).await;
    }
    let server = TestServer::start(hub).await;
    let (address, answered) = (server.address(), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for index in 0..16 {
        let (token, answered) = (crowd.clone(), Arc::clone(&answered));
        clients.spawn(async move {
            let mut wire = connect_plain(address).await;
            loop {
                let request = format_request("GET", PATHS[index % 2], &bearer_header(&token), "");
                let response = call(&mut wire, &request).await;
                answered.fetch_add(usize::from(response.status == 200), Ordering::Relaxed);
            }
        });
    }
    let mut wire = connect_plain(address).await;
    let mut tried = 0;
    while tried < 20 || answered.load(Ordering::Relaxed) < 32 {
        let request = format_request("GET", PATHS[tried % 2], &bearer_header(&other), "");
        let response = call(&mut wire, &request).await;
        assert_eq!(response.status, 200, "{response:?}");
        tried += 1;
    }
    clients.shutdown().await;
}

#[tokio::test]
async fn i21_a_stream_has_every_record_once_and_in_order() {
    let (hub, filler) = filled(Limits::default()).await;
    let viewer = hub.create_token("viewer", "auditor").await;
    let head = hub.get(&hub.admin, "/v1/state").await.ok(200)["seq"].as_u64().expect("a number");
    let lines = text(unread_response(&hub, &viewer, "/v1/audit").await.1).await;
    let seqs: Vec<u64> = { lines.lines() }
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["seq"].as_u64().expect("a number"))
        .collect();
    assert_eq!(seqs, (1..=head).collect::<Vec<_>>());
    let events = events_of_commits(&hub, &filler).await;
    let ids: Vec<u64> = events.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect();
    assert!(ids.is_sorted_by(|previous, next| previous < next), "{ids:?}");
    for (commit, data) in (0..COMMITS).zip(events.lines().filter_map(|line| line.strip_prefix("data: "))) {
        let event: Value = serde_json::from_str(data).expect("JSON");
        let effects = event["effects"].as_array().expect("effects");
        assert_eq!(effects.len() as u64, OPS);
        assert_eq!(effects[7]["entry"]["key"], format!("k/{commit:03}/007"));
    }
}

#[tokio::test]
async fn i21_open_reads_are_limited_by_principal() {
    let (hub, filler) = filled(Limits { bulk_reads: 2, ..Limits::default() }).await;
    let other = hub.register("other").await;
    let (_, stream) = unread_response(&hub, &filler, "/v1/events").await;
    let (_, body) = unread_response(&hub, &filler, "/v1/context?prefix=&limit=1000").await;
    for path in
        ["/v1/events", "/v1/context", "/v1/messages", "/v1/tasks", "/v1/state", "/v1/context/k/history"]
    {
        let refused = hub.get(&filler, path).await.refused(429, "LIMIT_EXCEEDED");
        assert_eq!((&refused["limit"], &refused["retryAfterMs"]), (&json!(2), &json!(1_000)), "{path}");
        assert_eq!(refused["retryable"], true, "{path}");
    }
    // Short responses are not counted, and other principals have their own limit.
    hub.get(&filler, "/v1/info").await.ok(200);
    hub.get(&filler, "/v1/context/k%2F000%2F000").await.ok(200);
    hub.get(&other, "/v1/context").await.ok(200);
    // A page that was read completely, or a stream that was closed, no longer counts.
    let entries: Value = serde_json::from_str(&text(body).await).expect("JSON");
    assert_eq!(entries["entries"].as_array().map(Vec::len), Some(1_000));
    hub.get(&filler, "/v1/context").await.ok(200);
    drop(stream);
    let (status, _one) = unread_response(&hub, &filler, "/v1/events").await;
    let (another, _two) = unread_response(&hub, &filler, "/v1/events").await;
    assert_eq!((status, another), (200, 200));
}
