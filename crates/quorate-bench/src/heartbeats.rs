//! BEATS: cost of heartbeats of 3,000 agents, each every 10 s.

use std::time::Duration;

use quorate_core::{AgentId, AgentStatus, Commit, Health, Op, Principal, RegisterAgent};
use quorate_engine::Space;
use tokio::task::JoinSet;

use crate::Scale;
use crate::measure::Meter;
use crate::report::Measurement;
use crate::rig::Rig;

const AGENTS: u64 = 3_000;
const EVERY: Duration = Duration::from_secs(10);
/// Heartbeat intervals measured.
const ROUNDS: u32 = 3;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let rig = Rig::new(scale.data.as_deref()).await?;
    let count = scale.count(AGENTS).max(1);
    // A smaller run has fewer agents with a shorter interval, so the rate of heartbeats stays the same.
    let every = EVERY.mul_f64(count as f64 / AGENTS as f64).max(Duration::from_millis(100));
    let mut beating = JoinSet::new();
    for index in 0..count {
        let id = AgentId::new(format!("a{index}"))?;
        let heartbeat_ms = u64::try_from(every.as_millis())?;
        let new = RegisterAgent { heartbeat_ms, ..RegisterAgent::named(id.clone()) };
        let commit = Commit::new(Principal::System, vec![Op::RegisterAgent(new)]);
        rig.space.commit(commit).await?;
        let first = every.mul_f64(index as f64 / count as f64);
        beating.spawn(beat(rig.space.clone(), id, first, every));
    }
    let meter = Meter::start(&rig.store);
    let head = rig.space.published().head.seq;
    tokio::time::sleep(every * ROUNDS).await;
    let taken = meter.stop(&rig.store);
    anyhow::ensure!(
        rig.space.published().head.seq == head,
        "a heartbeat wrote a record, or an agent went offline"
    );
    beating.abort_all();
    rig.close().await;
    let percent = 100.0 * taken.cpu_seconds / taken.seconds;
    let beats = count * u64::from(ROUNDS);
    let line = Measurement::new("BEATS", format!("{count} agents, heartbeats"), beats, taken);
    Ok(vec![line.set("agents", count).set("corePercent", (percent * 100.0).round() / 100.0)])
}

async fn beat(space: Space, agent: AgentId, first: Duration, every: Duration) {
    tokio::time::sleep(first).await;
    let mut ticks = tokio::time::interval(every);
    loop {
        ticks.tick().await;
        // A failed heartbeat counts as missed; an agent goes offline after three.
        let _ = space.heartbeat(&agent, None, AgentStatus::Idle, Health::Healthy).await;
    }
}
