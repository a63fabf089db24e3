//! W4 over WebSocket: a topic with 30 subscribers that ack in ranges. Measures deliveries with a confirmed ack.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::hub_process::HubProcess;
use super::payload;
use super::socket::{AgentSocket, DeliveriesFrame, HubFrame};
use crate::Scale;
use crate::measure::Latencies;
use crate::report::Measurement;

const SUBSCRIBERS: usize = 30;
/// Messages per frame.
const BATCH: usize = 16;
/// Maximum number of frames in flight.
const AHEAD: usize = 8;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let hub = HubProcess::start(scale)?;
    let tokens = hub.register_agents(SUBSCRIBERS + 1).await?;
    let frames = (scale.count(60_000) as usize / BATCH).max(2);
    let messages = (frames * BATCH) as u64;
    let progress = Arc::new(Progress { acked: AtomicU64::new(0), ahead: Semaphore::new(AHEAD) });
    let mut running = JoinSet::new();
    for (index, token) in tokens.iter().take(SUBSCRIBERS).enumerate() {
        hub.subscribe(index, "bench.%3E").await?;
        let socket = AgentSocket::connect(hub.address, token, RequestContext::Nothing).await?;
        running.spawn(consume(socket, messages, Arc::clone(&progress)));
    }
    let publisher = AgentSocket::connect(hub.address, &tokens[SUBSCRIBERS], Instant::now()).await?;
    let meter = hub.start_meter().await?;
    running.spawn(publish(publisher, frames, Arc::clone(&progress)));
    let mut latencies = Latencies::new();
    while let Some(finished) = running.join_next().await {
        latencies.merge(&finished??);
    }
    let usage = hub.usage_since(&meter).await?;
    let done = messages * SUBSCRIBERS as u64;
    hub.check_acked(done).await?;
    let line = Measurement::new("W4", "topic, 30 subscribers, WebSocket", done, usage).latencies(&latencies);
    let line = line.set("subscribers", SUBSCRIBERS).set("bytes", 256).set("messagesAFrame", BATCH);
    Ok(vec![line.target(200_000.0, "200k/s")])
}

/// Progress of the subscribers, used for backpressure on the publisher.
struct Progress {
    acked: AtomicU64,
    ahead: Semaphore,
}

impl Progress {
    fn record(&self, acks: u64) {
        let per_frame = (SUBSCRIBERS * BATCH) as u64;
        let previous = self.acked.fetch_add(acks, Ordering::Relaxed);
        self.ahead.add_permits(((previous + acks) / per_frame - previous / per_frame) as usize);
    }
}

async fn publish(
    mut socket: AgentSocket<Instant>,
    frames: usize,
    progress: Arc<Progress>,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new();
    let send = format!(
        "{{\"op\":\"send\",\"to\":\"topic:bench.load\",\"action\":\"load\",\"payload\":{}}}",
        payload(0, 0, 256)
    );
    let ops = vec![send; BATCH].join(",");
    let mut sent = 0;
    while latencies.count() < frames as u64 {
        tokio::select! {
            Ok(permit) = progress.ahead.acquire(), if sent < frames => {
                permit.forget();
                sent += 1;
                let body = format!("{{\"ops\":[{ops}],\"idempotencyKey\":\"{sent:010}\"}}");
                socket.enqueue("commit", &body, Instant::now()).await?;
                socket.flush().await?;
            }
            frame = socket.next() => {
                if let HubFrame::Response(at) = frame? {
                    latencies.record(at.elapsed());
                }
            }
        }
    }
    Ok(latencies)
}

/// Context of a request, kept until its response.
enum RequestContext {
    Nothing,
    Acks(u64),
}

async fn consume(
    mut socket: AgentSocket<RequestContext>,
    messages: u64,
    progress: Arc<Progress>,
) -> anyhow::Result<Latencies> {
    let mut acked = 0;
    while acked < messages {
        let mut next = Some(socket.next().await?);
        let mut received: Option<(u64, u64)> = None;
        while let Some(frame) = next {
            match frame {
                HubFrame::Response(RequestContext::Nothing) => {}
                HubFrame::Response(RequestContext::Acks(count)) => {
                    acked += count;
                    progress.record(count);
                }
                HubFrame::Deliveries(text) => {
                    let frame: DeliveriesFrame<'_> = serde_json::from_str(&text)?;
                    let last = frame.first + frame.deliveries.len() as u64 - 1;
                    received = Some((received.map_or(frame.first, |(first, _)| first), last));
                }
            }
            next = socket.try_next()?;
        }
        if let Some((first, last)) = received {
            socket
                .enqueue("ack", &format!("[[{first},{last}]]"), RequestContext::Acks(last - first + 1))
                .await?;
            socket.flush().await?;
        }
    }
    // Only the latency of the publisher is measured.
    Ok(Latencies::new())
}
