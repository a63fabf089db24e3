//! The hub with TLS over real sockets.

use std::fs;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use quorate_server::{BoundAddress, Durations, ServeError, Server, Settings, Timeouts, Tls};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::support::TestHub;
use crate::support::raw_http::{
    Certificate, TIMEOUT, bearer_header, call, connect_plain, format_request, is_closed, read_response,
};

/// A hub with TLS. Reports the outcome of certificate reloads.
pub(crate) struct TlsServer {
    pub(crate) hub: TestHub,
    pub(crate) listening: Server,
    certificate: Certificate,
    changes: mpsc::UnboundedReceiver<Result<(), String>>,
    _directory: TempDir,
}

impl TlsServer {
    pub(crate) async fn new() -> Self {
        Self::with_timeouts(Timeouts::default()).await
    }

    async fn with_timeouts(timeouts: Timeouts) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let certificate = Certificate::new(directory.path());
        let durations = Durations { certificate_check: Duration::from_millis(20), ..Durations::default() };
        let hub = TestHub::with_settings(Settings { timeouts, durations, ..Settings::default() }).await;
        let (sender, changes) = mpsc::unbounded_channel();
        let tls = Tls::load(&certificate.certificate, &certificate.key).expect("a certificate");
        let tls = tls.on_change(move |changed| drop(sender.send(changed.map_err(ToString::to_string))));
        let listening = Server::start_tls(hub.app.clone(), ([127, 0, 0, 1], 0).into(), tls).await;
        Self { hub, listening: listening.expect("an address"), certificate, changes, _directory: directory }
    }

    pub(crate) async fn connect(&self) -> TlsStream<TcpStream> {
        self.certificate.connect(self.listening.address()).await.expect("a handshake")
    }

    async fn websocket(&self, token: &str) -> WebSocketStream<TlsStream<TcpStream>> {
        let (mut socket, _) =
            client_async("wss://localhost/v1/ws", self.connect().await).await.expect("a socket");
        send_frame(&mut socket, json!({"hello": {"token": token}})).await;
        assert!(receive_frame(&mut socket).await["welcome"].is_object());
        socket
    }

    async fn change(&mut self) -> Result<(), String> {
        tokio::time::timeout(TIMEOUT, self.changes.recv()).await.expect("in time").expect("a change")
    }
}

async fn send_frame(socket: &mut WebSocketStream<TlsStream<TcpStream>>, frame: Value) {
    socket.send(Message::text(frame.to_string())).await.expect("it is sent");
}

async fn receive_frame(socket: &mut WebSocketStream<TlsStream<TcpStream>>) -> Value {
    let next = tokio::time::timeout(TIMEOUT, socket.next()).await.expect("in time");
    serde_json::from_str(next.expect("a frame").expect("a frame").to_text().expect("text")).expect("JSON")
}

#[tokio::test]
async fn d13_a_call_goes_through_tls() {
    let server = TlsServer::new().await;
    let mut stream = server.connect().await;
    let info = format_request("GET", "/v1/info", &bearer_header(&server.hub.admin), "");
    // Twice on the same connection.
    for _ in 0..2 {
        let answer = call(&mut stream, &info).await;
        assert_eq!((answer.status, &answer.json()["you"]["role"]), (200, &json!("admin")));
    }
    let unauthenticated =
        call(&mut stream, &format_request("GET", "/v1/info", "host: localhost\r\n", "")).await;
    unauthenticated.refused(401, "UNAUTHENTICATED");
    let other = tempfile::tempdir().expect("a directory");
    let other = Certificate::new(other.path());
    assert!(other.connect(server.listening.address()).await.is_err(), "who trusts another certificate goes");
}

#[tokio::test]
async fn d13_messages_pass_over_a_websocket_with_tls() {
    let server = TlsServer::new().await;
    let (alice, bob) = (server.hub.register("alice").await, server.hub.register("bob").await);
    let (mut alice, mut bob) = (server.websocket(&alice).await, server.websocket(&bob).await);
    send_frame(&mut bob, json!({"n": 1, "credit": {"messages": 10, "bytes": 1_000_000}})).await;
    assert_eq!(receive_frame(&mut bob).await["n"], 1);
    // Larger than one TLS record.
    let payload = "x".repeat(100_000);
    let ops = json!([{"op": "send", "to": "bob", "payload": payload}]);
    send_frame(&mut alice, json!({"n": 1, "commit": {"ops": ops, "idempotencyKey": "k"}})).await;
    assert!(receive_frame(&mut alice).await["ok"]["seq"].is_u64());
    assert_eq!(receive_frame(&mut bob).await["deliveries"][0]["message"]["payload"], payload);
    send_frame(&mut bob, json!({"n": 2, "ack": [[1, 1]]})).await;
    assert_eq!(receive_frame(&mut bob).await["n"], 2);
}

#[tokio::test]
async fn d13_a_new_certificate_is_reloaded_and_open_connections_stay() {
    let mut server = TlsServer::new().await;
    let bob = server.hub.register("bob").await;
    let (mut http, mut socket) = (server.connect().await, server.websocket(&bob).await);
    let first = fs::read(&server.certificate.certificate).expect("a file");
    server.certificate.renew();
    // The two files are not replaced atomically, so a check can find a mismatched pair.
    while server.change().await.is_err() {}
    let answer =
        call(&mut http, &format_request("GET", "/v1/info", &bearer_header(&server.hub.admin), "")).await;
    assert_eq!(answer.status, 200, "a connection from before goes on");
    send_frame(&mut socket, json!({"n": 1, "credit": {"messages": 1, "bytes": 1}})).await;
    assert_eq!(receive_frame(&mut socket).await["n"], 1, "and so does a WebSocket");
    // New connections get the new certificate.
    server.connect().await;
    let second = fs::read(&server.certificate.certificate).expect("a file");
    fs::write(&server.certificate.certificate, &first).expect("it is written");
    let kept = server.change().await.expect_err("the key is of another certificate");
    assert!(kept.contains("cannot be used"), "{kept}");
    let refused = server.certificate.connect(server.listening.address()).await;
    assert!(refused.is_err(), "what does not fit is not shown");
    fs::write(&server.certificate.certificate, "-----BEGIN NOTHING-----").expect("it is written");
    let kept = server.change().await.expect_err("no certificate");
    assert!(kept.contains("no PEM certificate") && kept.contains("cert.pem"), "{kept}");
    fs::write(&server.certificate.certificate, second).expect("it is written");
    assert_eq!(server.change().await, Ok(()), "a good one is taken up again");
    server.connect().await;
}

