//! NEIGHBOUR: round-trip latency of a well-behaved agent, first on an idle hub, then with noisy neighbours: event
//! streams, audit exports and lists whose responses are not read, scans without matches, as-of reads, verifications of
//! the audit log, unauthenticated connections that stall or send data, and agents that fill a quota or an inbox. The
//! neighbours are in a space with large records; the agent is in another space, then in the same one. Where a load
//! occupies one kind of call, the same call of the well-behaved side is measured as well (the probe).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::http::HttpConnection;
use super::hub_process::HubProcess;
use super::payload;
use crate::Scale;
use crate::measure::{Latencies, ResourceUsage};
use crate::report::Measurement;

/// Space of the readers.
const CROWDED: &str = "crowded";
/// Space without readers.
const CALM: &str = "calm";
/// Operations per commit that fills the crowded space.
const OPS: u64 = 250;
/// Principals per kind of reader.
const PRINCIPALS: usize = 4;
/// Time for which a reader leaves a response unread before it reconnects.
const UNREAD: Duration = Duration::from_millis(500);
/// Pause between two calls of a probe.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of a round trip; a slower one is recorded with this latency.
const ROUND_MAX: Duration = Duration::from_secs(15);

/// Load of one kind of neighbour.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    clients: usize,
    request: Request,
    by: Caller,
    /// A call that the well-behaved side repeats under this load. Failures are counted.
    probe: Option<Probe>,
}

