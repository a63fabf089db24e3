//! What clients can use before they are authenticated: connections, bodies of webhook events and sign-ins, and the
//! first frame of a WebSocket.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use quorate_server::{Limits, Settings, Webhook, Webhooks};
use quorate_store::ManualClock;
use serde_json::json;
use sha2::Sha256;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

use crate::support::TestHub;
use crate::support::raw_http::{bearer_header, call, format_request, read_response};
use crate::support::socket::TestServer;

const SECRET: &str = "a secret that only GitHub has";
/// Maximum number of concurrent webhook events whose sender is not authenticated yet.
const UPLOADS_MAX: usize = 64;

/// Connects from 127.0.0.N.
async fn connect_from(server: &TestServer, n: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((Ipv4Addr::new(127, 0, 0, n), 0).into()).expect("a loopback address");
    socket.connect(server.address()).await.expect("a connection")
}

async fn webhook_server(clock: &Arc<ManualClock>) -> TestServer {
    let webhook = |name: &str| {
        Webhook::new(name, "bob".parse().expect("a destination"), SECRET.into()).expect("a webhook")
    };
    let webhooks = Webhooks::new(vec![webhook("github"), webhook("gitlab")]).expect("webhooks");
    let settings = Settings { webhooks, ..Settings::default() };
    let server = TestServer::start(TestHub::with_clock(Arc::clone(clock) as _, settings).await).await;
    server.hub.register("bob").await;
    server
}

/// Starts an event without a signature and never sends its body.
async fn slow_event(server: &TestServer, from: u8, name: &str) -> TcpStream {
    let mut stream = connect_from(server, from).await;
    let head = format!(
        "POST /v1/webhooks/{name} HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n"
    );
    // The hub sends `100 Continue` when it begins to read the body.
    assert_eq!(call(&mut stream, &head).await.status, 100);
    stream
}

/// Sends a signed event and returns the status.
async fn signed_event(server: &TestServer, from: u8, name: &str) -> u16 {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key");
    mac.update(b"{}");
    let signature = quorate_core::hex::encode(&mac.finalize().into_bytes());
    let more = format!("host: localhost\r\nx-hub-signature-256: sha256={signature}\r\n");
    let request = format_request("POST", &format!("/v1/webhooks/{name}"), &more, "{}");
    call(&mut connect_from(server, from).await, &request).await.status
}

// Fails under: one number of permits for the whole hub, which any sender can hold.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn i21_slow_events_without_a_signature_do_not_block_signed_ones() {
    for attacked in ["github", "unknown"] {
        let clock = ManualClock::at(1_800_000_000_000);
        let server = webhook_server(&clock).await;
        let mut slow = Vec::new();
        for _ in 0..UPLOADS_MAX {
            slow.push(slow_event(&server, 2, attacked).await);
        }
        assert_eq!(signed_event(&server, 1, "github").await, 202, "another address, {attacked}");
        slow.push(slow_event(&server, 2, attacked).await);
        assert_eq!(signed_event(&server, 2, "gitlab").await, 202, "another webhook, {attacked}");
        // The oldest upload had to make room, and its sender gets a reason.
        let evicted = read_response(&mut slow[0]).await.expect("an answer").refused(503, "OVERLOADED");
        assert_eq!(evicted["limit"], UPLOADS_MAX);
    }
}

// Fails under: uploads of the same webhook and address that are protected permanently, or not at all: under load each new
// event would end an older one, and none would succeed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn i21_a_slow_event_makes_room_after_a_second() {
    let clock = ManualClock::at(1_800_000_000_000);
    let server = webhook_server(&clock).await;
    let mut slow = Vec::new();
    for _ in 0..UPLOADS_MAX {
        slow.push(slow_event(&server, 1, "github").await);
    }
    clock.advance(Duration::from_millis(999));
    assert_eq!(signed_event(&server, 1, "github").await, 503);
    clock.advance(Duration::from_millis(1));
    assert_eq!(signed_event(&server, 1, "github").await, 202);
    read_response(&mut slow[0]).await.expect("an answer").refused(503, "OVERLOADED");
}

