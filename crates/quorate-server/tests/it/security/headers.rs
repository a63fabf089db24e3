//! Headers: those of a request that may occur once, and those of every response. Access tokens in the wrong place.

use axum::body::Body;
use serde_json::{Value, json};

use crate::support::TestHub;
use crate::support::raw_http::{call, connect_plain, is_closed};
use crate::support::socket::TestServer;

// Fails under: the first of several headers that is used, while a proxy in front of the hub checks the last one.
#[tokio::test]
async fn i19_a_header_that_the_hub_reads_may_occur_once() {
    let hub = TestHub::new().await;
    let bob = format!("Bearer {}", hub.register("bob").await);
    for (name, values) in [
        ("authorization", vec![bob.as_str()]),
        ("quorate-epoch", vec!["1", "1"]),
        ("idempotency-key", vec!["a", "b"]),
        ("quorate-space", vec!["default", "default"]),
    ] {
        let request = hub.request(&hub.admin, "POST", "/v1/sign-in-codes");
        let request = values.iter().fold(request, |request, value| request.header(name, *value));
        let response = hub.send(request, "").await.refused(400, "INVALID");
        let detail = response["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(name) && detail.contains("more than once"), "{response}");
    }
}

// Fails under: a response without these headers; a problem that is created outside the routes without them.
#[tokio::test]
async fn i18_no_response_is_stored_or_sniffed() {
    let hub = TestHub::new().await;
    let own = hub.admin.clone();
    for (token, host, path, status) in [
        ("", "localhost", "/healthz", 200),
        ("", "localhost", "/v1/openapi.json", 200),
        (&own, "localhost", "/v1/info", 200),
        (&own, "localhost", "/v1/audit", 200),
        (&own, "localhost", "/metrics", 200),
        ("", "localhost", "/v1/info", 401),
        ("", "localhost", "/v1/unknown", 404),
        (&own, "evil.example", "/v1/info", 403),
    ] {
        let mut request = axum::http::Request::builder().uri(path).header("host", host);
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response = hub.app.handle(request.body(Body::empty()).expect("a request")).await;
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!(
            (response.status().as_u16(), header("x-content-type-options"), header("cache-control")),
            (status, Some("nosniff"), Some("no-store")),
            "{path}"
        );
    }
}

// Fails under: a documented promise for every response, or content in a response that has none of these headers.
#[tokio::test]
async fn i18_bytes_that_are_no_request_get_an_empty_response() {
    const GUIDE: &str = include_str!("../../../../../docs/guides/security.md");
    assert!(GUIDE.contains("Bytes that are not an HTTP request get an empty 400 without them"));
    let server = TestServer::new().await;
    for bytes in ["nonsense\r\n\r\n", "GET / HTTP/1.1\r\nhost\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        let mut wire = connect_plain(server.address()).await;
        let response = call(&mut wire, bytes).await;
        assert_eq!((response.status, response.body.as_str()), (400, ""), "{bytes:?}: {response:?}");
        assert_eq!(response.header("content-type"), None, "{response:?}");
        assert!(is_closed(&mut wire).await, "{bytes:?}");
    }
}

/// Returns all calls of the API with the token in one wrong place: method, path with query, header, and body.
fn misplaced(openapi: &Value, token: &str) -> Vec<(String, String, Option<String>, String)> {
    let mut calls = Vec::new();
    for (path, operations) in openapi["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let named = |place: &str| {
                let of_place = parameters.iter().filter(|parameter| parameter["in"] == place).cloned();
                of_place
                    .map(|parameter| parameter["name"].as_str().expect("a name").to_owned())
                    .collect::<Vec<_>>()
            };
            let fill = |value: &str| {
                let names = named("path");
                names.iter().fold(path.clone(), |path, name| path.replace(&format!("{{{name}}}"), value))
            };
            let method = method.to_uppercase();
            let plain = fill("x");
            calls.push((method.clone(), fill(token), None, "{}".to_owned()));
            for name in named("query") {
                calls.push((method.clone(), format!("{plain}?{name}={token}"), None, "{}".to_owned()));
            }
            calls.push((method.clone(), format!("{plain}?{token}=1"), None, "{}".to_owned()));
            let headers =
                ["Host", "Origin", "Quorate-Space", "Quorate-Epoch", "Idempotency-Key", "Content-Encoding"];
            for name in named("header").into_iter().chain(headers.map(str::to_owned)) {
                calls.push((method.clone(), plain.clone(), Some(name), "{}".to_owned()));
            }
            for body in [
                json!(token),
                json!({token: 1}),
                json!([token]),
                json!({"to": token, "payload": {token: token}}),
            ] {
                calls.push((method.clone(), plain.clone(), None, body.to_string()));
            }
            for field in [
                "id",
                "name",
                "role",
                "agent",
                "to",
                "type",
                "action",
                "priority",
                "expiresAt",
                "code",
                "epoch",
            ] {
                calls.push((method.clone(), plain.clone(), None, json!({field: token}).to_string()));
            }
            let op = json!({"ops": [{"op": token}, {"op": "send", "to": token}]});
            calls.push((method.clone(), plain.clone(), None, op.to_string()));
        }
    }
    calls
}

// Fails under: a refusal that quotes the caller's input where the token was not expected.
#[tokio::test]
async fn i18_a_misplaced_token_is_not_repeated() {
    let hub = TestHub::new().await;
    let openapi = hub.get("", "/v1/openapi.json").await.ok(200);
    let token = hub.register("bob").await;
    let calls = misplaced(&openapi, &token);
    assert!(calls.len() > 1_000, "{}", calls.len());
    let mut refused = 0;
    for (method, path, header, body) in calls {
        let mut request = axum::http::Request::builder().method(method.as_str()).uri(&path);
        if header.as_deref() != Some("Host") {
            request = request.header("host", "localhost");
        }
        request = request.header("authorization", format!("Bearer {}", hub.admin));
        if let Some(name) = &header {
            request = request.header(name, &token);
        }
        let request = request.body(Body::from(body.clone())).expect("a request");
        let response = hub.app.handle(request).await;
        if response.status().as_u16() < 400 {
            continue;
        }
        refused += 1;
        let bytes = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body").to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(&token), "{method} {path} {header:?} {body}: {text}");
    }
    assert!(refused > 800, "{refused}");
}
