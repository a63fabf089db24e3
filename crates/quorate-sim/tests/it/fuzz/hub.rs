//! HTTP requests and WebSocket frames. The hub responds to any input, never with status 5xx, and its data stays
//! readable.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::BodyExt as _;
use quorate::Hub as Library;
use quorate_core::{Bearer, Commit, CreateToken, Grants, Op, Principal, Record, Seq, TokenName, TokenRole};
use quorate_server::{App, Server, Settings};
use quorate_sim::data_directory;
use quorate_sim::fuzz::{FuzzLimit, Mutator, fuzz_seed};
use serde_json::Value;
use tempfile::TempDir;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Valid requests: method, path and body. None of them waits for long.
pub(crate) const REQUESTS: &[&str] = &[
    r#"POST /v1/messages {"to":"bob","action":"review","payload":{"b":1.0,"a":[1,2]},"priority":"high","rationale":"why"}"#,
    r#"POST /v1/messages [{"to":["alice","bob"],"payload":1},{"to":"topic:findings.high","payload":null}]"#,
    r#"POST /v1/commit {"ops":[{"op":"send","to":"bob","payload":"x"},{"op":"put","key":"k","content":{"a":1}}],"idempotencyKey":"k1"}"#,
    r#"POST /v1/commit {"ops":[{"op":"task.create","tasks":[{"type":"t","input":{}}]},{"op":"agent.register","agent":"carol"}]}"#,
    r#"PUT /v1/agents/dave {"name":"Dave","role":"specialist","capabilities":["translate"],"supportedActions":["x"],"heartbeatMs":1000}"#,
    r#"POST /v1/agents/bob/heartbeat {"status":"working","health":"degraded"}"#,
    r#"POST /v1/agents/bob/inbox/claim {"max":2,"leaseMs":60000}"#,
    r#"POST /v1/agents/bob/inbox/ack {"deliveries":[{"deliveryId":"dlv_0-1","leaseToken":1}]}"#,
    r#"POST /v1/agents/bob/inbox/nack {"deliveries":[{"deliveryId":"dlv_0-2","leaseToken":2,"delayMs":5,"reason":"later"}]}"#,
    r#"POST /v1/agents/bob/inbox/extend {"deliveries":[{"deliveryId":"dlv_0-2","leaseToken":2,"leaseMs":5000}]}"#,
    r#"POST /v1/request {"from":"alice","to":"bob","type":"query","action":"sum","payload":[1,2],"timeoutMs":1}"#,
    r#"PUT /v1/agents/bob/subscriptions/findings.%3E {}"#,
    r#"PUT /v1/context/notes/plan {"type":"note","content":{"a":1},"expect":0,"dependsOn":["k"]}"#,
    r#"PUT /v1/context/notes/odd {"content":{"\ud83d\ude00":["\ud83d\ude00 \u00e9"]}}"#,
    r#"GET /v1/context?prefix=notes&type=note&author=alice&limit=10"#,
    r#"GET /v1/context/notes/plan?version=1"#,
    r#"GET /v1/context/notes/plan/history"#,
    r#"DELETE /v1/context/notes/plan?expect=1"#,
    r#"POST /v1/context:snapshot {"name":"before"}"#,
    r#"POST /v1/context:rollback {"prefix":"notes","toSnapshot":"before"}"#,
    r#"GET /v1/context:check"#,
    r#"POST /v1/tasks {"tasks":[{"id":"t1","type":"research","input":{"q":1}},{"id":"t2","type":"research","dependsOn":["t1"],"priority":5,"timeoutMs":1000,"retry":{"maxAttempts":2,"backoffMs":5}}]}"#,
    r#"GET /v1/tasks?status=ready&type=research&limit=5"#,
    r#"POST /v1/tasks/claim {"agent":"bob","types":["research"],"max":1,"leaseMs":1000}"#,
    r#"POST /v1/tasks/t1/complete {"leaseToken":1,"result":{"a":1},"confidence":0.5,"rationale":"so"}"#,
    r#"POST /v1/tasks/t1/cancel {}"#,
    r#"POST /v1/locks/db/acquire {"agent":"bob","ttlMs":1000,"priority":"high","names":["disk"]}"#,
    r#"POST /v1/locks/db/release {"fence":1}"#,
    r#"GET /v1/locks?limit=3"#,
    r#"POST /v1/sessions {"id":"s1","title":"common work","coordinator":"alice","participants":["bob"],"task":{"goal":"x"}}"#,
    r#"POST /v1/sessions/s1/add {"kind":"finding","body":{"text":"x"}}"#,
    r#"POST /v1/sessions/s1/pause {}"#,
    r#"GET /v1/sessions/s1/timeline?limit=5"#,
    r#"POST /v1/tokens {"role":"viewer","name":"page","expiresAt":"2030-01-01T00:00:00Z"}"#,
    r#"POST /v1/spaces {"name":"other"}"#,
    r#"GET /v1/agents?capability=translate&role=worker&limit=10"#,
    r#"GET /v1/agents/bob/inbox?limit=5"#,
    r#"GET /v1/dead-letters?agent=bob&limit=5"#,
    r#"GET /v1/messages/msg_0-5-0/why"#,
    r#"GET /v1/state?at=3"#,
    r#"GET /v1/violations"#,
    r#"GET /v1/status"#,
];

