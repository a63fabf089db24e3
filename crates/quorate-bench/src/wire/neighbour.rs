//! NEIGHBOUR: the round trips of a well-behaved agent, first on a quiet hub, then beside readers that cost the hub as much
//! as they can: event streams, audit exports and lists that nobody reads, and scans that find nothing. The readers are in a
//! space of large records; the agent is in another space, then in the same one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::http::Http;
use super::payload;
use super::served::Served;
use crate::Scale;
use crate::measure::{Latencies, Taken};
use crate::report::Line;

/// The space of the readers, and the one of the agent that is measured beside them.
const CROWDED: &str = "crowded";
const CALM: &str = "calm";
/// Operations of each commit that fills the crowded space.
const OPS: u64 = 250;
/// Principals that share the readers of one kind.
const PRINCIPALS: usize = 4;
/// How long a reader leaves an answer unread before it asks again on a new connection.
const UNREAD: Duration = Duration::from_millis(500);
/// A round trip that takes longer counts as this long.
const ROUND_MAX: Duration = Duration::from_secs(15);

/// What the readers do.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    readers: usize,
    path: &'static str,
    /// Whether the answer is read; a reader that reads asks again at once.
    reads: bool,
    /// Whether an agent may ask for it; if not, viewers do.
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

/// Sizes of a run.
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

/// Round trips, and how long all of them took.
struct Rounds {
    latencies: Latencies,
    seconds: f64,
}

/// Tokens of the two spaces.
struct Cast {
    calm: String,
    same: String,
    agents: Vec<String>,
    viewers: Vec<String>,
}

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Line>> {
    let size = Size::of(scale);
    let hub = Served::start(scale)?;
    let cast = prepare(&hub, &size).await?;
    let mut lines = Vec::new();
    for (place, token) in [("other space", &cast.calm), ("same space", &cast.same)] {
        let quiet = rounds(hub.address, token, size.duration).await?;
        let limit_us = 2 * quiet.latencies.at(0.99) + 20_000;
        lines.push(line(format!("{place}, quiet"), &quiet, &size));
        for load in &LOADS {
            let busy = beside(&hub, &cast, load, token, &size).await?;
            let within = busy.latencies.at(0.99) <= limit_us;
            let line = line(format!("{place}, {}", load.name), &busy, &size);
            lines.push(line.set("limitUs", limit_us).set("withinLimit", within));
        }
    }
    Ok(lines)
}

fn line(variant: String, rounds: &Rounds, size: &Size) -> Line {
    let taken = Taken { seconds: rounds.seconds, ..Taken::default() };
    let line = Line::new("NEIGHBOUR", variant, rounds.latencies.count(), taken).latencies(&rounds.latencies);
    line.set("records", size.commits).set("opsARecord", OPS)
}

/// Round trips of an agent while readers load the hub.
async fn beside(hub: &Served, cast: &Cast, load: &Load, token: &str, size: &Size) -> anyhow::Result<Rounds> {
    let tokens = if load.by_agents { &cast.agents } else { &cast.viewers };
    let mut readers = JoinSet::new();
    for index in 0..load.readers {
        let token = tokens[index % tokens.len()].clone();
        readers.spawn(reader(hub.address, token, *load));
    }
    let measured = rounds(hub.address, token, size.duration).await;
    readers.shutdown().await;
    // Until the hub has ended what it did for them, the next measurement would not be its own.
    tokio::time::sleep(UNREAD.min(size.duration)).await;
    measured
}

/// Asks again and again. An error is the hub's way to refuse it, and no reason to stop.
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
    let mut http = Http::connect(address, token).await?;
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

/// One round trip after the other: a look at the hub, a message to itself, the claim, and the ack.
async fn rounds(address: SocketAddr, token: &str, duration: Duration) -> anyhow::Result<Rounds> {
    let mut http = Http::connect(address, token).await?;
    let mut latencies = Latencies::new();
    let start = Instant::now();
    while start.elapsed() < duration {
        let begun = Instant::now();
        match tokio::time::timeout(ROUND_MAX, round(&mut http)).await {
            Ok(done) => done?,
            // What is left of that round is on the old connection.
            Err(_) => http = Http::connect(address, token).await?,
        }
        latencies.record(begun.elapsed());
    }
    Ok(Rounds { latencies, seconds: start.elapsed().as_secs_f64() })
}

async fn round(http: &mut Http) -> anyhow::Result<()> {
    http.call("GET", "/v1/info", &Value::Null).await?;
    http.call("POST", "/v1/messages", &json!({"to": "good", "action": "work", "payload": {"n": 1}})).await?;
    let claimed = http.call("POST", "/v1/agents/good/inbox/claim", &json!({"max": 16})).await?;
    let deliveries = claimed["deliveries"].as_array().context("no deliveries came")?;
    let leases: Vec<Value> = { deliveries.iter() }
        .map(|one| json!({"deliveryId": one["deliveryId"], "leaseToken": one["leaseToken"]}))
        .collect();
    if !leases.is_empty() {
        http.call("POST", "/v1/agents/good/inbox/ack", &json!({"deliveries": leases})).await?;
    }
    Ok(())
}

/// Two spaces, their agents, and the records that make reading the first one expensive.
async fn prepare(hub: &Served, size: &Size) -> anyhow::Result<Cast> {
    let mut admin = Http::connect(hub.address, &hub.admin).await?;
    for space in [CROWDED, CALM] {
        admin.call("POST", "/v1/spaces", &json!({"name": space})).await?;
    }
    let mut calm = Http::connect(hub.address, &hub.admin).await?.in_space(CALM);
    let mut crowded = Http::connect(hub.address, &hub.admin).await?.in_space(CROWDED);
    let calm = agent(&mut calm, "good").await?;
    let same = agent(&mut crowded, "good").await?;
    let (mut agents, mut viewers) = (Vec::new(), Vec::new());
    for index in 0..PRINCIPALS {
        agents.push(agent(&mut crowded, &format!("a{index}")).await?);
        let wanted = json!({"role": "viewer", "name": format!("v{index}")});
        let made = crowded.call("POST", "/v1/tokens", &wanted).await?;
        viewers.push(made["token"].as_str().context("no token came")?.to_owned());
    }
    agent(&mut crowded, "nobody").await?;
    let mut filler = Http::connect(hub.address, &agents[0]).await?;
    for commit in 0..size.commits {
        filler.call("POST", "/v1/commit", &json!({"ops": large(commit)})).await?;
    }
    Ok(Cast { calm, same, agents, viewers })
}

async fn agent(http: &mut Http, id: &str) -> anyhow::Result<String> {
    let made = http.call("PUT", &format!("/v1/agents/{id}"), &json!({})).await?;
    Ok(made["token"].as_str().context("no token came")?.to_owned())
}

/// A commit of many operations: entries, or messages to a topic that nobody hears.
fn large(commit: u64) -> Vec<Value> {
    let content: Value = serde_json::from_str(&payload(0, 0, 256)).unwrap_or_default();
    let one = |index| match commit % 2 {
        0 => json!({"op": "put", "key": format!("fill/{commit:05}/{index:03}"), "content": content}),
        _ => json!({"op": "send", "to": "topic:fill", "action": "fill", "payload": content}),
    };
    (0..OPS).map(one).collect()
}
