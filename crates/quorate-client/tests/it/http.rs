//! The HTTP client: responses, problems, kept-alive and broken connections.

use std::time::Duration;

use quorate_client::{Code, HttpClient, HttpOptions};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn responses_and_refusals_are_parsed() {
    let server = TestServer::new().await;
    let http = server.http();
    let created = http.put("/v1/agents/bob").json(r#"{"name":"Bob"}"#).send().await.expect("an agent");
    assert_eq!(created.status, 201);
    let list: Value =
        http.get("/v1/agents").query("limit", 10).send().await.expect("a list").json().expect("JSON");
    assert_eq!(list["agents"][0]["id"], "bob", "{list}");

    let put = |expect: u64| {
        http.put("/v1/context/plan")
            .json(format!(r#"{{"type":"plan","content":1,"expect":{expect}}}"#))
            .send()
    };
    put(0).await.expect("a version");
    let error = put(0).await.expect_err("it is there already");
    let refused = error.refusal().expect("a refusal");
    assert_eq!((refused.code, refused.facts.current_version), (Code::VersionConflict, Some(1)));
    assert!(!refused.hint.is_empty());
    assert!(error.nothing_applied());
}

#[tokio::test(flavor = "multi_thread")]
async fn i19_an_unknown_token_is_unauthenticated() {
    let server = TestServer::new().await;
    let http = HttpClient::new(&server.url(), "qrt_unknown", HttpOptions::default()).expect("an address");
    let error = http.get("/v1/agents").send().await.expect_err("unauthenticated");
    assert_eq!(error.code(), Code::Unauthenticated);
    assert!(!error.hint().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_does_not_run_is_unavailable() {
    // Bound and dropped, so that the port is closed.
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let http =
        HttpClient::new(&format!("http://{free}"), "qrt_x", HttpOptions::default()).expect("an address");
    let error = http.post("/v1/messages").json("{}").send().await.expect_err("no hub is running");
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.nothing_applied());
    assert!(error.to_string().contains(&free.to_string()), "{error}");
    assert!(error.hint().contains("quorate serve"), "{}", error.hint());
}

/// Starts a server that accepts one request on each connection and responds with these bytes, possibly none.
async fn fake_server(responses: Vec<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        for response in responses {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(response.as_bytes()).await;
        }
        std::future::pending::<()>().await;
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_only_retried_with_a_key() {
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    let url = fake_server(vec!["", ok]).await;
    let http = HttpClient::new(&url, "qrt_x", HttpOptions::default()).expect("an address");
    let error = http.post("/v1/messages").json("{}").send().await.expect_err("interrupted");
    assert_eq!(error.code(), Code::Unavailable);
    assert!(!error.nothing_applied(), "the outcome is unknown: {error}");
    assert!(error.hint().contains("idempotency key"), "{}", error.hint());

    let url = fake_server(vec!["", ok]).await;
    let http = HttpClient::new(&url, "qrt_x", HttpOptions::default()).expect("an address");
    let response =
        http.post("/v1/messages").json("{}").idempotency_key("once").send().await.expect("the second time");
    assert_eq!(response.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn i21_responses_are_bounded_in_size_and_time() {
    let large = "HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n01234567890123456789";
    let url = fake_server(vec![large]).await;
    let options = HttpOptions { response_bytes_max: 10, ..HttpOptions::default() };
    let http = HttpClient::new(&url, "qrt_x", options).expect("an address");
    let error = http.get("/v1/agents").send().await.expect_err("too large");
    assert_eq!(error.code(), Code::TooLarge);

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let http = HttpClient::new(&url, "qrt_x", HttpOptions::default()).expect("an address");
    let result = http.get("/v1/agents").timeout(Duration::from_millis(50)).send().await;
    let error = result.expect_err("no response");
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.to_string().contains("50 ms"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_share_connections_that_stay_open() {
    let server = TestServer::new().await;
    let options = HttpOptions { connections_max: 2, ..HttpOptions::default() };
    let http = HttpClient::new(&server.url(), &server.admin, options).expect("an address");
    let calls = (0..50).map(|_| {
        let http = http.clone();
        tokio::spawn(async move { http.get("/v1/info").send().await.map(|response| response.status) })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.expect("a task").expect("an answer"), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_streamed_line_by_line() {
    let server = TestServer::new().await;
    let http = server.http();
    let mut lines = http.get("/v1/events").query("from", 1).lines().await.expect("events");
    server.register("bob").await;
    let mut data = Vec::new();
    while !data.iter().any(|line: &String| line.contains("bob")) {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next()).await.expect("in time");
        let line = line.expect("a line").expect("more");
        if let Some(event) = std::str::from_utf8(&line).expect("text").strip_prefix("data:") {
            data.push(event.to_owned());
        }
    }
    let unauthenticated =
        HttpClient::new(&server.url(), "qrt_x", HttpOptions::default()).expect("an address");
    let error = unauthenticated.get("/v1/events").lines().await.err().expect("refused");
    assert_eq!(error.code(), Code::Unauthenticated);
}
