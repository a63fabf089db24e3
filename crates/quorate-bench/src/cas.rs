//! W5: compare-and-set on 1,000 keys, chosen uniformly at random. Counts only successful writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use quorate_core::{AgentId, Code, Commit, Key, Op, OpResult, Principal, PutEntry, Version};
use quorate_engine::{Error, Space};
use tokio::task::JoinSet;

use crate::Scale;
use crate::cycle::register_agents;
use crate::embedded_hub::EmbeddedHub;
use crate::measure::{Latencies, Meter};
use crate::report::Measurement;

const KEYS: u64 = 1_000;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    let runs = [(1, 10_000, (4_000.0, "4k/s")), (32, 200_000, (50_000.0, "50k/s"))];
    for (callers, count, (goal, target)) in runs {
        let hub = EmbeddedHub::new(scale.data.as_deref()).await?;
        let agents = register_agents(&hub.space, callers).await?;
        let versions: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
        let meter = Meter::start(&hub.store);
        let mut running = JoinSet::new();
        for (index, agent) in agents.into_iter().enumerate() {
            let share = scale.count(count) / callers as u64;
            running.spawn(call(hub.space.clone(), agent, index as u64, share, Arc::clone(&versions)));
        }
        let mut latencies = Latencies::new();
        while let Some(finished) = running.join_next().await {
            latencies.merge(&finished??);
        }
        let usage = meter.stop(&hub.store);
        let line = Measurement::new("W5", format!("in-process, {callers} callers"), latencies.count(), usage);
        lines.push(line.latencies(&latencies).set("keys", KEYS).set("callers", callers).target(goal, target));
        hub.close().await;
    }
    Ok(lines)
}

/// Writes until its share of writes has succeeded. Expected versions come from earlier results, as in a client that
/// caches versions.
async fn call(
    space: Space,
    agent: AgentId,
    seed: u64,
    share: u64,
    versions: Arc<Vec<AtomicU64>>,
) -> Result<Latencies, Error> {
    let principal = Principal::Agent(agent);
    let mut state = seed;
    let mut latencies = Latencies::new();
    while latencies.count() < share {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = (state >> 33) % KEYS;
        let latest = &versions[key as usize];
        let start = Instant::now();
        let put = PutEntry {
            key: Key::new(format!("bench/{key:04}"))?,
            entry_type: "bench".into(),
            content: space.seal(format!("{{\"value\":{state}}}")),
            content_type: None,
            expect: Some(Version(latest.load(Ordering::Acquire))),
            depends_on: Vec::new(),
            fence: None,
        };
        match space.commit(Commit::new(principal.clone(), vec![Op::Put(put)])).await {
            Ok(receipt) => {
                if let Some(OpResult::Written { version }) = receipt.results.first() {
                    latest.fetch_max(version.0, Ordering::AcqRel);
                }
                latencies.record(start.elapsed());
            }
            Err(error) if error.code() == Code::VersionConflict => {
                let current = error.refusal().and_then(|refused| refused.facts.current_version);
                latest.fetch_max(current.unwrap_or(0), Ordering::AcqRel);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(latencies)
}
