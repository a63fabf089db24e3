//! W3: request and response in process. Ephemeral: 64 callers, each waiting for its response. Durable: one caller;
//! request, response and ack are durable before the next request.

use std::time::Instant;

use quorate_core::{
    AgentId, Commit, Destination, Durability, Message, MessageType, Op, Payload, Principal, SendRequest,
};
use quorate_engine::{Consumer, Error, ReceivedDelivery, Space};
use tokio::task::JoinSet;

use crate::Scale;
use crate::cycle::register_agents;
use crate::embedded_hub::EmbeddedHub;
use crate::measure::{Latencies, Meter};
use crate::report::Measurement;

const CALLERS: usize = 64;
/// Agents that respond.
const RESPONDERS: usize = 4;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let hub = EmbeddedHub::new(scale.data.as_deref()).await?;
    let agents = register_agents(&hub.space, RESPONDERS + CALLERS).await?;
    let (responders, callers) = agents.split_at(RESPONDERS);
    let mut responding = JoinSet::new();
    for agent in responders {
        let principal = Principal::Agent(agent.clone());
        let consumer = hub.space.consume(&principal, None, agent, 1, 30_000).await?;
        responding.spawn(answer(hub.space.clone(), agent.clone(), consumer));
    }
    let lines = vec![
        ephemeral(&hub, responders, callers, scale.count(2_000_000) / CALLERS as u64 + 1).await?,
        durable(&hub, &responders[0], &callers[0], scale.count(20_000)).await?,
    ];
    responding.abort_all();
    hub.close().await;
    Ok(lines)
}

async fn ephemeral(
    hub: &EmbeddedHub,
    responders: &[AgentId],
    callers: &[AgentId],
    share: u64,
) -> anyhow::Result<Measurement> {
    let meter = Meter::start(&hub.store);
    let mut requesting = JoinSet::new();
    for (index, from) in callers.iter().enumerate() {
        let to = responders[index % RESPONDERS].clone();
        requesting.spawn(request_ephemeral(hub.space.clone(), from.clone(), to, share));
    }
    let mut latencies = Latencies::new();
    while let Some(finished) = requesting.join_next().await {
        latencies.merge(&finished??);
    }
    let usage = meter.stop(&hub.store);
    let line =
        Measurement::new("W3", "ephemeral, in-process", latencies.count(), usage).latencies(&latencies);
    let line = line.set("callers", CALLERS).set("answering", RESPONDERS).set("bytes", 256);
    Ok(line.target(500_000.0, "500k/s"))
}

async fn durable(hub: &EmbeddedHub, to: &AgentId, from: &AgentId, count: u64) -> anyhow::Result<Measurement> {
    let principal = Principal::Agent(from.clone());
    let meter = Meter::start(&hub.store);
    let mut latencies = Latencies::new();
    for _ in 0..count.max(1) {
        let start = Instant::now();
        let question = question(from, to, hub.space.seal(content()));
        let mut request = hub.space.request(&principal, None, SendRequest::new(question, None, None)).await?;
        request.answer().await?;
        latencies.record(start.elapsed());
    }
    let usage = meter.stop(&hub.store);
    let line = Measurement::new("W3", "durable, 1 caller, in-process", latencies.count(), usage);
    let line = line.latencies(&latencies).set("callers", 1).set("bytes", 256);
    // Two sequential fsyncs; a p50 of 700 µs corresponds to this rate.
    Ok(line.target(1_430.0, "p50 ≤ 700 µs"))
}

fn content() -> bytes::Bytes {
    bytes::Bytes::from(format!("\"{}\"", "x".repeat(254)))
}

fn question(from: &AgentId, to: &AgentId, payload: Payload) -> Message {
    let mut message = Message::new(Destination::Agent(to.clone()), "ask", payload);
    message.from = Some(from.clone());
    message.kind = MessageType::Query;
    message
}

async fn request_ephemeral(space: Space, from: AgentId, to: AgentId, count: u64) -> Result<Latencies, Error> {
    let principal = Principal::Agent(from.clone());
    let content = content();
    let mut latencies = Latencies::new();
    for _ in 0..count {
        let start = Instant::now();
        let message = question(&from, &to, Payload::unsealed(content.clone()));
        space.request_ephemeral(&principal, None, message, None).await?;
        latencies.record(start.elapsed());
    }
    Ok(latencies)
}

/// Responds to every request with the durability of the request.
async fn answer(space: Space, agent: AgentId, mut consumer: Consumer) -> Result<(), Error> {
    let principal = Principal::Agent(agent.clone());
    while let Some(ReceivedDelivery { lease, id, message, .. }) = consumer.next().await? {
        let Some(requester) = &message.from else { continue };
        let payload = match lease {
            Some(_) => space.seal(message.payload.bytes.clone()),
            None => Payload::unsealed(message.payload.bytes.clone()),
        };
        let mut answer = Message::new(Destination::Agent(requester.clone()), "ask", payload);
        answer.from = Some(agent.clone());
        answer.kind = MessageType::Response;
        answer.in_reply_to = Some(id.to_string());
        match lease {
            Some(lease) => {
                let ops = vec![Op::send(answer), Op::Ack(lease), consumer.grant_credit_op(1)];
                space.commit(Commit::new(principal.clone(), ops)).await?;
            }
            None => {
                answer.durability = Durability::Ephemeral;
                space.send_ephemeral(&principal, None, answer).await?;
            }
        }
    }
    Ok(())
}
