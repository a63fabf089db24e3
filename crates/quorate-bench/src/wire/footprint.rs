//! Resource usage of a hub under light load: 10,000 idle connections, 1,000 messages per second, and startup.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::{MissedTickBehavior, interval};

use super::hub_process::HubProcess;
use super::payload;
use super::socket::{AgentSocket, DeliveriesFrame, HubFrame};
use crate::Scale;
use crate::embedded_hub::new_directory;
use crate::measure::{Latencies, ResourceUsage, cpu_seconds};
use crate::report::Measurement;

/// Connections below the hub's limit that are reserved for requests of this process.
const SPARE: u64 = 16;

/// Runs IDLE: memory usage of idle WebSocket connections.
pub(crate) async fn measure_idle(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let hub = HubProcess::start(scale)?;
    let count = scale.count(10_000) - scale.count(10_000).min(SPARE);
    let tokens = hub.register_agents(count.max(1) as usize).await?;
    let meter = hub.start_meter().await?;
    let mut sockets = Vec::with_capacity(tokens.len());
    for token in &tokens {
        let socket = AgentSocket::connect(hub.address, token, ()).await;
        sockets.push(
            socket.context("failed to connect; raise the limit of open files (ulimit -n) above 10,000")?,
        );
    }
    let usage = hub.usage_since(&meter).await?;
    let line = Measurement::new("IDLE", "idle WebSocket connections", sockets.len() as u64, usage);
    Ok(vec![line.set("connections", sockets.len()).set("targetMemoryMB", 500)])
}

/// Runs LOAD: 1,000 durable messages per second from one agent to another, each acked on receipt. Sent individually,
/// with two fsyncs per message, and in frames of 16.
pub(crate) async fn measure_load(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    Ok(vec![at_rate(scale, 1).await?, at_rate(scale, 16).await?])
}

async fn at_rate(scale: &Scale, batch: u64) -> anyhow::Result<Measurement> {
    const RATE: u64 = 1_000;
    let hub = HubProcess::start(scale)?;
    let tokens = hub.register_agents(2).await?;
    let mut sender = AgentSocket::connect(hub.address, &tokens[0], tokio::time::Instant::now()).await?;
    let receiver = AgentSocket::connect(hub.address, &tokens[1], ()).await?;
    let frames = (scale.count(20_000) / batch).max(2);
    let receiving = tokio::spawn(receive(receiver, frames * batch));
    let meter = hub.start_meter().await?;
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
                sender.enqueue("commit", &body, at).await?;
                sender.flush().await?;
            }
            frame = sender.next() => {
                if let HubFrame::Response(at) = frame? {
                    latencies.record(at.elapsed());
                }
            }
        }
    }
    receiving.await??;
    let usage = hub.usage_since(&meter).await?;
    let percent = 100.0 * usage.cpu_seconds / usage.seconds;
    let baseline = baseline_percent(scale, &usage)?;
    let framing = if batch == 1 { "one per frame".to_owned() } else { format!("frames of {batch}") };
    let line = Measurement::new("LOAD", format!("1,000 messages/s, {framing}"), frames * batch, usage);
    let line = line.latencies(&latencies).set("messagesAFrame", batch);
    let rounded = |percent: f64| (10.0 * percent).round() / 10.0;
    Ok(line
        .set("corePercent", rounded(percent))
        .set("barePercent", rounded(baseline))
        .set("targetCorePercent", 10))
}

/// Baseline of LOAD: share of a CPU core that is needed for the writes and fsyncs alone.
fn baseline_percent(scale: &Scale, usage: &ResourceUsage) -> anyhow::Result<f64> {
    const SYNCS: u64 = 1_000;
    let directory = new_directory(scale.data.as_deref())?;
    let bytes = vec![0; (usage.bytes_written / usage.wal_syncs.max(1)) as usize];
    let file = File::create(directory.path().join("bare"))?;
    // The hub preallocates its write-ahead log, and appending to a growing file costs more.
    for index in 0..SYNCS {
        file.write_all_at(&bytes, index * bytes.len() as u64)?;
    }
    file.sync_all()?;
    let before = cpu_seconds();
    for index in 0..SYNCS {
        file.write_all_at(&bytes, index * bytes.len() as u64)?;
        file.sync_data()?;
    }
    let per_sync = (cpu_seconds() - before) / SYNCS as f64;
    Ok(100.0 * per_sync * usage.wal_syncs as f64 / usage.seconds)
}

/// Acks deliveries until `count` are acked.
async fn receive(mut socket: AgentSocket<()>, count: u64) -> anyhow::Result<()> {
    let mut acked = 0;
    while acked < count {
        if let HubFrame::Deliveries(text) = socket.next().await? {
            let received: DeliveriesFrame<'_> = serde_json::from_str(&text)?;
            let last = received.first + received.deliveries.len() as u64 - 1;
            socket.enqueue("ack", &format!("[[{},{last}]]", received.first), ()).await?;
            socket.flush().await?;
            acked = last;
        }
    }
    // Wait for the response to the last ack.
    socket.next().await.map(drop)
}

/// Runs READY: time from the start of a hub on an empty directory to its ready line.
pub(crate) async fn measure_startup(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let mut durations = Vec::new();
    for _ in 0..5 {
        durations.push(HubProcess::start(scale)?.ready_after);
    }
    durations.sort();
    let line = Measurement::new("READY", "start on an empty directory", 0, ResourceUsage::default());
    Ok(vec![line.set("readyMs", durations[2].as_millis() as u64).set("targetMs", 300)])
}
