//! NEIGHBOUR: round-trip latency of a well-behaved agent, first on an idle hub, then with noisy neighbours: event
//! streams, audit exports and lists whose responses are not read, and scans without matches. The readers are in a space
//! with large records; the agent is in another space, then in the same one.

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
/// Timeout of a round trip; a slower one is recorded with this latency.
const ROUND_MAX: Duration = Duration::from_secs(15);

/// Load of one kind of reader.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    readers: usize,
    path: &'static str,
    /// Whether the response is read. If so, the reader repeats the request immediately.
    reads: bool,
    /// Whether agents are allowed to make this request; if not, viewers make it.
    by_agents: bool,
}

const LOADS: [Load; 4] = [
    Load { name: "32 event readers", readers: 32, path: "/v1/events?from=1", reads: false, by_agents: true },
    Load { name: "32 audit readers", readers: 32, path: "/v1/audit", reads: false, by_agents: false },
    Load {
        name: "64 unread lists",
        readers: 64,
        path: "/v1/context?prefix=&limit=1000",
        reads: false,
        by_agents: true,
    },
    Load {
        name: "16 message scans",
        readers: 16,
        path: "/v1/messages?from=nobody",
        reads: true,
        by_agents: true,
    },
];

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

/// Access tokens of the participants.
struct Tokens {
    /// Measured agent in the other space.
    calm: String,
    /// Measured agent in the space of the readers.
    same: String,
    agents: Vec<String>,
    viewers: Vec<String>,
}

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let size = Size::of(scale);
    let hub = HubProcess::start(scale)?;
    let tokens = prepare(&hub, &size).await?;
    let mut lines = Vec::new();
    for (location, token) in [("other space", &tokens.calm), ("same space", &tokens.same)] {
        let idle = rounds(hub.address, token, size.duration).await?;
        let limit_us = 2 * idle.latencies.quantile(0.99) + 20_000;
        lines.push(line(format!("{location}, idle"), &idle, &size));
        for load in &LOADS {
            let busy = rounds_under_load(&hub, &tokens, load, token, &size).await?;
            let is_within_limit = busy.latencies.quantile(0.99) <= limit_us;
            let line = line(format!("{location}, {}", load.name), &busy, &size);
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

/// Measures the round trips of an agent while readers load the hub.
async fn rounds_under_load(
    hub: &HubProcess,
    tokens: &Tokens,
    load: &Load,
    token: &str,
    size: &Size,
) -> anyhow::Result<Rounds> {
    let reader_tokens = if load.by_agents { &tokens.agents } else { &tokens.viewers };
    let mut readers = JoinSet::new();
    for index in 0..load.readers {
        let token = reader_tokens[index % reader_tokens.len()].clone();
        readers.spawn(reader(hub.address, token, *load));
    }
    let result = rounds(hub.address, token, size.duration).await;
    readers.shutdown().await;
    // Give the hub time to end the work for these readers, so that it does not distort the next measurement.
    tokio::time::sleep(UNREAD.min(size.duration)).await;
    result
}

/// Repeats the request of a load forever. Ignores errors, because the hub may reject it under load.
async fn reader(address: SocketAddr, token: String, load: Load) {
    loop {
        let _ = if load.reads {
            read(address, &token, load.path).await
        } else {
            leave_unread(address, &token, load.path).await
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
    let calm = agent(&mut calm, "good").await?;
    let same = agent(&mut crowded, "good").await?;
    let (mut agents, mut viewers) = (Vec::new(), Vec::new());
    for index in 0..PRINCIPALS {
        agents.push(agent(&mut crowded, &format!("a{index}")).await?);
        let viewer = json!({"role": "viewer", "name": format!("v{index}")});
        let created = crowded.call("POST", "/v1/tokens", &viewer).await?;
        viewers.push(created["token"].as_str().context("no token in the response")?.to_owned());
    }
    agent(&mut crowded, "nobody").await?;
    let mut filler = HttpConnection::connect(hub.address, &agents[0]).await?;
    for commit in 0..size.commits {
        filler.call("POST", "/v1/commit", &json!({"ops": large(commit)})).await?;
    }
    Ok(Tokens { calm, same, agents, viewers })
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