/// A call of the well-behaved side.
#[derive(Clone, Copy)]
enum Probe {
    /// GET request of a viewer.
    Get(&'static str),
    /// A signed event.
    Webhook,
}

/// What each client of a load does, until the measurement ends.
#[derive(Clone, Copy)]
enum Request {
    /// GET request; the response is read and the request repeated.
    Read(&'static str),
    /// GET request; the response is not read.
    LeaveUnread(&'static str),
    /// POST request of a large body, of which only this many bytes are sent.
    Stall(&'static str, usize),
    /// WebSocket that sends a frame of this size instead of `hello`.
    FrameBeforeHello(usize),
    /// Creates lists of tasks until the quota refuses them, and then keeps trying.
    CreateTasks,
    /// Sends commits of messages to an agent that receives none, until its inbox is full, and then keeps trying.
    FillInbox,
}

/// Who makes the requests of a load.
#[derive(Clone, Copy)]
enum Caller {
    Agents,
    /// For requests that agents are not allowed to make.
    Viewers,
    /// Nobody: the requests carry no token.
    Unauthenticated,
}

const STATE: &str = "/v1/state?at=2";
const VERIFY: &str = "/v1/audit/verify";
/// Webhook of the hub, with a signature of [`EVENT`].
const WEBHOOK: &str = "x";
const WEBHOOK_SECRET: &str = "0123456789abcdef0123456789abcdef";
const EVENT: &str = r#"{"n":1}"#;
const EVENT_SIGNATURE: &str = "c57ddb108654ffc64fc2e4906ce65cada8690cfb565fad6529da97e8f0272e0e";
/// Agent that receives no messages.
const SILENT: &str = "nobody";

const LOADS: [Load; 11] = [
    Load::new("32 event readers", 32, Request::LeaveUnread("/v1/events?from=1"), Caller::Agents),
    Load::new("32 audit readers", 32, Request::LeaveUnread("/v1/audit"), Caller::Viewers),
    Load::new("64 unread lists", 64, Request::LeaveUnread("/v1/context?prefix=&limit=1000"), Caller::Agents),
    Load::new("16 message scans", 16, Request::Read("/v1/messages?from=nobody"), Caller::Agents),
    Load::new("16 as-of reads", 16, Request::Read("/v1/state?at=300"), Caller::Viewers)
        .probed(Probe::Get(STATE)),
    Load::new("16 verifications", 16, Request::Read(VERIFY), Caller::Viewers).probed(Probe::Get(VERIFY)),
    Load::new("64 stalled webhooks", 64, Request::Stall("/v1/webhooks/x", 64), Caller::Unauthenticated)
        .probed(Probe::Webhook),
    Load::new("300 large sign-ins", 300, Request::Stall("/v1/sign-in", 1 << 20), Caller::Unauthenticated),
    Load::new("300 frames before hello", 300, Request::FrameBeforeHello(1 << 20), Caller::Unauthenticated),
    Load::new("4 task creators", 4, Request::CreateTasks, Caller::Agents),
    Load::new("4 inbox fillers", 4, Request::FillInbox, Caller::Agents),
];

impl Load {
    const fn new(name: &'static str, clients: usize, request: Request, by: Caller) -> Self {
        Self { name, clients, request, by, probe: None }
    }

    const fn probed(self, probe: Probe) -> Self {
        Self { probe: Some(probe), ..self }
    }
}

/// Size of a run.
struct Size {
    commits: u64,
    duration: Duration,
}

impl Size {
    fn of(scale: &Scale) -> Self {
        let commits = scale.count(8_000).clamp(8, 400);
        Self { commits, duration: Duration::from_millis(scale.count(40_000).clamp(200, 8_000)) }
    }
}

/// Latencies of round trips and their total duration.
struct Rounds {
    latencies: Latencies,
    seconds: f64,
}

/// Access tokens of the measured agent, and of a viewer of its space for the probes.
struct Measured {
    agent: String,
    viewer: String,
}

/// Access tokens of the participants.
struct Tokens {
    /// In the other space.
    calm: Measured,
    /// In the space of the readers.
    same: Measured,
    agents: Vec<String>,
    viewers: Vec<String>,
}

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let size = Size::of(scale);
    let hub = HubProcess::start_with_webhook(scale, WEBHOOK, WEBHOOK_SECRET)?;
    let tokens = prepare(&hub, &size).await?;
    let mut lines = Vec::new();
    for (location, token) in [("other space", &tokens.calm), ("same space", &tokens.same)] {
        let idle = rounds(hub.address, &token.agent, size.duration).await?;
        let limit_us = 2 * idle.latencies.quantile(0.99) + 20_000;
        lines.push(line(format!("{location}, idle"), &idle, &size));
        for load in &LOADS {
            let (busy, probes) = rounds_under_load(&hub, &tokens, load, token, &size).await?;
            let is_within_limit = busy.latencies.quantile(0.99) <= limit_us;
            let mut line = line(format!("{location}, {}", load.name), &busy, &size);
            if load.probe.is_some() {
                line = line.set("probes", probes.latencies.count()).set("probesFailed", probes.failed);
                line = line.set("probeP99Us", probes.latencies.quantile(0.99));
            }
            lines.push(line.set("limitUs", limit_us).set("withinLimit", is_within_limit));
        }
    }
    Ok(lines)
}

fn line(variant: String, rounds: &Rounds, size: &Size) -> Measurement {
    let usage = ResourceUsage { seconds: rounds.seconds, ..ResourceUsage::default() };
    let line =
        Measurement::new("NEIGHBOUR", variant, rounds.latencies.count(), usage).latencies(&rounds.latencies);
    line.set("records", size.commits).set("opsARecord", OPS)
}

/// Latencies of the calls of a probe, and how many of them failed.
struct Probes {
    latencies: Latencies,
    failed: u64,
}

/// Measures the round trips of an agent under a load.
async fn rounds_under_load(
    hub: &HubProcess,
    tokens: &Tokens,
    load: &Load,
    measured: &Measured,
    size: &Size,
) -> anyhow::Result<(Rounds, Probes)> {
    let callers = match load.by {
        Caller::Agents => &tokens.agents[..],
        Caller::Viewers => &tokens.viewers[..],
        Caller::Unauthenticated => &[],
    };
    let mut clients = JoinSet::new();
    for index in 0..load.clients {
        let token = callers.get(index % callers.len().max(1)).cloned();
        clients.spawn(client(hub.address, token.unwrap_or_default(), load.request));
    }
    let (result, probes) = tokio::join!(
        rounds(hub.address, &measured.agent, size.duration),
        probe(hub.address, &measured.viewer, load.probe, size.duration)
    );
    clients.shutdown().await;
    // Give the hub time to end the work for these clients, so that it does not distort the next measurement.
    tokio::time::sleep(UNREAD.min(size.duration)).await;
    Ok((result?, probes))
}

/// Repeats the request of a load forever. Ignores errors, because the hub may reject it under load.
async fn client(address: SocketAddr, token: String, request: Request) {
    loop {
        let _ = match request {
            Request::Read(path) => read(address, &token, path).await,
            Request::LeaveUnread(path) => leave_unread(address, &token, path).await,
            Request::Stall(path, sent) => stall(address, path, sent).await,
            Request::FrameBeforeHello(bytes) => frame_before_hello(address, bytes).await,
            Request::CreateTasks => create_tasks(address, &token).await,
            Request::FillInbox => fill_inbox(address, &token).await,
        };
        tokio::task::yield_now().await;
    }
}

async fn read(address: SocketAddr, token: &str, path: &str) -> anyhow::Result<()> {
    let mut http = HttpConnection::connect(address, token).await?;
    loop {
        http.call("GET", path, &Value::Null).await?;
    }
}

async fn leave_unread(address: SocketAddr, token: &str, path: &str) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    tokio::time::sleep(UNREAD).await;
    Ok(())
}

/// Announces a body of 2 MB, sends `sent` bytes of it and waits.
async fn stall(address: SocketAddr, path: &str, sent: usize) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let headers = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n"
    );
    stream.write_all(headers.as_bytes()).await?;
    // The hub may stop reading or close the connection.
    let _ = tokio::time::timeout(UNREAD, stream.write_all(&vec![b' '; sent])).await;
    tokio::time::sleep(UNREAD).await;
    Ok(())
}

