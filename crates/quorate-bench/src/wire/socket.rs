//! Minimal WebSocket client of an agent. Frames are buffered and flushed together; responses are matched to requests by
//! number.

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

/// Connection of an agent. `T` is the context that the client keeps with each request until its response.
pub(super) struct AgentSocket<T> {
    sink: SplitSink<WebSocketStream<TcpStream>, Message>,
    stream: SplitStream<WebSocketStream<TcpStream>>,
    n: u64,
    pending: VecDeque<(u64, T)>,
}

/// Frame received from the hub.
pub(super) enum HubFrame<T> {
    /// Success response, with the context of its request.
    Response(T),
    /// Frame of deliveries, not yet parsed.
    Deliveries(Utf8Bytes),
}

/// Frame of deliveries, limited to the fields that the benchmarks use.
#[derive(Deserialize)]
pub(super) struct DeliveriesFrame<'a> {
    pub(super) first: u64,
    #[serde(borrow)]
    pub(super) deliveries: Vec<Delivery<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Delivery<'a> {
    #[serde(borrow)]
    pub(super) message: ReceivedMessage<'a>,
}

#[derive(Deserialize)]
pub(super) struct ReceivedMessage<'a> {
    pub(super) id: &'a str,
    #[serde(borrow)]
    pub(super) payload: &'a RawValue,
}

/// Content of a payload built by [`payload`](super::payload).
#[derive(Deserialize)]
pub(super) struct PayloadSlot {
    pub(super) sender: usize,
    pub(super) slot: usize,
}

impl<T> AgentSocket<T> {
    /// Connects as an agent and grants practically unlimited credit.
    pub(super) async fn connect(address: SocketAddr, token: &str, context: T) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let config = WebSocketConfig::default().read_buffer_size(64 * 1024).write_buffer_size(64 * 1024);
        let url = format!("ws://{address}/v1/ws");
        let (socket, _) = tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await?;
        let (sink, stream) = socket.split();
        let mut socket = Self { sink, stream, n: 0, pending: VecDeque::new() };
        socket.sink.send(format!("{{\"hello\":{{\"token\":\"{token}\"}}}}").into()).await?;
        let welcome = socket.frame().await?;
        ensure!(welcome.starts_with("{\"welcome\""), "unexpected first frame: {welcome}");
        socket.enqueue("credit", r#"{"messages":1000000000,"bytes":1000000000000}"#, context).await?;
        socket.flush().await?;
        let HubFrame::Response(_) = socket.next().await? else {
            bail!("the first frame is not the response to the credit grant")
        };
        Ok(socket)
    }

    /// Buffers a request frame, which is sent by the next flush. Returns its number.
    pub(super) async fn enqueue(&mut self, verb: &str, body: &str, context: T) -> anyhow::Result<u64> {
        self.n += 1;
        self.pending.push_back((self.n, context));
        self.sink.feed(format!("{{\"n\":{},\"{verb}\":{body}}}", self.n).into()).await?;
        Ok(self.n)
    }

    pub(super) async fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.sink.flush().await?)
    }

    /// Receives the next frame.
    pub(super) async fn next(&mut self) -> anyhow::Result<HubFrame<T>> {
        let text = self.frame().await?;
        self.parse(text)
    }

    /// Returns the next frame if it has already arrived.
    pub(super) fn try_next(&mut self) -> anyhow::Result<Option<HubFrame<T>>> {
        match self.frame().now_or_never() {
            Some(text) => self.parse(text?).map(Some),
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

    fn parse(&mut self, text: Utf8Bytes) -> anyhow::Result<HubFrame<T>> {
        if text.starts_with("{\"first\":") {
            return Ok(HubFrame::Deliveries(text));
        }
        let n = text.strip_prefix("{\"n\":").and_then(|rest| rest.split_once(','));
        let Some((n, rest)) = n else { bail!("unexpected frame: {text}") };
        ensure!(rest.starts_with("\"ok\""), "request failed: {text}");
        let n: u64 = n.parse()?;
        // Responses to requests may arrive out of order; all others arrive in order.
        let index = self
            .pending
            .iter()
            .position(|(pending, _)| *pending == n)
            .context("response to an unknown request")?;
        let (_, context) = self.pending.remove(index).context("pending request vanished")?;
        Ok(HubFrame::Response(context))
    }
}
