//! W2 and W9: the durable cycle over WebSocket. Each of eight agents sends to the next one, acks received deliveries in
//! ranges, and sends another frame when one is fully acked. A cycle ends with the response to its ack.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::hub_process::HubProcess;
use super::payload;
use super::socket::{AgentSocket, DeliveriesFrame, HubFrame, PayloadSlot};
use crate::Scale;
use crate::measure::Latencies;
use crate::report::Measurement;

const CONNECTIONS: usize = 8;

/// Parameters of a run.
#[derive(Clone, Copy)]
struct RunParams {
    bytes: usize,
    /// Messages per frame.
    batch: usize,
    /// Frames in flight per sender.
    frames: usize,
    /// Total frames per sender.
    share: usize,
}

/// Runs W2, with 16 messages per frame and with one.
pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let batched = RunParams { bytes: 256, batch: 16, frames: 4, share: share(scale, 800_000, 16) };
    let single = RunParams { bytes: 256, batch: 1, frames: 32, share: share(scale, 400_000, 1) };
    Ok(vec![
        run(scale, "W2", "WebSocket, 8 connections, frames of 16", batched)
            .await?
            .target(70_000.0, "70k/s, p99 < 10 ms"),
        run(scale, "W2", "WebSocket, 8 connections, single", single)
            .await?
            .target(35_000.0, "35k/s, p99 < 10 ms"),
    ])
}

/// Runs W9: messages of 4 KiB.
pub(crate) async fn measure_large(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let params = RunParams { bytes: 4_096, batch: 16, frames: 2, share: share(scale, 200_000, 16) };
    Ok(vec![run(scale, "W9", "WebSocket, 4 KiB, frames of 16", params).await?.target(20_000.0, "20k/s")])
}

fn share(scale: &Scale, cycles: u64, batch: usize) -> usize {
    (scale.count(cycles) as usize / CONNECTIONS / batch).max(4)
}

async fn run(
    scale: &Scale,
    workload: &'static str,
    variant: &str,
    params: RunParams,
) -> anyhow::Result<Measurement> {
    let hub = HubProcess::start(scale)?;
    let tokens = hub.register_agents(CONNECTIONS).await?;
    let mut sockets = Vec::new();
    for token in &tokens {
        sockets.push(AgentSocket::connect(hub.address, token, RequestContext::Nothing).await?);
    }
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..CONNECTIONS).map(|_| SenderState::new(params)).unzip();
    let senders = Arc::new(senders);
    let meter = hub.start_meter().await?;
    let mut running = JoinSet::new();
    for (index, (socket, acked)) in sockets.into_iter().zip(inboxes).enumerate() {
        running.spawn(Agent { index, socket, params, senders: Arc::clone(&senders), acked }.run());
    }
    let mut latencies = Latencies::new();
    while let Some(finished) = running.join_next().await {
        latencies.merge(&finished??);
    }
    let usage = hub.usage_since(&meter).await?;
    hub.check_acked(latencies.count()).await?;
    let line = Measurement::new(workload, variant, latencies.count(), usage).latencies(&latencies);
    let line =
        line.set("connections", CONNECTIONS).set("bytes", params.bytes).set("messagesAFrame", params.batch);
    Ok(line.set("onTheirWay", CONNECTIONS * params.batch * params.frames).set("keyed", true))
}

/// Frames in flight of a sender, shared with its recipients: send time and number of open messages of each.
struct SenderState {
    started: Instant,
    frames: Vec<Frame>,
    acked: mpsc::UnboundedSender<usize>,
}

#[derive(Default)]
struct Frame {
    sent_ns: AtomicU64,
    open: AtomicUsize,
}

impl SenderState {
    fn new(params: RunParams) -> (Self, mpsc::UnboundedReceiver<usize>) {
        let (acked, inbox) = mpsc::unbounded_channel();
        let frames = (0..params.frames).map(|_| Frame::default()).collect();
        (Self { started: Instant::now(), frames, acked }, inbox)
    }
}

