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
        Self::with(Timeouts::default()).await
    }

    async fn with(patience: Timeouts) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let certificate = Certificate::new(directory.path());
        let times = Durations { certificate_check: Duration::from_millis(20), ..Durations::default() };
        let hub =
            TestHub::with(Settings { timeouts: patience, durations: times, ..Settings::default() }).await;
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
        say(&mut socket, json!({"hello": {"token": token}})).await;
        assert!(hear(&mut socket).await["welcome"].is_object());
        socket
    }

    async fn change(&mut self) -> Result<(), String> {
        tokio::time::timeout(TIMEOUT, self.changes.recv()).await.expect("in time").expect("a change")
    }
}

async fn say(socket: &mut WebSocketStream<TlsStream<TcpStream>>, frame: Value) {
    socket.send(Message::text(frame.to_string())).await.expect("it is sent");
}

async fn hear(socket: &mut WebSocketStream<TlsStream<TcpStream>>) -> Value {
    let next = tokio::time::timeout(TIMEOUT, socket.next()).await.expect("in time");
    serde_json::from_str(next.expect("a frame").expect("a frame").to_text().expect("text")).expect("JSON")
}

#[tokio::test]
async fn d13_a_call_goes_through_tls() {
    let served = TlsServer::new().await;
    let mut stream = served.connect().await;
    let info = format_request("GET", "/v1/info", &bearer_header(&served.hub.admin), "");
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
    assert!(other.connect(served.listening.address()).await.is_err(), "who trusts another certificate goes");
}

#[tokio::test]
async fn d13_messages_pass_over_a_websocket_with_tls() {
    let served = TlsServer::new().await;
    let (alice, bob) = (served.hub.register("alice").await, served.hub.register("bob").await);
    let (mut alice, mut bob) = (served.websocket(&alice).await, served.websocket(&bob).await);
    say(&mut bob, json!({"n": 1, "credit": {"messages": 10, "bytes": 1_000_000}})).await;
    assert_eq!(hear(&mut bob).await["n"], 1);
    // Larger than one TLS record.
    let payload = "x".repeat(100_000);
    let ops = json!([{"op": "send", "to": "bob", "payload": payload}]);
    say(&mut alice, json!({"n": 1, "commit": {"ops": ops, "idempotencyKey": "k"}})).await;
    assert!(hear(&mut alice).await["ok"]["seq"].is_u64());
    assert_eq!(hear(&mut bob).await["deliveries"][0]["message"]["payload"], payload);
    say(&mut bob, json!({"n": 2, "ack": [[1, 1]]})).await;
    assert_eq!(hear(&mut bob).await["n"], 2);
}

#[tokio::test]
async fn d13_a_new_certificate_is_reloaded_and_open_connections_stay() {
    let mut served = TlsServer::new().await;
    let bob = served.hub.register("bob").await;
    let (mut http, mut socket) = (served.connect().await, served.websocket(&bob).await);
    let first = fs::read(&served.certificate.certificate).expect("a file");
    served.certificate.renew();
    // The two files are not replaced atomically, so a check can find a mismatched pair.
    while served.change().await.is_err() {}
    let answer =
        call(&mut http, &format_request("GET", "/v1/info", &bearer_header(&served.hub.admin), "")).await;
    assert_eq!(answer.status, 200, "a connection from before goes on");
    say(&mut socket, json!({"n": 1, "credit": {"messages": 1, "bytes": 1}})).await;
    assert_eq!(hear(&mut socket).await["n"], 1, "and so does a WebSocket");
    // New connections get the new certificate.
    served.connect().await;
    let second = fs::read(&served.certificate.certificate).expect("a file");
    fs::write(&served.certificate.certificate, &first).expect("it is written");
    let kept = served.change().await.expect_err("the key is of another certificate");
    assert!(kept.contains("cannot be used"), "{kept}");
    let unkept = served.certificate.connect(served.listening.address()).await;
    assert!(unkept.is_err(), "what does not fit is not shown");
    fs::write(&served.certificate.certificate, "-----BEGIN NOTHING-----").expect("it is written");
    let kept = served.change().await.expect_err("no certificate");
    assert!(kept.contains("no PEM certificate") && kept.contains("cert.pem"), "{kept}");
    fs::write(&served.certificate.certificate, second).expect("it is written");
    assert_eq!(served.change().await, Ok(()), "a good one is taken up again");
    served.connect().await;
}

