//! A WebSocket client on a real socket.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use quorate_server::{Server, Settings, Timeouts};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::TestHub;

/// Upper bound of every wait in these tests.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A hub that listens on a socket.
pub(crate) struct TestServer {
    pub(crate) hub: TestHub,
    pub(crate) listening: Server,
}

impl TestServer {
    pub(crate) async fn new() -> Self {
        Self::with_timeouts(Timeouts::default()).await
    }

    pub(crate) async fn with_timeouts(timeouts: Timeouts) -> Self {
        Self::start(TestHub::with_settings(Settings { timeouts, ..Settings::default() }).await).await
    }

    /// Starts listening.
    pub(crate) async fn start(hub: TestHub) -> Self {
        let listening = Server::start(hub.app.clone(), ([127, 0, 0, 1], 0).into(), false).await;
        Self { hub, listening: listening.expect("an address") }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    pub(crate) async fn connect(&self) -> TestSocket {
        let (stream, _) =
            connect_async(format!("ws://{}/v1/ws", self.address())).await.expect("a connection");
        TestSocket { stream, n: 0, received: Vec::new() }
    }

    /// Connects and sends `hello`; returns the connection and the response.
    pub(crate) async fn hello(&self, hello: Value) -> (TestSocket, Value) {
        let mut socket = self.connect().await;
        socket.send_frame(&json!({"hello": hello})).await;
        let welcome = socket.next_frame().await["welcome"].take();
        assert!(welcome.is_object(), "{welcome}");
        (socket, welcome)
    }

    /// Connects as an agent with ample credit.
    pub(crate) async fn connect_agent(&self, token: &str) -> TestSocket {
        let (mut socket, _) = self.hello(json!({"token": token})).await;
        socket.credit(1_000, 100_000_000).await;
        socket
    }
}

/// A WebSocket connection.
pub(crate) struct TestSocket {
    pub(crate) stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    n: u64,
    /// Deliveries received while waiting for a response.
    received: Vec<(u64, Value)>,
}

impl TestSocket {
    pub(crate) async fn send_frame(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, frame: &str) {
        self.stream.send(Message::text(frame)).await.expect("it is sent");
    }

    /// Returns the next frame.
    pub(crate) async fn next_text(&mut self) -> String {
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.stream.next()).await.expect("in time");
            match next.expect("a frame").expect("a frame") {
                Message::Text(text) => return text.as_str().to_owned(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("no frame of text: {other:?}"),
            }
        }
    }

    pub(crate) async fn next_frame(&mut self) -> Value {
        serde_json::from_str(&self.next_text().await).expect("JSON")
    }

    /// Returns the code of the problem that ends the connection, and the close code.
    pub(crate) async fn ending_problem(&mut self) -> (String, u16) {
        let frame = self.next_frame().await;
        let code =
            frame["problem"]["code"].as_str().unwrap_or_else(|| panic!("a problem: {frame}")).to_owned();
        assert_eq!(frame.get("n"), None, "{frame}");
        (code, self.close_code().await)
    }

    pub(crate) async fn close_code(&mut self) -> u16 {
        let next = tokio::time::timeout(TIMEOUT, self.stream.next()).await.expect("in time");
        match next {
            Some(Ok(Message::Close(Some(frame)))) => frame.code.into(),
            other => panic!("not closed: {other:?}"),
        }
    }

    /// Sends a frame with the next number, without waiting.
    pub(crate) async fn send_numbered(&mut self, kind: &str, body: Value) -> u64 {
        self.n += 1;
        self.send_frame(&json!({"n": self.n, kind: body})).await;
        self.n
    }

    /// Waits for the response to a frame. Deliveries received before it are stored, other responses are skipped.
    pub(crate) async fn response(&mut self, n: u64) -> Value {
        loop {
            let frame = self.next_frame().await;
            if !self.keep(&frame) && (frame["n"].as_u64() >= Some(n) || frame["ok"].is_null()) {
                assert_eq!(frame["n"], n, "{frame}");
                return frame;
            }
        }
    }

    /// Stores deliveries; returns whether the frame contained any.
    fn keep(&mut self, frame: &Value) -> bool {
        let Some(list) = frame["deliveries"].as_array() else { return false };
        assert!(list.len() <= 64, "a batch is at most 64");
        let first = frame["first"].as_u64().expect("a number");
        self.received.extend((first..).zip(list.iter().cloned()));
        true
    }

    pub(crate) async fn ok(&mut self, kind: &str, body: Value) -> Value {
        let n = self.send_numbered(kind, body).await;
        let mut frame = self.response(n).await;
        assert!(frame["ok"].is_object(), "{frame}");
        frame["ok"].take()
    }

    pub(crate) async fn refused(&mut self, kind: &str, body: Value, code: &str) -> Value {
        let n = self.send_numbered(kind, body).await;
        let mut frame = self.response(n).await;
        assert_eq!(frame["problem"]["code"], code, "{frame}");
        frame["problem"].take()
    }

    pub(crate) async fn credit(&mut self, messages: u64, bytes: u64) {
        self.ok("credit", json!({"messages": messages, "bytes": bytes})).await;
    }

    /// Grants credit without waiting for the response: deliveries may arrive before it.
    pub(crate) async fn grant_credit(&mut self, messages: u64, bytes: u64) {
        self.send_numbered("credit", json!({"messages": messages, "bytes": bytes})).await;
    }

    /// Receives this many deliveries, each with its number; responses in between are skipped.
    pub(crate) async fn deliveries(&mut self, count: usize) -> Vec<(u64, Value)> {
        while self.received.len() < count {
            let frame = self.next_frame().await;
            assert!(self.keep(&frame) || frame["ok"].is_object(), "{frame}");
        }
        self.received.drain(..count).collect()
    }

    /// Sends messages with these payloads, and waits until they are on disk.
    pub(crate) async fn send_messages(&mut self, to: &str, payloads: &[Value]) {
        let ops: Vec<_> =
            payloads.iter().map(|payload| json!({"op": "send", "to": to, "payload": payload})).collect();
        let key = format!("send-{}-{}", to, self.n);
        self.ok("commit", json!({"ops": ops, "idempotencyKey": key})).await;
    }

    /// Asserts that no delivery arrived before the response to a frame.
    pub(crate) async fn assert_no_deliveries(&mut self) {
        let problem = self.refused("ack", json!([[999_999, 999_999]]), "INVALID").await;
        assert_eq!((&problem["applied"], self.received.as_slice()), (&"no".into(), [].as_slice()));
    }
}
