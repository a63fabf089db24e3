//! DELIBERATE: overhead of a deliberation without model latency. Five agents that respond immediately, five conflicts,
//! two rounds, durable.

use std::time::{Duration, Instant};

use quorate::deliberation::{DeliberationLimits, Member, Spec};
use quorate::{Failure, Hub, ProcedureDraft, ProcedureStatus, RunningAgent, Work};
use quorate_procedures::tokens;
use serde_json::{Value, json};

use crate::Scale;
use crate::embedded_hub::new_directory;
use crate::measure::{Latencies, ResourceUsage, cpu_seconds, peak_memory};
use crate::report::Measurement;

const AGENTS: usize = 5;
const CONFLICTS: usize = 5;
const CONCURRENT: u64 = 200;
const WAIT_MAX: Duration = Duration::from_secs(60);

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    // Load the tokenizer before the measurement: a hub does this only once.
    tokens::preload();
    let directory = new_directory(scale.data.as_deref())?;
    let hub = Hub::open(directory.path().join("data")).await?;
    let _agents = agents(&hub).await?;
    let driver = hub.drive_procedures().await?;
    let sequential = sequential(&hub, scale.count(100).max(3)).await?;
    let concurrent = concurrent(&hub, scale.count(CONCURRENT).max(10)).await?;
    driver.stop().await;
    hub.close().await;
    Ok(vec![sequential, concurrent])
}

fn name(index: usize) -> String {
    format!("a{index}")
}

fn spec() -> Spec {
    let members = (0..AGENTS).map(|index| Member { id: name(index), provider: None }).collect();
    // Enough messages to discuss every conflict in every round.
    let limits =
        DeliberationLimits { messages: (AGENTS * CONFLICTS) as u32, ..DeliberationLimits::default() };
    Spec { limits, ..Spec::new("Which value is right?", json!({"text": "five facts"}), members) }
}

/// Starts agents that disagree on each fact and never change their position.
async fn agents(hub: &Hub) -> anyhow::Result<Vec<RunningAgent>> {
    let mut running = Vec::new();
    for index in 0..AGENTS {
        let analyse = move |_: Work<Value>| async move {
            let facts: Value =
                (0..CONFLICTS).map(|fact| (format!("fact {fact}"), json!(index % 2))).collect();
            Ok::<_, Failure>(json!({"summary": "I looked.", "confidence": 0.7, "facts": facts}))
        };
        let discuss = move |work: Work<Value>| async move {
            let position = &work.payload["your_position"]["position"];
            Ok::<_, Failure>(
                json!({"revised_position": position, "agrees_with_peer": false, "reasoning": "I am sure."}),
            )
        };
        let agent = hub.agent(name(index)).on("analyse", analyse).on("discuss", discuss);
        running.push(agent.concurrency(16).run().await?);
    }
    Ok(running)
}

async fn wait_until_done(hub: &Hub, id: &str) -> anyhow::Result<()> {
    loop {
        let procedure = hub.wait_for_procedure(id, WAIT_MAX).await?;
        match procedure.procedure().status {
            ProcedureStatus::Running => {}
            ProcedureStatus::Done => {
                let outcome: Value = procedure.result()?.unwrap_or(Value::Null);
                let decisions = outcome["decisions"].as_array().map_or(0, Vec::len);
                let rounds = outcome["decisions"][0]["rounds"].as_u64();
                anyhow::ensure!(decisions == CONFLICTS && rounds == Some(2), "unexpected outcome: {outcome}");
                return Ok(());
            }
            status => anyhow::bail!("a deliberation is {status:?}: {:?}", procedure.result::<Value>()),
        }
    }
}

async fn sequential(hub: &Hub, count: u64) -> anyhow::Result<Measurement> {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut latencies = Latencies::new();
    for _ in 0..count {
        let deliberation_start = Instant::now();
        let id = hub.start_procedure(ProcedureDraft::deliberation(&spec())).await?;
        wait_until_done(hub, id.as_str()).await?;
        latencies.record(deliberation_start.elapsed());
    }
    let line =
        Measurement::new("DELIBERATE", "5 agents, 5 conflicts, 2 rounds", count, usage_since(start, cpu));
    Ok(line.latencies(&latencies).target(20.0, "50 ms each"))
}

async fn concurrent(hub: &Hub, count: u64) -> anyhow::Result<Measurement> {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(hub.start_procedure(ProcedureDraft::deliberation(&spec())).await?);
    }
    for id in &ids {
        wait_until_done(hub, id.as_str()).await?;
    }
    let line = Measurement::new("DELIBERATE", format!("{count} concurrent"), count, usage_since(start, cpu));
    Ok(line.set("targetMemoryBytes", 300_000_000_u64))
}

fn usage_since(start: Instant, cpu: f64) -> ResourceUsage {
    let (seconds, cpu_seconds) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    ResourceUsage { seconds, cpu_seconds, peak_memory: peak_memory(), ..ResourceUsage::default() }
}
