//! W4: a topic with 30 subscribers. Publishers send to it, each waiting for its durable answer; every subscriber acks what
//! has come in one operation of many. What counts is deliveries whose ack is on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use quorate_core::limits::CLAIM_MAX;
use quorate_core::{AgentId, Commit, Message, Op, Pattern, Principal};
use quorate_engine::{Consumer, Error, Space};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Scale;
use crate::cycle::register;
use crate::measure::{Latencies, Meter};
use crate::report::Line;
use crate::rig::Rig;

const SUBSCRIBERS: usize = 30;
const PUBLISHERS: usize = 64;
/// Deliveries that a subscriber holds at most, and acks at once.
const CREDIT: u32 = CLAIM_MAX;
/// Messages that may be on their way: subscribers keep up, and have credit for what comes.
const AHEAD: usize = 2 * PUBLISHERS;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Line>> {
    let rig = Rig::new(scale.data.as_deref()).await?;
    let agents = register(&rig.space, SUBSCRIBERS + PUBLISHERS).await?;
    let (subscribers, publishers) = agents.split_at(SUBSCRIBERS);
    let share = (scale.count(100_000) / PUBLISHERS as u64).max(1);
    let messages = share * PUBLISHERS as u64;
    let progress = Arc::new(Progress { acked: AtomicU64::new(0), ahead: Semaphore::new(AHEAD) });
    // In one set, so that the first failure ends them all.
    let mut running = JoinSet::new();
    for agent in subscribers {
        let principal = Principal::Agent(agent.clone());
        rig.space.subscribe(&principal, None, agent, &Pattern::new("bench.>")?, None).await?;
        let consumer = rig.space.consume(&principal, None, agent, CREDIT, 30_000).await?;
        running.spawn(listen(rig.space.clone(), principal, consumer, messages, Arc::clone(&progress)));
    }
    let meter = Meter::start(&rig.store);
    for agent in publishers {
        running.spawn(publish(rig.space.clone(), agent.clone(), share, Arc::clone(&progress)));
    }
    let mut latencies = Latencies::new();
    while let Some(finished) = running.join_next().await {
        latencies.add(&finished??);
    }
    let taken = meter.stop(&rig.store);
    let line = Line::new("W4", "topic, 30 subscribers, in-process", messages * SUBSCRIBERS as u64, taken);
    let line = line.latencies(&latencies).set("subscribers", SUBSCRIBERS).set("publishers", PUBLISHERS);
    rig.close().await;
    Ok(vec![line.set("bytes", 256).set("acksAtOnce", CREDIT).target(600_000.0, "600k/s")])
}

/// How far the subscribers have got, so that the publishers do not run away from them.
struct Progress {
    acked: AtomicU64,
    ahead: Semaphore,
}

impl Progress {
    /// Notes acks; every message that has had them all makes room for another one.
    fn note(&self, acks: u64) {
        let all = SUBSCRIBERS as u64;
        let before = self.acked.fetch_add(acks, Ordering::Relaxed);
        self.ahead.add_permits(((before + acks) / all - before / all) as usize);
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
        // Never closed.
        let Ok(room) = progress.ahead.acquire().await else { break };
        room.forget();
        let start = Instant::now();
        let mut message = Message::new("topic:bench.load".parse()?, "load", space.seal(content.clone()));
        message.from = Some(agent.clone());
        space.commit(Commit::new(principal.clone(), vec![Op::send(message)])).await?;
        latencies.record(start.elapsed());
    }
    Ok(latencies)
}

async fn listen(
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
            next = if leases.len() < CREDIT as usize { consumer.at_hand().await? } else { None };
        }
        // Nothing more will come: the hub is closed.
        if leases.is_empty() {
            break;
        }
        let count = leases.len() as u64;
        let ops = vec![Op::AckMany(leases), consumer.grant(count as u32)];
        space.commit(Commit::new(principal.clone(), ops)).await?;
        acked += count;
        progress.note(count);
    }
    // What counts here is how long a publisher waits.
    Ok(Latencies::new())
}