// Fails under: a sign-in whose body is limited like that of an authenticated call.
#[tokio::test]
async fn i21_a_sign_in_is_at_most_4_kb() {
    let server = TestServer::new().await;
    let large = json!({"code": "0".repeat(5_000)}).to_string();
    for chunked in [false, true] {
        let mut stream = connect_from(&server, 1).await;
        let request = match chunked {
            false => format_request("POST", "/v1/sign-in", "host: localhost\r\n", &large),
            true => format!(
                "POST /v1/sign-in HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n\
                 {:x}\r\n{large}\r\n0\r\n\r\n",
                large.len()
            ),
        };
        let response = call(&mut stream, &request).await.refused(413, "TOO_LARGE");
        assert_eq!(response["limit"], 4_096);
    }
    let small = json!({"code": "0".repeat(4_000)}).to_string();
    server.hub.send_text("", "POST", "/v1/sign-in", &small).await.refused(401, "UNAUTHENTICATED");
}

// Fails under: a hello that is limited like any other frame; a limit that is checked when the frame is complete.
#[tokio::test]
async fn i21_a_hello_is_at_most_4_kb() {
    let server = TestServer::new().await;
    let mut socket = server.connect().await;
    socket.send_frame(&json!({"hello": {"token": "x".repeat(4_096)}})).await;
    assert_eq!(socket.ending_problem().await, ("TOO_LARGE".to_owned(), 1009));
    // A frame of 1 MB, and a message in small fragments, of which the end never arrives.
    let frame = [&[0x81, 0xff][..], &(1_u64 << 20).to_be_bytes(), &[0; 4], &[b'x'; 60_000]].concat();
    let fragment = [&[0x01, 0xfd][..], &[0; 4], &[b'x'; 125]].concat();
    let continuation = [&[0x00, 0xfd][..], &[0; 4], &[b'x'; 125]].concat();
    let fragments = [fragment, continuation.repeat(500)].concat();
    for bytes in [frame, fragments] {
        let mut socket = server.connect().await;
        socket.stream.get_mut().write_all(&bytes).await.expect("it is sent");
        let problem = socket.next_frame().await;
        assert_eq!(
            (&problem["problem"]["code"], &problem["problem"]["limit"]),
            (&"TOO_LARGE".into(), &4_096.into())
        );
    }
}

// Fails under: a limit that remains after hello, or that counts frames which follow hello at once.
#[tokio::test]
async fn i21_frames_after_hello_may_be_large() {
    let server = TestServer::new().await;
    let bob = server.hub.register("bob").await;
    let mut socket = server.connect().await;
    socket.send_frame(&json!({"hello": {"token": bob}})).await;
    let content = "x".repeat(200_000);
    for n in 1..=3 {
        let ops = json!([{"op": "put", "key": format!("k{n}"), "content": content}]);
        socket.send_frame(&json!({"n": n, "commit": {"ops": ops, "idempotencyKey": format!("k{n}")}})).await;
    }
    assert!(socket.next_frame().await["welcome"].is_object());
    for n in 1..=3 {
        let frame = socket.response(n).await;
        assert!(frame["ok"].is_object(), "{frame}");
    }
}

// Fails under: a client that takes all connections of the hub without a token; a connection that still counts after a
// request with a valid token.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn i21_unauthenticated_connections_are_limited_per_address() {
    let limits = Limits { unauthenticated_connections: 4, ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    let server = TestServer::start(TestHub::with_settings(settings).await).await;
    let health = format_request("GET", "/healthz", "host: localhost\r\n", "");
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut stream = connect_from(&server, 2).await;
        assert_eq!(call(&mut stream, &health).await.status, 200);
        open.push(stream);
    }
    let mut excess = connect_from(&server, 2).await;
    let response = read_response(&mut excess).await.expect("an answer").refused(503, "OVERLOADED");
    assert_eq!((&response["limit"], &response["retryable"]), (&json!(4), &json!(true)));
    assert!(response["detail"].as_str().is_some_and(|detail| detail.contains("address")), "{response}");
    assert_eq!(call(&mut connect_from(&server, 1).await, &health).await.status, 200, "another address");
    // A call with a valid token, or a hello, makes room.
    let info = format_request("GET", "/v1/info", &bearer_header(&server.hub.admin), "");
    assert_eq!(call(&mut open[0], &info).await.status, 200);
    let mut next = connect_from(&server, 2).await;
    assert_eq!(call(&mut next, &health).await.status, 200);
    let mut sockets = Vec::new();
    for _ in 0..8 {
        sockets.push(server.hello(json!({"token": server.hub.admin})).await);
    }
}