/// Valid WebSocket frames.
const FRAMES: &[&str] = &[
    r#"{"n":7,"credit":{"messages":100,"bytes":1000000}}"#,
    r#"{"n":7,"commit":{"ops":[{"op":"send","to":"bob","action":"review","payload":{"b": 1.0}}],"idempotencyKey":"k"}}"#,
    r#"{"n":7,"ack":[[1,1],[2,3]]}"#,
    r#"{"n":7,"nack":{"deliveries":[[1,1]],"delayMs":5,"reason":"later"}}"#,
    r#"{"n":7,"extend":{"deliveries":[[1,1]],"leaseMs":5000}}"#,
    r#"{"n":7,"request":{"to":"bob","type":"query","action":"sum","payload":[1,2],"timeoutMs":1,"durability":"ephemeral"}}"#,
    r#"{"n":7,"send":{"to":"bob","payload":3,"durability":"ephemeral"}}"#,
    r#"{"hello":{"token":"qrt_x","agent":"bob","epoch":1,"resume":true,"leaseMs":1000,"space":"default"}}"#,
];

pub(crate) struct TestHub {
    app: App,
    library: Library,
    pub(crate) admin: String,
    _directory: TempDir,
}

impl TestHub {
    pub(crate) async fn new(directory: TempDir) -> Self {
        let library = Library::open(directory.path().join("data")).await.unwrap();
        let space = library.space().expect("embedded hub");
        let secret = space.generate_secret();
        let create = CreateToken {
            digest: secret.digest(),
            bearer: Bearer::Holder(TokenRole::Admin),
            name: TokenName::new("test").unwrap(),
            expires_at: None,
            parent: None,
            grants: Grants::default(),
        };
        space.commit(Commit::new(Principal::System, vec![Op::CreateToken(create)])).await.unwrap();
        let private = Library::open(directory.path().join("private")).await.unwrap();
        let private = Arc::clone(private.space().expect("embedded hub").engine());
        let app = App::new(Arc::clone(space.engine()), private, Settings::default()).await.unwrap();
        Self { app, admin: secret.reveal().to_owned(), library, _directory: directory }
    }