#[tokio::test]
async fn i19_plain_http_on_a_tls_port_is_rejected_with_a_hint() {
    let server = TlsServer::new().await;
    let mut stream = connect_plain(server.listening.address()).await;
    let answer =
        call(&mut stream, &format_request("GET", "/v1/info", &bearer_header(&server.hub.admin), "")).await;
    let response = answer.refused(400, "INVALID");
    assert!(response["hint"].as_str().is_some_and(|hint| hint.contains("https://")), "{response}");
    assert!(is_closed(&mut stream).await);
    // Neither TLS nor HTTP: closed without a response.
    let mut stream = connect_plain(server.listening.address()).await;
    stream.write_all(b"\x00\x01\x02 nonsense that is no TLS\r\n\r\n").await.expect("it is sent");
    assert!(read_response(&mut stream).await.is_none());
}

#[tokio::test]
async fn i21_a_slow_handshake_times_out_and_others_are_served() {
    let timeouts = Timeouts { handshake: Duration::from_millis(300), ..Timeouts::default() };
    let server = TlsServer::with_timeouts(timeouts).await;
    let mut silent = connect_plain(server.listening.address()).await;
    let mut stalled = connect_plain(server.listening.address()).await;
    stalled.write_all(&[0x16, 0x03]).await.expect("it is sent");
    let mut other = server.connect().await;
    let answer = call(&mut other, &format_request("GET", "/healthz", "host: localhost\r\n", "")).await;
    assert_eq!(answer.status, 200);
    assert!(is_closed(&mut silent).await && is_closed(&mut stalled).await);
    let answer = call(&mut other, &format_request("GET", "/healthz", "host: localhost\r\n", "")).await;
    assert_eq!(answer.status, 200, "the time for the handshake is not that of the connection");
}

#[tokio::test]
async fn i21_a_tls_client_that_does_not_read_is_disconnected() {
    let timeouts = Timeouts { write: Duration::from_millis(300), ..Timeouts::default() };
    let server = TlsServer::with_timeouts(timeouts).await;
    let entry = json!({"content": "x".repeat(400_000)});
    server.hub.put(&server.hub.admin, "/v1/context/large", &entry).await.ok(201);
    let mut slow = server.connect().await;
    let request = format_request("GET", "/v1/context/large", &bearer_header(&server.hub.admin), "");
    // It sends requests without reading responses.
    let cut = async { while slow.write_all(request.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(TIMEOUT, cut).await.expect("it is disconnected");
    let mut other = server.connect().await;
    assert_eq!(call(&mut other, &request).await.status, 200);
}

#[tokio::test]
async fn an_unfinished_handshake_does_not_delay_shutdown() {
    let server = TlsServer::new().await;
    let mut silent = connect_plain(server.listening.address()).await;
    silent.write_all(&[0x16, 0x03]).await.expect("it is sent");
    let mut other = server.connect().await;
    assert_eq!(
        call(&mut other, &format_request("GET", "/healthz", "host: localhost\r\n", "")).await.status,
        200
    );
    let start = tokio::time::Instant::now();
    server.listening.drain().await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(is_closed(&mut silent).await && is_closed(&mut other).await);
}

#[tokio::test]
async fn i19_without_tls_only_loopback_is_bound() {
    let hub = TestHub::new().await;
    let everywhere = ([0, 0, 0, 0], 0).into();
    let refused = Server::start(hub.app.clone(), everywhere, false).await;
    assert!(matches!(refused, Err(ServeError::NotLoopback(_))));
}

/// Both are bound before either listens, as when two demos start at the same moment.
#[tokio::test]
async fn two_hubs_that_want_one_port_both_listen() {
    let hub = TestHub::new().await;
    let free = BoundAddress::loopback(0).expect("a port").listen(hub.app.clone()).expect("a listener");
    let port = free.address().port();
    free.drain().await;
    let [first, second] = [(); 2].map(|()| BoundAddress::loopback(port).expect("a port"));
    let first = first.listen(hub.app.clone()).expect("a listener");
    let second = second.listen(hub.app.clone()).expect("a listener");
    assert_eq!(first.address().port(), port);
    assert_ne!(second.address().port(), port);
}

#[test]
fn an_invalid_certificate_is_reported_without_the_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = Certificate::new(directory.path());
    let load = || Tls::load(&files.certificate, &files.key).map(drop).map_err(|error| error.to_string());
    let key = fs::read_to_string(&files.key).expect("a key");
    fs::write(&files.key, "secret-but-no-key").expect("it is written");
    let error = load().expect_err("no key");
    assert!(
        error.contains("no PEM private key") && error.contains("key.pem") && !error.contains("secret"),
        "{error}"
    );
    fs::write(&files.key, key).expect("it is written");
    assert_eq!(load(), Ok(()));
    fs::remove_file(&files.certificate).expect("it is gone");
    assert!(load().expect_err("no file").contains("cannot read"));
}
