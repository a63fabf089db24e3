//! W8: growth. Repeats W1 on an empty log, then with an increasing number of acked messages and a million open ones,
//! with 30 and with 3,000 agents. Also measures the recovery time after `kill -9`. Each measurement runs in a separate
//! process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use quorate_core::AgentId;
use serde_json::{Value, json};

use crate::Scale;
use crate::cycle::{self, CycleParams};
use crate::embedded_hub::{EmbeddedHub, new_directory};
use crate::fill::fill;
use crate::measure::{ResourceUsage, peak_memory};
use crate::report::Measurement;

const MILLION: u64 = 1_000_000;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for agents in [30, 3_000] {
        let directory = new_directory(scale.data.as_deref())?;
        let data = directory.path().join("data");
        let cycles = scale.count(300_000);
        let mut acked = 0;
        let mut base_rate = None;
        let steps = if agents == 30 { vec![0, 1, scale.acked_millions_max] } else { vec![0, 1] };
        for (step, millions) in steps.into_iter().enumerate() {
            let target = scale.count(millions * MILLION);
            prepare(
                &data,
                agents,
                target.saturating_sub(acked),
                if step == 1 { scale.count(MILLION) } else { 0 },
            )
            .await?;
            acked = acked.max(target);
            let result = measure_in_child(&scale.binary, &data, agents, cycles)?;
            let open = if step == 0 { 0 } else { scale.count(MILLION) };
            let rate = result["perSecond"].as_f64().unwrap_or_default();
            let base = *base_rate.get_or_insert(rate);
            let variant = format!("{agents} agents, {} acked, {} open", short(acked), short(open));
            measurements.push(
                to_measurement(variant, &result)
                    .set("acked", acked)
                    .set("open", open)
                    .set("agents", agents)
                    .set("slower", format!("{:.0} %", 100.0 * (1.0 - rate / base)))
                    .set("readyMs", result["readyMs"].clone()),
            );
        }
    }
    Ok(measurements)
}

fn short(count: u64) -> String {
    if count >= MILLION { format!("{} M", count / MILLION) } else { format!("{} k", count / 1000) }
}

fn to_measurement(variant: String, result: &Value) -> Measurement {
    let number = |name: &str| result[name].as_u64().unwrap_or(0);
    let rate = result["perSecond"].as_f64().unwrap_or_default();
    let done = number("done");
    let usage = ResourceUsage {
        seconds: if rate > 0.0 { done as f64 / rate } else { 0.0 },
        syncs: number("fsyncs"),
        wal_syncs: number("commits"),
        sync_seconds: (number("commits") * number("syncUs")) as f64 / 1e6,
        bytes_written: number("bytesWritten"),
        cpu_seconds: result["cpuSeconds"].as_f64().unwrap_or_default(),
        peak_memory: number("peakMemoryBytes"),
    };
    let mut line = Measurement::new("W8", variant, done, usage);
    line.quantiles = Some((number("p50Us"), number("p99Us"), number("p999Us")));
    line
}

/// Adds the given numbers of acked and open messages.
async fn prepare(data: &Path, agents: usize, acked: u64, open: u64) -> anyhow::Result<()> {
    let hub = EmbeddedHub::open(data).await?;
    let ids = if hub.space.published().agents.is_empty() {
        cycle::register_agents(&hub.space, agents).await?
    } else {
        agent_ids(agents)?
    };
    fill(&hub.space, &ids, acked, true).await?;
    // Separate recipients that take no part in the cycles, so that the backlog stays constant.
    let idle: Vec<AgentId> =
        (0..30).map(|index| AgentId::new(format!("idle{index}"))).collect::<Result<_, _>>()?;
    if open > 0 {
        for id in &idle {
            let register = quorate_core::Op::RegisterAgent(quorate_core::RegisterAgent::named(id.clone()));
            let commit = quorate_core::Commit::new(quorate_core::Principal::System, vec![register]);
            hub.space.commit(commit).await?;
        }
        fill(&hub.space, &idle, open, false).await?;
    }
    hub.close().await;
    Ok(())
}

fn agent_ids(count: usize) -> anyhow::Result<Vec<AgentId>> {
    Ok((0..count).map(|index| AgentId::new(format!("a{index}"))).collect::<Result<_, _>>()?)
}

/// Runs a child, kills it with SIGKILL, and measures a second child on the same data.
fn measure_in_child(binary: &Path, data: &Path, agents: usize, cycles: u64) -> anyhow::Result<Value> {
    let command = |until_killed: bool| {
        let mut command = Command::new(binary);
        command.arg("bench-child").arg(data).args([
            "--agents",
            &agents.to_string(),
            "--cycles",
            &cycles.to_string(),
        ]);
        if until_killed {
            command.arg("--until-killed");
        }
        command.stdout(Stdio::piped());
        command
    };
    let mut child = command(true).spawn()?;
    let lines = BufReader::new(child.stdout.take().context("the child process has no stdout")?).lines();
    // After its first line of output, the child is in the middle of further cycles.
    for line in lines.take(1) {
        line?;
    }
    child.kill()?;
    child.wait()?;
    let output = command(false).output()?;
    anyhow::ensure!(output.status.success(), "the second child process failed");
    let last = output.stdout.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap_or_default();
    serde_json::from_slice(last).context("the last line of the child's output is not JSON")
}

/// Runs one measurement of W8 in a separate process, so that its memory usage is measured in isolation. Opens a data
/// directory, measures the time to open it, runs cycles, and prints the result as one line of JSON. Repeats until the
/// process is killed if `until_killed` is set.
///
/// # Errors
/// If the directory cannot be opened, or a cycle fails.
pub async fn growth_child(data: &Path, agents: usize, cycles: u64, until_killed: bool) -> anyhow::Result<()> {
    let start = Instant::now();
    let hub = EmbeddedHub::open(data).await?;
    let ready_ms = start.elapsed().as_millis() as u64;
    let ids = agent_ids(agents)?;
    let cycle = CycleParams { callers: 256, bytes: 256, cycles: cycles as usize, keyed: false };
    loop {
        let small = CycleParams { cycles: 5_000, ..cycle };
        let line = cycle::run_timed(&hub, &ids, if until_killed { small } else { cycle }, "W8", "").await?;
        let mut result = line.to_json();
        result["readyMs"] = json!(ready_ms);
        result["done"] = json!(line.completed);
        result["peakMemoryBytes"] = json!(peak_memory());
        let mut out = std::io::stdout().lock();
        writeln!(out, "{result}")?;
        out.flush()?;
        if !until_killed {
            return Ok(());
        }
    }
}
