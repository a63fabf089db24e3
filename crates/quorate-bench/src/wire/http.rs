//! HTTP: sends over plain HTTP with keep-alive. Each connection waits for the durable response before its next request,
//! with one message or a list of 16 per request. Also the minimal HTTP client of the other workloads.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::hub_process::{HubProcess, parse_response};
use super::payload;
use crate::Scale;
use crate::measure::Latencies;
use crate::report::Measurement;

const CONNECTIONS: usize = 64;
const AGENTS: usize = 30;

/// Keep-alive connection for sequential requests.
pub(super) struct HttpConnection {
    stream: TcpStream,
    headers: String,
    buffer: Vec<u8>,
}

impl HttpConnection {
    pub(super) async fn connect(address: SocketAddr, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let headers = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n");
        Ok(Self { stream, headers, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// Connects without a token, with another header.
    pub(super) async fn unauthenticated(address: SocketAddr, header: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let headers = format!("Host: {address}\r\n{header}\r\n");
        Ok(Self { stream, headers, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// Selects another space than that of the token for all further requests.
    pub(super) fn in_space(mut self, space: &str) -> Self {
        self.headers.push_str(&format!("Quorate-Space: {space}\r\n"));
        self
    }

    /// Sends a JSON request and returns the JSON response. Fails unless the status is 2xx.
    pub(super) async fn call(&mut self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = self.request(method, path, &body);
        let (status, response) = self.exchange(&request).await?;
        parse_response(status, &response)
    }

    /// Sends a GET request and returns the response as text.
    pub(super) async fn text(&mut self, path: &str) -> anyhow::Result<String> {
        let request = self.request("GET", path, "");
        let (status, response) = self.exchange(&request).await?;
        anyhow::ensure!(status == 200, "GET {path} returned status {status}");
        Ok(String::from_utf8(response)?)
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let content_type = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\n{}{content_type}Content-Length: {length}\r\n\r\n{body}",
            self.headers
        )
        .into_bytes()
    }

    async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = std::str::from_utf8(&self.buffer[..end])?.to_ascii_lowercase();
                let status = head.get(9..12).context("no status in the response")?.parse()?;
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.context("no Content-Length in the response")?.trim().parse()?;
                while self.buffer.len() < end + 4 + length {
                    self.read_more().await?;
                }
                return Ok((status, self.buffer[end + 4..].to_vec()));
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the hub closed the connection");
        }
        Ok(())
    }
}

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let single = measure_sends(scale, 1, scale.count(200_000)).await?;
    let lists = measure_sends(scale, 16, scale.count(800_000)).await?;
    Ok(vec![single.target(8_000.0, "8k/s"), lists.target(40_000.0, "40k/s")])
}

async fn measure_sends(scale: &Scale, batch: usize, messages: u64) -> anyhow::Result<Measurement> {
    let hub = HubProcess::start(scale)?;
    let tokens = hub.register_agents(AGENTS).await?;
    let share = (messages as usize / CONNECTIONS / batch).max(1);
    let meter = hub.start_meter().await?;
    let mut running = JoinSet::new();
    for index in 0..CONNECTIONS {
        let http = HttpConnection::connect(hub.address, &tokens[index % AGENTS]).await?;
        running.spawn(send(http, index, batch, share));
    }
    let mut latencies = Latencies::new();
    while let Some(finished) = running.join_next().await {
        latencies.merge(&finished??);
    }
    let usage = hub.usage_since(&meter).await?;
    let sent = (share * CONNECTIONS * batch) as u64;
    let stats = hub.stats().await?;
    anyhow::ensure!(stats["deliveries"]["ready"] == sent, "sent {sent} messages, the hub has {stats}");
    let variant =
        if batch == 1 { "sends, 64 connections".to_owned() } else { format!("sends, lists of {batch}") };
    let line = Measurement::new("HTTP", variant, sent, usage).latencies(&latencies);
    Ok(line.set("connections", CONNECTIONS).set("bytes", 256).set("messagesARequest", batch))
}

async fn send(
    mut http: HttpConnection,
    index: usize,
    batch: usize,
    share: usize,
) -> anyhow::Result<Latencies> {
    let to = (index + 1) % AGENTS;
    let message = format!("{{\"to\":\"a{to}\",\"action\":\"work\",\"payload\":{}}}", payload(index, 0, 256));
    let body = if batch == 1 { message } else { format!("[{}]", vec![message; batch].join(",")) };
    let request = http.request("POST", "/v1/messages", &body);
    let mut latencies = Latencies::new();
    for _ in 0..share {
        let start = Instant::now();
        let (status, response) = http.exchange(&request).await?;
        latencies.record(start.elapsed());
        if !(200..300).contains(&status) {
            parse_response(status, &response)?;
        }
    }
    Ok(latencies)
}