#[tokio::test]
async fn i19_plain_http_on_a_tls_port_is_rejected_with_a_hint() {
    let served = TlsServer::new().await;
    let mut stream = connect_plain(served.listening.address()).await;
    let answer =
        call(&mut stream, &format_request("GET", "/v1/info", &bearer_header(&served.hub.admin), "")).await;
    let response = answer.refused(400, "INVALID");
    assert!(response["hint"].as_str().is_some_and(|hint| hint.contains("https://")), "{response}");
    assert!(is_closed(&mut stream).await);
    // Neither TLS nor HTTP: closed without a response.
    let mut stream = connect_plain(served.listening.address()).await;
    stream.write_all(b"\x00\x01\x02 nonsense that is no TLS\r\n\r\n").await.expect("it is sent");
    assert!(read_response(&mut stream).await.is_none());
}

#[tokio::test]
async fn i21_a_slow_handshake_times_out_and_others_are_served() {
    let patience = Timeouts { handshake: Duration::from_millis(300), ..Timeouts::default() };
    let served = TlsServer::with(patience).await;
    let mut silent = connect_plain(served.listening.address()).await;
    let mut halting = connect_plain(served.listening.address()).await;
    halting.write_all(&[0x16, 0x03]).await.expect("it is sent");
    let mut quick = served.connect().await;
    let answer = call(&mut quick, &format_request("GET", "/healthz", "host: localhost\r\n", "")).await;
    assert_eq!(answer.status, 200);
    assert!(is_closed(&mut silent).await && is_closed(&mut halting).await);
    let answer = call(&mut quick, &format_request("GET", "/healthz", "host: localhost\r\n", "")).await;
    assert_eq!(answer.status, 200, "the time for the handshake is not that of the connection");
}

#[tokio::test]
async fn i21_a_tls_client_that_does_not_read_is_disconnected() {
    let patience = Timeouts { write: Duration::from_millis(300), ..Timeouts::default() };
    let served = TlsServer::with(patience).await;
    let entry = json!({"content": "x".repeat(400_000)});
    served.hub.put(&served.hub.admin, "/v1/context/large", &entry).await.ok(201);
    let mut slow = served.connect().await;
    let ask = format_request("GET", "/v1/context/large", &bearer_header(&served.hub.admin), "");
    // It sends requests without reading responses.
    let cut = async { while slow.write_all(ask.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(TIMEOUT, cut).await.expect("it is disconnected");
    let mut other = served.connect().await;
    assert_eq!(call(&mut other, &ask).await.status, 200);
}

#[tokio::test]
async fn an_unfinished_handshake_does_not_delay_shutdown() {
    let served = TlsServer::new().await;
    let mut silent = connect_plain(served.listening.address()).await;
    silent.write_all(&[0x16, 0x03]).await.expect("it is sent");
    let mut quick = served.connect().await;
    assert_eq!(
        call(&mut quick, &format_request("GET", "/healthz", "host: localhost\r\n", "")).await.status,
        200
    );
    let begun = tokio::time::Instant::now();
    served.listening.drain().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(is_closed(&mut silent).await && is_closed(&mut quick).await);
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
    let made = Certificate::new(directory.path());
    let load = || Tls::load(&made.certificate, &made.key).map(drop).map_err(|error| error.to_string());
    let key = fs::read_to_string(&made.key).expect("a key");
    fs::write(&made.key, "secret-but-no-key").expect("it is written");
    let error = load().expect_err("no key");
    assert!(
        error.contains("no PEM private key") && error.contains("key.pem") && !error.contains("secret"),
        "{error}"
    );
    fs::write(&made.key, key).expect("it is written");
    assert_eq!(load(), Ok(()));
    fs::remove_file(&made.certificate).expect("it is gone");
    assert!(load().expect_err("no file").contains("cannot read"));
}
