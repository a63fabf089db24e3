//! W4: a topic with 30 subscribers. Each publisher waits for its durable send; each subscriber acks received deliveries
//! in batches. Measures deliveries with a durable ack.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use quorate_core::limits::CLAIM_MAX;
use quorate_core::{AgentId, Commit, Message, Op, Pattern, Principal};
use quorate_engine::{Consumer, Error, Space};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Scale;
use crate::cycle::register_agents;
use crate::embedded_hub::EmbeddedHub;
use crate::measure::{Latencies, Meter};
use crate::report::Measurement;

const SUBSCRIBERS: usize = 30;
const PUBLISHERS: usize = 64;
/// Maximum number of deliveries that a subscriber holds and acks in one batch.
const CREDIT: u32 = CLAIM_MAX;
/// Maximum number of messages in flight, so that subscribers keep up and never run out of credit.
const AHEAD: usize = 2 * PUBLISHERS;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let hub = EmbeddedHub::new(scale.data.as_deref()).await?;
    let agents = register_agents(&hub.space, SUBSCRIBERS + PUBLISHERS).await?;
    let (subscribers, publishers) = agents.split_at(SUBSCRIBERS);
    let share = (scale.count(100_000) / PUBLISHERS as u64).max(1);
    let messages = share * PUBLISHERS as u64;
    let progress = Arc::new(Progress { acked: AtomicU64::new(0), ahead: Semaphore::new(AHEAD) });
    // One set for both, so that the first failure stops the run.
    let mut running = JoinSet::new();
    for agent in subscribers {
        let principal = Principal::Agent(agent.clone());
        hub.space.subscribe(&principal, None, agent, &Pattern::new("bench.>")?, None).await?;
        let consumer = hub.space.consume(&principal, None, agent, CREDIT, 30_000).await?;
        running.spawn(consume(hub.space.clone(), principal, consumer, messages, Arc::clone(&progress)));
    }
    let meter = Meter::start(&hub.store);
    for agent in publishers {
        running.spawn(publish(hub.space.clone(), agent.clone(), share, Arc::clone(&progress)));
    }
    let mut latencies = Latencies::new();
    while let Some(finished) = running.join_next().await {
        latencies.merge(&finished??);
    }
    let usage = meter.stop(&hub.store);
    let line =
        Measurement::new("W4", "topic, 30 subscribers, in-process", messages * SUBSCRIBERS as u64, usage);
    let line = line.latencies(&latencies).set("subscribers", SUBSCRIBERS).set("publishers", PUBLISHERS);
    hub.close().await;
    Ok(vec![line.set("bytes", 256).set("acksAtOnce", CREDIT).target(600_000.0, "600k/s")])
}

/// Progress of the subscribers, used for backpressure on the publishers.
struct Progress {
    acked: AtomicU64,
    ahead: Semaphore,
}

impl Progress {
    /// Records acks. Each fully acked message permits another one.
    fn record(&self, acks: u64) {
        let per_message = SUBSCRIBERS as u64;
        let previous = self.acked.fetch_add(acks, Ordering::Relaxed);
        self.ahead.add_permits(((previous + acks) / per_message - previous / per_message) as usize);
    }
}

async fn publish(
    space: Space,
    agent: AgentId,
    share: u64,
    progress: Arc<Progress>,
) -> Result<Latencies, Error> {
    let principal = Principal::Agent(agent.clone());
    let content = bytes::Bytes::from(format!("\"{}\"", "x".repeat(254)));
    let mut latencies = Latencies::new();
    for _ in 0..share {
        // The semaphore is never closed.
        let Ok(permit) = progress.ahead.acquire().await else { break };
        permit.forget();
        let start = Instant::now();
        let mut message = Message::new("topic:bench.load".parse()?, "load", space.seal(content.clone()));
        message.from = Some(agent.clone());
        space.commit(Commit::new(principal.clone(), vec![Op::send(message)])).await?;
        latencies.record(start.elapsed());
    }
    Ok(latencies)
}

async fn consume(
    space: Space,
    principal: Principal,
    mut consumer: Consumer,
    messages: u64,
    progress: Arc<Progress>,
) -> Result<Latencies, Error> {
    let mut acked = 0;
    while acked < messages {
        let mut leases = Vec::with_capacity(CREDIT as usize);
        let mut next = consumer.next().await?;
        while let Some(delivery) = next {
            leases.extend(delivery.lease);
            next = if leases.len() < CREDIT as usize { consumer.try_next().await? } else { None };
        }
        // The consumer is closed: there will be no more deliveries.
        if leases.is_empty() {
            break;
        }
        let count = leases.len() as u64;
        let ops = vec![Op::AckMany(leases), consumer.grant_credit_op(count as u32)];
        space.commit(Commit::new(principal.clone(), ops)).await?;
        acked += count;
        progress.record(count);
    }
    // Only the latency of publishers is measured.
    Ok(Latencies::new())
}
