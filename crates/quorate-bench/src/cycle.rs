//! W1: the durable cycle in process. Each of 256 callers sends a message, and its recipient acks it. The caller sends
//! the next message after the ack is durable. W0 is the baseline: the same SQL statements without the engine.

use std::sync::Arc;
use std::time::Instant;

use quorate_core::{AgentId, Commit, Destination, Message, Op, Principal, RegisterAgent};
use quorate_engine::{Consumer, Error, ReceivedDelivery, Space};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::Scale;
use crate::embedded_hub::{EmbeddedHub, new_directory};
use crate::measure::{Latencies, Meter, ResourceUsage, bytes_written, next_key, syncs};
use crate::report::Measurement;

/// Parameters of a run of cycles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CycleParams {
    pub(crate) callers: usize,
    pub(crate) bytes: usize,
    pub(crate) cycles: usize,
    /// Whether each commit has an idempotency key. Keys increase over time.
    pub(crate) keyed: bool,
}

/// Runs W0: the SQL statements of W1 in a bare loop.
pub(crate) fn measure_baseline(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let directory = new_directory(scale.data.as_deref())?;
    let cycles = scale.count(500_000);
    let bare = quorate_sqlite::run_baseline(&directory.path().join("data"), cycles, 128)?;
    let usage = ResourceUsage {
        seconds: cycles as f64 / bare.per_second,
        syncs: syncs(&bare.disk),
        wal_syncs: bare.transactions,
        sync_seconds: bare.disk.wal.sync_ns_total as f64 / 1e9,
        bytes_written: bytes_written(&bare.disk),
        ..ResourceUsage::default()
    };
    Ok(vec![
        Measurement::new("W0", "bare loop of W1's statements", cycles, usage)
            .set("bytes", 256)
            .set("batch", 128),
    ])
}

/// Runs W1, without and with idempotency keys.
pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for keyed in [false, true] {
        let hub = EmbeddedHub::new(scale.data.as_deref()).await?;
        let agents = register_agents(&hub.space, 30).await?;
        let cycle = CycleParams { callers: 256, bytes: 256, cycles: scale.count(500_000) as usize, keyed };
        let line =
            run_timed(&hub, &agents, cycle, "W1", if keyed { "in-process, keyed" } else { "in-process" })
                .await?;
        lines.push(if keyed { line } else { line.target(100_000.0, "100k/s, p99 < 5 ms, 0.7 × W0") });
        hub.close().await;
    }
    Ok(lines)
}

/// Runs cycles and measures them.
pub(crate) async fn run_timed(
    hub: &EmbeddedHub,
    agents: &[AgentId],
    cycle: CycleParams,
    workload: &'static str,
    variant: &str,
) -> anyhow::Result<Measurement> {
    let meter = Meter::start(&hub.store);
    let latencies = run(&hub.space, agents, cycle).await?;
    let usage = meter.stop(&hub.store);
    let line = Measurement::new(workload, variant, latencies.count(), usage).latencies(&latencies);
    let line = line.set("agents", agents.len()).set("callers", cycle.callers).set("bytes", cycle.bytes);
    Ok(line.set("keyed", cycle.keyed).set("synchronous", "FULL"))
}

/// Registers the agents `a0`, `a1` and so on.
pub(crate) async fn register_agents(space: &Space, count: usize) -> Result<Vec<AgentId>, Error> {
    let mut ids = Vec::with_capacity(count);
    for index in 0..count {
        let id = AgentId::new(format!("a{index}"))?;
        ids.push(id);
    }
    for chunk in ids.chunks(128) {
        let ops = chunk.iter().map(|id| Op::RegisterAgent(RegisterAgent::named(id.clone()))).collect();
        space.commit(Commit::new(Principal::System, ops)).await?;
    }
    Ok(ids)
}

