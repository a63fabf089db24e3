//! W7: the atomic step. Each of 64 callers receives its input and, in one commit, acks it, writes an entry, sends the
//! next input to itself and a result to another agent.

use std::time::Instant;

use quorate_core::limits::HOPS_MAX;
use quorate_core::{AgentId, Commit, Destination, Key, Message, Op, Principal, PutEntry};
use quorate_engine::{Error, Space};
use tokio::task::JoinSet;

use crate::Scale;
use crate::cycle::register_agents;
use crate::embedded_hub::EmbeddedHub;
use crate::measure::{Latencies, Meter};
use crate::report::Measurement;

const CALLERS: usize = 64;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let hub = EmbeddedHub::new(scale.data.as_deref()).await?;
    // The second half only receives results and never acks them. No inbox gets near its limit.
    let agents = register_agents(&hub.space, CALLERS * 2).await?;
    let share = scale.count(200_000) / CALLERS as u64;
    let meter = Meter::start(&hub.store);
    let mut running = JoinSet::new();
    for index in 0..CALLERS {
        let (agent, other) = (agents[index].clone(), agents[CALLERS + index].clone());
        running.spawn(call(hub.space.clone(), agent, other, share));
    }
    let mut latencies = Latencies::new();
    while let Some(finished) = running.join_next().await {
        latencies.merge(&finished??);
    }
    let usage = meter.stop(&hub.store);
    let line = Measurement::new("W7", "ack + put + 2 sends, 64 callers", latencies.count(), usage)
        .latencies(&latencies);
    hub.close().await;
    Ok(vec![line.set("callers", CALLERS).set("bytes", 256).target(30_000.0, "30k/s")])
}

async fn call(space: Space, agent: AgentId, other: AgentId, share: u64) -> Result<Latencies, Error> {
    let principal = Principal::Agent(agent.clone());
    // All steps of a caller are one chain. Each has other content, so that the chain is not refused as a loop.
    let content = |step: u64| bytes::Bytes::from(format!("\"{step:0>254}\""));
    let send = |to: &AgentId, content: bytes::Bytes| {
        let mut message = Message::new(Destination::Agent(to.clone()), "work", space.seal(content));
        message.from = Some(agent.clone());
        message.max_hops = Some(HOPS_MAX);
        Op::send(message)
    };
    let mut consumer = space.consume(&principal, None, &agent, 1, 30_000).await?;
    space.commit(Commit::new(principal.clone(), vec![send(&agent, content(0))])).await?;
    let mut latencies = Latencies::new();
    let key = Key::new(format!("step/{agent}"))?;
    for step in 1..=share {
        let content = content(step);
        let Some(delivery) = consumer.next().await? else { break };
        let Some(lease) = delivery.lease else { continue };
        let start = Instant::now();
        let put = PutEntry {
            key: key.clone(),
            entry_type: "step".into(),
            content: space.seal(content.clone()),
            content_type: None,
            expect: None,
            depends_on: Vec::new(),
            fence: None,
        };
        let ops = vec![
            Op::Ack(lease),
            Op::Put(put),
            send(&agent, content.clone()),
            send(&other, content),
            consumer.grant_credit_op(1),
        ];
        space.commit(Commit::new(principal.clone(), ops)).await?;
        latencies.record(start.elapsed());
    }
    Ok(latencies)
}