/// Context of a request, kept until its response.
enum RequestContext {
    Nothing,
    /// Slots of the acked messages.
    Acked(Vec<PayloadSlot>),
}

struct Agent {
    index: usize,
    socket: AgentSocket<RequestContext>,
    params: RunParams,
    senders: Arc<Vec<SenderState>>,
    /// Frames of this agent whose messages are all acked.
    acked: mpsc::UnboundedReceiver<usize>,
}

impl Agent {
    async fn run(mut self) -> anyhow::Result<Latencies> {
        let mut latencies = Latencies::new();
        // Each agent acks as many messages as it sends, because its predecessor has the same share.
        let expected = (self.params.share * self.params.batch) as u64;
        let mut remaining = self.params.share;
        for frame in 0..self.params.frames.min(remaining) {
            self.send(frame, &mut remaining).await?;
        }
        self.socket.flush().await?;
        while latencies.count() < expected || remaining > 0 {
            tokio::select! {
                received = self.socket.next() => {
                    self.handle(received?, &mut latencies).await?;
                    while let Some(received) = self.socket.try_next()? {
                        self.handle(received, &mut latencies).await?;
                    }
                }
                Some(frame) = self.acked.recv(), if remaining > 0 => self.send(frame, &mut remaining).await?,
            }
            while remaining > 0
                && let Ok(frame) = self.acked.try_recv()
            {
                self.send(frame, &mut remaining).await?;
            }
            self.socket.flush().await?;
        }
        Ok(latencies)
    }

    async fn send(&mut self, frame: usize, remaining: &mut usize) -> anyhow::Result<()> {
        *remaining -= 1;
        let to = (self.index + 1) % CONNECTIONS;
        let send = format!(
            "{{\"op\":\"send\",\"to\":\"a{to}\",\"action\":\"work\",\"payload\":{}}}",
            payload(self.index, frame, self.params.bytes)
        );
        let ops = vec![send; self.params.batch].join(",");
        let body = format!("{{\"ops\":[{ops}],\"idempotencyKey\":\"{:010}\"}}", *remaining);
        let sender = &self.senders[self.index];
        sender.frames[frame].open.store(self.params.batch, Ordering::Relaxed);
        sender.frames[frame].sent_ns.store(sender.started.elapsed().as_nanos() as u64, Ordering::Release);
        self.socket.enqueue("commit", &body, RequestContext::Nothing).await.map(drop)
    }

    async fn handle(
        &mut self,
        received: HubFrame<RequestContext>,
        latencies: &mut Latencies,
    ) -> anyhow::Result<()> {
        match received {
            HubFrame::Response(RequestContext::Nothing) => {}
            HubFrame::Response(RequestContext::Acked(slots)) => {
                for PayloadSlot { sender, slot } in slots {
                    let sender = &self.senders[sender];
                    let sent = Duration::from_nanos(sender.frames[slot].sent_ns.load(Ordering::Acquire));
                    latencies.record(sender.started.elapsed().saturating_sub(sent));
                    if sender.frames[slot].open.fetch_sub(1, Ordering::AcqRel) == 1 {
                        // A sender that has sent its share has dropped its receiver.
                        let _ = sender.acked.send(slot);
                    }
                }
            }
            HubFrame::Deliveries(text) => {
                let received: DeliveriesFrame<'_> = serde_json::from_str(&text)?;
                let slots = received
                    .deliveries
                    .iter()
                    .map(|delivery| serde_json::from_str(delivery.message.payload.get()));
                let slots = slots.collect::<Result<Vec<PayloadSlot>, _>>()?;
                let last = received.first + slots.len() as u64 - 1;
                self.socket
                    .enqueue("ack", &format!("[[{},{last}]]", received.first), RequestContext::Acked(slots))
                    .await?;
            }
        }
        Ok(())
    }
}