/// Runs the cycles and returns their latencies.
pub(crate) async fn run(space: &Space, agents: &[AgentId], cycle: CycleParams) -> Result<Latencies, Error> {
    let per_agent = cycle.callers.div_ceil(agents.len().min(cycle.callers));
    let mut workers = JoinSet::new();
    let mut ack_senders = Vec::new();
    let mut ack_receivers = Vec::new();
    for _ in 0..cycle.callers {
        let (sender, receiver) = mpsc::channel::<()>(1);
        ack_senders.push(sender);
        ack_receivers.push(receiver);
    }
    let ack_senders = Arc::new(ack_senders);
    // Only agents that a caller sends to need a consumer.
    for agent in agents.iter().take(cycle.callers) {
        let principal = Principal::Agent(agent.clone());
        let consumer = space.consume(&principal, None, agent, per_agent as u32, 30_000).await?;
        let consumer = Arc::new(Mutex::new(consumer));
        for _ in 0..per_agent {
            workers.spawn(work(
                space.clone(),
                principal.clone(),
                Arc::clone(&consumer),
                Arc::clone(&ack_senders),
                cycle,
            ));
        }
    }
    let mut callers = JoinSet::new();
    for (index, ack_receiver) in ack_receivers.into_iter().enumerate() {
        let to = agents[index % agents.len()].clone();
        let from = agents[(index + 1) % agents.len()].clone();
        let share = cycle.cycles / cycle.callers + usize::from(index < cycle.cycles % cycle.callers);
        callers.spawn(call(space.clone(), (from, to), index, ack_receiver, share, cycle));
    }
    let mut latencies = Latencies::new();
    while let Some(finished) = callers.join_next().await {
        latencies.merge(&finished.expect("a caller does not panic")?);
    }
    workers.abort_all();
    Ok(latencies)
}

async fn call(
    space: Space,
    (from, to): (AgentId, AgentId),
    index: usize,
    mut acked: mpsc::Receiver<()>,
    count: usize,
    cycle: CycleParams,
) -> Result<Latencies, Error> {
    let mut latencies = Latencies::new();
    let principal = Principal::Agent(from.clone());
    let mut content = format!("{{\"caller\":\"{index:06}\",\"pad\":\"").into_bytes();
    content.resize(cycle.bytes.max(content.len() + 2) - 2, b'x');
    content.extend_from_slice(b"\"}");
    let content = bytes::Bytes::from(content);
    for _ in 0..count {
        let start = Instant::now();
        let payload = space.seal(content.clone());
        let mut message = Message::new(Destination::Agent(to.clone()), "work", payload);
        message.from = Some(from.clone());
        let commit = Commit::new(principal.clone(), vec![Op::send(message)]);
        space.commit(keyed(commit, cycle)).await?;
        if acked.recv().await.is_none() {
            break;
        }
        latencies.record(start.elapsed());
    }
    Ok(latencies)
}

fn keyed(commit: Commit, cycle: CycleParams) -> Commit {
    if !cycle.keyed {
        return commit;
    }
    commit.keyed(next_key())
}

async fn work(
    space: Space,
    principal: Principal,
    consumer: Arc<Mutex<Consumer>>,
    ack_senders: Arc<Vec<mpsc::Sender<()>>>,
    cycle: CycleParams,
) -> Result<(), Error> {
    loop {
        let (delivery, grant) = {
            let mut consumer = consumer.lock().await;
            let Some(delivery) = consumer.next().await? else { return Ok(()) };
            (delivery, consumer.grant_credit_op(1))
        };
        let ReceivedDelivery { lease: Some(lease), message, .. } = delivery else { continue };
        let commit = Commit::new(principal.clone(), vec![Op::Ack(lease), grant]);
        space.commit(keyed(commit, cycle)).await?;
        if let Some(caller) = caller_of(&message.payload.bytes)
            && let Some(ack_sender) = ack_senders.get(caller)
        {
            let _ = ack_sender.try_send(());
        }
    }
}

fn caller_of(payload: &[u8]) -> Option<usize> {
    std::str::from_utf8(payload.get(11..17)?).ok()?.parse().ok()
}
