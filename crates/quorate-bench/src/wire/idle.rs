//! What a hub costs that has little to do: 10,000 connections that say nothing, 1,000 messages a second, and a start.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::{MissedTickBehavior, interval};

use super::payload;
use super::served::Served;
use super::socket::{Deliveries, Socket, Told};
use crate::Scale;
use crate::measure::{Latencies, Taken, cpu_seconds};
use crate::report::Line;
use crate::rig::new_directory;

/// Connections of the limit that are left for the requests of this process itself.
const SPARE: u64 = 16;

/// IDLE: agents that are connected and wait.
pub(crate) async fn connections(scale: &Scale) -> anyhow::Result<Vec<Line>> {
    let hub = Served::start(scale)?;
    let count = scale.count(10_000) - scale.count(10_000).min(SPARE);
    let tokens = hub.agents(count.max(1) as usize).await?;
    let meter = hub.meter().await?;
    let mut sockets = Vec::with_capacity(tokens.len());
    for token in &tokens {
        let socket = Socket::connect(hub.address, token, ()).await;
        sockets.push(socket.context("is the limit of open files (ulimit -n) above 10,000?")?);
    }
    let taken = hub.taken(&meter).await?;
    let line = Line::new("IDLE", "idle WebSocket connections", sockets.len() as u64, taken);
    Ok(vec![line.set("connections", sockets.len()).set("targetMemoryMB", 500)])
}

/// LOAD: 1,000 durable messages a second from one agent to another, each delivered and acked as it comes: sent one by one,
/// with two syncs for each, and in frames of 16.
pub(crate) async fn steady(scale: &Scale) -> anyhow::Result<Vec<Line>> {
    Ok(vec![at_rate(scale, 1).await?, at_rate(scale, 16).await?])
}

async fn at_rate(scale: &Scale, batch: u64) -> anyhow::Result<Line> {
    const RATE: u64 = 1_000;
    let hub = Served::start(scale)?;
    let tokens = hub.agents(2).await?;
    let mut sends = Socket::connect(hub.address, &tokens[0], tokio::time::Instant::now()).await?;
    let takes = Socket::connect(hub.address, &tokens[1], ()).await?;
    let frames = (scale.count(20_000) / batch).max(2);
    let taking = tokio::spawn(take(takes, frames * batch));
    let meter = hub.meter().await?;
    let mut ticks = interval(Duration::from_micros(batch * 1_000_000 / RATE));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let send =
        format!("{{\"op\":\"send\",\"to\":\"a1\",\"action\":\"work\",\"payload\":{}}}", payload(0, 0, 256));
    let ops = vec![send; batch as usize].join(",");
    let (mut latencies, mut sent) = (Latencies::new(), 0);
    while latencies.count() < frames {
        tokio::select! {
            at = ticks.tick(), if sent < frames => {
                sent += 1;
                let body = format!("{{\"ops\":[{ops}],\"idempotencyKey\":\"{sent:010}\"}}");
                sends.ask("commit", &body, at).await?;
                sends.flush().await?;
            }
            told = sends.next() => {
                if let Told::Answer(at) = told? {
                    latencies.record(at.elapsed());
                }
            }
        }
    }
    taking.await??;
    let taken = hub.taken(&meter).await?;
    let percent = 100.0 * taken.cpu_seconds / taken.seconds;
    let bare = bare_percent(scale, &taken)?;
    let how = if batch == 1 { "one by one".to_owned() } else { format!("frames of {batch}") };
    let line = Line::new("LOAD", format!("1,000 messages/s, {how}"), frames * batch, taken);
    let line = line.latencies(&latencies).set("messagesAFrame", batch);
    let tenths = |percent: f64| (10.0 * percent).round() / 10.0;
    Ok(line.set("corePercent", tenths(percent)).set("barePercent", tenths(bare)).set("targetCorePercent", 10))
}

/// The yardstick beside LOAD: what share of a core it takes to write and sync as many bytes as often, and nothing else.
fn bare_percent(scale: &Scale, taken: &Taken) -> anyhow::Result<f64> {
    const SYNCS: u64 = 1_000;
    let directory = new_directory(scale.data.as_deref())?;
    let bytes = vec![0; (taken.bytes_written / taken.wal_syncs.max(1)) as usize];
    let file = File::create(directory.path().join("bare"))?;
    // The hub's log has its length before it is written: a file that grows costs more.
    for place in 0..SYNCS {
        file.write_all_at(&bytes, place * bytes.len() as u64)?;
    }
    file.sync_all()?;
    let before = cpu_seconds();
    for place in 0..SYNCS {
        file.write_all_at(&bytes, place * bytes.len() as u64)?;
        file.sync_data()?;
    }
    let one = (cpu_seconds() - before) / SYNCS as f64;
    Ok(100.0 * one * taken.wal_syncs as f64 / taken.seconds)
}

/// Acks what comes, until so many were acked.
async fn take(mut socket: Socket<()>, count: u64) -> anyhow::Result<()> {
    let mut acked = 0;
    while acked < count {
        if let Told::Deliveries(text) = socket.next().await? {
            let came: Deliveries<'_> = serde_json::from_str(&text)?;
            let last = came.first + came.deliveries.len() as u64 - 1;
            socket.ask("ack", &format!("[[{},{last}]]", came.first), ()).await?;
            socket.flush().await?;
            acked = last;
        }
    }
    // The last ack is answered.
    socket.next().await.map(drop)
}

/// READY: the start of a hub on an empty directory, to the line that says it is ready.
pub(crate) async fn start(scale: &Scale) -> anyhow::Result<Vec<Line>> {
    let mut taken = Vec::new();
    for _ in 0..5 {
        taken.push(Served::start(scale)?.ready_after);
    }
    taken.sort();
    let line = Line::new("READY", "start on an empty directory", 0, Taken::default());
    Ok(vec![line.set("readyMs", taken[2].as_millis() as u64).set("targetMs", 300)])
}