    /// Registers alice and bob, and returns bob's token.
    pub(crate) async fn register_agents(&self) -> String {
        self.request(&self.admin, b"PUT /v1/agents/alice {}").await.unwrap();
        let (_, registered) =
            self.request(&self.admin, b"PUT /v1/agents/bob {\"capabilities\":[\"research\"]}").await.unwrap();
        let registered: Value = serde_json::from_str(&registered).unwrap();
        registered["token"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn records(&self) -> Vec<Record> {
        self.library.space().expect("embedded hub").log(Seq(1), 10_000).await.unwrap()
    }

    /// Sends a request given as one line and returns status and body; `None` if it is not valid HTTP.
    pub(crate) async fn request(&self, token: &str, line: &[u8]) -> Option<(u16, String)> {
        self.request_as(token, "application/json", line).await
    }

    /// Sends a request with a body of another content type.
    pub(crate) async fn request_as(&self, token: &str, kind: &str, line: &[u8]) -> Option<(u16, String)> {
        let mut parts = line.splitn(3, |byte| *byte == b' ');
        let (method, path) = (parts.next()?, parts.next()?);
        let body = parts.next().unwrap_or_default().to_vec();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", kind)
            .header("authorization", format!("Bearer {token}"))
            .body(Body::from(body))
            .ok()?;
        // Endless responses are covered by other tests.
        if ["/v1/events", "/v1/ws"].iter().any(|prefix| request.uri().path().starts_with(prefix)) {
            return None;
        }
        let response = self.app.handle(request).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Some((status, String::from_utf8(bytes.to_vec()).expect("response is UTF-8")))
    }
}

/// Checks the properties of every response.
pub(crate) fn check_response(case: &[u8], status: u16, text: &str) {
    let case = String::from_utf8_lossy(case);
    assert!(status < 500, "{status} {text}\nfor {case}");
    if status >= 400 {
        let problem: Value =
            serde_json::from_str(text).unwrap_or_else(|_| panic!("{status} {text}\nfor {case}"));
        for field in ["type", "title", "detail", "code", "applied"] {
            assert!(problem[field].is_string(), "{field} is missing: {text}\nfor {case}");
        }
        assert_eq!(problem["status"], status, "{text}\nfor {case}");
        assert!(!text.contains("qrt_"), "the response contains a secret: {text}");
    } else if text.starts_with('{') {
        // The body must be valid JSON: one document or several.
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let parsed = documents.try_for_each(|document| document.map(drop));
        assert!(parsed.is_ok(), "{parsed:?}: {text}\nfor {case}");
    }
}

#[test]
fn i21_http_api_survives_malformed_requests() {
    let seed = fuzz_seed();
    println!("rerun: QUORATE_SEED={seed} cargo test -p quorate-sim --test it i21_http_api");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let hub = TestHub::new(data_directory()).await;
        let bob = hub.register_agents().await;
        let corpus: Vec<_> = REQUESTS.iter().map(|line| line.as_bytes().to_vec()).collect();
        let mut cases = Mutator::new("requests", seed, FuzzLimit::from_env(4_000), corpus);
        let (mut accepted, mut total) = (0_u64, 0_u64);
        while let Some((_, case)) = cases.next_case() {
            let token = if total % 3 == 0 { &bob } else { &hub.admin };
            // A wait introduced by a mutation is cut short, as by a client that disconnects.
            let response = tokio::time::timeout(Duration::from_millis(200), hub.request(token, &case)).await;
            let Ok(Some((status, text))) = response else { continue };
            total += 1;
            accepted += u64::from(status < 300);
            check_response(&case, status, &text);
        }
        println!("{total} requests, {accepted} of them accepted");
        // The hub still works, and no accepted request makes a list unreadable.
        for list in
            ["/v1/agents/bob", "/v1/context", "/v1/messages", "/v1/tasks", "/v1/sessions", "/v1/locks"]
        {
            let case = format!("GET {list}");
            let (status, text) = hub.request(&hub.admin, case.as_bytes()).await.unwrap();
            assert_eq!(status, 200, "{text}");
            check_response(case.as_bytes(), status, &text);
        }
    });
}

#[test]
fn i21_websocket_survives_malformed_frames() {
    let seed = fuzz_seed();
    println!("rerun: QUORATE_SEED={seed} cargo test -p quorate-sim --test it i21_websocket");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let hub = TestHub::new(data_directory()).await;
        let bob = hub.register_agents().await;
        let server = Server::start(hub.app.clone(), ([127, 0, 0, 1], 0).into(), false).await.unwrap();
        let url = format!("ws://{}/v1/ws", server.address());
        let corpus: Vec<_> = FRAMES.iter().map(|frame| frame.as_bytes().to_vec()).collect();
        let mut cases = Mutator::new("frames", seed, FuzzLimit::from_env(2_000), corpus);
        let mut closed = 0;
        while let Some((_, case)) = cases.next_case() {
            let (mut socket, _) = connect_async(&url).await.unwrap();
            let hello = format!("{{\"hello\":{{\"token\":\"{bob}\"}}}}");
            socket.send(Message::text(hello)).await.unwrap();
            // Bytes that are not UTF-8 are sent as a binary frame, which the protocol rejects.
            let frame = match Utf8Bytes::try_from(case.clone()) {
                Ok(text) => Message::Text(text),
                Err(_) => Message::Binary(case.clone().into()),
            };
            socket.send(frame).await.unwrap();
            socket
                .send(Message::text("{\"n\":18446744073709551615,\"credit\":{\"messages\":1,\"bytes\":1}}"))
                .await
                .unwrap();
            let mut frames = Vec::new();
            while let Some(Ok(Message::Text(text))) = socket.next().await {
                frames.push(text.to_string());
                if frames.len() == 3 {
                    break;
                }
            }
            let all = frames.join("\n");
            assert!(all.contains("welcome"), "{all}\nfor {}", String::from_utf8_lossy(&case));
            assert!(!all.contains("\"status\":5"), "{all}\nfor {}", String::from_utf8_lossy(&case));
            closed += u64::from(frames.len() < 3);
        }
        println!("{} frames, {closed} ended their connection", cases.cases_generated());
        server.drain().await;
    });
}
