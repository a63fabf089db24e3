//! BEATS: cost of heartbeats of 3,000 agents, each every 10 s.

use std::time::Duration;

use quorate_core::{AgentId, AgentStatus, Commit, Health, Op, Principal, RegisterAgent};
use quorate_engine::Space;
use tokio::task::JoinSet;

use crate::Scale;
use crate::embedded_hub::EmbeddedHub;
use crate::measure::Meter;
use crate::report::Measurement;

const AGENTS: u64 = 3_000;
const INTERVAL: Duration = Duration::from_secs(10);
/// Heartbeat intervals measured.
const ROUNDS: u32 = 3;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let hub = EmbeddedHub::new(scale.data.as_deref()).await?;
    let count = scale.count(AGENTS).max(1);
    // A smaller run has fewer agents with a shorter interval, so the rate of heartbeats stays the same.
    let interval = INTERVAL.mul_f64(count as f64 / AGENTS as f64).max(Duration::from_millis(100));
    let mut running = JoinSet::new();
    for index in 0..count {
        let id = AgentId::new(format!("a{index}"))?;
        let heartbeat_ms = u64::try_from(interval.as_millis())?;
        let registration = RegisterAgent { heartbeat_ms, ..RegisterAgent::named(id.clone()) };
        let commit = Commit::new(Principal::System, vec![Op::RegisterAgent(registration)]);
        hub.space.commit(commit).await?;
        let delay = interval.mul_f64(index as f64 / count as f64);
        running.spawn(send_heartbeats(hub.space.clone(), id, delay, interval));
    }
    let meter = Meter::start(&hub.store);
    let head = hub.space.published().head.seq;
    tokio::time::sleep(interval * ROUNDS).await;
    let usage = meter.stop(&hub.store);
    anyhow::ensure!(
        hub.space.published().head.seq == head,
        "a heartbeat wrote a record, or an agent went offline"
    );
    running.abort_all();
    hub.close().await;
    let percent = 100.0 * usage.cpu_seconds / usage.seconds;
    let beats = count * u64::from(ROUNDS);
    let line = Measurement::new("BEATS", format!("{count} agents, heartbeats"), beats, usage);
    Ok(vec![line.set("agents", count).set("corePercent", (percent * 100.0).round() / 100.0)])
}

async fn send_heartbeats(space: Space, agent: AgentId, delay: Duration, interval: Duration) {
    tokio::time::sleep(delay).await;
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        // A failed heartbeat counts as missed; an agent goes offline after three.
        let _ = space.heartbeat(&agent, None, AgentStatus::Idle, Health::Healthy).await;
    }
}