/// Opens a WebSocket, sends a frame of this size instead of `hello`, and waits.
async fn frame_before_hello(address: SocketAddr, bytes: usize) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let upgrade = format!(
        "GET /v1/ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(upgrade.as_bytes()).await?;
    // A text frame with a length of 8 bytes, masked with zeros.
    let mut frame = vec![0x81, 0xff];
    frame.extend_from_slice(&(bytes as u64).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.resize(frame.len() + bytes, b' ');
    let _ = tokio::time::timeout(UNREAD, stream.write_all(&frame)).await;
    tokio::time::sleep(UNREAD).await;
    Ok(())
}

async fn fill_inbox(address: SocketAddr, token: &str) -> anyhow::Result<()> {
    let mut http = HttpConnection::connect(address, token).await?;
    let send = json!({"op": "send", "to": SILENT, "action": "fill", "payload": {}});
    let commit = json!({"ops": vec![send; OPS as usize]});
    loop {
        http.call("POST", "/v1/commit", &commit).await?;
    }
}

async fn create_tasks(address: SocketAddr, token: &str) -> anyhow::Result<()> {
    let mut http = HttpConnection::connect(address, token).await?;
    let tasks: Vec<Value> = (0..1_000).map(|_| json!({"type": "fill"})).collect();
    let graph = json!({"tasks": tasks});
    loop {
        http.call("POST", "/v1/tasks", &graph).await?;
    }
}

/// Repeats a call for the duration of a measurement, one after the other.
async fn probe(address: SocketAddr, token: &str, probe: Option<Probe>, duration: Duration) -> Probes {
    let mut probes = Probes { latencies: Latencies::new(), failed: 0 };
    let Some(probe) = probe else { return probes };
    let start = Instant::now();
    while start.elapsed() < duration {
        let call_start = Instant::now();
        let outcome = tokio::time::timeout(ROUND_MAX, call_probe(address, token, probe)).await;
        probes.latencies.record(call_start.elapsed());
        probes.failed += u64::from(!matches!(outcome, Ok(Ok(()))));
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
    probes
}

async fn call_probe(address: SocketAddr, token: &str, probe: Probe) -> anyhow::Result<()> {
    match probe {
        Probe::Get(path) => {
            let mut http = HttpConnection::connect(address, token).await?;
            http.call("GET", path, &Value::Null).await.map(drop)
        }
        Probe::Webhook => {
            let signature = format!("X-Hub-Signature-256: sha256={EVENT_SIGNATURE}");
            let mut http = HttpConnection::unauthenticated(address, &signature).await?;
            let event: Value = serde_json::from_str(EVENT)?;
            http.call("POST", &format!("/v1/webhooks/{WEBHOOK}"), &event).await.map(drop)
        }
    }
}

/// Runs sequential round trips: query the hub info, send a message to itself, claim it, and ack it.
async fn rounds(address: SocketAddr, token: &str, duration: Duration) -> anyhow::Result<Rounds> {
    let mut http = HttpConnection::connect(address, token).await?;
    let mut latencies = Latencies::new();
    let start = Instant::now();
    while start.elapsed() < duration {
        let round_start = Instant::now();
        match tokio::time::timeout(ROUND_MAX, round(&mut http)).await {
            Ok(result) => result?,
            // The rest of the timed-out round trip would arrive on the old connection.
            Err(_) => http = HttpConnection::connect(address, token).await?,
        }
        latencies.record(round_start.elapsed());
    }
    Ok(Rounds { latencies, seconds: start.elapsed().as_secs_f64() })
}

async fn round(http: &mut HttpConnection) -> anyhow::Result<()> {
    http.call("GET", "/v1/info", &Value::Null).await?;
    http.call("POST", "/v1/messages", &json!({"to": "good", "action": "work", "payload": {"n": 1}})).await?;
    let claimed = http.call("POST", "/v1/agents/good/inbox/claim", &json!({"max": 16})).await?;
    let deliveries = claimed["deliveries"].as_array().context("no deliveries in the response")?;
    let leases: Vec<Value> = { deliveries.iter() }
        .map(|delivery| json!({"deliveryId": delivery["deliveryId"], "leaseToken": delivery["leaseToken"]}))
        .collect();
    if !leases.is_empty() {
        http.call("POST", "/v1/agents/good/inbox/ack", &json!({"deliveries": leases})).await?;
    }
    Ok(())
}

/// Creates two spaces and their agents, and fills the crowded space with records that are expensive to read.
async fn prepare(hub: &HubProcess, size: &Size) -> anyhow::Result<Tokens> {
    let mut admin = HttpConnection::connect(hub.address, &hub.admin).await?;
    for space in [CROWDED, CALM] {
        admin.call("POST", "/v1/spaces", &json!({"name": space})).await?;
    }
    let mut calm = HttpConnection::connect(hub.address, &hub.admin).await?.in_space(CALM);
    let mut crowded = HttpConnection::connect(hub.address, &hub.admin).await?.in_space(CROWDED);
    let calm = measured(&mut calm).await?;
    let same = measured(&mut crowded).await?;
    let (mut agents, mut viewers) = (Vec::new(), Vec::new());
    for index in 0..PRINCIPALS {
        agents.push(agent(&mut crowded, &format!("a{index}")).await?);
        viewers.push(viewer(&mut crowded, &format!("v{index}")).await?);
    }
    agent(&mut crowded, SILENT).await?;
    let mut filler = HttpConnection::connect(hub.address, &agents[0]).await?;
    for commit in 0..size.commits {
        filler.call("POST", "/v1/commit", &json!({"ops": large(commit)})).await?;
    }
    Ok(Tokens { calm, same, agents, viewers })
}

async fn measured(http: &mut HttpConnection) -> anyhow::Result<Measured> {
    Ok(Measured { agent: agent(http, "good").await?, viewer: viewer(http, "probe").await? })
}

async fn viewer(http: &mut HttpConnection, name: &str) -> anyhow::Result<String> {
    let created = http.call("POST", "/v1/tokens", &json!({"role": "viewer", "name": name})).await?;
    Ok(created["token"].as_str().context("no token in the response")?.to_owned())
}

async fn agent(http: &mut HttpConnection, id: &str) -> anyhow::Result<String> {
    let created = http.call("PUT", &format!("/v1/agents/{id}"), &json!({})).await?;
    Ok(created["token"].as_str().context("no token in the response")?.to_owned())
}

/// Builds a commit with many operations: entries, or messages to a topic without subscribers.
fn large(commit: u64) -> Vec<Value> {
    let content: Value = serde_json::from_str(&payload(0, 0, 256)).unwrap_or_default();
    let op = |index| match commit % 2 {
        0 => json!({"op": "put", "key": format!("fill/{commit:05}/{index:03}"), "content": content}),
        _ => json!({"op": "send", "to": "topic:fill", "action": "fill", "payload": content}),
    };
    (0..OPS).map(op).collect()
}
