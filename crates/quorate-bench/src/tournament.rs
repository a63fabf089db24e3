//! TOURNAMENT: overhead of a tournament without model latency. 50 contestants, 500 matches with two ballots each, judges that
//! respond immediately, durable.

use std::time::{Duration, Instant};

use quorate::{Failure, Hub, ProcedureDraft, ProcedureStatus, Work};
use quorate_procedures::tournament::TOURNAMENT_KIND;
use serde_json::{Value, json};

use crate::Scale;
use crate::embedded_hub::new_directory;
use crate::measure::{ResourceUsage, cpu_seconds, peak_memory};
use crate::report::Measurement;

const CONTESTANTS: u64 = 50;
const MATCHES: u64 = 500;
const JUDGES: usize = 4;
const WAIT_MAX: Duration = Duration::from_secs(120);

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let matches = scale.count(MATCHES).max(CONTESTANTS / 2);
    let directory = new_directory(scale.data.as_deref())?;
    let hub = Hub::open(directory.path().join("data")).await?;
    let judge = |work: Work<Value>| async move {
        let number = |side: &str| work.payload[side].as_u64();
        let winner = if number("a") > number("b") { "a" } else { "b" };
        Ok::<_, Failure>(json!({ "winner": winner, "confidence": 0.9, "reasoning": "greater" }))
    };
    let mut judges = Vec::new();
    for index in 0..JUDGES {
        judges.push(hub.agent(format!("judge{index}")).on("judge", judge).concurrency(64).run().await?);
    }
    let driver = hub.drive_procedures().await?;
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let id = hub.start_procedure(ProcedureDraft::new(TOURNAMENT_KIND, spec(matches))).await?;
    let ended = hub.wait_for_procedure(id.as_str(), WAIT_MAX).await?;
    let (seconds, cpu_seconds) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let result: Value = ended.result()?.unwrap_or(Value::Null);
    anyhow::ensure!(
        ended.procedure().status == ProcedureStatus::Done && result["matches"] == json!(matches),
        "unexpected result: {result}"
    );
    driver.stop().await;
    hub.close().await;
    let usage =
        ResourceUsage { seconds, cpu_seconds, peak_memory: peak_memory(), ..ResourceUsage::default() };
    let variant = format!("{CONTESTANTS} contestants, {matches} matches");
    Ok(vec![Measurement::new("TOURNAMENT", variant, matches, usage).target(250.0, "500 matches in 2 s")])
}

fn spec(matches: u64) -> Value {
    let contestants = (0..CONTESTANTS).map(|n| json!({ "id": format!("h{n}"), "content": n }));
    json!({
        "subject": "Which number is greater?",
        "contestants": contestants.collect::<Vec<_>>(),
        "judges": (0..JUDGES).map(|index| format!("judge{index}")).collect::<Vec<_>>(),
        "limits": { "matches": 2 * matches / CONTESTANTS, "stable_rounds": 0, "parallel": 25 },
    })
}
