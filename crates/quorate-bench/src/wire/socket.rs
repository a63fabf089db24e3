//! One WebSocket connection of an agent, as lean as a client can be: frames are written together, and answers are matched
//! to what was asked by their order.

use std::collections::VecDeque;
use std::net::SocketAddr;

use anyhow::{Context as _, bail, ensure};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// A connection; `T` is what the client notes with each frame until its answer comes.
pub(super) struct Socket<T> {
    sink: SplitSink<WebSocketStream<TcpStream>, Message>,
    stream: SplitStream<WebSocketStream<TcpStream>>,
    n: u64,
    asked: VecDeque<(u64, T)>,
}

/// What the hub told.
pub(super) enum Told<T> {
    /// The answer to the oldest frame, and what was noted with it.
    Answer(T),
    Deliveries(Utf8Bytes),
}

/// A frame of deliveries, as much of it as a client of a bench looks at.
#[derive(Deserialize)]
pub(super) struct Deliveries<'a> {
    pub(super) first: u64,
    #[serde(borrow)]
    pub(super) deliveries: Vec<Delivery<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Delivery<'a> {
    #[serde(borrow)]
    pub(super) message: Letter<'a>,
}

#[derive(Deserialize)]
pub(super) struct Letter<'a> {
    pub(super) id: &'a str,
    #[serde(borrow)]
    pub(super) payload: &'a RawValue,
}

/// What `payload` wrote.
#[derive(Deserialize)]
pub(super) struct Slot {
    pub(super) sender: usize,
    pub(super) slot: usize,
}

impl<T> Socket<T> {
    /// Connects as an agent, and gives all the credit there is.
    pub(super) async fn connect(address: SocketAddr, token: &str, note: T) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let config = WebSocketConfig::default().read_buffer_size(64 * 1024).write_buffer_size(64 * 1024);
        let url = format!("ws://{address}/v1/ws");
        let (socket, _) = tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await?;
        let (sink, stream) = socket.split();
        let mut socket = Self { sink, stream, n: 0, asked: VecDeque::new() };
        socket.sink.send(format!("{{\"hello\":{{\"token\":\"{token}\"}}}}").into()).await?;
        let welcome = socket.frame().await?;
        ensure!(welcome.starts_with("{\"welcome\""), "the hub told {welcome}");
        socket.ask("credit", r#"{"messages":1000000000,"bytes":1000000000000}"#, note).await?;
        socket.flush().await?;
        let Told::Answer(_) = socket.next().await? else { bail!("credit was not answered first") };
        Ok(socket)
    }

    /// Puts a frame in line; it goes with the next flush.
    pub(super) async fn ask(&mut self, verb: &str, body: &str, note: T) -> anyhow::Result<u64> {
        self.n += 1;
        self.asked.push_back((self.n, note));
        self.sink.feed(format!("{{\"n\":{},\"{verb}\":{body}}}", self.n).into()).await?;
        Ok(self.n)
    }

    pub(super) async fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.sink.flush().await?)
    }

    /// The next thing that the hub tells.
    pub(super) async fn next(&mut self) -> anyhow::Result<Told<T>> {
        let text = self.frame().await?;
        self.told(text)
    }

    /// The next thing, if it is there already.
    pub(super) fn at_hand(&mut self) -> anyhow::Result<Option<Told<T>>> {
        match self.frame().now_or_never() {
            Some(text) => self.told(text?).map(Some),
            None => Ok(None),
        }
    }

    async fn frame(&mut self) -> anyhow::Result<Utf8Bytes> {
        loop {
            match self.stream.next().await.context("the hub closed the connection")?? {
                Message::Text(text) => return Ok(text),
                Message::Close(frame) => bail!("the hub closed the connection: {frame:?}"),
                _ => {}
            }
        }
    }

    fn told(&mut self, text: Utf8Bytes) -> anyhow::Result<Told<T>> {
        if text.starts_with("{\"first\":") {
            return Ok(Told::Deliveries(text));
        }
        let n = text.strip_prefix("{\"n\":").and_then(|rest| rest.split_once(','));
        let Some((n, rest)) = n else { bail!("the hub told {text}") };
        ensure!(rest.starts_with("\"ok\""), "the hub told {text}");
        let n: u64 = n.parse()?;
        // Requests are answered when they are; everything else in its order.
        let at = self.asked.iter().position(|(asked, _)| *asked == n).context("nobody asked for this")?;
        let (_, note) = self.asked.remove(at).context("it was there")?;
        Ok(Told::Answer(note))
    }
}
