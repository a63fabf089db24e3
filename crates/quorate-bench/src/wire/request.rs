//! W3 over WebSocket: ephemeral request and response, with one caller and with 64.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use anyhow::Context as _;
use tokio::task::JoinSet;

use super::hub_process::HubProcess;
use super::socket::{AgentSocket, DeliveriesFrame, HubFrame};
use crate::Scale;
use crate::measure::Latencies;
use crate::report::Measurement;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let echo = tokio::task::spawn_blocking(echo_us).await??;
    let single = run(scale, 1, 1, scale.count(60_000)).await?.set("echoUs", echo);
    let many = run(scale, 4, 16, scale.count(400_000)).await?;
    Ok(vec![single.target(6_500.0, "6.5k/s, p50 ≤ 150 µs"), many.target(60_000.0, "60k/s")])
}

/// Measures the baseline: the round-trip time of a TCP echo between two threads on this machine. A request through a
/// hub with its response takes two such round trips.
fn echo_us() -> anyhow::Result<u64> {
    const ROUNDS: u32 = 2_000;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let echo = std::thread::spawn(move || {
        let mut bytes = [0; 256];
        while server.read_exact(&mut bytes).and_then(|()| server.write_all(&bytes)).is_ok() {}
    });
    let mut bytes = [1; 256];
    let start = Instant::now();
    for _ in 0..ROUNDS {
        client.write_all(&bytes)?;
        client.read_exact(&mut bytes)?;
    }
    let round_trip = start.elapsed() / ROUNDS;
    drop(client);
    let _ = echo.join();
    Ok(round_trip.as_micros() as u64)
}

/// Runs pairs of connections: one sends requests, `concurrent` at a time, and the other responds.
async fn run(scale: &Scale, pairs: usize, concurrent: usize, count: u64) -> anyhow::Result<Measurement> {
    let hub = HubProcess::start(scale)?;
    let tokens = hub.register_agents(2 * pairs).await?;
    let share = (count / pairs as u64).max(concurrent as u64);
    let (mut requesting, mut responding) = (JoinSet::new(), JoinSet::new());
    let mut requesters = Vec::new();
    for pair in 0..pairs {
        requesters.push(AgentSocket::connect(hub.address, &tokens[pair], Instant::now()).await?);
        let responder = AgentSocket::connect(hub.address, &tokens[pairs + pair], ()).await?;
        responding.spawn(respond(responder, pair));
    }
    let meter = hub.start_meter().await?;
    for (pair, socket) in requesters.into_iter().enumerate() {
        requesting.spawn(request(socket, pairs + pair, concurrent, share));
    }
    let mut latencies = Latencies::new();
    while latencies.count() < share * pairs as u64 {
        tokio::select! {
            Some(finished) = requesting.join_next() => latencies.merge(&finished??),
            Some(failed) = responding.join_next() => return Err(failed?.err().context("a responder stopped")?),
        }
    }
    let usage = hub.usage_since(&meter).await?;
    let callers = pairs * concurrent;
    let line =
        Measurement::new("W3", format!("ephemeral, WebSocket, {callers} callers"), latencies.count(), usage);
    Ok(line.latencies(&latencies).set("callers", callers).set("connections", 2 * pairs).set("bytes", 256))
}

async fn request(
    mut socket: AgentSocket<Instant>,
    to: usize,
    concurrent: usize,
    share: u64,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new();
    let question = format!(
        "{{\"to\":\"a{to}\",\"type\":\"query\",\"action\":\"ask\",\"payload\":\"{}\",\"durability\":\"ephemeral\"}}",
        "x".repeat(254)
    );
    for _ in 0..concurrent {
        socket.enqueue("request", &question, Instant::now()).await?;
    }
    socket.flush().await?;
    let mut sent = concurrent as u64;
    while latencies.count() < share {
        let mut next = Some(socket.next().await?);
        while let Some(frame) = next {
            if let HubFrame::Response(sent_at) = frame {
                latencies.record(sent_at.elapsed());
                if sent < share {
                    sent += 1;
                    socket.enqueue("request", &question, Instant::now()).await?;
                }
            }
            next = socket.try_next()?;
        }
        socket.flush().await?;
    }
    Ok(latencies)
}

async fn respond(mut socket: AgentSocket<()>, requester: usize) -> anyhow::Result<()> {
    loop {
        let mut next = Some(socket.next().await?);
        while let Some(frame) = next {
            if let HubFrame::Deliveries(text) = frame {
                let received: DeliveriesFrame<'_> = serde_json::from_str(&text)?;
                for question in received.deliveries {
                    let body = format!(
                        "{{\"to\":\"a{requester}\",\"type\":\"response\",\"inReplyTo\":\"{}\",\"payload\":{},\"durability\":\"ephemeral\"}}",
                        question.message.id, question.message.payload
                    );
                    socket.enqueue("send", &body, ()).await?;
                }
            }
            next = socket.try_next()?;
        }
        socket.flush().await?;
    }
}
