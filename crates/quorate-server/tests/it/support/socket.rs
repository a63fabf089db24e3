//! A client of the WebSocket, on a real socket.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use quorate_server::{Listening, Patience, Settings};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::Hub;

/// Nothing in these tests takes that long.
const NEVER: Duration = Duration::from_secs(20);

/// A hub that listens.
pub(crate) struct Served {
    pub(crate) hub: Hub,
    pub(crate) listening: Listening,
}

impl Served {
    pub(crate) async fn new() -> Self {
        Self::with(Patience::default()).await
    }

    pub(crate) async fn with(patience: Patience) -> Self {
        Self::of(Hub::with(Settings { patience, ..Settings::default() }).await).await
    }

    /// Lets a hub listen.
    pub(crate) async fn of(hub: Hub) -> Self {
        let listening = Listening::start(hub.app.clone(), ([127, 0, 0, 1], 0).into(), false).await;
        Self { hub, listening: listening.expect("an address") }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    pub(crate) async fn connect(&self) -> Socket {
        let (stream, _) =
            connect_async(format!("ws://{}/v1/ws", self.address())).await.expect("a connection");
        Socket { stream, n: 0, came: Vec::new() }
    }

    /// A connection that has said hello, with what it was told.
    pub(crate) async fn hello(&self, hello: Value) -> (Socket, Value) {
        let mut socket = self.connect().await;
        socket.say(&json!({"hello": hello})).await;
        let welcome = socket.hear().await["welcome"].take();
        assert!(welcome.is_object(), "{welcome}");
        (socket, welcome)
    }

    /// A connection of an agent with plenty of credit.
    pub(crate) async fn open(&self, token: &str) -> Socket {
        let (mut socket, _) = self.hello(json!({"token": token})).await;
        socket.credit(1_000, 100_000_000).await;
        socket
    }
}

/// A connection.
pub(crate) struct Socket {
    pub(crate) stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    n: u64,
    /// Deliveries that came while an answer was waited for.
    came: Vec<(u64, Value)>,
}

impl Socket {
    pub(crate) async fn say(&mut self, frame: &Value) {
        self.say_text(&frame.to_string()).await;
    }

    pub(crate) async fn say_text(&mut self, frame: &str) {
        self.stream.send(Message::text(frame)).await.expect("it is sent");
    }

    /// The next frame, as it came.
    pub(crate) async fn hear_text(&mut self) -> String {
        loop {
            let next = tokio::time::timeout(NEVER, self.stream.next()).await.expect("in time");
            match next.expect("a frame").expect("a frame") {
                Message::Text(text) => return text.as_str().to_owned(),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("no frame of text: {other:?}"),
            }
        }
    }

    pub(crate) async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.hear_text().await).expect("JSON")
    }

    /// The code of the problem that ends the connection, and how it is closed.
    pub(crate) async fn end(&mut self) -> (String, u16) {
        let told = self.hear().await;
        let code = told["problem"]["code"].as_str().unwrap_or_else(|| panic!("a problem: {told}")).to_owned();
        assert_eq!(told.get("n"), None, "{told}");
        (code, self.closed().await)
    }

    pub(crate) async fn closed(&mut self) -> u16 {
        let next = tokio::time::timeout(NEVER, self.stream.next()).await.expect("in time");
        match next {
            Some(Ok(Message::Close(Some(frame)))) => frame.code.into(),
            other => panic!("not closed: {other:?}"),
        }
    }

    /// Asks for something under the next number, without waiting.
    pub(crate) async fn ask(&mut self, what: &str, how: Value) -> u64 {
        self.n += 1;
        self.say(&json!({"n": self.n, what: how})).await;
        self.n
    }

    /// The answer to a frame. Deliveries that come before it are kept, answers that nobody waited for are passed over.
    pub(crate) async fn answer(&mut self, n: u64) -> Value {
        loop {
            let told = self.hear().await;
            if !self.keep(&told) && (told["n"].as_u64() >= Some(n) || told["ok"].is_null()) {
                assert_eq!(told["n"], n, "{told}");
                return told;
            }
        }
    }

    /// Keeps deliveries; says whether it was any.
    fn keep(&mut self, told: &Value) -> bool {
        let Some(list) = told["deliveries"].as_array() else { return false };
        assert!(list.len() <= 64, "a batch is at most 64");
        let first = told["first"].as_u64().expect("a number");
        self.came.extend((first..).zip(list.iter().cloned()));
        true
    }

    pub(crate) async fn ok(&mut self, what: &str, how: Value) -> Value {
        let n = self.ask(what, how).await;
        let mut told = self.answer(n).await;
        assert!(told["ok"].is_object(), "{told}");
        told["ok"].take()
    }

    pub(crate) async fn refused(&mut self, what: &str, how: Value, code: &str) -> Value {
        let n = self.ask(what, how).await;
        let mut told = self.answer(n).await;
        assert_eq!(told["problem"]["code"], code, "{told}");
        told["problem"].take()
    }

    pub(crate) async fn credit(&mut self, messages: u64, bytes: u64) {
        self.ok("credit", json!({"messages": messages, "bytes": bytes})).await;
    }

    /// Gives credit and hears what comes: the answer may be before or after.
    pub(crate) async fn give(&mut self, messages: u64, bytes: u64) {
        self.ask("credit", json!({"messages": messages, "bytes": bytes})).await;
    }

    /// So many deliveries, each with its number; answers in between are passed over.
    pub(crate) async fn deliveries(&mut self, count: usize) -> Vec<(u64, Value)> {
        while self.came.len() < count {
            let told = self.hear().await;
            assert!(self.keep(&told) || told["ok"].is_object(), "{told}");
        }
        self.came.drain(..count).collect()
    }

    /// Sends messages with these payloads, and waits until they are on disk.
    pub(crate) async fn send(&mut self, to: &str, payloads: &[Value]) {
        let ops: Vec<_> =
            payloads.iter().map(|payload| json!({"op": "send", "to": to, "payload": payload})).collect();
        let key = format!("send-{}-{}", to, self.n);
        self.ok("commit", json!({"ops": ops, "idempotencyKey": key})).await;
    }

    /// Nothing has come by the time that a frame is answered.
    pub(crate) async fn hears_nothing(&mut self) {
        let told = self.refused("ack", json!([[999_999, 999_999]]), "INVALID").await;
        assert_eq!((&told["applied"], self.came.as_slice()), (&"no".into(), [].as_slice()));
    }
}
